"""New raw arrays beside a given one.  The public creation functions, which return tensors, are in `chainrule.creation`."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_numpy, namespace_of
from chainrule.types import Shape


def full_like(beside: Any, value: float) -> Any:
    """A raw array of one value, of the shape, dtype and library of the array `beside`."""
    if isinstance(beside, Abstract):
        return np.broadcast_to(np.array(value, beside.dtype), beside.shape)
    if is_numpy(beside):
        return np.full(beside.shape, value, beside.dtype)
    return namespace_of(beside).full_like(beside, value)


def filled(shape: Shape, value: float, beside: Any) -> Any:
    """A raw array of one value, of the dtype and library of the array `beside`."""
    if isinstance(beside, Abstract):
        return np.broadcast_to(np.array(value, beside.dtype), shape)
    if is_numpy(beside):
        return np.full(shape, value, beside.dtype)
    return namespace_of(beside).full(shape, value, dtype=beside.dtype)


def beside_of(values: Any, beside: Any) -> Any:
    """The NumPy array `values` in the dtype and library of the array `beside`."""
    if isinstance(beside, Abstract) or is_numpy(beside):
        return np.asarray(values, beside.dtype)
    return namespace_of(beside).asarray(values, dtype=beside.dtype)
