"""Pooling: the largest entry, or the sum, of each window.

Entries of a window that tie for the largest share its cotangent evenly, as in `max`.  Who won is a mask: an array of
truth values, so what is linear in a cotangent stays so at any order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from chainrule.core.primitive import primitive
from chainrule.errors import dtype_kind
from chainrule.ops.families import GENERAL, LINEAR
from chainrule.ops.windows import SAMPLES, Windows, along, filled_beside, padded, positions, unpadded
from chainrule.types import Shape


def _result(x: Any, windows: Windows) -> Shape:
    return (*x.shape[:2], *windows.out)


def _at(axis: int, part: slice) -> tuple[Any, ...]:
    return (*(slice(None),) * (2 + axis), part, ...)


def _folded(combine: Callable[[Any, Any], Any], x: Any, windows: Windows) -> Any:
    """Each window's entries combined along one axis after the other; the first has the longest runs, so it comes first."""
    for axis in range(len(windows.out)):
        x = reduce(combine, [x[_at(axis, part)] for part in along(windows, axis)])
    return x


def _own(xp: Any, out: Any, x: Any) -> Any:
    """A copy where a kernel of one entry gave back the input itself."""
    return xp.asarray(out, copy=True) if out is x or (xp is np and np.may_share_memory(out, x)) else out


# ----------------------------------------------------------------------------------------------------------- the largest
def _lowest(xp: Any, dtype: Any) -> Any:
    kind = dtype_kind(dtype)
    return -float("inf") if kind == "f" else False if kind == "b" else xp.iinfo(dtype).min


def _max_pool(xp: Any, x: Any, windows: Windows) -> Any:
    out = _folded(xp.maximum, padded(xp, x, windows, _lowest(xp, x.dtype)), windows)
    return _own(xp, out, x)


def _winners(xp: Any, x: Any, top: Any, windows: Windows) -> Any:
    """Which entries are not below the largest of their window; NaN is below nothing.

    The mask of each entry of the kernel in turn, along the first axis: NumPy's stand in memory as x does.
    """
    x = padded(xp, x, windows, _lowest(xp, x.dtype))
    if xp is not np:
        return xp.concat([xp.logical_not(x[index] < top) for index in positions(windows)])
    out = np.empty_like(top, bool, shape=(prod(windows.kernel) * len(top), *top.shape[1:]))
    for part, index in zip(_masks(out, windows), positions(windows), strict=True):
        np.less(x[index], top, out=part)
    return np.logical_not(out, out=out)


def _masks(winners: Any, windows: Windows) -> list[Any]:
    """The mask of each entry of the kernel."""
    n = winners.shape[0] // prod(windows.kernel)
    return [winners[k * n : (k + 1) * n, ...] for k in range(prod(windows.kernel))]


def _counted(xp: Any, masks: list[Any], dtype: Any) -> Any:
    """How many won, counted in integers."""
    if xp is not np:
        return reduce(xp.add, [xp.astype(mask, dtype) for mask in masks])
    return reduce(np.add, [mask.view(np.uint8) for mask in masks], np.min_scalar_type(len(masks)).type(0))


_BITS = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


def _chosen(xp: Any, mask: Any, x: Any, out: Any = None) -> Any:
    """x where the mask is true, 0 elsewhere, into `out` if it is given, which NumPy alone does.

    NumPy's `where` takes ten times as long as a product; a product of the bits with 0 or 1 is a selection too, also
    where x is infinite or NaN.
    """
    if xp is np and x.itemsize in _BITS:
        bits = _BITS[x.itemsize]
        to = None if out is None else out.view(bits)
        return np.multiply(mask, x.view(bits), out=to, dtype=bits).view(x.dtype)
    found = xp.where(mask, x, xp.zeros_like(x))
    if out is not None:
        out[...] = found
    return found


def _to_winners(xp: Any, y: Any, winners: Any, windows: Windows) -> Any:
    masks, reach = _masks(winners, windows), (*y.shape[:2], *windows.extent)
    counts = _counted(xp, masks, y.dtype)
    if xp is not np:
        share, out = y / counts, xp.zeros(reach, dtype=y.dtype)
    else:
        share = np.empty_like(masks[0], y.dtype)  # in the order of the masks, whatever that of y is
        np.divide(y, counts, out=share)
        out = np.empty_like(share, shape=reach)
        if windows.are_apart and windows.kernel == windows.stride:  # they fill every place, once
            for mask, index in zip(masks, positions(windows), strict=True):
                _chosen(xp, mask, share, out[index])
            return unpadded(xp, out, windows)
        out[...] = 0
    for mask, index in zip(masks, positions(windows), strict=True):
        out[index] += _chosen(xp, mask, share)
    return unpadded(xp, out, windows)


def _from_winners(xp: Any, x: Any, winners: Any, windows: Windows) -> Any:
    masks = _masks(winners, windows)
    x = padded(xp, x, windows)
    parts = [_chosen(xp, mask, x[index]) for mask, index in zip(masks, positions(windows), strict=True)]
    total, counts = reduce(xp.add, parts), _counted(xp, masks, x.dtype)
    return np.divide(total, counts, out=total) if xp is np else total / counts


# -------------------------------------------------------------------------------------------------------------- the sum
def _window_sums(xp: Any, x: Any, windows: Windows) -> Any:
    return _own(xp, _folded(xp.add, padded(xp, x, windows), windows), x)


def _spread(xp: Any, y: Any, windows: Windows) -> Any:
    for axis in reversed(range(len(windows.out))):
        out = filled_beside(xp, y, (*y.shape[: 2 + axis], windows.extent[axis], *y.shape[3 + axis :]), 0)
        for part in along(windows, axis):
            out[_at(axis, part)] += y
        y = out
    return unpadded(xp, y, windows)


# ------------------------------------------------------------------------------------------------------------- records
def _samples(rng: np.random.Generator) -> list[Any]:
    """x, y, winners and parameters."""
    out: list[Any] = []
    for windows in (*SAMPLES[:2], Windows((6,), (2,), (3,), (2,), (1,), (2,))):
        x = rng.permuted(np.linspace(-2.0, 2.0, 4 * prod(windows.size))).reshape(2, 2, *windows.size)
        top = _max_pool(np, x, windows)
        out.append((x, rng.normal(size=top.shape), _winners(np, x, top, windows), (windows,)))
    return out


max_pool = primitive(
    "max_pool",
    GENERAL,
    [lambda ct, x, out, windows: to_winners(ct, winners(x, out, windows), windows)],
    parameters="windows",
    forward=lambda x, windows: _max_pool(np, x, windows),
    standard=_max_pool,
    shape_rule=_result,
    dtype_rule=lambda x, windows: x.dtype,
    samples=lambda rng: [((x,), how) for x, _, _, how in _samples(rng)],
)
winners = primitive(
    "winners",
    GENERAL,
    [None, None],
    inputs="x y",
    parameters="windows",
    forward=lambda x, y, windows: _winners(np, x, y, windows),
    standard=_winners,
    shape_rule=lambda x, y, windows: (prod(windows.kernel) * y.shape[0], *y.shape[1:]),
    dtype_rule=lambda x, y, windows: np.dtype(bool),
    samples=lambda rng: [((x, y), how) for x, y, _, how in _samples(rng)],
)
to_winners = primitive(
    "to_winners",
    LINEAR,
    [lambda ct, y, windows: from_winners(ct, y, windows), None],
    inputs="x y",
    parameters="windows",
    forward=lambda x, y, windows: _to_winners(np, x, y, windows),
    standard=_to_winners,
    shape_rule=lambda x, y, windows: (*x.shape[:2], *windows.size),
    samples=lambda rng: [((y, won), how) for _, y, won, how in _samples(rng)],
)
from_winners = primitive(
    "from_winners",
    LINEAR,
    [lambda ct, y, windows: to_winners(ct, y, windows), None],
    inputs="x y",
    parameters="windows",
    forward=lambda x, y, windows: _from_winners(np, x, y, windows),
    standard=_from_winners,
    shape_rule=lambda x, y, windows: _result(x, windows),
    samples=lambda rng: [((x, won), how) for x, _, won, how in _samples(rng)],
)
window_sums = primitive(
    "window_sums",
    LINEAR,
    [lambda ct, windows: over_windows(ct, windows)],
    parameters="windows",
    forward=lambda x, windows: _window_sums(np, x, windows),
    standard=_window_sums,
    shape_rule=_result,
    samples=lambda rng: [((x,), how) for x, _, _, how in _samples(rng)],
)
over_windows = primitive(
    "over_windows",
    LINEAR,
    [lambda ct, windows: window_sums(ct, windows)],
    parameters="windows",
    forward=lambda x, windows: _spread(np, x, windows),
    standard=_spread,
    shape_rule=lambda x, windows: (*x.shape[:2], *windows.size),
    samples=lambda rng: [((y,), how) for _, y, _, how in _samples(rng)],
)
