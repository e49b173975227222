"""Fashion-MNIST: photographs of clothes in the place of digits, from files that are already on this machine."""

from __future__ import annotations

from errno import ENOENT
from pathlib import Path
from typing import Any

import numpy as np

from chainrule import modes
from chainrule.data.idx import read_idx
from chainrule.errors import DataError, FileError, explain
from chainrule.ops.arguments import real_dtype
from chainrule.types import Array

DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # where the package dataset-fashion-mnist puts the files
CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def fashion(folder: str | Path | None = None, dtype: Any = None) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """(images, labels) to train on, and (images, labels) to test with, from the four IDX files of Fashion-MNIST.

    They are looked for in `folder`, otherwise where Debian's package `dataset-fashion-mnist` puts them; packed by gzip
    or not.  Any other data in the same files, MNIST itself for one, will do.  Pixels are multiples of 1/255 from 0
    to 1, of the default dtype unless told; with `np.uint8` they are the bytes of the files.

    **Shapes** images f[60000, 28, 28] and f[10000, 28, 28]; labels i64[60000] and i64[10000], 0 to 9.
    **Raises** FileError, which says both ways, where there are no files; DataError for files that are damaged.
    **Source** Xiao, Rasul and Vollgraf, Fashion-MNIST, 2017.
    """
    place = DEBIAN if folder is None else Path(folder)
    wanted = modes.default_dtype() if dtype is None else real_dtype("fashion", dtype)
    return _part(place, "train", wanted), _part(place, "t10k", wanted)


def _part(place: Path, name: str, dtype: Any) -> tuple[Array, Array]:
    images, labels = (read_idx(_file(place, name, what)) for what in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    if (
        images.dtype != np.uint8
        or images.ndim != 3
        or labels.dtype.kind not in "iu"
        or labels.shape != images.shape[:1]
    ):
        fault = f"the files of {name} hold no images with a label each"
        raise DataError(
            explain("fashion", fault, images=images, labels=labels, expected="images u8[n, 28, 28], labels u8[n]")
        )
    return images if dtype == np.uint8 else _scaled(images, dtype), labels.astype(np.int64)


def _scaled(images: Array, dtype: Any) -> Array:
    scaled = images.astype(dtype)
    scaled /= 255
    return scaled


def _file(place: Path, name: str, what: str) -> Path:
    for form in (f"{name}-{what}", f"{name}-{what.replace('-', '.', 1)}"):
        for end in ("", ".gz"):
            if (place / (form + end)).is_file():
                return place / (form + end)
    fault = f"there is no {name}-{what} (or .gz) in the folder {place}"
    remedy = "a folder that holds the four IDX files of Fashion-MNIST, or on Debian: apt install dataset-fashion-mnist"
    error = FileError(explain("fashion", fault, remedy=remedy))
    error.errno = ENOENT
    raise error
