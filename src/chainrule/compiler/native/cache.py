"""Object files on disk and in memory, so that a program is compiled once for all processes.

A file is named by the digest of all that the code depends on: the text, the processor, LLVM.  It begins with the
digest of what follows: a file that was cut short or overwritten is seen, removed, and made again.  Files are written
beside and renamed, so that whoever reads finds a whole one or none; what goes wrong with the disk only costs the time
to compile.  The folder is kept below a size by removing what was used longest ago.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from weakref import WeakValueDictionary

from chainrule.compiler.native.machine import KERNELS, Code, compile_text, host

LIMIT = 128 << 20  # bytes in the folder: some thousands of programs
FORMAT = "1"  # of the files; another one makes all files others
_SUFFIX = ".object"
_DIGEST = 32  # bytes

_loaded: WeakValueDictionary[str, Code] = WeakValueDictionary()


class Loaded(NamedTuple):
    code: Code
    source: str
    """"compiled", "disk" or "memory"."""


def load(text: str, level: int = KERNELS) -> Loaded:
    """The code of a module's text, from memory, from disk, or compiled."""
    key = sha256("\0".join([FORMAT, str(level), *host(), text]).encode()).hexdigest()
    code = _loaded.get(key)
    if code is not None:
        return Loaded(code, "memory")
    image = _read(key)
    source = "compiled" if image is None else "disk"
    if image is None:
        image = compile_text(text, level)
        _write(key, image)
    code = _loaded[key] = Code(image)
    return Loaded(code, source)


def folder() -> Path | None:
    """`CHAINRULE_CACHE_DIR`, nothing if that is empty, else the user's folder for such things."""
    told = os.environ.get("CHAINRULE_CACHE_DIR")
    if told is not None:
        return Path(told).expanduser() if told else None
    with suppress(RuntimeError):  # no home folder
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "chainrule"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "chainrule"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chainrule"
    return None


def _place() -> Path | None:
    """The folder, made if need be, and only if nobody else could put code there."""
    place = folder()
    if place is None:
        return None
    with suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = place.stat()
        if not hasattr(os, "getuid") or (seen.st_uid == os.getuid() and not seen.st_mode & 0o022):
            return place
        if os.environ.get("CHAINRULE_CACHE_DIR"):
            return place  # by the user's own decision
    return None


def _read(key: str) -> bytes | None:
    place = _place()
    if place is None:
        return None
    path = place / (key + _SUFFIX)
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    digest, image = whole[:_DIGEST], whole[_DIGEST:]
    with suppress(OSError):
        if sha256(image).digest() == digest:
            os.utime(path)  # used just now
            return image
        path.unlink()
    return image if sha256(image).digest() == digest else None


def _write(key: str, image: bytes) -> None:
    place = _place()
    if place is None:
        return
    temporary = place / f"{key}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        temporary.write_bytes(sha256(image).digest() + image)
        temporary.replace(place / (key + _SUFFIX))
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        return
    _prune(place)


def _prune(place: Path, limit: int | None = None) -> None:
    """Remove what was used longest ago, and what dead writers left, until the folder is below three quarters of `limit`."""
    limit = LIMIT if limit is None else limit
    found: list[tuple[float, int, Path]] = []
    with suppress(OSError):
        for entry in os.scandir(place):
            with suppress(OSError):  # another process removed it
                if entry.name.endswith((_SUFFIX, ".tmp")):
                    seen = entry.stat()
                    found.append((seen.st_mtime, seen.st_size, place / entry.name))
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return
    for _, size, path in sorted(found):
        if total <= limit * 3 // 4:
            return
        with suppress(OSError):
            path.unlink(missing_ok=True)
        total -= size
