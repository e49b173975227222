"""Reading and writing by index: slices, integers, None, `...`, integer and boolean arrays, in NumPy's meaning."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.core.calls import raw
from chainrule.core.primitive import primitive
from chainrule.ops.families import LINEAR
from chainrule.types import Shape


class Index:
    """An index in the one form that records know: hashable by identity, arrays copied, tensors read.

    Integer arrays are kept as they are; whether an index selects an entry at most once decides between a plain
    assignment and an accumulating one in the scatter.
    """

    __slots__ = ("entries", "is_basic")

    def __init__(self, index: Any) -> None:
        entries = index if type(index) is tuple else (index,)
        self.entries: tuple[Any, ...] = tuple(_entry(entry) for entry in entries)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        self.is_basic = all(entry is None or entry is ... or isinstance(entry, (slice, int)) for entry in self.entries)

    def __repr__(self) -> str:
        return ", ".join(map(repr, self.entries))


def _entry(entry: Any) -> Any:
    entry = raw(entry)
    if entry is None or entry is ... or isinstance(entry, (bool, np.bool_, slice)) or type(entry) is int:
        return entry
    if isinstance(entry, (np.integer,)) or (hasattr(entry, "__index__") and not hasattr(entry, "shape")):
        return int(entry)
    return np.array(entry, np.intp) if isinstance(entry, (list, tuple)) and not entry else np.array(entry)


def _scatter(x: Any, index: Index, shape: Shape) -> Any:
    out = np.zeros(shape, x.dtype)
    if index.is_basic:
        out[index.entries] = x
    else:
        np.add.at(out, index.entries, x)
    return out


def _overwritten(x: Any, v: Any, index: Index) -> Any:
    out = x.copy()
    out[index.entries] = v
    return out


def _indexed_shape(x: Any, index: Index) -> Shape:
    return np.broadcast_to(np.empty((), bool), x.shape)[index.entries].shape


def _samples(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(3, 4, 2))
    indices = [1, (slice(None), 2), (..., None, slice(0, 1)), np.array([0, 0, 2]), (0, slice(None), [1, 0]), x > 0]
    return [((x,), (Index(i),)) for i in indices]


take_at = primitive(
    "getitem",
    LINEAR,
    [lambda ct, x_type, index: scatter(ct, index, x_type.shape)],
    parameters="index",
    forward=lambda x, index: x[index.entries],
    standard=lambda xp, x, index: x[index.entries],
    shape_rule=_indexed_shape,
    samples=_samples,
    is_view=True,
    hides=True,
)
scatter = primitive(
    "scatter",
    LINEAR,
    [lambda ct, index: take_at(ct, index)],
    parameters="index shape",
    forward=_scatter,
    shape_rule=lambda x, index, shape: shape,
    samples=lambda rng: [((x[i.entries],), (i, x.shape)) for (x,), (i,) in _samples(rng)],
)


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`, as a value: nothing written to the result shows in x."""
    return take_at(x, Index(index))
