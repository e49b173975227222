"""Products of matrices and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.core.primitive import primitive
from chainrule.errors import ShapeError, explain
from chainrule.ops.arguments import shape_of
from chainrule.ops.families import BILINEAR
from chainrule.ops.views import expand_dims, squeeze, swap
from chainrule.types import Shape


def _expected(x: Any, y: Any) -> tuple[str, str]:
    a, b = shape_of(x), shape_of(y)
    if len(a) >= 1 and len(b) >= 2 and a[-1] != b[-2]:
        return "inner dimensions differ", f"y[..., {a[-1]}, {b[-1]}]"
    return "batch dimensions do not broadcast", "equal leading axes"


def _product_shape(x: Any, y: Any) -> Shape:
    if x.shape[-1] != y.shape[-2]:
        raise ValueError("inner dimensions differ")
    return (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])


matmul_arrays = primitive(
    "matmul",
    BILINEAR,
    [lambda ct, y: matmul_arrays(ct, swap(y)), lambda ct, x: matmul_arrays(swap(x), ct)],
    inputs="x y",
    # `dot` takes half the time of `matmul` on small matrices and is the same product
    forward=lambda x, y: x.dot(y) if x.ndim == 2 == y.ndim else np.matmul(x, y),
    standard=lambda xp, x, y: xp.matmul(x, y),
    shape_rule=_product_shape,
    expected=_expected,
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
    a, b = len(shape_of(x)), len(shape_of(y))
    if a >= 2 and b >= 2:
        return matmul_arrays(x, y)
    if a == 0 or b == 0:
        raise ShapeError(explain("matmul", "a number is no matrix", x=x, y=y, remedy="`*`"))
    out = matmul_arrays(expand_dims(x, 0) if a == 1 else x, expand_dims(y, 1) if b == 1 else y)
    if a == 1:
        return squeeze(out, (-2, -1) if b == 1 else -2)
    return squeeze(out, -1)
