"""Reading and writing by index: what is known while compiling becomes a view, and only the rest a gather or scatter."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from chainrule.compiler.expressions import AxisMap, Expression
from chainrule.compiler.lowering.arrays import NoSpellingError, common_shape, constant, counter
from chainrule.compiler.lowering.peephole import Simplifying
from chainrule.ops.index import WHOLE, Index, expanded, is_array, parts_of
from chainrule.types import Shape

_INT64, _BOOL = np.dtype(np.int64), np.dtype(np.bool_)


class Range(NamedTuple):
    """What a basic index picks along one axis."""

    start: int
    length: int
    step: int


def ranges(index: Any, shape: Shape) -> tuple[list[Range], Shape]:
    """What a basic index picks along each axis, and the shape of the result."""
    picked: list[Range] = []
    out: list[int] = []
    for entry in expanded(parts_of(index), len(shape)):
        if entry is None:
            out.append(1)
            continue
        length = shape[len(picked)]
        if isinstance(entry, slice):
            start, stop, step = entry.indices(length)
            count = len(range(start, stop, step))
            picked.append(Range(start, count, step))
            out.append(count)
        elif -length <= entry < length:
            picked.append(Range(entry % length, 1, 1))
        else:
            raise NoSpellingError("an index out of range, which the operation itself reports")
    return picked, tuple(out)


def read(graph: Simplifying, x: Expression, index: Any) -> Expression:
    """`x[index]` for a basic index."""
    picked, shape = ranges(index, x.shape)
    part = graph.slice(x, [r.start for r in picked], [r.length for r in picked], [r.step for r in picked])
    return graph.reshape(part, shape)


def _filling(graph: Simplifying, v: Expression, picked: list[Range], selected: Shape) -> Expression:
    """What is written, in the shape of the places that it goes to."""
    if v.ndim > len(selected):  # axes of length 1 in front are allowed
        v = graph.reshape(v, v.shape[v.ndim - len(selected) :])
    return graph.reshape(graph.broadcast(v, selected), tuple(r.length for r in picked))


def spread(graph: Simplifying, x: Expression, index: Any, shape: Shape, fill: Any = 0) -> Expression:
    """An array of one number, in which x stands at a basic index."""
    picked, selected = ranges(index, shape)
    return _spread(graph, _filling(graph, x, picked, selected), picked, shape, fill)


def _spread(graph: Simplifying, x: Expression, picked: list[Range], shape: Shape, fill: Any) -> Expression:
    if any(abs(r.step) != 1 and r.length > 1 for r in picked):
        maps: list[AxisMap] = [(r.start, ((k, r.step),)) for k, r in enumerate(picked)]
        out = graph.scatter_view(x, shape, maps)
        if fill == 0 and not np.signbit(fill):
            return out
        there = _mask(graph, picked, shape)
        return graph.apply("select", there, out, graph.literal(fill, x.dtype, shape))
    turned = [r.step < 0 and r.length > 1 for r in picked]
    if any(turned):
        starts = [r.length - 1 if turn else 0 for r, turn in zip(picked, turned, strict=True)]
        x = graph.slice(x, starts, x.shape, [-1 if turn else 1 for turn in turned])
    first = [r.start - r.length + 1 if turn else r.start for r, turn in zip(picked, turned, strict=True)]
    return graph.pad(x, [(a, n - a - r.length) for a, r, n in zip(first, picked, shape, strict=True)], fill)


def _mask(graph: Simplifying, picked: list[Range], shape: Shape) -> Expression:
    """Where a basic index picks."""
    there = graph.literal(True, _BOOL, shape)
    for axis, (r, n) in enumerate(zip(picked, shape, strict=True)):
        along = np.zeros(n, bool)
        along[[r.start + k * r.step for k in range(r.length)]] = True
        if not along.all():
            each = graph.reshape(constant(graph, along), (*(1,) * axis, n, *(1,) * (len(shape) - axis - 1)))
            there = graph.apply("and", there, graph.broadcast(each, shape))
    return there


def written(graph: Simplifying, x: Expression, v: Expression, index: Any) -> Expression:
    """x with `x[index] = v`, for a basic index."""
    from chainrule.compiler.lowering.peephole import scalar_of

    picked, selected = ranges(index, x.shape)
    v = _filling(graph, v, picked, selected)
    if v.size == 0:
        return x
    beside = scalar_of(x)
    if beside is not None:
        return _spread(graph, v, picked, x.shape, beside)
    if any(abs(r.step) != 1 and r.length > 1 for r in picked):
        return graph.apply("select", _mask(graph, picked, x.shape), _spread(graph, v, picked, x.shape, 0), x)
    return _overlaid(graph, x, v, picked, 0)


def _overlaid(graph: Simplifying, x: Expression, v: Expression, picked: list[Range], axis: int) -> Expression:
    """What is before v along an axis, v with what is beside it along the others, and what is after."""
    if axis == x.ndim:
        return v
    r, n = picked[axis], x.shape[axis]
    turned = r.step < 0 and r.length > 1
    start = r.start - r.length + 1 if turned else r.start
    if turned:
        v = along(graph, v, axis, r.length - 1, r.length, -1)
    middle = _overlaid(graph, along(graph, x, axis, start, r.length), v, picked, axis + 1)
    rest = start + r.length
    return graph.concat([along(graph, x, axis, 0, start), middle, along(graph, x, axis, rest, n - rest)], axis)


def along(graph: Simplifying, x: Expression, axis: int, start: int, count: int, step: int = 1) -> Expression:
    """`count` entries of one axis."""
    starts, steps, shape = [0] * x.ndim, [1] * x.ndim, list(x.shape)
    starts[axis], steps[axis], shape[axis] = start, step, count
    return graph.slice(x, starts, shape, steps)


# ---------------------------------------------------------------- positions
def positions(graph: Simplifying, indices: Expression, length: int) -> Expression:
    """Indices as int64, counted from the front."""
    indices = graph.cast(indices, _INT64)
    if (indices.number, length) in graph.strict:
        return indices
    if indices.op == "constant":
        known = indices.attribute
        return constant(graph, np.where(known < 0, known + length, known))
    zero, whole = (graph.literal(n, _INT64, indices.shape) for n in (0, length))
    is_negative = graph.apply("less", indices, zero)
    return graph.apply("select", is_negative, graph.apply("add", indices, whole), indices)


def affine(at: Any) -> tuple[int, tuple[int, ...]] | None:
    """(offset, strides) of an array of positions in which every step along an axis is the same, or None."""
    offset = int(at.flat[0])
    strides = tuple(
        int(at[(0,) * k + (1,) + (0,) * (at.ndim - k - 1)]) - offset if n > 1 else 0 for k, n in enumerate(at.shape)
    )
    indices: Any = np.indices
    steps = indices(at.shape, sparse=True)
    even = sum((stride * index for stride, index in zip(strides, steps, strict=True)), offset)
    return (offset, strides) if np.array_equal(np.broadcast_to(even, at.shape), at) else None


def take(graph: Simplifying, x: Expression, indices: Expression, axis: int) -> Expression:
    """`np.take`: a view where positions are known and evenly spaced."""
    at = positions(graph, indices, x.shape[axis])
    known = np.asarray(at.attribute) if at.op in ("constant", "literal") else None
    if at.op == "view" and at.arguments[0].op == "literal":
        known = np.broadcast_to(np.asarray(at.arguments[0].attribute), at.shape)
    if known is not None and known.size and known.min() >= 0 and known.max() < x.shape[axis]:
        even = affine(known)
        if even is not None:
            return _evenly(graph, x, even, at.shape, axis)
    return graph.gather(x, at, axis)


def _evenly(graph: Simplifying, x: Expression, even: tuple[int, Any], shape: Shape, axis: int) -> Expression:
    offset, strides = even
    maps: list[AxisMap] = [(0, ((k if k < axis else k + len(shape) - 1, 1),)) for k in range(x.ndim)]
    maps[axis] = (offset, tuple((axis + k, stride) for k, stride in enumerate(strides)))
    return graph.view(x, (*x.shape[:axis], *shape, *x.shape[axis + 1 :]), maps)


def accumulated(graph: Simplifying, ct: Expression, indices: Expression, axis: int, length: int) -> Expression:
    """The adjoint of `take`."""
    shape = (*ct.shape[:axis], length, *ct.shape[axis + indices.ndim :])
    return graph.scatter(graph.literal(0, ct.dtype, shape), positions(graph, indices, length), ct, axis, "add")


# ---------------------------------------------------------------- one index for each place along an axis
_SEARCHED = 512
"""Up to this length one entry is picked by comparing its index with all: that fuses into the loop over a row."""


def _chosen(graph: Simplifying, at: Expression, shape: Shape, axis: int) -> Expression:
    """Where positions, one along the axis, point to."""
    places = counter(graph, shape, axis)
    wanted = graph.cast(graph.bounded(at, shape[axis]), places.dtype)
    return graph.apply("equal", places, graph.broadcast(wanted, shape))


def picked(graph: Simplifying, x: Expression, classes: Expression) -> Expression:
    """One entry of each row; a negative class is out of range."""
    at = graph.reshape(graph.cast(classes, _INT64), (x.shape[0], 1))
    graph.strict.add((at.number, x.shape[1]))  # so the gradient, which points to the same places, need not count back
    there = _chosen(graph, at, x.shape, 1)
    return graph.reduce("sum", graph.apply("select", there, x, graph.literal(0, x.dtype, x.shape)), (1,))


def _axes_together(x: Expression, indices: Expression, axis: int) -> Shape:
    others = common_shape(
        (*x.shape[:axis], 1, *x.shape[axis + 1 :]), (*indices.shape[:axis], 1, *indices.shape[axis + 1 :])
    )
    return (*others[:axis], indices.shape[axis], *others[axis + 1 :])


def taken_along(graph: Simplifying, x: Expression, indices: Expression, axis: int) -> Expression:
    """`np.take_along_axis`."""
    shape = _axes_together(x, indices, axis)
    length = x.shape[axis]
    whole = (*shape[:axis], length, *shape[axis + 1 :])
    x = graph.broadcast(x, whole)
    if shape[axis] == 1 and length <= _SEARCHED:
        there = _chosen(graph, positions(graph, graph.broadcast(indices, shape), length), whole, axis)
        found = graph.apply("select", there, x, graph.literal(0, x.dtype, whole))
        return graph.reshape(graph.reduce("any" if x.dtype == _BOOL else "sum", found, (axis,)), shape)
    at = _flat(graph, graph.broadcast(indices, shape), whole, axis)
    return graph.gather(graph.reshape(x, (prod(whole),)), at, 0)


def _flat(graph: Simplifying, indices: Expression, whole: Shape, axis: int) -> Expression:
    """Where an array of shape `whole` has the entries at `indices`, one for each place, when it is flat."""
    at = graph.bounded(positions(graph, indices, whole[axis]), whole[axis])
    total = None
    for k in range(len(whole)):
        entry = at if k == axis else graph.iota(indices.shape, k, _INT64)
        step = graph.literal(prod(whole[k + 1 :]), _INT64, indices.shape)
        term = graph.apply("multiply", entry, step)
        total = term if total is None else graph.apply("add", total, term)
    assert total is not None
    return total


def accumulated_along(graph: Simplifying, ct: Expression, indices: Expression, axis: int, length: int) -> Expression:
    """The adjoint of `take_along_axis`."""
    whole = (*ct.shape[:axis], length, *ct.shape[axis + 1 :])
    indices = graph.broadcast(indices, ct.shape)
    if ct.shape[axis] == 1:
        there = _chosen(graph, positions(graph, indices, length), whole, axis)
        return graph.apply("select", there, graph.broadcast(ct, whole), graph.literal(0, ct.dtype, whole))
    at = _flat(graph, indices, whole, axis)
    base = graph.literal(0, ct.dtype, (prod(whole),))
    values, at = graph.reshape(ct, (ct.size,)), graph.reshape(at, (ct.size,))
    return graph.reshape(graph.scatter(base, at, values, 0, "add"), whole)


# ---------------------------------------------------------------- indexes with arrays in them, which are known
class Block(NamedTuple):
    """The axes that the arrays of an index lie on, as one; `at` says which of its entries are picked."""

    axis: int
    width: int
    at: Any

    def merged(self, shape: Shape) -> Shape:
        """The shape with the axes of the block as one."""
        end = self.axis + self.width
        return (*shape[: self.axis], prod(shape[self.axis : end]), *shape[end:])


def block(index: Index, shape: Shape) -> Block:
    """Where an index picks: along few neighbouring axes if the others are taken whole."""
    entries = expanded(index.entries, len(shape))
    places = [k for k, entry in enumerate(entries) if is_array(entry)]
    first, last = places[0], places[-1]
    beside = [*entries[:first], *entries[last + 1 :]]
    adjacent = all(is_array(entry) or type(entry) is int for entry in entries[first:last])
    if all(isinstance(entry, slice) and entry == WHOLE for entry in beside) and (adjacent or first == 0):
        width = len(shape) - len(beside)
        inner = Index(tuple(entries[first : last + 1]))
        return Block(first, width, inner.positions(shape[first : first + width]))
    return Block(0, len(shape), index.positions(shape))


def gathered(graph: Simplifying, x: Expression, index: Index) -> Expression:
    """`x[index]`."""
    b = block(index, x.shape)
    return take(graph, graph.reshape(x, b.merged(x.shape)), constant(graph, b.at), b.axis)


def scattered(graph: Simplifying, x: Expression, index: Index, shape: Shape) -> Expression:
    """The adjoint of `gathered`."""
    b = block(index, shape)
    whole = b.merged(shape)
    return graph.reshape(accumulated(graph, x, constant(graph, b.at), b.axis, whole[b.axis]), shape)


def overwritten(graph: Simplifying, x: Expression, v: Expression, index: Index) -> Expression:
    """x with `x[index] = v`; of several writes to one place the last one counts."""
    b = block(index, x.shape)
    whole = b.merged(x.shape)
    selected = (*whole[: b.axis], *b.at.shape, *whole[b.axis + 1 :])
    if v.ndim > len(selected):
        v = graph.reshape(v, v.shape[v.ndim - len(selected) :])
    flat = b.at.reshape(-1)
    values = graph.reshape(graph.broadcast(v, selected), (*whole[: b.axis], flat.size, *whole[b.axis + 1 :]))
    last = {int(place): k for k, place in enumerate(flat)}
    kept = np.array(sorted(last.values()), np.int64)
    if kept.size < flat.size:
        values, flat = take(graph, values, constant(graph, kept), b.axis), flat[kept]
    if not flat.size:
        return x
    base = graph.reshape(x, whole)
    return graph.reshape(graph.scatter(base, constant(graph, flat.astype(np.int64)), values, b.axis, "set"), x.shape)


# ---------------------------------------------------------------- by masks of places
def compared(graph: Simplifying, op: str, shape: Shape, shift: int) -> Expression:
    """`row + shift op column` for the last two axes."""
    rows, columns = (counter(graph, shape, axis) for axis in (len(shape) - 2, len(shape) - 1))
    dtype = np.promote_types(rows.dtype, columns.dtype)
    rows = graph.apply("add", graph.cast(rows, dtype), graph.literal(shift, dtype, shape))
    return graph.apply(op, rows, graph.cast(columns, dtype))


def triangle(graph: Simplifying, x: Expression, op: str, k: int) -> Expression:
    """`tril` ("greater_equal") and `triu` ("less_equal")."""
    return graph.apply("select", compared(graph, op, x.shape, k), x, graph.literal(0, x.dtype, x.shape))


def diagonal(graph: Simplifying, x: Expression, offset: int) -> Expression:
    """The diagonal of matrices: a view."""
    *front, m, n = x.shape
    length = max(0, min(m + min(offset, 0), n - max(offset, 0)))
    maps: list[AxisMap] = [(0, ((k, 1),)) for k in range(len(front))]
    maps += [(max(-offset, 0), ((len(front), 1),)), (max(offset, 0), ((len(front), 1),))]
    return graph.view(x, (*front, length), maps)


def on_diagonal(graph: Simplifying, x: Expression, size: Shape, offset: int) -> Expression:
    """Matrices of zeros but for a diagonal."""
    shape = (*x.shape[:-1], *size)
    first = max(-offset, 0)
    rows = graph.pad(x, [*[(0, 0)] * (x.ndim - 1), (first, size[0] - first - x.shape[-1])])
    each = graph.broadcast(graph.reshape(rows, (*rows.shape, 1)), shape)
    return graph.apply("select", compared(graph, "equal", shape, offset), each, graph.literal(0, x.dtype, shape))


def rolled(graph: Simplifying, x: Expression, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Expression:
    """`np.roll`."""
    for shift, axis in zip(shifts, axes, strict=True):
        n = x.shape[axis]
        cut = -shift % max(n, 1)
        x = graph.concat([along(graph, x, axis, cut, n - cut), along(graph, x, axis, 0, cut)], axis)
    return x
