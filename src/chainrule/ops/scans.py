"""Scans: what runs along an axis and keeps every stage, and sorting.

The derivative of a running product is a linear recurrence, and the derivative of a linear recurrence is another one,
run the other way: no division anywhere, so zeros are no trouble at any order.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from chainrule.core.primitive import primitive
from chainrule.errors import ArgumentError, explain
from chainrule.ops.arguments import as_operand, one_axis, real_dtype, shape_of
from chainrule.ops.families import ALONG_AXIS, BILINEAR, LINEAR
from chainrule.ops.joining import along, pad_zeros, part
from chainrule.ops.views import astype
from chainrule.types import Shape


def _longer(x: Any, axis: int, reverse: bool) -> Shape:
    return tuple(n + (k == axis) for k, n in enumerate(x.shape))


def _accumulated_dtype(x: Any) -> Any:
    """The dtype in which NumPy sums and multiplies: small integers and bool grow."""
    return x.dtype if x.dtype.kind in "fc" else np.add.reduce(np.ones(1, x.dtype)).dtype


# ---------------------------------------------------------------- forward, for NumPy and for the others
def _running_sum(x: Any, axis: int, reverse: bool) -> Any:
    return np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)


def _running_sum_by(xp: Any, x: Any, axis: int, reverse: bool) -> Any:
    if reverse:
        return xp.flip(xp.cumulative_sum(xp.flip(x, axis=axis), axis=axis), axis=axis)
    return xp.cumulative_sum(x, axis=axis)


def _running_product(x: Any, axis: int, reverse: bool) -> Any:
    out = np.empty(_longer(x, axis, reverse), _accumulated_dtype(x))
    x, stages = (np.flip(x, axis), np.flip(out, axis)) if reverse else (x, out)
    stages[along(axis, 0)] = 1
    np.multiply.accumulate(x, axis, out.dtype, stages[along(axis, slice(1, None))])
    return out


def _running_product_by(xp: Any, x: Any, axis: int, reverse: bool) -> Any:
    stages = xp.cumulative_prod(xp.flip(x, axis=axis) if reverse else x, axis=axis, include_initial=True)
    return xp.flip(stages, axis=axis) if reverse else stages


def _recurrence(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    """s[0] = b[0], s[k + 1] = b[k + 1] + a[k] s[k].

    Step by step, because the doubling scheme multiplies stretches of `a` that may overflow beside a state of zero.
    One sequence runs in Python numbers, five times as fast as in arrays of one entry.
    """
    out: Any = np.array(b, np.result_type(a, b))
    if out.size == out.shape[axis] and out.dtype.kind == "f":
        steps, links = out.ravel().tolist(), np.ravel(a).tolist()
        if reverse:
            steps, links = steps[::-1], links[::-1]
        pairs: Any = zip(links, steps[1:], strict=True)
        visited = list(accumulate(pairs, _step, initial=steps[0]))
        return np.array(visited[::-1] if reverse else visited, out.dtype).reshape(out.shape)
    states, links = np.moveaxis(out, axis, 0), np.moveaxis(a, axis, 0)
    if reverse:
        states, links = states[::-1], links[::-1]
    for k in range(len(links)):
        states[k + 1] += links[k] * states[k]
    return out


def _step(state: float, pair: tuple[float, float]) -> float:
    return pair[1] + pair[0] * state


def _recurrence_by(xp: Any, a: Any, b: Any, axis: int, reverse: bool) -> Any:
    a, b = (xp.flip(a, axis=axis), xp.flip(b, axis=axis)) if reverse else (a, b)
    states = [b[along(axis, slice(0, 1))]]
    for k in range(a.shape[axis]):
        states.append(b[along(axis, slice(k + 1, k + 2))] + a[along(axis, slice(k, k + 1))] * states[-1])
    out = xp.concat(states, axis=axis)
    return xp.flip(out, axis=axis) if reverse else out


# ---------------------------------------------------------------- rules
def _link_rule(ct: Any, a: Any, out: Any, a_type: Any, axis: int, reverse: bool) -> Any:
    """What runs into a link times what hangs on it afterwards."""
    n = a_type.shape[axis]
    hangs = recurrence(a, ct, axis, not reverse)
    if reverse:
        return part(out, axis, 1, n + 1) * part(hangs, axis, 0, n)
    return part(out, axis, 0, n) * part(hangs, axis, 1, n + 1)


def _product_rule(ct: Any, x: Any, out: Any, x_type: Any, axis: int, reverse: bool) -> Any:
    """A running product is a recurrence whose links are the entries."""
    return _link_rule(ct, x, out, x_type, axis, reverse)


def _samples(rng: np.random.Generator) -> list[Any]:
    return [((rng.uniform(-1.5, 1.5, (2, 3, 2)),), p) for p in ((0, False), (1, True), (2, False))]


running_sum = primitive(
    "running_sum",
    LINEAR,
    [lambda ct, axis, reverse: running_sum(ct, axis, not reverse)],
    parameters="axis reverse",
    forward=_running_sum,
    standard=_running_sum_by,
    shape_rule=lambda x, axis, reverse: x.shape,
    dtype_rule=lambda x, axis, reverse: _accumulated_dtype(x),
    samples=_samples,
)
# one stage more than entries: it begins (or, reversed, ends) with the empty product
running_product = primitive(
    "running_product",
    ALONG_AXIS,
    [_product_rule],
    parameters="axis reverse",
    forward=_running_product,
    standard=_running_product_by,
    shape_rule=_longer,
    samples=_samples,
)
recurrence = primitive(
    "recurrence",
    ALONG_AXIS,
    [_link_rule, lambda ct, a, axis, reverse: recurrence(a, ct, axis, not reverse)],
    inputs="a b",
    parameters="axis reverse",
    forward=_recurrence,
    standard=_recurrence_by,
    shape_rule=lambda a, b, axis, reverse: b.shape,
    dtype_rule=lambda a, b, axis, reverse: np.result_type(a.dtype, b.dtype),
    samples=lambda rng: [
        ((rng.uniform(-1.5, 1.5, a), rng.uniform(-1.5, 1.5, b)), (axis, reverse))
        for a, b, axis, reverse in (((3,), (4,), 0, False), ((2, 3, 2), (2, 4, 2), 1, True), ((0, 2), (1, 2), 0, False))
    ],
)


# ---------------------------------------------------------------- sorting
def _order(x: Any, axis: int, descending: bool) -> Any:
    """Stable in both directions: NumPy has no descending order, so count positions from the end of the mirror image."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


order_of = primitive(
    "argsort",
    ALONG_AXIS,
    [None],
    parameters="axis descending",
    forward=_order,
    standard=lambda xp, x, axis, descending: xp.argsort(x, axis=axis, descending=descending, stable=True),
    samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), p) for p in ((0, False), (2, True))],
)
# `order` is a permutation along the axis, so the way back is a gather as well, by the inverse permutation
rearrange = primitive(
    "rearrange",
    BILINEAR,
    [lambda ct, order, axis: rearrange(ct, order_of(order, axis, False), axis), None],
    inputs="x order",
    parameters="axis",
    forward=lambda x, order, axis: np.take_along_axis(x, order, axis),
    standard=lambda xp, x, order, axis: xp.take_along_axis(x, order, axis=axis),
    shape_rule=lambda x, order, axis: x.shape,
    dtype_rule=lambda x, order, axis: x.dtype,
    samples=lambda rng: [((x := rng.normal(size=(2, 3, 4)), np.argsort(x, axis)), (axis,)) for axis in (0, 2)],
)


def _scanned_axis(name: str, x: Any, axis: Any) -> int:
    ndim = len(shape_of(x))
    if axis is None and ndim != 1:
        raise ArgumentError(explain(name, f"no axis given for {ndim} dimensions", x=x, remedy="axis="))
    return one_axis(name, 0 if axis is None else axis, ndim)


def cumulative_sum(x: Any, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Running sums along `axis`, which a vector may leave out.

    **Shapes** `x f[..., n] -> f[..., n]`, or n + 1 with `include_initial`, where a 0 comes first.  **Derivative** the
    running sum of the cotangent from the other end.

    >>> import chainrule as cr
    >>> cr.cumulative_sum(cr.tensor([1.0, 2.0, 4.0])).tolist()
    [1.0, 3.0, 7.0]
    """
    x = as_operand(x) if dtype is None else astype(x, real_dtype("cumulative_sum", dtype))
    where = _scanned_axis("cumulative_sum", x, axis)
    if include_initial:
        x = pad_zeros(x, tuple((int(k == where), 0) for k in range(len(x.shape))))
    return running_sum(x, where, False)


def cumulative_prod(x: Any, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Running products along `axis`, which a vector may leave out.

    **Shapes** `x f[..., n] -> f[..., n]`, or n + 1 with `include_initial`, where a 1 comes first.  **Derivative** by a
    linear recurrence and without a division, so that zeros are no trouble, at any order.

    >>> import chainrule as cr
    >>> cr.grad(lambda x: cr.sum(cr.cumulative_prod(x)))(cr.tensor([2.0, 0.0, 3.0, 4.0])).tolist()
    [1.0, 32.0, 0.0, 0.0]
    """
    x = as_operand(x) if dtype is None else astype(x, real_dtype("cumulative_prod", dtype))
    where = _scanned_axis("cumulative_prod", x, axis)
    stages = running_product(x, where, False)
    return stages if include_initial else part(stages, where, 1, x.shape[where] + 1)


def argsort(x: Any, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The positions of the entries along `axis` in the order of their values; equal ones keep theirs.

    **Shapes** `x f[..., n] -> i64[..., n]`.  It gets no gradient.

    >>> import chainrule as cr
    >>> cr.argsort(cr.tensor([3.0, 1.0, 2.0]), descending=True).tolist()
    [0, 2, 1]
    """
    x = as_operand(x)
    return order_of(x, one_axis("argsort", axis, len(x.shape)), bool(descending))


def sort(x: Any, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The entries along `axis` in the order of their values.

    **Shapes** `x f[..., n] -> f[..., n]`.  **Derivative** each cotangent goes to where its entry stood.

    >>> import chainrule as cr
    >>> cr.sort(cr.tensor([3.0, 1.0, 2.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    x = as_operand(x)
    where = one_axis("sort", axis, len(x.shape))
    return rearrange(x, order_of(x, where, bool(descending)), where)
