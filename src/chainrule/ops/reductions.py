"""Reductions: what folds axes away.

`axes` is a sorted tuple, `keepdims` a bool: public functions normalise them at the door.  Norms and variances are in
`norms`, softmax and its kin in `normalised`.
"""

from __future__ import annotations

from math import prod as product
from typing import Any

import numpy as np

from chainrule.core.primitive import Function, Rule, primitive
from chainrule.ops.arguments import ALL_AXES, as_operand, one_axis, real_dtype, some_axes
from chainrule.ops.elementwise import equal, where
from chainrule.ops.families import LINEAR, REDUCTION
from chainrule.ops.views import astype, cast, permute, reshape_to, spread_to
from chainrule.types import Shape

# ufuncs' stubs know no arguments by position
_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce
_largest: Any = np.maximum.reduce
_smallest: Any = np.minimum.reduce
FLOAT64 = np.dtype(np.float64)
FLOAT32 = np.dtype(np.float32)


def folded(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape that is left of `shape`."""
    if keepdims:
        return tuple(1 if k in axes else n for k, n in enumerate(shape))
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def unfolded(y: Any, x_type: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """A reduced array with its axes back, of length 1: it broadcasts against what it was reduced from."""
    return y if keepdims or not axes else reshape_to(y, folded(x_type.shape, axes, True))


def spread(ct: Any, x_type: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """A reduced array back over the shape that it was reduced from."""
    if not keepdims and len(axes) != len(x_type.shape):
        ct = reshape_to(ct, folded(x_type.shape, axes, True))
    return spread_to(ct, x_type.shape)


def fold_samples(rng: np.random.Generator) -> list[Any]:
    """Examples for the generic suite."""
    x = rng.uniform(0.3, 2.0, (2, 3, 4))
    return [((x,), (axes, keep)) for axes, keep in (((0, 1, 2), False), ((1,), True), ((0, 2), False), ((), False))]


def fold_rule(x: Any, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape of every record that has `axes` and `keepdims`."""
    return folded(x.shape, axes, keepdims)


def _shared_by_ties(ct: Any, x: Any, out: Any, x_type: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The cotangent in even shares to all entries that attain the extreme.

    The shares are counted in integers and inverted in float64: a count of 70,000 is infinite in float16, its
    reciprocal is not.
    """
    top = unfolded(out, x_type, axes, keepdims)
    attained = equal(x, top)
    share = 1.0 / cast(reduce_count(attained, axes, True), FLOAT64)
    # A selection and not a product with 0 or 1: the tangent of an entry that lost may be infinite.  Where the extreme is
    # NaN nobody attained it, and NaN is what everybody gets.
    nothing = where(equal(top, top), 0.0, top)
    return where(attained, unfolded(ct, x_type, axes, keepdims) * cast(share, ct.dtype), nothing)


def _times_others(ct: Any, x: Any, x_type: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The product of all other entries, without a division: what stands before an entry times what stands after it."""
    from chainrule.ops.joining import part
    from chainrule.ops.scans import running_product

    shape = x_type.shape
    rest = tuple(k for k in range(len(shape)) if k not in axes)
    order, last, n = rest + axes, len(rest), product(shape[k] for k in axes)
    flat = reshape_to(permute(x, order), (*(shape[k] for k in rest), n))
    before, after = running_product(flat, last, False), running_product(flat, last, True)
    others = reshape_to(part(before, last, 0, n) * part(after, last, 1, n + 1), tuple(shape[k] for k in order))
    return unfolded(ct, x_type, axes, keepdims) * permute(others, tuple(order.index(k) for k in range(len(shape))))


_ones: dict[Any, Any] = {}
_AT_ONCE = 1 << 13  # rows; sums of sums round less than one long sum


def _sum(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """NumPy's sum; over axes that come first in memory (a bias's gradient) as a product with ones, where NumPy adds row
    by row: 0.5 against 6.9 us for (200, 16).
    """
    count = len(axes)
    if not 0 < count < x.ndim or x.dtype.char not in "fd":
        return _add(x, axes, None, None, keepdims)
    front = x
    if not x.flags.c_contiguous:  # channels may be last in memory: 0.06 against 0.8 ms for (32, 32, 32, 32)
        front = x.transpose((*axes, *(k for k in range(x.ndim) if k not in axes)))
        if not front.flags.c_contiguous:
            return _add(x, axes, None, None, keepdims)
    elif axes[-1] >= count:
        return _add(x, axes, None, None, keepdims)
    shape = front.shape
    rows = shape[0] if count == 1 else product(shape[:count])
    if rows > _AT_ONCE or rows == 0:
        return _long_sum(front.reshape(rows, product(shape[count:]))).reshape(folded(x.shape, axes, keepdims))
    ones = _ones.get((rows, x.dtype))
    if ones is None:
        if len(_ones) > 64:
            _ones.clear()
        ones = _ones[rows, x.dtype] = np.ones(rows, x.dtype)
    if len(shape) == 2 and not keepdims:
        return ones.dot(front)
    return ones.dot(front.reshape(rows, -1)).reshape(folded(x.shape, axes, keepdims))


def _long_sum(x: Any) -> Any:
    """The sum over the rows of a matrix."""
    parts = [_sum(x[start : start + _AT_ONCE], (0,), False) for start in range(0, len(x), _AT_ONCE)]
    return _add(parts or x, 0)


reduce_sum = primitive(
    "sum",
    LINEAR,
    [spread],
    parameters="axes keepdims",
    forward=_sum,
    standard=lambda xp, x, axes, keepdims: xp.sum(x, axis=axes, keepdims=keepdims),
    shape_rule=fold_rule,
    dtype_rule=lambda x, axes, keepdims: _add(np.ones(1, x.dtype)).dtype,
    samples=fold_samples,
    spreads=True,
)


def _folding(name: str, rule: Rule | None, forward: Function) -> Any:
    """A record for what folds the axes `axes` away, and is no linear map."""
    return primitive(
        name,
        REDUCTION,
        [rule],
        parameters="axes keepdims",
        forward=forward,
        standard=lambda xp, x, axes, keepdims: getattr(xp, name)(x, axis=axes, keepdims=keepdims),
        shape_rule=fold_rule,
        samples=fold_samples,
    )


reduce_prod = _folding("prod", _times_others, lambda x, axes, keepdims: _multiply(x, axes, None, None, keepdims))
reduce_max = _folding("max", _shared_by_ties, lambda x, axes, keepdims: _largest(x, axes, None, None, keepdims))
reduce_min = _folding("min", _shared_by_ties, lambda x, axes, keepdims: _smallest(x, axes, None, None, keepdims))
reduce_count = _folding("count_nonzero", None, lambda x, axes, keepdims: _add(x != 0, axes, np.intp, None, keepdims))
reduce_all = _folding("all", None, lambda x, axes, keepdims: np.all(x, axis=axes, keepdims=keepdims))
reduce_any = _folding("any", None, lambda x, axes, keepdims: np.any(x, axis=axes, keepdims=keepdims))


def _position(name: str) -> Any:
    """A record for the position of an extreme along one axis."""
    return primitive(
        name,
        REDUCTION,
        [None],
        parameters="axis keepdims",
        forward=lambda x, axis, keepdims: getattr(np, name)(x, axis=axis, keepdims=keepdims),
        standard=lambda xp, x, axis, keepdims: getattr(xp, name)(x, axis=axis, keepdims=keepdims),
        shape_rule=lambda x, axis, keepdims: folded(x.shape, (axis,), keepdims),
        samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), p) for p in ((0, False), (2, True))],
    )


position_of_max = _position("argmax")
position_of_min = _position("argmin")


def _fold(name: str, record: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    x = as_operand(x)
    return record(x, some_axes(name, axis, len(x.shape)), bool(keepdims))


def sum(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum over `axis`: None for all axes, an integer, or a tuple.

    **Shapes** `x f[..., n] -> f[...]`.  Derivative: the cotangent, spread over the axes.  With `dtype`, x is cast
    first.

    >>> import chainrule as cr
    >>> cr.sum(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [4.0, 6.0]
    """
    if dtype is not None:
        x = astype(x, real_dtype("sum", dtype))
    elif getattr(x, "shape", None) is None:
        x = as_operand(x)
    axes = ALL_AXES[len(x.shape)] if axis is None else some_axes("sum", axis, len(x.shape))
    return reduce_sum(x, axes, bool(keepdims))


def mean(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean over `axis`.

    **Shapes** `x f[..., n] -> f[...]`.  Derivative: the cotangent over n, spread.  A sum of float16 is taken in
    float32, as in NumPy.

    >>> import chainrule as cr
    >>> cr.mean(cr.tensor([1.0, 2.0, 6.0])).item()
    3.0
    """
    x = as_operand(x)
    shape = x.shape
    axes = some_axes("mean", axis, len(shape))
    count = product(shape) if axis is None else product(shape[k] for k in axes)
    if getattr(x.dtype, "char", "") == "e":
        return cast(reduce_sum(cast(x, FLOAT32), axes, bool(keepdims)) / count, x.dtype)
    return reduce_sum(x, axes, bool(keepdims)) / count


def prod(x: Any, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product over `axis`.

    **Shapes** `x f[..., n] -> f[...]`.  **Derivative** the product of all other entries, found without a division, so
    that zeros are no trouble, at any order.

    >>> import chainrule as cr
    >>> cr.grad(cr.prod)(cr.tensor([0.0, 2.0, 3.0])).tolist()
    [6.0, 0.0, 0.0]
    """
    return _fold("prod", reduce_prod, x if dtype is None else astype(x, real_dtype("prod", dtype)), axis, keepdims)


def max(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest entry over `axis`.

    **Shapes** `x f[..., n] -> f[...]`.  **Derivative** 1 at the largest entry; m entries that tie get 1/m each.
    **Raises** ShapeError where there is no entry.

    >>> import chainrule as cr
    >>> cr.grad(cr.max)(cr.tensor([1.0, 3.0, 3.0])).tolist()
    [0.0, 0.5, 0.5]
    """
    return _fold("max", reduce_max, x, axis, keepdims)


def min(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest entry over `axis`.

    **Shapes** `x f[..., n] -> f[...]`.  **Derivative** 1 at the smallest entry; m entries that tie get 1/m each.
    **Raises** ShapeError where there is no entry.

    >>> import chainrule as cr
    >>> cr.min(cr.tensor([[4.0, 2.0], [1.0, 3.0]]), axis=1).tolist()
    [2.0, 1.0]
    """
    return _fold("min", reduce_min, x, axis, keepdims)


def argmax(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The position of the first largest entry along `axis`, or in row-major order where `axis` is None.

    **Shapes** `x f[..., n] -> i64[...]`.  It gets no gradient.

    >>> import chainrule as cr
    >>> cr.argmax(cr.tensor([[4.0, 2.0], [1.0, 3.0]]), axis=1).tolist()
    [0, 1]
    """
    return _find("argmax", position_of_max, x, axis, keepdims)


def argmin(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The position of the first smallest entry along `axis`, or in row-major order where `axis` is None.

    **Shapes** `x f[..., n] -> i64[...]`.  It gets no gradient.

    >>> import chainrule as cr
    >>> int(cr.argmin(cr.tensor([4.0, 2.0, 3.0])))
    1
    """
    return _find("argmin", position_of_min, x, axis, keepdims)


def _find(name: str, record: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    x = as_operand(x)
    if axis is not None:
        return record(x, one_axis(name, axis, len(x.shape)), bool(keepdims))
    found = record(reshape_to(x, (product(x.shape),)), 0, False)
    return reshape_to(found, (1,) * len(x.shape)) if keepdims else found


def count_nonzero(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """How many entries over `axis` are not zero.

    **Shapes** `x f[..., n] -> i64[...]`.  It gets no gradient.

    >>> import chainrule as cr
    >>> cr.count_nonzero(cr.tensor([[0.0, 2.0], [1.0, 3.0]]), axis=1).tolist()
    [1, 2]
    """
    return _fold("count_nonzero", reduce_count, x, axis, keepdims)


def all(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether every entry over `axis` is true.

    **Shapes** `x bool[..., n] -> bool[...]`.

    >>> import chainrule as cr
    >>> cr.all(cr.tensor([[True, True], [False, True]]), axis=1).tolist()
    [True, False]
    """
    return _fold("all", reduce_all, x, axis, keepdims)


def any(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether some entry over `axis` is true.

    **Shapes** `x bool[..., n] -> bool[...]`.

    >>> import chainrule as cr
    >>> cr.any(cr.tensor([[True, True], [False, False]]), axis=1).tolist()
    [True, False]
    """
    return _fold("any", reduce_any, x, axis, keepdims)
