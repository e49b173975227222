"""Reading and writing by index: slices, integers, None, `...`, integer and boolean arrays, in NumPy's meaning.

The adjoint of reading is `scatter`: zeros, with the cotangent added where it was read.  `take` reads along one axis
with the positions as an operand, so that they may be traced, and every index of traced arrays is brought to it.
"""

from __future__ import annotations

from math import prod
from operator import getitem as read
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_foreign, is_numpy, namespace_of
from chainrule.core.calls import constant, is_tensor, lift, raw, wrap
from chainrule.core.primitive import primitive
from chainrule.errors import BranchError, DTypeError, IndexingError, explain
from chainrule.ops.arguments import shape_of
from chainrule.ops.elementwise import add, less, multiply, where
from chainrule.ops.families import LINEAR
from chainrule.ops.index import (
    WHOLE,
    Index,
    canonical,
    expanded,
    in_bounds,
    in_words,
    is_array,
    is_live,
    is_mask,
    is_plain,
    lone_array,
)  # fmt: skip
from chainrule.ops.take import (
    accumulate_standard,
    as_operand,
    positions_beside,
    scatter_along,
    take,
    take_entries,
    take_standard,
)
from chainrule.ops.views import astype, broadcast_to, permute, reshape_to
from chainrule.types import Shape


def _scatter(x: Any, index: Any, shape: Shape) -> Any:
    out = np.zeros(shape, x.dtype)
    if type(index) is not Index:
        out[index] = x
    elif all(not is_numpy(entry) or entry.dtype.kind == "b" for entry in index.entries):
        out[index.entries] = x  # a mask reads no entry twice
    else:  # flat positions: `add.at` takes several times as long with more than one axis
        np.add.at(out.reshape(-1), index.positions(shape).reshape(-1), np.reshape(x, -1))
    return out


def _scatter_standard(xp: Any, x: Any, index: Any, shape: Shape) -> Any:
    if type(index) is Index:
        at = xp.asarray(index.positions(shape).reshape(-1))
        return xp.reshape(accumulate_standard(xp, xp.reshape(x, (-1,)), at, 0, prod(shape)), shape)
    out = xp.zeros(shape, dtype=x.dtype)
    out[in_bounds(index, shape)] = x
    return out


def _overwrite(x: Any, v: Any, index: Any) -> Any:
    out = np.array(x)
    out[index.entries if type(index) is Index else index] = v
    return out


def _overwrite_standard(xp: Any, x: Any, v: Any, index: Any) -> Any:
    v = xp.astype(v, x.dtype)
    if type(index) is not Index:
        out = xp.asarray(x, copy=True)
        out[in_bounds(index, x.shape)] = v
        return out
    at = index.positions(x.shape)
    source = np.full(prod(x.shape), -1)
    source[at.reshape(-1)] = np.arange(at.size)
    values = xp.reshape(xp.broadcast_to(v, at.shape), (-1,))
    if not at.size:
        return xp.asarray(x, copy=True)
    new = xp.take(values, xp.asarray(np.maximum(source, 0)), axis=0)
    return xp.reshape(xp.where(xp.asarray(source >= 0), new, xp.reshape(x, (-1,))), x.shape)


def _written(ct: Any, v_type: Any, index: Any) -> Any:
    """The cotangent of what was written: of several writes to one position the last one counts."""
    g = _selected(ct, index)
    last = index.last_writes(ct.shape) if type(index) is Index else None
    if last is not None:
        g = where(last, g, 0.0)
    extra = len(v_type.shape) - len(g.shape)
    return reshape_to(g, (1,) * extra + tuple(g.shape)) if extra > 0 else g


def _selected(x: Any, index: Any) -> Any:
    return gather(x, index) if type(index) is Index else read_at(x, index)


def selected_shape(x: Any, index: Any) -> Shape:
    """The shape of `x[index]`."""
    return np.broadcast_to(np.empty((), bool), x.shape)[index.entries if type(index) is Index else index].shape


def _does_not_fill(x: Any, v: Any, index: Any) -> tuple[str, str]:
    return "v does not fill the selected entries", f"v of a shape that broadcasts to {selected_shape(x, index)}"


def _samples_basic(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(3, 4, 2))
    return [((x,), (i,)) for i in (1, (slice(None), 2), (..., None, slice(0, 1)), (slice(None, None, -2), -1), ())]


def _samples(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(3, 4, 2))
    rows, columns = np.array([0, 0, 2]), np.array([1, 0])
    indices = [
        (rows,),
        (0, WHOLE, columns),
        (x > 0,),
        (rows[:, None], columns),
        (x[:, :, 0] > 0, 1),
        (..., -columns),
        (True,),
    ]
    return [((x,), (Index(i),)) for i in indices]


read_at = primitive(
    "getitem",
    LINEAR,
    [lambda ct, x_type, index: scatter(ct, index, x_type.shape)],
    parameters="index",
    forward=read,
    standard=lambda xp, x, index: x[in_bounds(index, x.shape)],
    shape_rule=selected_shape,
    samples=_samples_basic,
    is_view=True,
    hides=True,
)
gather = primitive(
    "gather",
    LINEAR,
    [lambda ct, x_type, index: scatter(ct, index, x_type.shape)],
    parameters="index",
    forward=lambda x, index: np.asarray(x)[index.entries],
    standard=lambda xp, x, index: take_standard(xp, xp.reshape(x, (-1,)), xp.asarray(index.positions(x.shape)), 0),
    shape_rule=selected_shape,
    samples=_samples,
    hides=True,
)
scatter = primitive(
    "scatter",
    LINEAR,
    [lambda ct, index: _selected(ct, index)],
    parameters="index shape",
    forward=_scatter,
    standard=_scatter_standard,
    shape_rule=lambda x, index, shape: shape,
    samples=lambda rng: [
        ((np.asarray(_selected(x, i)),), (i, x.shape)) for (x,), (i,) in _samples_basic(rng) + _samples(rng)
    ],
)
write_at = primitive(
    "setitem",
    LINEAR,
    [lambda ct, index: write_at(ct, 0.0, index), _written],
    inputs="x v",
    parameters="index",
    forward=_overwrite,
    standard=_overwrite_standard,
    shape_rule=lambda x, v, index: x.shape,
    expected=_does_not_fill,
    samples=lambda rng: [
        ((x, rng.normal(size=selected_shape(x, i)[1:])), (i,)) for (x,), (i,) in _samples_basic(rng) + _samples(rng)
    ],
    hides=True,
)


def getitem(x: Any, index: Any) -> Any:
    """`x[index]` in NumPy's meaning, as a value: nothing written to the result shows in x.

    **Derivative** the cotangent at the places that were read, added up where a place was read more than once, and 0
    elsewhere.  **Raises** IndexingError.

    >>> import chainrule as cr
    >>> cr.grad(lambda x: cr.sum(x[[0, 0, 2]]))(cr.tensor([1.0, 2.0, 3.0])).tolist()
    [2.0, 0.0, 1.0]
    """
    if is_plain(index):
        return read_at(x, index)
    x = as_operand(x)
    entries = canonical("getitem", x, index)
    if not any(map(is_array, entries)):
        return read_at(x, entries)
    lone = lone_array(entries)
    if lone is not None:
        axis, array = lone
        return take(x, array, axis)
    if any(map(is_live, entries)):
        return _take_live(x, entries)
    return gather(x, Index(entries))


def setitem(x: Any, v: Any, index: Any) -> Any:
    """A new x, with v written at `index`; of several writes to one place the last one counts.

    **Shapes** v broadcasts to the selected entries.  **Derivative** for x the cotangent with zeros at `index`, for v
    what was read there.  The result has x's dtype.  **Raises** IndexingError, ShapeError.

    >>> import chainrule as cr
    >>> x, v = cr.zeros(3), cr.tensor(5.0)
    >>> cr.setitem(x, v, slice(1, None)).tolist()
    [0.0, 5.0, 5.0]
    """
    v = _value_for("setitem", x, v)
    if is_plain(index):
        return write_at(x, v, index)
    entries = canonical("setitem", x, index)
    if not any(map(is_array, entries)):
        return write_at(x, v, entries)
    if len(entries) == 1 and is_mask(entries[0]) and shape_of(v) == () and shape_of(entries[0]) == shape_of(x):
        mask = wrap(entries[0], None) if is_tensor(x) else entries[0]
        return where(mask, v if v.dtype == x.dtype else astype(v, x.dtype), x)
    return write_at(x, v, Index(tuple(_concrete(x, entry) for entry in entries)))


def scatter_add(x: Any, index: Any, v: Any) -> Any:
    """A new x, with v added at `index`, again for every time that a place comes up.

    **Shapes** v broadcasts to the selected entries.  **Derivative** for x the cotangent, for v what is read at
    `index`.  **Raises** IndexingError, ShapeError.

    >>> import chainrule as cr
    >>> cr.scatter_add(cr.zeros(3), [0, 0, 2], cr.tensor([1.0, 2.0, 4.0])).tolist()
    [3.0, 0.0, 4.0]
    """
    x = as_operand(x)
    shape = shape_of(x)
    entries = index if is_plain(index) else canonical("scatter_add", x, index)
    v = _value_for("scatter_add", x, v)
    v = v if v.dtype == x.dtype else astype(v, x.dtype)
    if isinstance(entries, tuple) and any(map(is_live, entries)):
        at = _take_live(np.arange(prod(shape)).reshape(shape), entries)
        flat = reshape_to(broadcast_to(v, at.shape), (prod(at.shape),))
        return add(x, reshape_to(scatter_along(flat, reshape_to(at, (prod(at.shape),)), 0, prod(shape)), shape))
    where_to = Index(entries) if isinstance(entries, tuple) and any(map(is_array, entries)) else entries
    return add(x, scatter(broadcast_to(v, selected_shape(x, where_to)), where_to, shape))


def _value_for(operation: str, x: Any, v: Any) -> Any:
    """What is to be written into x, as an operand beside it."""
    if is_tensor(v):
        if v.node is not None and getattr(raw(x).dtype, "kind", "f") in "iub":
            fault = "an array of integers cannot hold a value that wants a gradient"
            raise DTypeError(explain(operation, fault, x=x, v=v, remedy="astype(x, v.dtype)"))
        return v
    return constant(v, x) if is_tensor(x) else lift(v, raw(x), copy=False)


def _concrete(x: Any, entry: Any) -> Any:
    """An entry with its numbers, which an assignment must know.

    **Raises** BranchError for a traced one.
    """
    if isinstance(entry, Abstract):
        fault = f"writing needs the values of the index {in_words(entry)}"
        raise BranchError(explain("setitem", fault, x=x, remedy="`scatter_add`, or `where` with a mask"))
    return np.array(entry) if is_foreign(entry) else entry


def _take_live(x: Any, entries: tuple[Any, ...]) -> Any:
    """`x[entries]` for traced arrays, and for other libraries, by one `take` along the indexed axes laid out flat."""
    at = [k for k, entry in enumerate(entries) if is_array(entry) or type(entry) is int]
    adjacent = at[-1] - at[0] == len(at) - 1
    parts: list[Any] = [p for entry in expanded(entries, len(shape_of(x))) for p in _without_mask(x, entry)]
    places = [k for k, part in enumerate(parts) if is_array(part) or type(part) is int]
    others = [k for k in range(len(parts)) if k not in places]
    x = read_at(x, tuple(WHOLE if k in places else part for k, part in enumerate(parts)))
    lengths = [x.shape[k] for k in places]
    flat, *more = (_from_front(x, parts[k], n) for k, n in zip(places, lengths, strict=True))
    for part, length in zip(more, lengths[1:], strict=True):
        flat = add(multiply(flat, length), part)
    x = reshape_to(permute(x, (*places, *others)), (prod(lengths), *(x.shape[k] for k in others)))
    out = take_entries(x, flat, 0)
    ndim = len(shape_of(flat))
    before = places[0] if adjacent else 0  # NumPy: in place where the arrays stand together, otherwise in front
    rest = range(ndim, ndim + len(others))
    return permute(out, (*rest[:before], *range(ndim), *rest[before:])) if before else out


def _without_mask(x: Any, entry: Any) -> tuple[Any, ...]:
    """A mask as the positions that it selects."""
    if isinstance(entry, (bool, Abstract)) and (entry in (True, False) if isinstance(entry, bool) else is_mask(entry)):
        fault = f"the shape of the result depends on the traced mask {in_words(entry)}"
        raise BranchError(explain("getitem", fault, x=x, remedy="`where(mask, x, 0)`"))
    return tuple(namespace_of(entry).nonzero(entry)) if is_array(entry) and is_mask(entry) else (entry,)


def _from_front(x: Any, part: Any, length: int) -> Any:
    """Positions counted from the front, along an axis of `length`; checked as far as their values are known."""
    if is_live(part):
        return where(less(part, 0), add(part, length), part)
    if not np.all((-length <= part) & (part < length)):
        fault = f"index {in_words(part)} leaves an axis of length {length}"
        raise IndexingError(explain("getitem", fault, x=x))
    return positions_beside("getitem", part % length, raw(x)) if is_numpy(part) else part % length
