"""Better spellings: records whose `standard` is made for libraries that cannot be told everything.

Each takes the namespace, the arrays and the parameters of its record, and gives an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.compiler.lowering import indexing, sliding
from chainrule.compiler.lowering.arrays import Array, NoSpellingError, elementwise, loop, promoted
from chainrule.compiler.lowering.namespace import Namespace
from chainrule.ops.index import Index
from chainrule.types import Shape

_INF = float("inf")


# ---------------------------------------------------------------- elementwise
def _floating(xp: Namespace, x: Array) -> Array:
    """x in the dtype that NumPy takes exponentials in."""
    return xp.astype(x, loop(np.exp, (x.dtype,))[0])


def _exp2(xp: Namespace, x: Array) -> Array:
    return elementwise(xp.graph, "exp2", x)


def _erf(xp: Namespace, x: Array) -> Array:
    return xp.erf(x)


def _sigmoid(xp: Namespace, x: Array) -> Array:
    """One exponential: e^min(x, 0) is 1 or e^-|x|."""
    x = _floating(xp, x)
    e = xp.exp(-xp.abs(x))
    return xp.where(x < 0, e, 1.0) / (e + 1.0)


def _gate(xp: Namespace, x: Array, y: Array) -> Array:
    """Times 1 or 0, not a selection: 0 times an infinity is NaN, and must be here too."""
    return x * xp.where(y > 0, xp.ones_like(x), xp.zeros_like(x))


def _share_of_win(xp: Namespace, x: Array, y: Array) -> Array:
    dtype = promoted(x, y)
    tie = xp.where(x == y, 0.5, 0.0)
    return xp.astype(xp.where(x > y, 1.0, tie), dtype)


def _gelu(xp: Namespace, x: Array, approximate: str) -> Array:
    """Spelled as in the rule of its derivative, so that both share erf or tanh."""
    x = xp.astype(x, np.result_type(x.dtype, np.float32))
    if approximate == "none":
        return x * (0.5 * (1.0 + xp.erf(x * 0.5**0.5)))
    bend, scale = 0.044715, (2.0 / np.pi) ** 0.5
    return x * (0.5 * (1.0 + xp.tanh(x * (scale + scale * bend * x * x))))


def _silu(xp: Namespace, x: Array) -> Array:
    return x * _sigmoid(xp, x)


# ---------------------------------------------------------------- softmax and its kin
def _below_top(xp: Namespace, x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """The largest entry, 0 where there is none but -inf, and x without it."""
    if 0 in (x.shape[k] for k in axes):
        raise NoSpellingError("the largest of no entries")
    top = xp.max(x, axis=axes, keepdims=True)
    top = xp.where(top == -_INF, 0.0, top)
    return top, x - top


def _softmax(xp: Namespace, x: Array, axis: int) -> Array:
    """Times the reciprocal of the sum, which is one number for a row."""
    x = _floating(xp, x)
    if not x.size:
        return x
    weight = xp.exp(_below_top(xp, x, (axis,))[1])
    total = xp.sum(weight, axis=axis, keepdims=True)
    return weight * (1.0 / xp.where(total == 0, 1.0, total))


def _log_total(xp: Namespace, low: Array, axis: int) -> Array:
    total = xp.sum(xp.exp(low), axis=axis, keepdims=True)
    return xp.log(xp.where(total == 0, 1.0, total))


def _surprisal(xp: Namespace, x: Array, classes: Array, reduction: str) -> Array:
    """A negative class is no class: it does not count from the end."""
    x = _floating(xp, x)
    if not x.size:
        raise NoSpellingError("surprisals of no rows")
    _, low = _below_top(xp, x, (1,))
    picked = xp.array(indexing.picked(xp.graph, low.expression, classes.expression))
    losses = xp.reshape(_log_total(xp, low, 1), (x.shape[0],)) - picked
    total = losses if reduction == "none" else xp.sum(losses)
    return total / x.shape[0] if reduction == "mean" else total


def _attention_weights(xp: Namespace, x: Array, scale: float, offset: int | None) -> Array:
    x = x * scale
    if offset is not None and offset < x.shape[-1] - 1 and x.size:
        seen = xp.array(indexing.compared(xp.graph, "greater_equal", x.shape, offset))
        x = xp.where(seen, x, -_INF)
    return _softmax(xp, x, x.ndim - 1)


# ---------------------------------------------------------------- normalisation, spelled as in the rules
def _layer_norm(xp: Namespace, x: Array, weight: Array, eps: float, centred: bool) -> Array:
    away = x - xp.mean(x, axis=-1, keepdims=True) if centred else x
    factor = 1.0 / xp.sqrt(xp.mean(away * away, axis=-1, keepdims=True) + eps)
    return away * factor * weight


# ---------------------------------------------------------------- reading and writing
def _gather(xp: Namespace, x: Array, index: Index) -> Array:
    return xp.array(indexing.gathered(xp.graph, x.expression, index))


def _scatter(xp: Namespace, x: Array, index: Any, shape: Shape) -> Array:
    if isinstance(index, Index):
        return xp.array(indexing.scattered(xp.graph, x.expression, index, shape))
    return xp.array(indexing.spread(xp.graph, x.expression, index, shape))


def _setitem(xp: Namespace, x: Array, v: Array, index: Any) -> Array:
    v = xp.astype(v, x.dtype)
    if isinstance(index, Index):
        return xp.array(indexing.overwritten(xp.graph, x.expression, v.expression, index))
    return xp.array(indexing.written(xp.graph, x.expression, v.expression, index))


def _take(xp: Namespace, x: Array, indices: Array, axis: int) -> Array:
    return xp.take(x, indices, axis)


def _scatter_along(xp: Namespace, x: Array, indices: Array, axis: int, length: int) -> Array:
    return xp.array(indexing.accumulated(xp.graph, x.expression, indices.expression, axis, length))


def _scatter_along_axis(xp: Namespace, x: Array, indices: Array, axis: int, length: int) -> Array:
    return xp.array(indexing.accumulated_along(xp.graph, x.expression, indices.expression, axis, length))


def _on_diagonal(xp: Namespace, x: Array, size: Shape, offset: int) -> Array:
    return xp.array(indexing.on_diagonal(xp.graph, x.expression, size, offset))


SPELLINGS: dict[str, Callable[..., Any]] = {
    **sliding.SPELLINGS,
    "exp2": _exp2,
    "sigmoid": _sigmoid,
    "gate": _gate,
    "share_of_win": _share_of_win,
    "erf": _erf,
    "gelu": _gelu,
    "silu": _silu,
    "softmax": _softmax,
    "surprisal": _surprisal,
    "attention_weights": _attention_weights,
    "layer_norm": _layer_norm,
    "gather": _gather,
    "scatter": _scatter,
    "setitem": _setitem,
    "take": _take,
    "scatter_along": _scatter_along,
    "scatter_along_axis": _scatter_along_axis,
    "on_diagonal": _on_diagonal,
}
"""By the name of the record."""
OPAQUE = frozenset({"argsort", "searchsorted", "running_sum", "running_product", "recurrence"})
"""What runs as NumPy's own code, on purpose: sorting and searching, and what runs along an axis step by step."""
