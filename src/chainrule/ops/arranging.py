"""Arranging: the same entries in other places, repeated, or some of them left out.

Each moves entries along fixed routes, so it is linear, and its derivative takes the same routes back.
"""

from __future__ import annotations

from math import prod
from operator import index as as_index
from typing import Any

import numpy as np

from chainrule.core.calls import raw
from chainrule.core.primitive import primitive
from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.ops.arguments import as_operand, one_axis, several, shape_of, some_axes
from chainrule.ops.families import LINEAR, draw
from chainrule.ops.indexing import getitem
from chainrule.ops.joining import along
from chainrule.ops.views import broadcast_to, permute, reshape_to, spread_to
from chainrule.types import Shape


def _diagonal_length(m: int, n: int, offset: int) -> int:
    return max(0, min(m + min(offset, 0), n - max(offset, 0)))


def _diagonal_shape(x: Any, offset: int) -> Shape:
    *batch, m, n = x.shape
    return (*batch, _diagonal_length(m, n, offset))


def _on_diagonal(x: Any, size: Shape, offset: int) -> Any:
    if x.shape[-1] != _diagonal_length(size[0], size[1], offset):
        raise ValueError("the entries do not fill the diagonal")
    out = np.zeros((*x.shape[:-1], *size), x.dtype)
    places = np.arange(int(x.shape[-1]))
    out[..., places + max(-offset, 0), places + max(offset, 0)] = x
    return out


def _on_diagonal_by(xp: Any, x: Any, size: Shape, offset: int) -> Any:
    """Without integer arrays as indices, which the standard has not: every row gets its entry, a mask keeps one."""
    rows = xp.zeros((*x.shape[:-1], size[0], 1), dtype=x.dtype)
    first = max(-offset, 0)
    rows[..., first : first + x.shape[-1], 0] = x
    there = xp.astype(xp.eye(*size, k=offset), xp.bool)
    return xp.where(there, rows, xp.zeros((), dtype=x.dtype))


flip_along = primitive(
    "flip",
    LINEAR,
    [lambda ct, axes: flip_along(ct, axes)],
    parameters="axes",
    forward=lambda x, axes: np.flip(x, axes),
    standard=lambda xp, x, axes: xp.flip(x, axis=axes),
    shape_rule=lambda x, axes: x.shape,
    samples=draw((2, 3, 4), ((0, 2),), ((1,),)),
    is_view=True,
)
# a primitive for speed: one copy, where slices and a concat make three for every axis
roll_along = primitive(
    "roll",
    LINEAR,
    [lambda ct, shifts, axes: roll_along(ct, tuple(-n for n in shifts), axes)],
    parameters="shifts axes",
    forward=lambda x, shifts, axes: np.roll(x, shifts, axes),
    standard=lambda xp, x, shifts, axes: xp.roll(x, shifts, axis=axes),
    shape_rule=lambda x, shifts, axes: x.shape,
    samples=draw((2, 3, 4), ((1, -2), (0, 2)), ((4,), (1,))),
)
lower = primitive(
    "tril",
    LINEAR,
    [lambda ct, k: lower(ct, k)],
    parameters="k",
    forward=lambda x, k: np.tril(x, k),
    standard=lambda xp, x, k: xp.tril(x, k=k),
    shape_rule=lambda x, k: x.shape,
    samples=draw((2, 3, 4), (0,), (-1,), (2,)),
    hides=True,
)
upper = primitive(
    "triu",
    LINEAR,
    [lambda ct, k: upper(ct, k)],
    parameters="k",
    forward=lambda x, k: np.triu(x, k),
    standard=lambda xp, x, k: xp.triu(x, k=k),
    shape_rule=lambda x, k: x.shape,
    samples=draw((2, 3, 4), (0,), (-1,), (2,)),
    hides=True,
)
diagonal_of = primitive(
    "matrix_diagonal",
    LINEAR,
    [lambda ct, x_type, offset: on_diagonal(ct, x_type.shape[-2:], offset)],
    parameters="offset",
    # NumPy's own is a view that refuses writes
    forward=lambda x, offset: np.array(np.diagonal(x, offset, -2, -1)),
    standard=lambda xp, x, offset: xp.linalg.diagonal(x, offset=offset),
    shape_rule=_diagonal_shape,
    samples=draw((2, 3, 4), (0,), (-1,), (3,)),
    hides=True,
)
on_diagonal = primitive(
    "on_diagonal",
    LINEAR,
    [lambda ct, offset: diagonal_of(ct, offset)],
    parameters="size offset",
    forward=_on_diagonal,
    standard=_on_diagonal_by,
    shape_rule=lambda x, size, offset: (*x.shape[:-1], *size),
    samples=lambda rng: [((rng.normal(size=(2, n)),), ((3, 4), k)) for k, n in ((0, 3), (-1, 2), (3, 1))],
)


def flip(x: Any, *, axis: Any = None) -> Any:
    """The entries in the opposite order along `axis`: None for all axes, an integer, or a tuple.

    **Shapes** `x f[...] -> f[...]`.

    >>> import chainrule as cr
    >>> cr.flip(cr.tensor([1.0, 2.0, 3.0])).tolist()
    [3.0, 2.0, 1.0]
    """
    x = as_operand(x)
    return flip_along(x, some_axes("flip", axis, len(x.shape)))


def roll(x: Any, shift: Any, *, axis: Any = None) -> Any:
    """The entries moved on by `shift` places along `axis`; what leaves at the end comes in at the front.

    **Shapes** `x f[...] -> f[...]`.  With `axis=None` in row-major order; several shifts go with several axes.

    >>> import chainrule as cr
    >>> cr.roll(cr.tensor([1.0, 2.0, 3.0]), 1).tolist()
    [3.0, 1.0, 2.0]
    """
    x = as_operand(x)
    shifts = tuple(as_index(n) for n in several(shift))
    if axis is None:
        if len(shifts) > 1:
            raise ArgumentError(explain("roll", f"several shifts {shift!r} and no axes", x=x, remedy="axis="))
        return reshape_to(roll_along(reshape_to(x, (prod(x.shape),)), shifts, (0,)), x.shape)
    axes = tuple(one_axis("roll", a, len(x.shape)) for a in several(axis))
    if len(shifts) not in (1, len(axes)):
        raise ArgumentError(explain("roll", f"{len(shifts)} shifts for {len(axes)} axes", x=x))
    return roll_along(x, shifts * len(axes) if len(shifts) == 1 else shifts, axes)


def repeat(x: Any, repeats: Any, *, axis: Any = None) -> Any:
    """Every entry along `axis` so many times in a row; `repeats` is a number, or one for every entry.

    **Shapes** `x f[n, ...] -> f[n repeats, ...]`.  With `axis=None` x is flattened first.  Derivative: the sum over
    the copies.  **Raises** ArgumentError.

    >>> import chainrule as cr
    >>> cr.repeat(cr.tensor([1.0, 2.0]), [1, 3]).tolist()
    [1.0, 2.0, 2.0, 2.0]
    """
    x = as_operand(x)
    if axis is None:
        x, axis = reshape_to(x, (prod(x.shape),)), 0
    axis = one_axis("repeat", axis, len(x.shape))
    n, counts = x.shape[axis], np.asarray(raw(repeats))
    if counts.dtype.kind not in "iu" or counts.ndim > 1 or counts.size not in (1, n) or (counts < 0).any():
        expected = f"a number or {n} of them, not negative"
        raise ArgumentError(explain("repeat", f"odd repeats {repeats!r}", x=x, expected=expected))
    if counts.size != 1:
        return getitem(x, along(axis, np.repeat(np.arange(int(n)), counts)))
    return _repeat_evenly(x, int(counts.reshape(())), axis)


def _repeat_evenly(x: Any, count: int, axis: int) -> Any:
    shape = x.shape
    apart = reshape_to(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    spaced = spread_to(apart, (*shape[: axis + 1], count, *shape[axis + 1 :]))
    return reshape_to(spaced, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


def tile(x: Any, repetitions: Any) -> Any:
    """x so many times after itself along each axis; missing numbers in front are 1, as are missing axes.

    **Shapes** `x f[m, n] -> f[a m, b n]` for `repetitions` (a, b).  Derivative: the sum over the copies.

    >>> import chainrule as cr
    >>> cr.tile(cr.tensor([1.0, 2.0]), (2, 2)).tolist()
    [[1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 1.0, 2.0]]
    """
    x = as_operand(x)
    counts = tuple(as_index(n) for n in several(repetitions))
    if min(counts, default=1) < 0:
        raise ArgumentError(explain("tile", f"negative repetitions {repetitions!r}", x=x))
    ndim = max(len(counts), len(x.shape))
    counts = (1,) * (ndim - len(counts)) + counts
    shape = (1,) * (ndim - len(x.shape)) + tuple(x.shape)
    apart = reshape_to(x, tuple(n for length in shape for n in (1, length)))
    tiled = spread_to(apart, tuple(n for pair in zip(counts, shape, strict=True) for n in pair))
    return reshape_to(tiled, tuple(count * n for count, n in zip(counts, shape, strict=True)))


def _matrix(name: str, x: Any) -> Any:
    x = as_operand(x)
    if len(x.shape) < 2:
        raise ShapeError(explain(name, "a matrix has at least two axes", x=x))
    return x


def tril(x: Any, *, k: int = 0) -> Any:
    """The lower triangles of matrices; above the k-th diagonal everything is 0.

    **Shapes** `x f[..., m, n] -> f[..., m, n]`.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.tril(cr.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, 0.0], [3.0, 4.0]]
    """
    return lower(_matrix("tril", x), as_index(k))


def triu(x: Any, *, k: int = 0) -> Any:
    """The upper triangles of matrices; below the k-th diagonal everything is 0.

    **Shapes** `x f[..., m, n] -> f[..., m, n]`.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.triu(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), k=1).tolist()
    [[0.0, 2.0], [0.0, 0.0]]
    """
    return upper(_matrix("triu", x), as_index(k))


def diagonal(x: Any, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The entries whose positions along `axis1` and `axis2` differ by `offset`, as a new last axis.

    **Shapes** `x f[m, n, ...] -> f[..., k]`.  As in NumPy the first two axes are meant by default; in `linalg` the
    last two.  **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> cr.diagonal(cr.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [1.0, 4.0]
    """
    x = _matrix("diagonal", x)
    ndim = len(x.shape)
    ends = one_axis("diagonal", axis1, ndim), one_axis("diagonal", axis2, ndim)
    if ends[0] == ends[1]:
        raise ArgumentError(explain("diagonal", f"axis {ends[0]} is named twice", x=x))
    order = (*(k for k in range(ndim) if k not in ends), *ends)
    return diagonal_of(x if order == tuple(range(ndim)) else permute(x, order), as_index(offset))


def diag(x: Any, *, k: int = 0) -> Any:
    """A square matrix with the vector x on its k-th diagonal; of a matrix, that diagonal.

    **Shapes** `x f[n] -> f[n + |k|, n + |k|]`, `x f[m, n] -> f[l]`.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.diag(cr.tensor([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    x, k = as_operand(x), as_index(k)
    if len(x.shape) == 1:
        n = x.shape[0] + abs(k)
        return on_diagonal(x, (n, n), k)
    if len(x.shape) != 2:
        raise ShapeError(explain("diag", "neither a vector nor a matrix", x=x, remedy="diagonal"))
    return diagonal_of(x, k)


def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other places; the others keep their order.

    **Shapes** `x f[n0, n1, n2] -> f[n1, n2, n0]` for 0 to -1.  **Raises** ArgumentError.

    >>> import chainrule as cr
    >>> cr.moveaxis(cr.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_operand(x)
    ndim = len(x.shape)
    here, there = ([one_axis("moveaxis", a, ndim) for a in several(axes)] for axes in (source, destination))
    if len(here) != len(there) or len(set(here)) != len(here) or len(set(there)) != len(there):
        raise ArgumentError(explain("moveaxis", f"cannot move the axes {source!r} to {destination!r}", x=x))
    order = [k for k in range(ndim) if k not in here]
    for place, axis in sorted(zip(there, here, strict=True)):
        order.insert(place, axis)
    return permute(x, tuple(order))


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged.

    **Shapes** `x f[..., m, ..., n, ...] -> f[..., n, ..., m, ...]`.  **Raises** ArgumentError.

    >>> import chainrule as cr
    >>> cr.swapaxes(cr.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_operand(x)
    ndim = len(x.shape)
    first, second = one_axis("swapaxes", axis1, ndim), one_axis("swapaxes", axis2, ndim)
    order = list(range(ndim))
    order[first], order[second] = second, first
    return permute(x, tuple(order))


def broadcast_arrays(*xs: Any) -> tuple[Any, ...]:
    """Arrays brought to the one shape that they have together.

    **Shapes** `x f[m, 1], y f[n] -> f[m, n], f[m, n]`.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> [a.shape for a in cr.broadcast_arrays(cr.zeros((3, 1)), cr.zeros(4))]
    [(3, 4), (3, 4)]
    """
    try:
        shape = np.broadcast_shapes(*(shape_of(x) for x in xs))
    except ValueError as error:
        operands = {f"xs[{k}]": x for k, x in enumerate(xs)}
        raise ShapeError(explain("broadcast_arrays", "shapes do not broadcast", **operands)) from error
    return tuple(broadcast_to(as_operand(x), shape) for x in xs)


def meshgrid(*xs: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """The coordinates of a grid, from the coordinates along each side.

    **Shapes** `x f[m], y f[n] -> f[n, m], f[n, m]` for `indexing="xy"`, `f[m, n], f[m, n]` for "ij".  **Raises**
    ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> x, y = cr.meshgrid(cr.tensor([1.0, 2.0]), cr.tensor([3.0, 4.0]))
    >>> x.tolist(), y.tolist()
    ([[1.0, 2.0], [1.0, 2.0]], [[3.0, 3.0], [4.0, 4.0]])
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(explain("meshgrid", f"unknown indexing {indexing!r}", expected="xy or ij"))
    vectors = [as_operand(x) for x in xs]
    for k, x in enumerate(vectors):
        if len(x.shape) > 1:
            raise ShapeError(explain("meshgrid", "the sides of a grid are vectors", **{f"xs[{k}]": x}))
    sides = list(range(len(vectors)))
    if indexing == "xy" and len(sides) > 1:
        sides[:2] = 1, 0
    lengths = [prod(x.shape) for x in vectors]
    apart = [
        reshape_to(x, tuple(n if k == side else 1 for k in range(len(sides))))
        for x, n, side in zip(vectors, lengths, sides, strict=True)
    ]
    return broadcast_arrays(*apart)
