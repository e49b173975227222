"""Files in the IDX format, in which MNIST and its successors come: a few bytes of shape, and then the numbers.

Two zero bytes, a byte for the type, one for the number of axes; their lengths in four bytes each; the entries in rows.
All numbers have their highest byte first.  The file may be packed by gzip, whatever it is called.

**Source** LeCun, Cortes and Burges, The MNIST Database, section "File formats".
"""

from __future__ import annotations

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np

from chainrule.data.files import content_of, unfit
from chainrule.types import Array

_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str | Path) -> Array:
    """The array in an IDX file, in the byte order of this machine.

    **Raises** DataError for a file that is damaged or of another format; FileError for one that cannot be read.
    """
    content = _unpacked(path)
    kind = _TYPES.get(content[2]) if len(content) >= 4 and content[:2] == b"\0\0" and content[3] else None
    if kind is None:
        fault = f"no IDX file: it begins with {content[:4].hex(' ') or 'nothing'}"
        raise unfit("read_idx", path, fault, expected="00 00, a type from 08 to 0e, the number of axes")
    dtype, start = np.dtype(kind), 4 + 4 * content[3]
    if len(content) < start:
        raise unfit("read_idx", path, f"it ends within its first {start} bytes")
    shape = tuple(np.frombuffer(content[4:start], ">u4").tolist())
    size, have = prod(shape) * dtype.itemsize, len(content) - start
    if size != have:
        fault = f"{have:,} bytes of entries: cut off or damaged"
        raise unfit("read_idx", path, fault, expected=f"{size:,} bytes for the shape {shape}")
    if size == 0:
        return np.empty(shape, dtype.newbyteorder("="))
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def _unpacked(path: str | Path) -> bytes:
    content = content_of("read_idx", path)
    try:
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise unfit("read_idx", path, f"the packing by gzip is damaged or cut off ({error})") from None
