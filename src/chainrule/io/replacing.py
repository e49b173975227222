"""Files that are replaced whole: whoever reads sees the old one or the new one, whatever becomes of the writer.

A new file is written beside the old one under a temporary name, forced to the disk, and renamed: renaming within one
folder is atomic.  A writer locks its temporary file; the system gives the lock back when the process dies, so what a
killed process left is told from what a living one is writing, and removed by the next writer.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from chainrule.errors import ArgumentError, DTypeError, FileError, explain

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed: a lock by itself
    fcntl = None  # type: ignore[assignment]

TOKEN = 4  # random bytes in a temporary name
NAME = 60  # characters of the target's name in it: with four bytes each they fit into a name of 255 bytes


def as_path(operation: str, path: Any) -> Path:
    """`path` as a Path.  **Raises** DTypeError for what is none: arguments are easily swapped."""
    try:
        made = Path(path)
    except TypeError:
        raise DTypeError(explain(operation, "the first argument is the path of a file", path=path)) from None
    if "\0" in str(made):
        raise ArgumentError(explain(operation, "a path has no zero characters", path=str(made)))
    return made


def file_error(operation: str, path: Path, fault: str, number: int | None, remedy: str = "") -> FileError:
    """The error for a file that the system does not let us read or write."""
    error = FileError(explain(operation, f"{path} {fault}", remedy=remedy))
    error.errno = number
    return error


@contextmanager
def reading(operation: str, path: Path) -> Generator[IO[bytes]]:
    """The file at `path`, open.  **Raises** FileError for what the system refuses."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise file_error(operation, path, f"cannot be read: {error.strerror or error}", error.errno) from error


@contextmanager
def replacing(operation: str, path: Path) -> Generator[IO[bytes]]:
    """A new file, open, that takes the place of the one at `path` once the block has ended without an error.

    Of a link, what it points to is replaced.  A file that was there passes on its permissions.
    **Raises** FileError for what the system refuses: what was there is unchanged, and no temporary file is left.
    """
    target = Path(os.path.realpath(path))
    _refuse(operation, path, target)
    try:
        _remove_stale(target)
        temporary, file = _create(target)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if fcntl is None:
                    file.close()  # Windows renames no open file; elsewhere the lock is held until it has its name
                temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        fault = f"cannot be written: {error.strerror or error}"
        raise file_error(operation, path, f"{fault}; what was there is unchanged", error.errno) from error
    _sync_folder(target.parent)


def _refuse(operation: str, path: Path, target: Path) -> None:
    """What is plain to see before anything is written."""
    if not target.parent.is_dir():
        remedy = f'Path("{path.parent}").mkdir(parents=True)'
        raise file_error(operation, path, "cannot be written: its folder does not exist", errno.ENOENT, remedy)
    if target.is_dir():
        raise file_error(operation, path, "is a folder, not a file", errno.EISDIR)
    if target.exists() and not target.is_file():
        raise file_error(operation, path, "is no regular file", errno.EINVAL)  # renaming would do away with /dev/null
    if target.exists() and not os.access(target, os.W_OK):  # renaming would not ask
        raise file_error(operation, path, "cannot be written: it is protected against writing", errno.EACCES)


def _create(target: Path) -> tuple[Path, IO[bytes]]:
    """A new temporary file for `target`, locked."""
    while True:
        temporary = target.with_name(f".{target.name[:NAME]}.{os.urandom(TOKEN).hex()}.tmp")
        file = temporary.open("x+b")  # with the permissions that the umask leaves
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks: then nobody else gets one either
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            with suppress(OSError):
                temporary.chmod(target.stat().st_mode & 0o777)
            return temporary, file
        file.close()  # another writer took it for a stale one before it was locked


def _remove_stale(target: Path) -> None:
    """Remove the temporary files for `target` whose writers are dead."""
    stale = re.compile(rf"\.{re.escape(target.name[:NAME])}\.[0-9a-f]{{{2 * TOKEN}}}\.tmp")
    for path in [path for path in target.parent.iterdir() if stale.fullmatch(path.name)]:
        with suppress(OSError):  # its writer lives, or has just finished
            if fcntl is None:
                path.unlink()
                continue
            with path.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def _sync_folder(folder: Path) -> None:
    """Force the new name to the disk, where the system can: without it a power cut may bring the old file back."""
    with suppress(OSError):  # Windows, or a folder that may be written to but not read
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
