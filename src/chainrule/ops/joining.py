"""Joining and taking apart: concat, stack, split, unstack, pad.

Taking apart is one operation with many results, so that walking over the rows of a matrix costs one pass, not one
pass per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod
from operator import index as as_index
from typing import Any

import numpy as np

from chainrule.core.calls import raw
from chainrule.core.primitive import primitive
from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.ops.arguments import as_operand, one_axis, shape_of
from chainrule.ops.creation import beside_of, filled
from chainrule.ops.elementwise import add
from chainrule.ops.families import LINEAR, draw
from chainrule.ops.indexing import getitem
from chainrule.ops.views import reshape_to
from chainrule.types import Shape


def along(axis: int, entries: Any) -> tuple[Any, ...]:
    """The index that picks `entries` of one axis; the standard wants the dots."""
    return (*(slice(None),) * axis, entries, ...)


def part(x: Any, axis: int, start: int, stop: int) -> Any:
    """The entries from `start` to `stop` along one axis."""
    return getitem(x, along(axis, slice(start, stop)))


# ---------------------------------------------------------------- records
def _joined_shape(xs: Sequence[Any], axis: int, cuts: tuple[int, ...]) -> Shape:
    return (*xs[0].shape[:axis], cuts[-1], *xs[0].shape[axis + 1 :])


def _completed(cts: Sequence[Any], shapes: Sequence[Shape]) -> list[Any]:
    """The cotangents, and zeros for those that are missing."""
    beside = next(raw(ct) for ct in cts if ct is not None)
    return [filled(shape, 0.0, beside) if ct is None else ct for ct, shape in zip(cts, shapes, strict=True)]


def _join_back(cts: Sequence[Any], x_type: Any, axis: int, cuts: tuple[int, ...]) -> Any:
    shapes = [(*x_type.shape[:axis], stop - start, *x_type.shape[axis + 1 :]) for start, stop in pairwise(cuts)]
    return join(_completed(cts, shapes), axis, cuts)


def _stack_back(cts: Sequence[Any], x_type: Any, axis: int) -> Any:
    return pile(_completed(cts, [(*x_type.shape[:axis], *x_type.shape[axis + 1 :])] * len(cts)), axis)


def _pieces(x: Any, axis: int, cuts: tuple[int, ...]) -> tuple[Any, ...]:
    """Copies: there are no views between tensors."""
    if cuts[-1] != x.shape[axis]:
        raise ValueError("the pieces do not fill the axis")
    return tuple(np.array(x[along(axis, slice(start, stop))]) for start, stop in pairwise(cuts))


def _slices(x: Any, axis: int) -> tuple[Any, ...]:
    """One copy, then views of disjoint parts of it: nobody else sees a write to one of them."""
    rows: Any = np.array(np.moveaxis(x, axis, 0), order="C")
    return tuple(rows)


def _padded(xp: Any, x: Any, widths: tuple[tuple[int, int], ...]) -> Any:
    out = xp.zeros(_padded_shape(x, widths), dtype=x.dtype)
    out[_inside(x, widths)] = x
    return out


def _padded_shape(x: Any, widths: tuple[tuple[int, int], ...]) -> Shape:
    return tuple(before + n + after for n, (before, after) in zip(x.shape, widths, strict=True))


def _inside(x: Any, widths: tuple[tuple[int, int], ...]) -> tuple[slice, ...]:
    return tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True))


# `cuts` are the places along the axis where one piece ends and the next begins, 0 and the end included
join = primitive(
    "concat",
    LINEAR,
    [lambda ct, index, axis, cuts: part(ct, axis, cuts[index], cuts[index + 1])],
    inputs="*xs",
    parameters="axis cuts",
    forward=lambda xs, axis, cuts: np.concatenate(xs, axis),
    standard=lambda xp, xs, axis, cuts: xp.concat(xs, axis=axis),
    shape_rule=_joined_shape,
    dtype_rule=lambda xs, axis, cuts: np.result_type(*(x.dtype for x in xs)),
    samples=lambda rng: [([rng.normal(size=(2, n, 2)) for n in (3, 1, 0, 2)], (1, (0, 3, 4, 4, 6)))],
)
cut = primitive(
    "split",
    LINEAR,
    [_join_back],
    parameters="axis cuts",
    forward=_pieces,
    standard=lambda xp, x, axis, cuts: tuple(
        xp.asarray(x[along(axis, slice(start, stop))], copy=True) for start, stop in pairwise(cuts)
    ),
    shape_rule=lambda x, axis, cuts: [
        ((*x.shape[:axis], stop - start, *x.shape[axis + 1 :]), x.dtype) for start, stop in pairwise(cuts)
    ],
    samples=draw((2, 3, 4), (1, (0, 1, 3)), (2, (0, 2, 2, 4))),
    hides=True,
    multiple=True,
)
# primitives rather than reshapes and a concat: one node in place of one for every piece
pile = primitive(
    "stack",
    LINEAR,
    [lambda ct, index, axis: getitem(ct, along(axis, index))],
    inputs="*xs",
    parameters="axis",
    forward=lambda xs, axis: np.stack(xs, axis),
    standard=lambda xp, xs, axis: xp.stack(xs, axis=axis),
    shape_rule=lambda xs, axis: (*xs[0].shape[:axis], len(xs), *xs[0].shape[axis:]),
    dtype_rule=lambda xs, axis: np.result_type(*(x.dtype for x in xs)),
    samples=lambda rng: [([rng.normal(size=(2, 3)) for _ in range(3)], (axis,)) for axis in (0, 2)],
)
slices = primitive(
    "unstack",
    LINEAR,
    [_stack_back],
    parameters="axis",
    forward=_slices,
    standard=lambda xp, x, axis: tuple(xp.unstack(xp.asarray(x, copy=True), axis=axis)),
    shape_rule=lambda x, axis: [((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)] * x.shape[axis],
    samples=draw((2, 3, 4), (0,), (1,)),
    hides=True,
    multiple=True,
)
# a primitive for speed: the composite of concats copies once per axis
pad_zeros = primitive(
    "pad_zeros",
    LINEAR,
    [lambda ct, x_type, widths: getitem(ct, _inside(x_type, widths))],
    parameters="widths",
    forward=lambda x, widths: _padded(np, x, widths),
    standard=_padded,
    shape_rule=_padded_shape,
    samples=draw((2, 3, 4), (((1, 0), (0, 2), (0, 0)),)),
)


# ---------------------------------------------------------------- public
def _same_beside(name: str, xs: Sequence[Any], axis: int) -> None:
    """**Raises** ShapeError unless all shapes agree but for one axis (-1: agree at all)."""
    first = shape_of(xs[0])
    for k, x in enumerate(xs):
        shape = shape_of(x)
        agree = len(shape) == len(first) and all(i == axis or n == first[i] for i, n in enumerate(shape))
        if not agree:
            beside = "the same shape" if axis < 0 else f"the same shape but for axis {axis}"
            raise ShapeError(explain(name, "shapes do not fit", **{"xs[0]": xs[0], f"xs[{k}]": x}, expected=beside))


def _arrays(name: str, xs: Any) -> list[Any]:
    xs = [as_operand(x) for x in xs]
    if not xs:
        raise ArgumentError(explain(name, "no arrays given", expected="at least one"))
    return xs


def concat(xs: Any, *, axis: int | None = 0) -> Any:
    """Arrays one after another along `axis`; with `axis=None` all are flattened first.

    **Shapes** `x1 f[..., m], x2 f[..., n], ... -> f[..., m + n + ...]`.  Derivative: each gets its part of the
    cotangent.  **Raises** ShapeError where other axes differ.

    >>> import chainrule as cr
    >>> cr.concat([cr.tensor([1.0, 2.0]), cr.tensor([3.0])]).tolist()
    [1.0, 2.0, 3.0]
    """
    xs = _arrays("concat", xs)
    if axis is None:
        xs, axis = [reshape_to(x, (prod(x.shape),)) for x in xs], 0
    axis = one_axis("concat", axis, len(xs[0].shape))
    _same_beside("concat", xs, axis)
    return join(xs, axis, tuple(accumulate((x.shape[axis] for x in xs), initial=0)))


def stack(xs: Any, *, axis: int = 0) -> Any:
    """Arrays of one shape, side by side along a new axis.

    **Shapes** `n times f[...] -> f[n, ...]`, the n at the place `axis` of the result.  **Raises** ShapeError where
    shapes differ.

    >>> import chainrule as cr
    >>> cr.stack([cr.tensor([1.0, 2.0]), cr.tensor([3.0, 4.0])], axis=1).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    xs = _arrays("stack", xs)
    _same_beside("stack", xs, -1)
    return pile(xs, one_axis("stack", axis, len(xs[0].shape) + 1))


def unstack(x: Any, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices of x along `axis`, which disappears: the inverse of `stack`.

    **Shapes** `f[n, ...] -> n times f[...]`.  One pass over x however many slices there are.

    >>> import chainrule as cr
    >>> a, b = cr.unstack(cr.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> b.tolist()
    [3.0, 4.0]
    """
    x = as_operand(x)
    return slices(x, one_axis("unstack", axis, len(x.shape)))


def split(x: Any, indices_or_sections: Any, *, axis: int = 0) -> tuple[Any, ...]:
    """x cut along `axis`, as in NumPy: into so many equal parts, or before each of the given positions.

    **Shapes** `f[n, ...] -> f[n1, ...], f[n2, ...], ...` with n = n1 + n2 + ...  **Raises** ShapeError where parts
    would not be equal.

    >>> import chainrule as cr
    >>> [piece.tolist() for piece in cr.split(cr.arange(5.0), [2, 3])]
    [[0.0, 1.0], [2.0], [3.0, 4.0]]
    """
    x = as_operand(x)
    axis = one_axis("split", axis, len(x.shape))
    return cut(x, axis, _cuts(x, x.shape[axis], indices_or_sections))


def _cuts(x: Any, n: int, wanted: Any) -> tuple[int, ...]:
    if issubclass(type(wanted), (tuple, list, np.ndarray)):
        inner = [int(np.clip(k + n if k < 0 else k, 0, n)) for k in map(as_index, wanted)]  # pyright: ignore[reportUnknownArgumentType]
        if inner != sorted(inner):
            raise ArgumentError(explain("split", f"the positions {wanted!r} go backwards", x=x))
        return (0, *inner, n)
    sections = as_index(wanted)
    if sections < 1 or n % sections:
        raise ShapeError(explain("split", f"{n} entries do not make {sections} equal parts", x=x, remedy="positions"))
    return tuple(range(0, n + 1, n // sections)) if n else (0,) * (sections + 1)


def pad(x: Any, pad_width: Any, mode: str = "constant", *, constant_values: float = 0.0) -> Any:
    """x with a margin, as in NumPy: `pad_width` is n, (before, after), or such a pair for every axis.

    **Shapes** `f[n, ...] -> f[before + n + after, ...]`.  `mode`: "constant", "edge" (the last entry repeated),
    "reflect" (mirrored without the last entry), "symmetric" (mirrored with it), "wrap".  Derivative: the inner part
    of the cotangent, and what the copies in the margin get.  **Raises** ArgumentError, ShapeError.

    >>> import chainrule as cr
    >>> cr.pad(cr.tensor([1.0, 2.0, 3.0]), (2, 1), mode="reflect").tolist()
    [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]
    """
    x = as_operand(x)
    widths = _widths(x, pad_width)
    if mode == "constant":
        return _pad_constant(x, widths, constant_values)
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        expected = "constant, edge, reflect, symmetric or wrap"
        raise ArgumentError(explain("pad", f"unknown mode {mode!r}", expected=expected))
    for axis, (before, after) in enumerate(widths):
        if before or after:
            if x.shape[axis] == 0:
                raise ShapeError(explain("pad", f"axis {axis} has no entry to repeat", x=x))
            source: Any = np.pad(np.arange(int(x.shape[axis])), (before, after), mode=mode)
            x = getitem(x, along(axis, source))
    return x


def _widths(x: Any, pad_width: Any) -> tuple[tuple[int, int], ...]:
    ndim = len(x.shape)
    try:
        pairs = np.broadcast_to(np.array(pad_width), (ndim, 2)).tolist()
        widths = tuple((as_index(before), as_index(after)) for before, after in pairs)
    except (TypeError, ValueError) as error:
        expected = "n, (before, after), or a pair for every axis"
        raise ArgumentError(explain("pad", f"odd pad_width {pad_width!r}", x=x, expected=expected)) from error
    if min((n for pair in widths for n in pair), default=0) < 0:
        raise ArgumentError(explain("pad", f"negative margin in {pad_width!r}", x=x, remedy="a slice"))
    return widths


def _pad_constant(x: Any, widths: tuple[tuple[int, int], ...], value: float) -> Any:
    out = pad_zeros(x, widths)
    if value == 0:
        return out
    frame = np.full(out.shape, value, np.float64)
    frame[_inside(x, widths)] = 0.0
    return add(out, beside_of(frame, raw(out)))
