"""The linear map of a layer, x Wᵀ + b: one product of two matrices whatever the rank of x.

Primitives for measured speed: composed of `matmul` and `swap` the gradient of W comes out transposed and is copied into
rows (128 -> 384 on 768 rows: 0.1 of 0.7 ms), and the bias makes a second array of the result's size.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from chainrule.core.primitive import primitive
from chainrule.errors import ShapeError, dtype_name, explain
from chainrule.ops.arguments import as_operand
from chainrule.ops.families import BILINEAR, GENERAL
from chainrule.ops.linalg import matmul, matmul_arrays
from chainrule.ops.views import reshape_to, swap
from chainrule.types import Shape


def rows_of(x: Any) -> Any:
    """All axes but the last as one."""
    return x if len(x.shape) == 2 else reshape_to(x, (prod(x.shape[:-1]), x.shape[-1]))


def _weight_rule(ct: Any, x: Any) -> Any:
    return matmul_arrays(swap(rows_of(ct)), rows_of(x))


def _product(x: Any, weight: Any) -> Any:
    if x.ndim == 2:
        return x.dot(weight.T)
    return rows_of(x).dot(weight.T).reshape(*x.shape[:-1], weight.shape[0])


def _sum(x: Any, weight: Any, bias: Any) -> Any:
    out = _product(x, weight)
    return np.add(out, bias, out=out) if out.dtype == bias.dtype else out + bias


def _standard(xp: Any, x: Any, weight: Any) -> Any:
    flat = xp.matmul(xp.reshape(x, (prod(x.shape[:-1]), x.shape[-1])), xp.matrix_transpose(weight))
    return xp.reshape(flat, (*x.shape[:-1], weight.shape[0]))


def _shape(x: Any, weight: Any, *bias: Any) -> Shape:
    return (*x.shape[:-1], weight.shape[0])


def _samples(rng: np.random.Generator) -> list[Any]:
    return [((rng.normal(size=(*front, 3)), rng.normal(size=(4, 3))), ()) for front in ((), (5,), (2, 5))]


product = primitive(
    "linear",
    BILINEAR,
    [lambda ct, weight: matmul(ct, weight), _weight_rule],
    inputs="x weight",
    forward=_product,
    standard=_standard,
    shape_rule=_shape,
    samples=_samples,
)
affine = primitive(
    "affine",
    GENERAL,
    [lambda ct, weight: matmul(ct, weight), _weight_rule, lambda ct: ct],
    inputs="x weight bias",
    forward=_sum,
    standard=lambda xp, x, weight, bias: _standard(xp, x, weight) + bias,
    shape_rule=_shape,
    samples=lambda rng: [((*operands, rng.normal(size=4)), ()) for operands, _ in _samples(rng)],
)


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input weightᵀ + bias.

    **Shapes** `input f[..., n], weight f[m, n], bias f[m] -> f[..., m]`.  **Derivative** `ct weight`, `ctᵀ input`
    over all rows at once, and the sum of `ct` over rows.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.nn.linear(cr.tensor([1.0, 10.0]), cr.tensor([[1.0, 2.0], [3.0, 4.0]]), cr.tensor([0.5, 0.0])).tolist()
    [21.5, 43.0]
    """
    input, weight = as_operand(input), as_operand(weight)
    m = _checked(input, weight)
    if bias is None:
        return product(input, weight)
    bias = as_operand(bias)
    if bias.shape != (m,):
        expected = f"bias {dtype_name(weight.dtype)}[{m}]"
        raise ShapeError(
            explain("linear", "the bias has another length", input=input, weight=weight, bias=bias, expected=expected)
        )
    return affine(input, weight, bias)


def _checked(x: Any, weight: Any) -> int:
    if len(weight.shape) != 2 or not x.shape or x.shape[-1] != weight.shape[1]:
        n = x.shape[-1] if x.shape else "n"
        expected = f"weight {dtype_name(weight.dtype)}[m, {n}]"
        turned = len(weight.shape) == 2 and x.shape and weight.shape[0] == x.shape[-1]
        remedy = "weight.T: a weight is (out, in)" if turned else ""
        raise ShapeError(explain("linear", "features differ", input=x, weight=weight, expected=expected, remedy=remedy))
    return weight.shape[0]
