"""Arguments are normalised at the door: axes, shapes and dtypes in the one form that records know."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any

import numpy as np

from chainrule.core.calls import lift
from chainrule.errors import ArgumentError, DTypeError, ShapeError, dtype_kind, explain
from chainrule.types import Shape

ALL_AXES = tuple(tuple(range(ndim)) for ndim in range(65))  # NumPy arrays have at most 64 axes


def shape_of(x: Any) -> Shape:
    """The shape of anything that an operation takes."""
    try:
        return x.shape
    except AttributeError:
        return np.shape(x)


def as_operand(x: Any) -> Any:
    """x itself if it is an array or a tensor; numbers and lists become NumPy arrays."""
    return x if hasattr(x, "dtype") else lifted("operand", "x", x)


def lifted(operation: str, name: str, value: Any, copy: bool = False) -> Any:
    """A number or list as a NumPy array.

    **Raises** DTypeError for what is no array of numbers.
    """
    try:
        return lift(value, None, copy)
    except TypeError as error:
        raise DTypeError(
            explain(operation, str(error), expected="numbers, arrays or tensors", **{name: value})
        ) from None


def as_floating(x: Any) -> Any:
    """x, as float64 where it holds integers or truth values."""
    x = as_operand(x)
    if dtype_kind(x.dtype) in "fc":
        return x
    from chainrule.ops.views import cast

    return cast(x, np.dtype(np.float64))


def one_axis(operation: str, axis: Any, ndim: int) -> int:
    """One axis, counted from the front.

    **Raises** ArgumentError for an axis that is not there.
    """
    try:
        number = index(axis)
    except TypeError as error:
        raise ArgumentError(explain(operation, f"axis {axis!r} is no integer")) from error
    if ndim == 0:
        raise ArgumentError(explain(operation, f"axis {number} of a 0-d array, which has no axes"))
    if not -ndim <= number < ndim:
        raise ArgumentError(explain(operation, f"axis {number} is out of range", expected=f"-{ndim} to {ndim - 1}"))
    return number % ndim


def several(value: Any) -> tuple[Any, ...]:
    """A tuple of what was given as one thing, a tuple or a list."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def some_axes(operation: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes as a sorted tuple; None means all.

    **Raises** ArgumentError for an axis that is not there or is named twice.
    """
    if axis is None:
        return ALL_AXES[ndim]
    axes = tuple(one_axis(operation, a, ndim) for a in several(axis))
    if len(set(axes)) != len(axes):
        raise ArgumentError(explain(operation, f"an axis is named twice in {axis!r}"))
    return tuple(sorted(axes))


def full_shape(operation: str, x: Any, shape: Any) -> Shape:
    """A shape with its `-1` worked out for x.

    **Raises** ShapeError where the number of elements does not come out.
    """
    wanted = as_shape(operation, shape, unknown=True)
    have = shape_of(x)
    if prod(wanted) == prod(have) and -1 not in wanted:
        return wanted
    size, known = prod(have), prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known > 0 and size % known == 0:
        return tuple(size // known if n == -1 else n for n in wanted)
    if -1 in wanted or known != size:
        raise ShapeError(explain(operation, f"{size} elements do not fill the shape {shape!r}", x=x))
    return wanted


def as_shape(operation: str, shape: Any, unknown: bool = False) -> Shape:
    """A shape as a tuple of integers.

    **Raises** ArgumentError for anything else, negative lengths included.
    """
    try:
        wanted = tuple(map(index, several(shape)))
    except TypeError as error:
        raise ArgumentError(explain(operation, f"{shape!r} is no shape")) from error
    if wanted and min(wanted) < (-1 if unknown else 0):
        raise ArgumentError(explain(operation, f"negative length in the shape {shape!r}"))
    return wanted


def real_dtype(operation: str, dtype: Any) -> Any:
    """A NumPy dtype of numbers.

    **Raises** DTypeError for anything else.
    """
    try:
        wanted = np.dtype(dtype)
    except TypeError as error:
        raise DTypeError(explain(operation, f"{dtype!r} is no dtype")) from error
    if wanted.kind not in "biufc":
        raise DTypeError(explain(operation, f"{wanted} is no dtype of numbers"))
    return wanted
