"""Batch normalisation of a training batch: a primitive, for time and memory.

Composed of elementwise operations it makes ten arrays of the size of the batch and fetches each from memory several
times; here pieces that fit into the cache are finished one by one, and nothing but the operands is kept.  Where a
derivative is itself differentiated, the same rules are written out in operations.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from chainrule.backends.registry import is_numpy
from chainrule.core.primitive import primitive
from chainrule.ops.elementwise import sqrt, square
from chainrule.ops.families import GENERAL
from chainrule.ops.reductions import reduce_sum
from chainrule.ops.views import reshape_to, spread_to

_PIECE = 1 << 19  # bytes: two or three pieces fit into an L2 cache


# ----------------------------------------------------------------------------------------------------------- by NumPy
def _rows(x: Any, dtype: Any) -> Any:
    """A matrix with a row for everything but channels, which are contiguous in memory."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1), dtype).reshape(-1, x.shape[1])


def _array(rows: Any, shape: tuple[int, ...]) -> Any:
    """Rows as an array of the shape that they came from."""
    return np.moveaxis(rows.reshape(shape[0], *shape[2:], shape[1]), -1, 1)


def _pieces(rows: Any) -> list[slice]:
    step = max(1, _PIECE // max(1, rows.itemsize * rows.shape[1]))
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def _total(rows: Any) -> Any:
    """The sum over rows of one piece, in float64 because pieces are added up.  A product with ones is a fast sum."""
    return np.ones(len(rows), rows.dtype).dot(rows).astype(np.float64)


def _normalise(x: Any, w: Any, b: Any, eps: float) -> tuple[Any, Any, Any]:
    dtype = np.result_type(x, w, b)
    if dtype.kind != "f":
        raise TypeError(f"no mean and variance of {dtype}")
    rows = _rows(x, dtype)
    pieces, count, none = _pieces(rows), max(len(rows), 1), np.zeros(rows.shape[1])
    guess = (sum((_total(rows[at]) for at in pieces), none) / count).astype(dtype)
    # what rounding left of the mean, and the variance, from the differences to the rounded mean
    rest, var = none.copy(), none.copy()
    out = np.empty_like(rows)
    for at in pieces:
        away = np.subtract(rows[at], guess, out=out[at])
        rest += _total(away)
        var += _total(away * away)
    rest /= count
    var = np.maximum(var / count - rest * rest, 0.0).astype(dtype)
    scale = (w / np.sqrt(var + dtype.type(eps))).astype(dtype)
    shift = (b - rest * scale).astype(dtype)
    for at in pieces:
        away = out[at]
        away *= scale
        away += shift
    return _array(out, x.shape), (guess + rest).astype(dtype), var


def _products(ct: Any, x: Any, mean: Any) -> Any:
    """For each channel the sum of ct (x - mean)."""
    total = np.zeros(x.shape[1])
    for at in _pieces(x):
        away = x[at] - mean
        away *= ct[at]
        total += _total(away)
    return total


def _to_x(ct: Any, x: Any, w: Any, mean: Any, var: Any, eps: float) -> Any:
    dtype = np.result_type(ct, x)
    shape, count = x.shape, max(x.size // max(x.shape[1], 1), 1)
    ct, x = _rows(ct, dtype), _rows(x, dtype)
    scale = 1.0 / np.sqrt(var + var.dtype.type(eps))
    slope = (-w * scale**3 * (_products(ct, x, mean) / count)).astype(dtype)
    shift = (-w * scale * (sum((_total(ct[at]) for at in _pieces(ct)), np.zeros(x.shape[1])) / count)).astype(dtype)
    scale = (w * scale).astype(dtype)
    out = np.empty_like(x)
    for at in _pieces(x):
        away = x[at] - mean
        away *= slope
        away += shift
        away += np.multiply(ct[at], scale, out=out[at])
        out[at] = away
    return _array(out, shape)


# --------------------------------------------------------------------------------------------------- in operations
def _axes(x: Any) -> tuple[int, ...]:
    return (0, *range(2, len(x.shape)))


def _column(v: Any, x: Any) -> Any:
    """One number for each channel, so that it broadcasts against x."""
    return reshape_to(v, (1, x.shape[1], *(1,) * (len(x.shape) - 2)))


def _mean(x: Any) -> Any:
    return reduce_sum(x, _axes(x), True) / max(prod(x.shape[k] for k in _axes(x)), 1)


def _standard(x: Any, eps: float) -> tuple[Any, Any]:
    """x without its mean, and what that is divided by."""
    away = x - _mean(x)
    return away, sqrt(_mean(square(away)) + eps)


def _rule_x(cts: Any, x: Any, w: Any, out: Any, eps: float) -> Any:
    ct, for_mean, for_var = cts
    if for_mean is None and for_var is None and is_numpy(ct) and is_numpy(out[1]):
        return _to_x(ct, x, w, out[1], out[2], eps)
    away, deviation = _standard(x, eps)
    count, total = max(prod(x.shape[k] for k in _axes(x)), 1), None
    if ct is not None:
        g, score = ct * _column(w, x), away / deviation
        total = (g - _mean(g) - score * _mean(g * score)) / deviation
    if for_var is not None:
        part = _column(for_var, x) * (away * (2.0 / count))
        total = part if total is None else total + part
    if for_mean is not None:
        part = spread_to(_column(for_mean, x) / count, x.shape)
        total = part if total is None else total + part
    return total


def _rule_w(cts: Any, x: Any, out: Any, eps: float) -> Any:
    ct = cts[0]
    if ct is None:
        return None
    if is_numpy(ct) and is_numpy(out[1]):
        dtype = np.result_type(ct, x)
        total = _products(_rows(ct, dtype), _rows(x, dtype), out[1])
        return (total / np.sqrt(out[2] + out[2].dtype.type(eps))).astype(dtype)
    away, deviation = _standard(x, eps)
    return reduce_sum(ct * (away / deviation), _axes(x), False)


def _rule_b(cts: Any) -> Any:
    return None if cts[0] is None else reduce_sum(cts[0], _axes(cts[0]), False)


def _normalise_standard(xp: Any, x: Any, w: Any, b: Any, eps: float) -> Any:
    axes, each = _axes(x), (1, x.shape[1], *(1,) * (x.ndim - 2))
    count = max(prod(x.shape[k] for k in axes), 1)
    mean = xp.sum(x, axis=axes, keepdims=True) / count
    away = x - mean
    var = xp.sum(away * away, axis=axes, keepdims=True) / count
    out = away / xp.sqrt(var + eps) * xp.reshape(w, each) + xp.reshape(b, each)
    return out, xp.reshape(mean, w.shape), xp.reshape(var, w.shape)


def _types(x: Any, w: Any, b: Any, eps: float) -> list[Any]:
    dtype = np.result_type(x.dtype, w.dtype, b.dtype)
    return [(shape, dtype) for shape in (x.shape, w.shape, w.shape)]


batch_normal = primitive(
    "batch_normal",
    GENERAL,
    [_rule_x, _rule_w, _rule_b],
    doc="x by channel, standardised over everything else, times w plus b; and the means and variances",
    inputs="x w b",
    parameters="eps",
    forward=_normalise,
    standard=_normalise_standard,
    shape_rule=_types,
    samples=lambda rng: [
        ((rng.normal(size=shape), rng.normal(size=2), rng.normal(size=2)), (0.1,)) for shape in ((4, 2), (2, 2, 3))
    ],
    multiple=True,
)
