"""Products of matrices and what is made of them.

One record, the product of stacks of matrices; vectors, tensors and sums of products are brought to it by reshaping.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index as as_integer
from typing import Any

import numpy as np

from chainrule.core.primitive import primitive
from chainrule.errors import ArgumentError, ShapeError, dtype_name, explain
from chainrule.ops.arguments import as_operand, one_axis, shape_of
from chainrule.ops.arranging import diagonal
from chainrule.ops.elementwise import multiply, subtract
from chainrule.ops.families import BILINEAR
from chainrule.ops.reductions import sum as total
from chainrule.ops.take import take
from chainrule.ops.views import expand_dims, permute, reshape_to, swap
from chainrule.types import Shape


def _product_shape(x: Any, y: Any) -> Shape:
    if x.shape[-1] != y.shape[-2]:
        raise ValueError("inner dimensions differ")
    return (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])


def _mismatch(x: Any, y: Any) -> Any:
    """What is wrong with the operands of a product, and what y should have been."""
    a: Any = shape_of(x)
    b: Any = shape_of(y)
    kind = dtype_name(y.dtype) if hasattr(y, "dtype") else ""
    inner = b[-2] if len(b) > 1 else b[-1]
    if a[-1] != inner:
        wanted = f"y {kind}[{a[-1]}{', ...' if len(b) > 1 else ''}]"
        if len(b) > 1 and b[-1] == a[-1]:
            wanted += " · try y.mT"
        elif len(a) > 1 and a[-2] == inner:
            wanted += " · try x.mT"
        return "inner dimensions differ", wanted
    return "the axes before the last two do not broadcast", f"y {kind}[{', '.join(map(str, (*a[:-2], *b[-2:])))}]"


matmul_arrays = primitive(
    "matmul",
    BILINEAR,
    [lambda ct, y: matmul_arrays(ct, swap(y)), lambda ct, x: matmul_arrays(swap(x), ct)],
    inputs="x y",
    # `dot` takes half the time of `matmul` on small matrices and is the same product
    forward=lambda x, y: x.dot(y) if x.ndim == 2 == y.ndim else np.matmul(x, y),
    standard=lambda xp, x, y: xp.matmul(x, y),
    shape_rule=_product_shape,
    expected=_mismatch,
    samples=lambda rng: [
        ((rng.normal(size=a), rng.normal(size=b)), ())
        for a, b in (((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((3, 4), (5, 4, 2)), ((2, 1, 2, 3), (5, 3, 2)))
    ],
)


def matmul(x: Any, y: Any) -> Any:
    """The matrix product, also of vectors and of stacks of matrices.

    **Shapes** `x f[..., m, k], y f[..., k, n] -> f[..., m, n]`; a vector is a row on the left, a column on the right,
    and its axis disappears.  **Derivative** `ct yᵀ` and `xᵀ ct`.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.matmul(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), cr.tensor([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """
    a: Any = shape_of(x)
    b: Any = shape_of(y)
    if len(a) == 2 == len(b):
        return matmul_arrays(x, y)
    if len(a) > 2 == len(b) and a[-1] == b[0]:  # one large product is faster than many, its derivative most of all
        return reshape_to(matmul_arrays(reshape_to(as_operand(x), (prod(a[:-1]), a[-1])), y), (*a[:-1], b[1]))
    if len(a) >= 2 and len(b) >= 2:
        return matmul_arrays(x, y)
    if not a or not b:
        raise ShapeError(explain("matmul", "a number is no matrix", x=x, y=y, remedy="`*`"))
    if a[-1] != (b[-2] if len(b) > 1 else b[0]):
        fault, expected = _mismatch(x, y)
        raise ShapeError(explain("matmul", fault, x=x, y=y, expected=expected))
    return _with_vector(as_operand(x), as_operand(y), a, b)


def _with_vector(x: Any, y: Any, a: Shape, b: Shape) -> Any:
    """A product with a vector on one side or on both, as one of matrices."""
    if len(b) == 1:
        out = matmul_arrays(reshape_to(x, (prod(a[:-1]), a[-1])), reshape_to(y, (b[0], 1)))
        return reshape_to(out, a[:-1])
    out = matmul_arrays(reshape_to(x, (1, a[0])), y)
    return reshape_to(out, (*b[:-2], b[-1]))


def dot(x: Any, y: Any) -> Any:
    """NumPy's `dot` where it is a product of matrices, vectors or numbers.

    **Raises** ShapeError for stacks of matrices, of which NumPy would take all pairs.
    """
    x, y = as_operand(x), as_operand(y)
    if len(x.shape) > 1 and len(y.shape) > 2:
        raise ShapeError(explain("dot", "of stacks of matrices", x=x, y=y, remedy="matmul or tensordot"))
    return matmul(x, y) if x.shape and y.shape else multiply(x, y)


def vecdot(x: Any, y: Any, *, axis: int = -1) -> Any:
    """The sum of products along one axis.

    **Shapes** `x f[..., n], y f[..., n] -> f[...]`; the other axes broadcast.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.vecdot(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), cr.tensor([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """
    x, y = as_operand(x), as_operand(y)
    a, b = x.shape, y.shape
    if not a or not b:
        raise ShapeError(explain("vecdot", "a number is no vector", x=x, y=y, remedy="`*`"))
    # an axis is counted among those that both have, from the end, because axes in front broadcast
    back = one_axis("vecdot", axis, min(len(a), len(b))) - min(len(a), len(b))
    if a[back] != b[back]:
        raise ShapeError(explain("vecdot", f"lengths along axis {axis} differ", x=x, y=y))
    if len(a) == 1 == len(b):
        return matmul(x, y)
    return total(multiply(x, y), axis=back)


def outer(x: Any, y: Any) -> Any:
    """All products of an entry of x with one of y.

    **Shapes** `x f[m], y f[n] -> f[m, n]`.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.outer(cr.tensor([1.0, 2.0]), cr.tensor([10.0, 20.0])).tolist()
    [[10.0, 20.0], [20.0, 40.0]]
    """
    x, y = as_operand(x), as_operand(y)
    if len(x.shape) != 1 or len(y.shape) != 1:
        remedy = "reshape(x, (-1,)), or einsum"
        raise ShapeError(explain("outer", "both operands are vectors", x=x, y=y, remedy=remedy))
    return multiply(reshape_to(x, (x.shape[0], 1)), y)


def tensordot(x: Any, y: Any, axes: Any = 2) -> Any:
    """The sum of products over pairs of axes.

    `axes`: how many of x's last axes meet as many of y's first; or two sequences, axes of x and their partners in y.
    **Shapes** x's other axes, then y's.  **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> cr.tensordot(cr.ones((2, 3, 4)), cr.ones((4, 3, 5)), axes=([1, 2], [1, 0])).shape
    (2, 5)
    """
    x, y = as_operand(x), as_operand(y)
    of_x, of_y = _pairs(x, y, axes)
    a, b = x.shape, y.shape
    for i, j in zip(of_x, of_y, strict=True):
        if a[i] != b[j]:
            raise ShapeError(explain("tensordot", f"axis {i} of x and axis {j} of y differ in length", x=x, y=y))
    rest_x = [k for k in range(len(a)) if k not in of_x]
    rest_y = [k for k in range(len(b)) if k not in of_y]
    left, right, inner = [a[k] for k in rest_x], [b[k] for k in rest_y], prod(a[k] for k in of_x)
    x = reshape_to(arranged(x, (*rest_x, *of_x)), (prod(left), inner))
    y = reshape_to(arranged(y, (*of_y, *rest_y)), (inner, prod(right)))
    return reshape_to(matmul_arrays(x, y), (*left, *right))


def _pairs(x: Any, y: Any, axes: Any) -> tuple[list[int], list[int]]:
    """The axes of x, and those of y that they meet."""
    a, b = len(x.shape), len(y.shape)
    if not isinstance(axes, Sequence):
        count = as_integer(axes)
        if not 0 <= count <= min(a, b):
            raise ArgumentError(explain("tensordot", f"{count} axes are more than there are", x=x, y=y))
        return list(range(a - count, a)), list(range(count))
    given: list[Any] = [list(part) if isinstance(part, Sequence) else [part] for part in axes]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if len(given) != 2 or len(given[0]) != len(given[1]):
        fault = f"axes {axes!r} are no pairs"
        raise ArgumentError(explain("tensordot", fault, x=x, y=y, expected="a number, or two sequences of one length"))
    of_x, of_y = [one_axis("tensordot", k, a) for k in given[0]], [one_axis("tensordot", k, b) for k in given[1]]
    if len(set(of_x)) < len(of_x) or len(set(of_y)) < len(of_y):
        raise ArgumentError(explain("tensordot", f"an axis is named twice in {axes!r}", x=x, y=y))
    return of_x, of_y


def arranged(x: Any, order: tuple[int, ...]) -> Any:
    """The axes in another order, without an operation where it is the same."""
    return x if order == tuple(range(len(order))) else permute(x, order)


def trace(x: Any, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The sum of a diagonal; as in NumPy of the first two axes, in `linalg` of the last two.

    **Shapes** `x f[m, n, ...] -> f[...]`.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.trace(cr.tensor([[1.0, 2.0], [3.0, 4.0]])).item()
    5.0
    """
    return total(diagonal(x, offset=offset, axis1=axis1, axis2=axis2), axis=-1)


def cross(x: Any, y: Any, *, axis: int = -1) -> Any:
    """The vector product of vectors of three components, which lie along `axis`.

    **Shapes** `x f[..., 3], y f[..., 3] -> f[..., 3]`, broadcast.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.linalg.cross(cr.tensor([1.0, 0.0, 0.0]), cr.tensor([0.0, 1.0, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    x, y = as_operand(x), as_operand(y)
    back = one_axis("cross", axis, min(len(x.shape), len(y.shape))) - min(len(x.shape), len(y.shape))
    if x.shape[back] != 3 or y.shape[back] != 3:
        raise ShapeError(explain("cross", "vectors have three components", x=x, y=y))
    x1, x2, y1, y2 = (take(v, order, back) for v in (x, y) for order in ((1, 2, 0), (2, 0, 1)))
    return subtract(multiply(x1, y2), multiply(x2, y1))


def kron(x: Any, y: Any) -> Any:
    """The Kronecker product: y, times each entry of x in turn, as blocks.

    **Shapes** `x f[m, n], y f[p, q] -> f[m p, n q]`, with any number of axes.

    >>> import chainrule as cr
    >>> cr.kron(cr.tensor([1.0, 10.0]), cr.tensor([1.0, 2.0])).tolist()
    [1.0, 2.0, 10.0, 20.0]
    """
    x, y = as_operand(x), as_operand(y)
    ndim = max(len(x.shape), len(y.shape))
    a, b = ((1,) * (ndim - len(v.shape)) + tuple(v.shape) for v in (x, y))
    blocks = multiply(
        expand_dims(reshape_to(x, a), tuple(range(1, 2 * ndim, 2))),
        expand_dims(reshape_to(y, b), tuple(range(0, 2 * ndim, 2))),
    )
    return reshape_to(blocks, tuple(m * n for m, n in zip(a, b, strict=True)))
