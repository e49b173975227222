"""The records of reading and writing by index.

The adjoint of reading is `scatter`: zeros, with the cotangent added where it was read.  A basic index gives a view and
is a parameter as it stands; one with arrays is an `Index`, and gives a copy.
"""

from __future__ import annotations

from math import prod
from operator import getitem as read
from typing import Any

import numpy as np

from chainrule.backends.registry import is_foreign, is_numpy, namespace_of
from chainrule.core.calls import raw
from chainrule.core.primitive import primitive
from chainrule.ops.elementwise import where
from chainrule.ops.families import LINEAR
from chainrule.ops.index import WHOLE, Index, in_bounds
from chainrule.ops.take import accumulate_standard, take_standard
from chainrule.ops.views import reshape_to
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
    return _written_by_slices(xp, xp.zeros(shape, dtype=x.dtype), x, index)


def _written_by_slices(xp: Any, out: Any, v: Any, index: Any) -> Any:
    """`out[index] = v` for a basic index; the standard has no None in an index that is written to."""
    places = tuple(part for part in in_bounds(index, out.shape) if part is not None)
    v = xp.broadcast_to(v, selected_shape(out, index))
    out[places] = xp.reshape(v, selected_shape(out, places))
    return out


def _overwrite(x: Any, v: Any, index: Any) -> Any:
    out = np.array(x)
    out[index.entries if type(index) is Index else index] = v
    return out


def _overwrite_standard(xp: Any, x: Any, v: Any, index: Any) -> Any:
    v = xp.astype(v, x.dtype)
    if type(index) is not Index:
        return _written_by_slices(xp, xp.asarray(x, copy=True), v, index)
    at = index.positions(x.shape)
    source = np.full(prod(x.shape), -1)
    source[at.reshape(-1)] = np.arange(at.size)
    values = xp.reshape(xp.broadcast_to(v, at.shape), (-1,))
    if not at.size:
        return xp.asarray(x, copy=True)
    new = xp.take(values, xp.asarray(np.maximum(source, 0)), axis=0)
    return xp.reshape(xp.where(xp.asarray(source >= 0), new, xp.reshape(x, (-1,))), x.shape)


def _written(ct: Any, v_type: Any, at: Any) -> Any:
    """The cotangent of what was written: of several writes to one position the last one counts."""
    g = _selected(ct, at)
    last = at.last_writes(ct.shape) if type(at) is Index else None
    if last is not None:
        data = raw(g)
        g = where(namespace_of(data).asarray(last) if is_foreign(data) else last, g, 0.0)
    extra = len(v_type.shape) - len(g.shape)
    return reshape_to(g, (1,) * extra + tuple(g.shape)) if extra > 0 else g


def _selected(x: Any, index: Any) -> Any:
    return gather(x, index) if type(index) is Index else read_at(x, index)


def selected_shape(x: Any, index: Any) -> Shape:
    """The shape of `x[index]`."""
    return np.broadcast_to(np.empty((), bool), x.shape)[index.entries if type(index) is Index else index].shape


def _does_not_fill(x: Any, v: Any, index: Any) -> Any:
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
    [lambda ct, x_type, at: scatter(ct, at, x_type.shape)],
    parameters="at",
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
    [lambda ct, x_type, at: scatter(ct, at, x_type.shape)],
    parameters="at",
    forward=lambda x, index: np.asarray(x)[index.entries],
    standard=lambda xp, x, index: take_standard(xp, xp.reshape(x, (-1,)), xp.asarray(index.positions(x.shape)), 0),
    shape_rule=selected_shape,
    samples=_samples,
    hides=True,
)
scatter = primitive(
    "scatter",
    LINEAR,
    [lambda ct, at: _selected(ct, at)],
    parameters="at shape",
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
    [lambda ct, at: write_at(ct, 0.0, at), _written],
    inputs="x v",
    parameters="at",
    forward=_overwrite,
    standard=_overwrite_standard,
    shape_rule=lambda x, v, index: x.shape,
    expected=_does_not_fill,
    samples=lambda rng: [
        ((x, rng.normal(size=selected_shape(x, i)[1:])), (i,)) for (x,), (i,) in _samples_basic(rng) + _samples(rng)
    ],
    hides=True,
)
