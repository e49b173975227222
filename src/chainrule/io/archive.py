"""Arrays and a manifest in one file of NumPy's `.npz` format: a zip of `.npy`, uncompressed, nothing in it ever executed.

`np.load` reads it too.  The manifest is JSON in a member of its own.  The comment at the end of the zip holds a digest of
every byte before it, so no damage goes unseen.  Sizes are held against the size of the file before memory is taken.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from chainrule.errors import CheckpointError, MissingExtraError, explain
from chainrule.io.replacing import reading
from chainrule.types import Array

MANIFEST = "chainrule.json"
SEAL, DIGITS = b"chainrule blake2b ", 32  # the comment: this, and the digest in as many hexadecimal digits
CHUNK = 1 << 20  # bytes read at once
EPOCH = (1980, 1, 1, 0, 0, 0)  # the date of every member: equal contents give equal files
COMPRESSED = 1 << 28  # bytes to which a file of another's making may expand, or to a hundred times its size
KINDS = "biufcSUmM"  # of dtypes that consist of their bytes

Manifest = dict[str, Any]


class Archive(NamedTuple):
    """What a file holds: its manifest (None in a file that NumPy wrote) and its arrays, by the names of the members."""

    manifest: Manifest | None
    arrays: dict[str, Array]


def refusal(operation: str, path: Path, fault: str, remedy: str = "") -> CheckpointError:
    """The error for a file that is damaged or foreign."""
    return CheckpointError(explain(operation, f"{path} {fault}", remedy=remedy))


@contextmanager
def parsing(operation: str, path: Path) -> Generator[None]:
    """Whatever a damaged or foreign file makes its readers raise becomes a CheckpointError that names it."""
    try:
        yield
    except (CheckpointError, MissingExtraError, MemoryError):
        raise
    except Exception as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise refusal(operation, path, f"is damaged or foreign: {reason[:200]}") from error


# ---------------------------------------------------------------- writing
def write(file: IO[bytes], manifest: Manifest, names: Sequence[str], arrays: Sequence[Array]) -> None:
    """Write the arrays, in members named as `names` where a member can be, and the manifest.

    The manifest's `members` then says where each array is.
    """
    members = _members(names)
    text = json.dumps({**manifest, "members": members}, allow_nan=False, separators=(",", ":"))
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = SEAL + b"0" * DIGITS
        for member, array in zip(members, arrays, strict=True):
            info = zipfile.ZipInfo(member + ".npy", EPOCH)
            info.file_size = array.nbytes  # beyond 4 GiB the header must have room
            with archive.open(info, "w") as stream:
                _write_array(stream, array)
        archive.writestr(zipfile.ZipInfo(MANIFEST, EPOCH), text)
    digest = _digest(file)
    file.seek(-DIGITS, 2)
    file.write(digest)


def _members(names: Sequence[str]) -> list[str]:
    """A name for each member: its own, or a number where the zip, a file system or `np.load` would misread its own."""
    used: set[str] = {MANIFEST}
    members: list[str] = []
    for name in names:
        parts = name.split("/")
        plain = name.isascii() and name.isprintable() and not any(sign in name for sign in '\\:*?"<>|')
        plain = plain and all(part.strip(". ") == part != "" for part in parts) and not name.endswith(".npy")
        plain = plain and len(name) < 200 and name.lower() not in used
        free = (f"array {number}" for number in count(len(members)))  # some array may be named like one of these
        members.append(name if plain else next(member for member in free if member not in used))
        used.add(members[-1].lower())
    return members


def _write_array(stream: IO[bytes], array: Array) -> None:
    array = np.asarray(array, order="C")
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
    stream.write(array.reshape(-1).view(np.uint8).data)


def _digest(file: IO[bytes]) -> bytes:
    """The digest of all bytes of the file but the last ones, which are for the digest itself."""
    left = file.seek(0, 2) - DIGITS
    file.seek(0)
    digest = blake2b(digest_size=DIGITS // 2)
    while left > 0 and (chunk := file.read(min(left, CHUNK))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest().encode()


# ---------------------------------------------------------------- reading
def read(operation: str, path: Path) -> Archive:
    """The contents of a file that `write` made, or `np.savez`.

    **Raises** CheckpointError for a file that is damaged or something else; FileError.
    """
    with reading(operation, path) as file:
        sealed = _is_sealed(operation, path, file)
        file.seek(0)
        if file.read(2) != b"PK":
            raise refusal(operation, path, "is no zip, as a .npz file is")
        with parsing(operation, path), zipfile.ZipFile(file) as archive:
            found = _contents(archive, file.seek(0, 2))
    if found.manifest is not None and not sealed:
        raise refusal(operation, path, "is damaged: the checksum at its end is gone")
    return found


def checked(operation: str, path: Path, found: Archive, format: str, version: int) -> tuple[Manifest, list[Array]]:
    """The manifest, and the arrays in the order of `write`, of a file in this format, up to this version.

    **Raises** CheckpointError for any other.
    """
    manifest = found.manifest or {}
    if manifest.get("format") != format:
        kind = str(manifest.get("format", "arrays without a manifest of chainrule"))[:60]
        remedy = {"chainrule weights": "io.load", "chainrule checkpoint": "io.load_checkpoint"}.get(kind, "")
        raise refusal(operation, path, f"holds {kind}, no {format}", remedy)
    with parsing(operation, path):
        if (found_version := manifest["version"]) > version:
            fault = f"was written by a newer chainrule: format {found_version}, and this one reads up to {version}"
            raise refusal(operation, path, fault)
        return manifest, [found.arrays[member] for member in manifest["members"]]


def _is_sealed(operation: str, path: Path, file: IO[bytes]) -> bool:
    """Whether the file ends with a digest, which then is right."""
    size = file.seek(0, 2)
    if not size:
        raise refusal(operation, path, "is empty")
    file.seek(-min(size, DIGITS + len(SEAL)), 2)
    end = file.read()
    if not end.startswith(SEAL):
        return False
    if _digest(file) != end[-DIGITS:]:
        raise refusal(operation, path, "is damaged: its checksum is not that of its contents")
    return True


def _contents(archive: zipfile.ZipFile, size: int) -> Archive:
    infos = archive.infolist()
    stored = all(info.compress_type == zipfile.ZIP_STORED for info in infos)
    if sum(info.file_size for info in infos) > (size if stored else max(COMPRESSED, 100 * size)):
        raise ValueError("its contents would be larger than it can hold")
    manifest: Any = None
    arrays: dict[str, Array] = {}
    for info in infos:
        content = archive.read(info)
        if info.filename.endswith(".npy"):
            arrays[info.filename.removesuffix(".npy")] = _array(content)
        elif info.filename == MANIFEST:
            manifest = json.loads(content)
        else:
            raise ValueError(f"it holds {info.filename!r}, which is no array")
    if manifest is not None and not isinstance(manifest, dict):
        raise ValueError("its manifest is no dictionary")
    return Archive(manifest, arrays)  # pyright: ignore[reportUnknownArgumentType]


def _array(content: bytes) -> Array:
    """The array of a `.npy`, whose header must account for every byte.  Objects, which would need a pickle, are refused."""
    stream = BytesIO(content)
    version = np.lib.format.read_magic(stream)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if header is None:
        raise ValueError(f"an array in format {version}")
    try:
        shape, in_fortran_order, dtype = header(stream)
    except MemoryError:  # a header so nested that Python's parser gives up
        raise ValueError("an array without a readable header") from None
    if dtype.kind not in KINDS:
        raise ValueError(f"an array of dtype {dtype}")
    if math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"an array of dtype {dtype} and shape {shape} in {len(content) - stream.tell()} bytes")
    if not math.prod(shape):
        return np.empty(shape, dtype)
    entries = np.frombuffer(content, dtype, offset=stream.tell())
    return np.array(entries.reshape(shape, order="F" if in_fortran_order else "C"), order="C")
