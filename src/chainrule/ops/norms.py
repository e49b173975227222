"""Norms, variance and standard deviation.

Where a norm vanishes it has a kink, and its gradient is 0 by convention.  Smooth functions of a norm, such as its
square, have a second derivative there nevertheless: the quotient `ct / norm` that their gradient needs is 0/0, and its
limit is the derivative of `ct` by the norm (l'Hôpital's rule), which the graph knows.
"""

from __future__ import annotations

from math import prod as product
from math import sqrt as root
from typing import Any

import numpy as np

from chainrule.core.calls import raw
from chainrule.core.primitive import primitive
from chainrule.errors import ArgumentError, explain
from chainrule.ops.arguments import as_floating, some_axes
from chainrule.ops.elementwise import abs as absolute
from chainrule.ops.elementwise import equal, power_by, quotient_by_norm, sign, square, where
from chainrule.ops.families import LINEAR, REDUCTION
from chainrule.ops.reductions import (
    FLOAT32,
    fold_rule,
    fold_samples,
    reduce_count,
    reduce_max,
    reduce_min,
    reduce_sum,
    unfolded,
)
from chainrule.ops.views import cast

_add: Any = np.add.reduce  # whose stub knows no arguments by position


def _norm_rule(ct: Any, x: Any, out: Any, x_type: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return x * unfolded(quotient_by_norm(ct, out), x_type, axes, keepdims)


def _power_norm_rule(ct: Any, x: Any, out: Any, x_type: Any, axes: tuple[int, ...], keepdims: bool, ord: float) -> Any:
    """ct sign(x) (|x| / norm)^(ord - 1), 0 where x is: also where a power of 0 is infinite."""
    scale = unfolded(where(equal(raw(out), 0.0), 1.0, out), x_type, axes, keepdims)
    share = where(equal(raw(x), 0.0), 1.0, absolute(x) / scale)
    return unfolded(ct, x_type, axes, keepdims) * (sign(x) * power_by(share, ord - 1.0))


def _norm(xp: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return xp.sqrt(xp.sum(x * x, axis=axes, keepdims=keepdims))


def _power_norm(xp: Any, x: Any, axes: tuple[int, ...], keepdims: bool, ord: float) -> Any:
    return xp.sum(xp.abs(x) ** ord, axis=axes, keepdims=keepdims) ** (1.0 / ord)


def _centred(xp: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """x without its mean.  The first entry is taken off before that, so that equal entries give exactly 0."""
    first = tuple(slice(0, 1) if k in axes else slice(None) for k in range(len(x.shape)))
    away = x - x[first]
    count = product(x.shape[k] for k in axes)
    return away - xp.sum(away, axis=axes, keepdims=True) / max(count, 1)


length = primitive(
    "norm",
    REDUCTION,
    [_norm_rule],
    parameters="axes keepdims",
    forward=lambda x, axes, keepdims: np.sqrt(_add(x * x, axes, None, None, keepdims)),
    standard=_norm,
    shape_rule=fold_rule,
    samples=fold_samples,
)
power_norm = primitive(
    "power_norm",
    REDUCTION,
    [_power_norm_rule],
    parameters="axes keepdims ord",
    forward=lambda x, axes, keepdims, ord: _power_norm(np, x, axes, keepdims, ord),
    standard=_power_norm,
    shape_rule=lambda x, axes, keepdims, ord: fold_rule(x, axes, keepdims),
    samples=lambda rng: [
        ((rng.uniform(0.3, 2.0, (2, 3)),), p) for p in (((0, 1), False, 3.0), ((1,), True, 1.5), ((0,), False, -2.0))
    ],
)
# a primitive because only together do the two steps give exact zeros; it is symmetric, so its own transpose
centred = primitive(
    "centred",
    LINEAR,
    [lambda ct, axes: centred(ct, axes)],
    parameters="axes",
    forward=lambda x, axes: _centred(np, x, axes),
    standard=_centred,
    shape_rule=lambda x, axes: x.shape,
    dtype_rule=lambda x, axes: x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64),
    samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), (axes,)) for axes in ((0, 1, 2), (1,))],
)


def var(x: Any, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The mean squared distance from the mean over `axis`, over n - correction.

    **Shapes** `x f[..., n] -> f[...]`.  **Derivative** 2 (x - mean) / (n - correction).  Equal entries give exactly
    0, gradient included.

    >>> import chainrule as cr
    >>> cr.var(cr.tensor([1.0, 2.0, 6.0]), correction=1).item()
    7.0
    """
    x, dtype = wide(x)
    axes = some_axes("var", axis, len(x.shape))
    total = reduce_sum(square(centred(x, axes)), axes, bool(keepdims))
    return narrow(total / max(product(x.shape[k] for k in axes) - correction, 0.0), dtype)


def std(x: Any, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The square root of the variance over `axis`.

    **Shapes** `x f[..., n] -> f[...]`.  **Derivative** (x - mean) / ((n - correction) std), and 0 where all entries
    are equal.

    >>> import chainrule as cr
    >>> cr.grad(cr.std)(cr.tensor([1.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    x, dtype = wide(x)
    axes = some_axes("std", axis, len(x.shape))
    free = max(product(x.shape[k] for k in axes) - correction, 0.0)
    out = length(centred(x, axes), axes, bool(keepdims))
    return narrow(out / root(free), dtype)


def wide(x: Any) -> tuple[Any, Any]:
    """x, float16 as float32, as in NumPy's moments, since squares and sums overflow at 65,504; and its own dtype."""
    x = as_floating(x)
    return (cast(x, FLOAT32) if getattr(x.dtype, "char", "") == "e" else x), x.dtype


def narrow(y: Any, dtype: Any) -> Any:
    return y if y.dtype == dtype else cast(y, dtype)


def vector_norm(x: Any, *, axis: Any = None, keepdims: bool = False, ord: Any = 2.0) -> Any:
    """The length of vectors over `axis`: (sum |x|^ord)^(1/ord), of any real order, inf, -inf and 0 included.

    **Shapes** `x f[..., n] -> f[...]`.  **Derivative** x / norm for ord = 2, and 0 where the norm vanishes; ties of
    order inf share evenly; order 0 counts and gets no gradient.

    >>> import chainrule as cr
    >>> cr.tensor([3.0, 4.0]).norm().item()
    5.0
    """
    x, dtype = wide(x)
    axes, keepdims = some_axes("vector_norm", axis, len(x.shape)), bool(keepdims)
    if isinstance(ord, bool) or not isinstance(ord, (int, float)) or ord != ord:
        raise ArgumentError(explain("vector_norm", f"odd order {ord!r}", x=x, expected="a real number, inf or -inf"))
    return narrow(_norm_of_order(x, axes, keepdims, ord), dtype)


def _norm_of_order(x: Any, axes: tuple[int, ...], keepdims: bool, ord: float) -> Any:
    if ord == 2:
        return length(x, axes, keepdims)
    if ord == 0:
        return cast(reduce_count(x, axes, keepdims), x.dtype)
    if ord == 1:
        return reduce_sum(absolute(x), axes, keepdims)
    if ord in (float("inf"), -float("inf")):
        return (reduce_max if ord > 0 else reduce_min)(absolute(x), axes, keepdims)
    return power_norm(x, axes, keepdims, float(ord))
