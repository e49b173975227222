"""Clipping gradients, by their common norm or entry by entry, in place, between `backward` and `step`."""

from __future__ import annotations

from functools import reduce
from math import inf, isfinite, nan, sqrt
from typing import Any

import numpy as np

from chainrule.core.calls import is_tensor, raw
from chainrule.errors import ArgumentError, DTypeError, explain
from chainrule.ops import elementwise, reductions, views
from chainrule.optim.arithmetic import write
from chainrule.optim.limits import is_a
from chainrule.types import Array


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """Scale all gradients by max_norm / (norm + 1e-6) where their common norm is larger; returns that norm as it was.

    The norm is (Σ |g|ᵖ)^(1/p) over all entries of all gradients, p = `norm_type`; the largest |g| for p = inf.
    Parameters without a gradient count nothing, one that comes twice counts once, and `max_norm=inf` only measures.

    **Raises** ArgumentError for a negative or NaN max_norm, a norm_type that is not above 0, no parameters, or, with
    `error_if_nonfinite`, a norm that is infinite or NaN; then nothing was scaled.
    **Source** Pascanu et al., On the difficulty of training recurrent neural networks (2013), section 3.2.

    >>> import chainrule as cr
    >>> w = cr.tensor([1.0, 1.0], requires_grad=True)
    >>> (w * cr.tensor([3.0, 4.0])).sum().backward()
    >>> cr.optim.clip_grad_norm_([w], max_norm=1.0)
    np.float64(5.0)
    >>> w.grad.round(3)
    array([0.6, 0.8])
    """
    limit, p = _number("clip_grad_norm_", "max_norm", max_norm), _number("clip_grad_norm_", "norm_type", norm_type)
    if p == 0:
        raise ArgumentError(explain("clip_grad_norm_", "norm_type must be a number above 0", norm_type=norm_type))
    gradients = _gradients("clip_grad_norm_", parameters)
    if not all(type(g) is np.ndarray for g in gradients):
        return _clip_any(gradients, limit, p)
    with np.errstate(all="ignore"):
        total = _norm(gradients, p)
        if error_if_nonfinite and not isfinite(total):
            fault = f"the norm of the gradients is {total}, so they cannot be clipped"
            raise ArgumentError(explain("clip_grad_norm_", fault, remedy="error_if_nonfinite=False, or skip the step"))
        factor = limit / (total + 1e-6) if limit < inf else 1.0
        if not factor >= 1.0:  # NaN too
            for g in gradients:
                np.multiply(g, factor, g)
    return (np.result_type(*gradients) if gradients else np.dtype(float)).type(total)


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Bring every entry of every gradient to within -clip_value and clip_value; NaN stays NaN.

    **Raises** ArgumentError for a negative or NaN clip_value, or no parameters.

    >>> import chainrule as cr
    >>> w = cr.tensor([1.0, 1.0], requires_grad=True)
    >>> (w * cr.tensor([3.0, -0.5])).sum().backward()
    >>> cr.optim.clip_grad_value_([w], 1.0)
    >>> w.grad
    array([ 1. , -0.5])
    """
    limit = _number("clip_grad_value_", "clip_value", clip_value)
    for g in _gradients("clip_grad_value_", parameters):
        if type(g) is np.ndarray:
            with np.errstate(all="ignore"):  # a limit beyond float32
                np.clip(g, -limit, limit, out=g)
        else:
            write(g, elementwise.clip(g, -limit, limit))


def _number(operation: str, name: str, value: Any) -> float:
    """A number that is not negative, perhaps infinite."""
    given = float(value) if is_a(value, int, float, np.number) or (is_a(value, str) and value == "inf") else nan
    if not given >= 0:
        shown: dict[str, Any] = {name: value}
        raise ArgumentError(explain(operation, f"{name} must be a number, 0 or more", **shown))
    return given


def _gradients(operation: str, parameters: Any) -> list[Array]:
    """The gradients of the parameters, each once."""
    given: list[Any] = [parameters] if is_tensor(parameters) else list(parameters)
    if not given:
        remedy = "model.parameters() anew: a generator is empty the second time"
        raise ArgumentError(explain(operation, "got no parameters", remedy=remedy))
    found: dict[int, Array] = {}
    for k, p in enumerate(given):
        if not is_tensor(p):
            raise DTypeError(explain(operation, f"parameters[{k}] is no tensor", given=p))
        g: Any = raw(p.grad)
        if g is None:
            continue
        if not hasattr(g, "shape") or g.shape != p.shape or (type(g) is np.ndarray and not g.flags.writeable):
            fault = f"the gradient of parameters[{k}] cannot be scaled in place"
            raise ArgumentError(explain(operation, fault, parameter=p, grad=g))
        if g.size:
            found[id(g)] = g
    return list(found.values())


def _norm(gradients: list[Array], p: float) -> float:
    """The common p-norm.  Squares that overflow or vanish are avoided, at the price of a second look."""
    if not gradients:
        return 0.0
    vectors: list[Array] = [g.ravel("K") for g in gradients]
    if p == 2.0:
        wide = [v if v.itemsize > 2 else v.astype(np.float32) for v in vectors]
        total = sum(float(v.dot(v)) for v in wide)
        if _TINY < total < inf:
            return sqrt(total)
    largest = float(np.max([np.abs(v).max(initial=0.0) for v in vectors]))
    if p == inf or largest == 0.0 or not isfinite(largest):
        return largest
    return largest * sum(float(((np.abs(v) / largest) ** p).sum(dtype=np.float64)) for v in vectors) ** (1.0 / p)


_TINY = 1e-30  # below, the squares of single entries may have vanished in float32


def _clip_any(gradients: list[Array], limit: float, p: float) -> Array:
    """The same on arrays of any kind, with nothing that depends on a value: what a trace sees."""
    if p == inf:
        total = reduce(elementwise.maximum, [reductions.max(elementwise.abs(g)) for g in gradients])
    else:
        powers = [reductions.sum(elementwise.pow(elementwise.abs(g), p)) for g in gradients]
        total = elementwise.pow(reduce(elementwise.add, powers), 1.0 / p)
    if limit < inf:
        factor = elementwise.minimum(elementwise.divide(limit, elementwise.add(total, 1e-6)), 1.0)
        for g in gradients:
            write(g, elementwise.multiply(g, views.astype(factor, g.dtype)))
    return total
