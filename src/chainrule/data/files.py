"""Files that are read whole, and the errors about them: each one line that begins with the file."""

from __future__ import annotations

from pathlib import Path

from chainrule.errors import DataError, FileError, explain


def content_of(operation: str, path: str | Path) -> bytes:
    """All bytes of a file.  **Raises** FileError for what the system refuses."""
    try:
        return Path(path).read_bytes()
    except OSError as refusal:
        error = FileError(explain(operation, f"{path} cannot be read: {refusal.strerror or refusal}"))
        error.errno = refusal.errno
        raise error from None


def unfit(operation: str, path: str | Path, fault: str, expected: str = "") -> DataError:
    """The error for a file that holds something else."""
    return DataError(explain(operation, f"{path}: {fault}", expected=expected))
