"""Rows brought to mean 0 and variance 1, or to mean square 1, and scaled: layer normalisation and its root-mean-square kin.

A primitive for measured speed and memory: seven operations would keep five arrays, this keeps x.  Mean and variance are
worked out again on the way back, by products that cost less than reading them.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from chainrule.backends.registry import is_numpy
from chainrule.core.calls import is_tensor, raw, wrap
from chainrule.core.primitive import primitive
from chainrule.errors import ArgumentError, ShapeError, dtype_name, explain
from chainrule.ops.arguments import as_shape
from chainrule.ops.creation import filled
from chainrule.ops.elementwise import sqrt, square
from chainrule.ops.families import ROWS
from chainrule.ops.normalised import row_sums
from chainrule.ops.norms import narrow, wide
from chainrule.ops.reductions import mean
from chainrule.ops.views import astype, reshape_to
from chainrule.types import Shape

_TILE = 1 << 18  # bytes; see erf.py


def _tiles(rows: Any) -> list[slice]:
    step = max(1, _TILE // (rows.shape[1] * rows.itemsize))
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def _parts(rows: Any, out: Any, eps: float, centred: bool) -> tuple[Any, Any]:
    """The rows, in `out` without their mean if `centred`, and a column of the factors that bring them to size 1."""
    n = rows.shape[1]
    away = np.subtract(rows, row_sums(rows) / n, out) if centred else rows
    factor: Any = np.vecdot(away, away)[:, None] / n
    factor += eps
    return away, np.divide(1, np.sqrt(factor, factor), factor)


def _forward(x: Any, weight: Any, eps: float, centred: bool) -> Any:
    if x.dtype.char not in "fd" or weight.dtype != x.dtype or not x.size:
        return _standard(np, x, weight, eps, centred)
    rows = x.reshape(-1, x.shape[-1])
    out: Any = np.empty(rows.shape, x.dtype)
    for part in _tiles(rows):
        piece = out[part]
        away, factor = _parts(rows[part], piece, eps, centred)
        np.multiply(away, factor, piece)
        piece *= weight
    return out.reshape(x.shape)


def _standard(xp: Any, x: Any, weight: Any, eps: float, centred: bool) -> Any:
    away = x - xp.mean(x, axis=-1, keepdims=True) if centred else x
    return away / xp.sqrt(xp.mean(away * away, axis=-1, keepdims=True) + eps) * weight


def _normal(x: Any, eps: float, centred: bool) -> tuple[Any, Any]:
    """Rows of size 1 and the factors that made them, in operations that can be differentiated."""
    away = x - mean(x, axis=-1, keepdims=True) if centred else x
    factor = 1.0 / sqrt(mean(square(away), axis=-1, keepdims=True) + eps)
    return away * factor, factor


def _is_plain(*arrays: Any) -> bool:
    return all(is_numpy(a) and a.dtype is arrays[0].dtype for a in arrays) and arrays[0].dtype.char in "fd"


def _rule_x(ct: Any, x: Any, weight: Any, eps: float, centred: bool) -> Any:
    """factor (g - mean g - y mean(g y)), for y of size 1 and g = ct weight."""
    if _is_plain(ct, x, weight) and x.size:
        return _raw_rule_x(ct, x, weight, eps, centred)
    y, factor = _normal(x, eps, centred)
    g = ct * weight
    along = g - mean(g, axis=-1, keepdims=True) if centred else g
    return factor * (along - y * mean(g * y, axis=-1, keepdims=True))


def _raw_rule_x(ct: Any, x: Any, weight: Any, eps: float, centred: bool) -> Any:
    n = x.shape[-1]
    rows, cts = x.reshape(-1, n), ct.reshape(-1, n)
    out: Any = np.empty(rows.shape, x.dtype)
    work: Any = np.empty_like(rows[_tiles(rows)[0]])
    for part in _tiles(rows):
        g = out[part]
        room = work[: len(g)]
        away, factor = _parts(rows[part], room, eps, centred)
        np.multiply(cts[part], weight, g)
        g *= factor
        share: Any = np.vecdot(g, away)[:, None] / n
        share *= factor
        share *= factor
        if centred:
            g -= row_sums(g) / n
        g -= np.multiply(away, share, room)
    return out.reshape(x.shape)


def _rule_weight(ct: Any, x: Any, eps: float, centred: bool) -> Any:
    """ct y, which the engine adds up over the rows; or the sum, unless it is NaN and the engine has to see why."""
    if _is_plain(ct, x) and x.size:
        total = _raw_rule_weight(ct, x, eps, centred)
        if not np.isnan(total).any():
            return total
    return ct * _normal(x, eps, centred)[0]


def _raw_rule_weight(ct: Any, x: Any, eps: float, centred: bool) -> Any:
    n = x.shape[-1]
    rows, cts = x.reshape(-1, n), ct.reshape(-1, n)
    total: Any = np.zeros(n, x.dtype)
    work: Any = np.empty_like(rows[_tiles(rows)[0]])
    for part in _tiles(rows):
        room = work[: len(rows[part])]
        away, factor = _parts(rows[part], room, eps, centred)
        total += factor[:, 0].dot(np.multiply(away, cts[part], room))
    return total


normal_rows = primitive(
    "layer_norm",
    ROWS,
    [_rule_x, _rule_weight],
    inputs="x weight",
    parameters="eps centred",
    forward=_forward,
    standard=_standard,
    samples=lambda rng: [
        ((rng.normal(size=(2, 3, 5)), rng.normal(size=5)), (0.01, centred)) for centred in (True, False)
    ],
)


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """(x - mean) / sqrt(variance + eps) weight + bias, over the last axes, whose lengths are `normalized_shape`.

    **Shapes** `input f[..., n], weight f[n], bias f[n] -> f[..., n]`.  The variance is over n, not n - 1.
    **Raises** ShapeError, ArgumentError.  **Source** Ba, Kiros and Hinton, 2016.

    >>> import chainrule as cr
    >>> cr.nn.layer_norm(cr.tensor([[1.0, 3.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    return _layer_norm("layer_norm", input, normalized_shape, weight, bias, eps, True)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """x / sqrt(mean of x² + eps) weight, over the last axes, whose lengths are `normalized_shape`.

    **Shapes** `input f[..., n], weight f[n] -> f[..., n]`.  Without `eps` the spacing of numbers at 1 is taken.
    **Raises** ShapeError, ArgumentError.  **Source** Zhang and Sennrich, 2019.

    >>> import chainrule as cr
    >>> (cr.nn.rms_norm(cr.tensor([[1.0, 7.0]]), 2, eps=0.0) * 5.0).round().tolist()
    [[1.0, 7.0]]
    """
    return _layer_norm("rms_norm", input, normalized_shape, weight, None, eps, False)


def _layer_norm(name: str, x: Any, over: Any, weight: Any, bias: Any, eps: float | None, centred: bool) -> Any:
    x, dtype = wide(x)
    over = as_shape(name, over)
    if not over or x.shape[len(x.shape) - len(over) :] != over:
        fault = f"the last axes are not {over}" if over else "no axis to normalise over"
        raise ShapeError(explain(name, fault, input=x, normalized_shape=over))
    if eps is None:
        eps = float(np.finfo(getattr(dtype, "name", str(dtype)).rsplit(".", 1)[-1]).eps)
    if not eps >= 0:
        raise ArgumentError(explain(name, f"eps {eps!r}", expected="a number from 0"))
    n, shape = prod(over), x.shape
    if weight is None:
        ones = filled((n,), 1.0, raw(x))
        weight = wrap(ones, None) if is_tensor(x) else ones
    else:
        weight = _of_shape(name, "weight", weight, over, x)
    if len(over) > 1:
        x = reshape_to(x, (*shape[: len(shape) - len(over)], n))
    y = normal_rows(x, weight, eps, centred)
    if bias is not None:
        y = y + _of_shape(name, "bias", bias, over, x)
    return narrow(reshape_to(y, shape) if len(over) > 1 else y, dtype)


def _of_shape(name: str, what: str, value: Any, over: Shape, x: Any) -> Any:
    """A weight or bias as a vector of x's dtype."""
    if value.shape != over:
        expected = f"{what} {dtype_name(x.dtype)}[{', '.join(map(str, over))}]"
        raise ShapeError(explain(name, f"the {what} has another shape", input=x, expected=expected, **{what: value}))
    return astype(reshape_to(value, (prod(over),)) if len(over) > 1 else value, x.dtype, copy=False)
