"""Indexes in the one form that records know.

A basic index (integers, slices, None, `...`) stays what it is; one with arrays becomes an `Index`, which holds copies
of them, so that nothing that a record remembers can change.  Faults are found here, and named in the user's terms.
"""

from __future__ import annotations

import re
from math import prod
from operator import index as as_integer
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_foreign, is_numpy
from chainrule.core.calls import raw
from chainrule.errors import IndexingError, describe, dtype_name, explain
from chainrule.types import Shape

BASIC = frozenset((int, NoneType, EllipsisType))
WHOLE = slice(None)
_KINDS = "integers, slices, None, `...`, integer or boolean arrays"


class Index:
    """An index with arrays in it: `entries` with concrete arrays of positions (intp) or booleans, its own copies."""

    __slots__ = ("entries",)

    def __init__(self, entries: tuple[Any, ...]) -> None:
        self.entries = entries

    def __repr__(self) -> str:
        return in_words(self.entries)

    def positions(self, shape: Shape) -> Any:
        """Where the selected entries of an array of `shape` lie when it is flat; in the shape of the result."""
        return _counted(shape)[self.entries]

    def last_writes(self, shape: Shape) -> Any:
        """Which entries of the result are the last at their position, or None where no position comes twice."""
        if all(not is_numpy(entry) or entry.dtype.kind == "b" for entry in self.entries):
            return None
        at = self.positions(shape)
        order = _counted(at.shape)
        last: Any = np.empty(prod(shape), np.intp)
        last[at] = order
        mask = last[at] == order
        return None if mask.all() else mask


def _counted(shape: Shape) -> Any:
    """0, 1, 2 ... in row-major order."""
    return np.arange(prod(shape), dtype=np.intp).reshape(shape)


def parts_of(index: Any) -> tuple[Any, ...]:
    """The entries of an index."""
    return index if isinstance(index, tuple) else (index,)  # pyright: ignore[reportUnknownVariableType]


def is_plain(index: Any) -> bool:
    """Whether `index` can be recorded as it stands; a quick look, which sends what is rare the long way."""
    if type(index) is tuple:
        for entry in parts_of(index):
            if type(entry) not in BASIC and not (type(entry) is slice and _has_plain_bounds(entry)):
                return False
        return True
    return type(index) in BASIC or (type(index) is slice and _has_plain_bounds(index))


def _has_plain_bounds(part: slice) -> bool:
    start, stop, step = part.start, part.stop, part.step
    return (
        (start is None or type(start) is int)
        and (stop is None or type(stop) is int)
        and (step is None or type(step) is int)
    )


def _bounds(part: Any) -> tuple[Any, Any, Any]:
    return part.start, part.stop, part.step


def is_live(entry: Any) -> bool:
    """Whether an entry is an array that has no numbers yet, or that another library owns."""
    return type(entry) is not np.ndarray and (isinstance(entry, Abstract) or is_foreign(entry))


def is_array(entry: Any) -> bool:
    """Whether an entry of a canonical index is an array, a live one or one bool included."""
    return type(entry) is not int and (issubclass(type(entry), (bool, np.ndarray)) or is_live(entry))


def canonical(operation: str, x: Any, index: Any) -> tuple[Any, ...]:
    """The entries of an index: ints, slices with int bounds, None, `...`, bools, and arrays of intp or booleans.

    **Raises** IndexingError for what cannot index, for too many entries, and for a mask of the wrong shape.
    """
    entries = tuple(_entry(operation, x, entry) for entry in parts_of(index))
    _count_axes(operation, x, index, entries)
    return entries


def _entry(operation: str, x: Any, entry: Any) -> Any:
    if type(entry) in BASIC:
        return entry
    entry = raw(entry)
    if type(entry) is np.ndarray:
        return _array(operation, x, entry, entry.copy())
    if type(entry) is bool or type(entry) is np.bool_:
        return bool(entry)
    try:
        if isinstance(entry, slice):
            return slice(*(None if bound is None else as_integer(raw(bound)) for bound in _bounds(entry)))
        if hasattr(entry, "__index__") and not hasattr(entry, "shape"):
            return as_integer(entry)
        if is_live(entry) and not (is_foreign(entry) and is_numpy(raw(x))):
            return _live_array(operation, x, entry)
        array = np.array(_without_tensors(entry), order="C")
    except (TypeError, ValueError) as error:
        fault = f"{in_words(entry)} cannot index"
        raise IndexingError(explain(operation, fault, x=x, expected=_KINDS)) from error
    return _array(operation, x, entry, array)


def _live_array(operation: str, x: Any, entry: Any) -> Any:
    """An array without numbers, or of another library, as an entry."""
    if not re.fullmatch(r"[iu]\d+|bool", dtype_name(entry.dtype)):
        fault = f"{in_words(entry)} cannot index"
        raise IndexingError(explain(operation, fault, x=x, expected=_KINDS))
    return entry.copy() if isinstance(entry, Abstract) and entry.weak else entry


def _array(operation: str, x: Any, entry: Any, array: Any) -> Any:
    """A concrete array as an entry."""
    kind = array.dtype.kind
    if array.size == 0 and isinstance(entry, (list, tuple)):
        return array.astype(np.intp)
    if kind not in "iub":
        remedy = "int(i), or astype(i, int)" if kind == "f" else ""
        fault = f"{in_words(entry)} cannot index, its dtype is {array.dtype}"
        raise IndexingError(explain(operation, fault, x=x, expected=_KINDS, remedy=remedy))
    if kind == "b":
        return array if array.ndim else bool(array)
    return array.astype(np.intp, copy=False) if array.ndim else int(array)


def _without_tensors(entry: Any) -> Any:
    """Nested lists with the arrays in place of the tensors."""
    if isinstance(entry, (list, tuple)):
        return [_without_tensors(part) for part in entry]  # pyright: ignore[reportUnknownVariableType]
    return raw(entry)


def _count_axes(operation: str, x: Any, index: Any, entries: tuple[Any, ...]) -> None:
    """Refuse an index of too many axes, and a mask that does not lie on the axes that it meets."""
    shape: Shape = np.shape(x) if not hasattr(x, "shape") else x.shape
    if len(entries) == 1 and type(entries[0]) is np.ndarray and entries[0].dtype.kind == "i" and shape:
        return  # one array of positions: nothing to find
    used = [axes_used(entry) for entry in entries]
    total = sum(used)
    if sum(entry is ... for entry in entries) > 1:
        raise IndexingError(explain(operation, "an index has at most one `...`", x=x, index=_Words(index)))
    if total > len(shape):
        fault = f"too many indices, {total} for {len(shape)} axes"
        raise IndexingError(explain(operation, fault, x=x, index=_Words(index)))
    axis = 0
    for entry, width in zip(entries, used, strict=True):
        if entry is ...:
            axis = len(shape) - total + axis
        elif width and is_mask(entry) and tuple(entry.shape) != tuple(shape[axis : axis + width]):
            where = f"axis {axis}" if width == 1 else f"axes {axis} to {axis + width - 1}"
            fault = f"a boolean mask of shape {tuple(entry.shape)} meets {where} of shape {shape[axis : axis + width]}"
            raise IndexingError(explain(operation, fault, x=x, index=_Words(index)))
        axis += 0 if entry is ... else width


def is_mask(entry: Any) -> bool:
    """Whether an entry is an array of booleans."""
    if type(entry) is np.ndarray:
        return entry.dtype.kind == "b"
    return hasattr(entry, "dtype") and dtype_name(entry.dtype) == "bool"


def axes_used(entry: Any) -> int:
    """How many axes an entry of a canonical index takes up."""
    if type(entry) is int or type(entry) is slice:
        return 1
    if entry is None or entry is ... or type(entry) is bool:
        return 0
    return len(entry.shape) if is_mask(entry) else 1


def expanded(entries: tuple[Any, ...], ndim: int) -> list[Any]:
    """The entries with full slices for `...` and for the axes that are not mentioned."""
    gap = [WHOLE] * (ndim - sum(map(axes_used, entries)))
    for k, entry in enumerate(entries):
        if entry is ...:
            return [*entries[:k], *gap, *entries[k + 1 :]]
    return [*entries, *gap]


def in_bounds(index: Any, shape: Shape) -> tuple[Any, ...]:
    """A basic index spelled out for libraries that know no `...`, no missing axes and no slices beyond the end."""
    out: list[Any] = []
    lengths = iter(shape)
    for entry in expanded(parts_of(index), len(shape)):
        if entry is None:
            out.append(None)
            continue
        length = next(lengths)
        if isinstance(entry, slice):
            start, stop, step = entry.indices(length)
            out.append(slice(start, None if stop < 0 else stop, step))
        elif -length <= entry < length:
            out.append(entry)
        else:
            axis = sum(part is not None for part in out)
            raise IndexError(f"index {entry} is out of bounds for axis {axis} with size {length}")
    return tuple(out)


def lone_array(entries: tuple[Any, ...]) -> tuple[int, Any] | None:
    """(axis, array) of an index that is one integer array among full slices: the way of an embedding."""
    found = None
    axis = 0
    for k, entry in enumerate(entries):
        if is_array(entry) and found is None and type(entry) is not bool and not is_mask(entry):
            found = (axis, entry)
        elif entry is ... and found is None:
            axis = -sum(map(axes_used, entries[k:]))
            continue
        elif entry is not ... and not (isinstance(entry, slice) and entry == WHOLE):
            return None
        axis += entry is not ...
    return found


class _Words:
    """An index as messages show it."""

    def __init__(self, index: Any) -> None:
        self.index = index

    def __repr__(self) -> str:
        return in_words(self.index)


def in_words(index: Any) -> str:
    """An index as a message shows it: arrays as their types."""
    if isinstance(index, tuple):
        return ", ".join(map(in_words, index))  # pyright: ignore[reportUnknownArgumentType]
    if type(index) is slice:
        words = ["" if bound is None else str(bound) for bound in _bounds(index)]
        return ":".join(words if words[2] else words[:2])
    return "..." if index is ... else describe(index)
