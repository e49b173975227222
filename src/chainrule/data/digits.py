"""Handwritten digits of eight by eight pixels: a whole problem of image recognition that is learned in seconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import modes
from chainrule.errors import MissingExtraError
from chainrule.ops.arguments import real_dtype
from chainrule.types import Array


def digits(dtype: Any = None) -> tuple[Array, Array]:
    """1,797 images of digits and what they show, as scikit-learn ships them.

    Pixels are multiples of 1/16 from 0 to 1, of the default dtype unless told.  `split(images, labels, labels=labels)`
    holds 450 of them out.

    **Shapes** images f[1797, 8, 8]; labels i64[1797], 0 to 9.
    **Raises** MissingExtraError without scikit-learn, which `chainrule[data]` brings.
    **Source** Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI repository, 1998 (its test part).

    >>> images, labels = digits()
    >>> images.shape, float(images.max()), labels[:3].tolist()
    ((1797, 8, 8), 1.0, [0, 1, 2])
    """
    try:
        from sklearn.datasets import load_digits  # pyright: ignore[reportUnknownVariableType]
    except ImportError:
        raise MissingExtraError.of("data.digits", "scikit-learn", "data") from None
    load: Any = load_digits
    found = load()
    wanted = modes.default_dtype() if dtype is None else real_dtype("digits", dtype)
    return (found.images / 16.0).astype(wanted), found.target.astype(np.int64)
