"""Reading and writing by index: slices, integers, None, `...`, integer and boolean arrays, in NumPy's meaning.

An index that is one array along one axis goes to `take`, where positions are an operand and may be traced; every
other index of traced arrays is brought there.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_foreign, is_numpy, namespace_of
from chainrule.core.calls import constant, is_tensor, lift, raw, wrap
from chainrule.errors import BranchError, DTypeError, IndexingError, ShapeError, explain
from chainrule.ops.arguments import as_operand, shape_of
from chainrule.ops.elementwise import add, equal, less, maximum, multiply, where
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
from chainrule.ops.reductions import reduce_max
from chainrule.ops.selection import gather, read_at, scatter, selected_shape, write_at
from chainrule.ops.take import positions_beside, scatter_along, take_entries
from chainrule.ops.views import astype, broadcast_to, permute, reshape_to


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
        array = wrap(array, None) if is_numpy(array) and is_tensor(x) else array
        return take_entries(
            x, array if is_numpy(raw(x)) else positions_beside("getitem", array, x), axis % len(x.shape)
        )
    if any(map(is_live, entries)):
        return _take_live(x, entries)
    return gather(x, Index(entries))


def setitem(x: Any, v: Any, index: Any) -> Any:
    """A new x, with v written at `index`; of several writes to one place the last one counts.

    **Shapes** v broadcasts to the selected entries.  **Derivative** for x the cotangent with zeros at `index`, for v
    what was read there.  The result has x's dtype.  **Raises** IndexingError, ShapeError.

    >>> import chainrule as cr
    >>> from chainrule.ops.indexing import setitem
    >>> setitem(cr.zeros(3), cr.tensor(5.0), slice(1, None)).tolist()
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
    lone = lone_array(entries)
    if lone is not None and isinstance(lone[1], Abstract):
        return _write_live(x, v, lone[0] % len(shape_of(x)), lone[1])
    return write_at(x, v, Index(tuple(_concrete(x, entry) for entry in entries)))


def assign(data: Any, v: Any, index: Any) -> None:
    """`data[index] = v` in the memory of a raw array, for any index that `setitem` takes.

    **Raises** IndexingError, ShapeError, before anything was written.
    """
    if not is_plain(index):
        index = canonical("setitem", data, index)
    try:
        data[index if is_numpy(data) or isinstance(data, Abstract) else in_bounds(index, data.shape)] = v
    except (IndexError, ValueError) as error:
        fault = str(error).split("\n", maxsplit=1)[0]
        kind = IndexingError if isinstance(error, IndexError) else ShapeError
        raise kind(explain("setitem", fault, x=data, v=v, index=Index((index,)))) from None


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
    v = _value_for("scatter_add", x, v)
    v = v if v.dtype == x.dtype else astype(v, x.dtype)
    if is_plain(index):
        return add(x, scatter(broadcast_to(v, _selected_shape(x, index)), index, shape))
    entries = canonical("scatter_add", x, index)
    if any(map(is_live, entries)):
        places = np.arange(prod(shape)).reshape(shape)
        at = _take_live(positions_beside("scatter_add", places, raw(x)) if is_foreign(raw(x)) else places, entries)
        flat = reshape_to(broadcast_to(v, at.shape), (prod(at.shape),))
        return add(x, reshape_to(scatter_along(flat, reshape_to(at, (prod(at.shape),)), 0, prod(shape)), shape))
    at = Index(entries) if any(map(is_array, entries)) else entries
    return add(x, scatter(broadcast_to(v, _selected_shape(x, at)), at, shape))


def _selected_shape(x: Any, index: Any) -> Any:
    try:
        return selected_shape(x, index)
    except IndexError as error:
        raise IndexingError(explain("scatter_add", str(error), x=x, index=Index((index,)))) from None


def _value_for(operation: str, x: Any, v: Any) -> Any:
    """What is to be written into x, as an operand beside it."""
    if is_tensor(v):
        if v.node is not None and getattr(raw(x).dtype, "kind", "f") in "iub":
            fault = "an array of integers cannot hold a value that wants a gradient"
            raise DTypeError(explain(operation, fault, x=x, v=v, remedy="astype(x, v.dtype)"))
        return v
    if is_tensor(x):
        return constant(v, x) if is_numpy(raw(x)) else wrap(lift(v, raw(x), copy=True), None)
    return lift(v, x, copy=False)


def _concrete(x: Any, entry: Any) -> Any:
    """An entry with its numbers, which an assignment must know.

    **Raises** BranchError for a traced one.
    """
    if isinstance(entry, Abstract):
        fault = f"writing needs the values of the index {in_words(entry)}"
        raise BranchError(explain("setitem", fault, x=x, remedy="`scatter_add`, or `where` with a mask"))
    return np.array(entry) if is_foreign(entry) else entry


def _write_live(x: Any, v: Any, axis: int, at: Abstract) -> Any:
    """`x` with v written at traced positions along one axis: every place looks for the last one that names it."""
    shape, length, count = shape_of(x), shape_of(x)[axis], prod(at.shape)
    front, back = shape[:axis], shape[axis + 1 :]
    v = broadcast_to(v if v.dtype == x.dtype else astype(v, x.dtype), (*front, *at.shape, *back))
    if not count or not length:
        return add(x, 0) if length else take_entries(x, at, axis)  # which raises where there is no place
    # read from the places themselves: from the front, and within the axis
    named = take_entries(np.arange(length), reshape_to(at, (1, count)), 0)
    turn = reduce_max(where(equal(named, np.arange(length)[:, None]), np.arange(count), -1), (1,), False)
    column = (length, *(1 for _ in back))
    new = take_entries(reshape_to(v, (*front, count, *back)), maximum(turn, 0), axis)
    return where(reshape_to(less(turn, 0), column), x, new)


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
        ahead = flat * length if type(flat) is int else multiply(flat, length)
        flat = ahead + part if type(ahead) is int and type(part) is int else add(ahead, part)
    x = reshape_to(permute(x, (*places, *others)), (prod(lengths), *(x.shape[k] for k in others)))
    out = take_entries(x, flat, 0)
    ndim = len(shape_of(flat))
    before = places[0] if adjacent else 0  # NumPy: in place where the arrays stand together, otherwise in front
    rest = range(ndim, ndim + len(others))
    return permute(out, (*rest[:before], *range(ndim), *rest[before:])) if before else out


def _without_mask(x: Any, entry: Any) -> tuple[Any, ...]:
    """A mask as the positions that it selects."""
    if issubclass(type(entry), (bool, Abstract)) and (
        entry in (True, False) if type(entry) is bool else is_mask(entry)
    ):
        fault = f"the shape of the result depends on the traced mask {in_words(entry)}"
        raise BranchError(explain("getitem", fault, x=x, remedy="`where(mask, x, 0)`"))
    return tuple(namespace_of(entry).nonzero(entry)) if is_array(entry) and is_mask(entry) else (entry,)


def _from_front(x: Any, part: Any, length: int) -> Any:
    """Positions counted from the front, along an axis of `length`; checked as far as their values are known."""
    if isinstance(part, Abstract):  # read from the places themselves, for they must lie within this very axis
        return take_entries(np.arange(length), part, 0)
    if is_live(part):
        return where(less(part, 0), add(part, length), part)
    if not np.all((-length <= part) & (part < length)):
        fault = f"index {in_words(part)} leaves an axis of length {length}"
        raise IndexingError(explain("getitem", fault, x=x))
    return positions_beside("getitem", part % length, raw(x)) if is_numpy(part) else part % length
