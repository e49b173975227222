"""Reading along one axis, with the positions as an operand, so that they may be traced; and the adjoints.

An embedding is `take`, a loss that picks one class per row is `take_along_axis`.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_foreign, is_numpy, namespace_of
from chainrule.core.calls import is_tensor, raw, wrap
from chainrule.core.primitive import primitive
from chainrule.errors import ArgumentError, BranchError, IndexingError, explain
from chainrule.ops.arguments import as_operand, one_axis, shape_of
from chainrule.ops.families import GENERAL, LINEAR
from chainrule.ops.index import WHOLE, in_words
from chainrule.ops.views import reshape_to
from chainrule.types import Shape


def _accumulate(ct: Any, indices: Any, axis: int, length: int) -> Any:
    """`ct` added up at `indices` along `axis`: one flat `add.at`, which beats sorting, one-hot products and bincount."""
    outer, inner = ct.shape[:axis], ct.shape[axis + indices.ndim :]
    rows, width = prod(outer), prod(inner)
    at = indices.reshape(1, -1, 1)
    if rows != 1 or width != 1:
        starts: Any = np.arange(rows)[:, None, None] * (length * width)
        at = starts + (at % max(length, 1)) * width + np.arange(width)
    out = np.zeros(rows * length * width, ct.dtype)
    np.add.at(out, at.reshape(-1), ct.reshape(-1))
    return out.reshape((*outer, length, *inner))


def accumulate_standard(xp: Any, ct: Any, indices: Any, axis: int, length: int) -> Any:
    """The standard has no accumulating write: a product with one-hot rows."""
    outer, inner = ct.shape[:axis], ct.shape[axis + len(indices.shape) :]
    at = _from_front(xp, xp.reshape(indices, (-1,)), length)
    chosen = xp.astype(xp.arange(length, dtype=at.dtype)[:, None] == at[None, :], ct.dtype)
    flat = xp.reshape(ct, (prod(outer), at.shape[0], prod(inner)))
    return xp.reshape(xp.matmul(chosen, flat), (*outer, length, *inner))


def _from_front(xp: Any, at: Any, length: int) -> Any:
    return xp.where(at < 0, at + length, at)


def _accumulate_along(ct: Any, indices: Any, axis: int, length: int) -> Any:
    shape = (*ct.shape[:axis], length, *ct.shape[axis + 1 :])
    grid: list[Any] = list(np.ix_(*map(np.arange, ct.shape)))
    grid[axis] = np.broadcast_to(indices, ct.shape)
    out = np.zeros(shape, ct.dtype)
    if ct.shape[axis] == 1:  # no position comes twice: the case of a loss that picks one class per row
        out[tuple(grid)] = ct
    else:
        np.add.at(out, tuple(grid), ct)
    return out


def _accumulate_along_standard(xp: Any, ct: Any, indices: Any, axis: int, length: int) -> Any:
    at = xp.moveaxis(xp.broadcast_to(_from_front(xp, indices, length), ct.shape), axis, -1)
    chosen = xp.astype(xp.arange(length, dtype=at.dtype)[:, None] == at[..., None, :], ct.dtype)
    return xp.moveaxis(xp.matmul(chosen, xp.moveaxis(ct, axis, -1)[..., None])[..., 0], -1, axis)


def _not_there(x: Any, indices: Any, axis: int) -> Any:
    """Words for an integer array that leaves its axis."""
    length, at = shape_of(x)[axis], np.asarray(raw(indices))
    bad = np.argwhere((at < -length) | (at >= length))[0]
    where_ = f" (entry {tuple(map(int, bad))})" if at.ndim else ""
    return f"index {at[tuple(bad)]}{where_} is outside axis {axis} of length {length}", f"-{length} to {length - 1}"


def _along_shape(shape: Shape, indices: Shape, axis: int) -> Shape:
    shape = np.broadcast_shapes((*shape[:axis], 1, *shape[axis + 1 :]), (*indices[:axis], 1, *indices[axis + 1 :]))
    return (*shape[:axis], indices[axis], *shape[axis + 1 :])


def _samples_take(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(3, 4, 2))
    return [
        ((x, i), (axis,)) for i, axis in ((np.array([0, -1, 0]), 0), (np.array([[1, 1], [0, 3]]), 1), (np.array(1), 2))
    ]


def _samples_along(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(3, 4))
    return [
        ((x, rng.integers(-n, n, shape)), (axis,))
        for n, shape, axis in ((4, (3, 1), 1), (4, (3, 6), 1), (3, (2, 4), 0))
    ]


def _take(x: Any, indices: Any, axis: int) -> Any:
    """`take` is the faster one and copies an x that does not lie in row-major order; an index gives a view for a number."""
    if x.flags.c_contiguous:
        return x.take(indices, axis)
    out = x[(WHOLE,) * axis + (indices,)]
    return out if indices.ndim else np.array(out)


def take_standard(xp: Any, x: Any, indices: Any, axis: int) -> Any:
    out = xp.take(x, xp.reshape(indices, (-1,)), axis=axis)
    return xp.reshape(out, x.shape[:axis] + indices.shape + x.shape[axis + 1 :])


take_entries = primitive(
    "take",
    LINEAR,
    [lambda ct, x_type, indices, axis: scatter_along(ct, indices, axis, x_type.shape[axis]), None],
    inputs="x indices",
    parameters="axis",
    forward=_take,
    standard=take_standard,
    shape_rule=lambda x, indices, axis: x.shape[:axis] + tuple(indices.shape) + x.shape[axis + 1 :],
    expected=_not_there,
    samples=_samples_take,
    hides=True,
)
scatter_along = primitive(
    "scatter_along",
    LINEAR,
    [lambda ct, indices, axis: take_entries(ct, indices, axis), None],
    inputs="x indices",
    parameters="axis length",
    forward=_accumulate,
    standard=accumulate_standard,
    shape_rule=lambda x, indices, axis, length: (*x.shape[:axis], length, *x.shape[axis + len(indices.shape) :]),
    samples=lambda rng: [((x.take(i, a), i), (a, x.shape[a])) for (x, i), (a,) in _samples_take(rng)],
)
take_along = primitive(
    "take_along_axis",
    LINEAR,
    [lambda ct, x_type, indices, axis: scatter_along_axis(ct, indices, axis, x_type.shape[axis]), None],
    inputs="x indices",
    parameters="axis",
    forward=np.take_along_axis,
    standard=lambda xp, x, indices, axis: xp.take_along_axis(x, indices, axis=axis),
    shape_rule=lambda x, indices, axis: _along_shape(x.shape, indices.shape, axis),
    expected=_not_there,
    samples=_samples_along,
    hides=True,
)
scatter_along_axis = primitive(
    "scatter_along_axis",
    LINEAR,
    [lambda ct, indices, axis: take_along(ct, indices, axis), None],
    inputs="x indices",
    parameters="axis length",
    forward=_accumulate_along,
    standard=_accumulate_along_standard,
    shape_rule=lambda x, indices, axis, length: (*x.shape[:axis], length, *x.shape[axis + 1 :]),
    samples=lambda rng: [((np.take_along_axis(x, i, a), i), (a, x.shape[a])) for (x, i), (a,) in _samples_along(rng)],
)


searched = primitive(
    "searchsorted",
    GENERAL,
    [None, None],
    inputs="x y",
    parameters="side",
    forward=np.searchsorted,
    standard=lambda xp, x, y, side: xp.searchsorted(x, y, side=side),
    shape_rule=lambda x, y, side: y.shape,
    dtype_rule=lambda x, y, side: np.dtype(np.intp),
    samples=lambda rng: [
        ((np.sort(rng.normal(size=5)), rng.normal(size=(2, 3))), (side,)) for side in ("left", "right")
    ],
)


def positions_beside(operation: str, indices: Any, x: Any) -> Any:
    """An array of positions as an operand beside x: of x's library, tied to nothing that may change.

    **Raises** IndexingError for anything but integers.
    """
    array, data = raw(indices), raw(x)
    if isinstance(array, Abstract):
        return array.copy() if array.weak else array  # a position does not take the dtype of what it is a position in
    if is_foreign(array) and not is_numpy(data):
        return array
    array = np.array(array, order="C")
    if array.dtype.kind not in "iu" and array.size:
        fault = f"{in_words(indices)} are no positions, their dtype is {array.dtype}"
        raise IndexingError(explain(operation, fault, x=x, expected="integers"))
    array = array.astype(np.intp, copy=False)
    if is_foreign(data):
        return namespace_of(data).asarray(array)
    return wrap(array, None) if is_tensor(x) else array


def take(x: Any, indices: Any, axis: int | None = None) -> Any:
    """The entries of x at `indices` along `axis`; without an axis, of x laid out flat.

    **Shapes** `x f[a, n, b], indices i[...] -> f[a, ..., b]`.  **Derivative** the cotangent, added up where it was
    read.  Negative indices count from the end.  **Raises** IndexingError.

    >>> import chainrule as cr
    >>> cr.grad(lambda x: cr.sum(cr.take(x, [0, 0, 2])))(cr.tensor([1.0, 2.0, 3.0])).tolist()
    [2.0, 0.0, 1.0]
    """
    x = as_operand(x)
    shape = shape_of(x)
    if axis is None and len(shape) != 1:
        x = reshape_to(x, (prod(shape),))
    return take_entries(x, positions_beside("take", indices, x), one_axis("take", axis or 0, len(shape_of(x))))


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    """For each place of `indices` the entry of x that lies there along `axis`.

    **Shapes** `x f[a, n, b], indices i[a, k, b] -> f[a, k, b]`; the other axes broadcast.  **Raises** IndexingError.

    >>> import chainrule as cr
    >>> cr.take_along_axis(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), [[1], [0]]).tolist()
    [[2.0], [3.0]]
    """
    x = as_operand(x)
    positions, shape = positions_beside("take_along_axis", indices, x), shape_of(x)
    if len(positions.shape) != len(shape):
        fault = "x and indices need the same number of axes"
        raise ArgumentError(explain("take_along_axis", fault, x=x, indices=positions))
    return take_along(x, positions, one_axis("take_along_axis", axis, len(shape)))


def searchsorted(x: Any, y: Any, side: str = "left") -> Any:
    """Where the entries of y would go into the sorted vector x; no gradient.

    >>> import chainrule as cr
    >>> cr.searchsorted(cr.tensor([1.0, 2.0, 3.0]), cr.tensor([2.5])).tolist()
    [2]
    """
    if side not in ("left", "right"):
        raise ArgumentError(explain("searchsorted", f"no side {side!r}", expected="'left' or 'right'"))
    return searched(as_operand(x), as_operand(y), side)


def nonzero(x: Any) -> tuple[Any, ...]:
    """The positions of the entries that are not 0, an integer array per axis; no gradient.

    **Raises** BranchError for a traced x: the shapes of the result depend on its values.

    >>> import chainrule as cr
    >>> [i.tolist() for i in cr.nonzero(cr.tensor([0.0, 5.0, 7.0]))]
    [[1, 2]]
    """
    data = raw(as_operand(x))
    if isinstance(data, Abstract):
        fault = "the shape of the result depends on traced values"
        raise BranchError(explain("nonzero", fault, x=x, remedy="`where`"))
    if not data.shape:
        raise ArgumentError(explain("nonzero", "a number has no positions", x=x))
    found = namespace_of(data).nonzero(data)
    return tuple(wrap(at, None) for at in found) if is_tensor(x) else tuple(found)
