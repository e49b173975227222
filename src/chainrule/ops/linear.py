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
from chainrule.ops.arguments import ALL_AXES, shape_of
from chainrule.ops.families import BILINEAR, GENERAL
from chainrule.ops.linalg import matmul, matmul_arrays
from chainrule.ops.reductions import reduce_sum
from chainrule.ops.views import reshape_to
from chainrule.types import Shape


def rows_of(x: Any) -> Any:
    """All axes but the last as one."""
    return x if len(x.shape) == 2 else reshape_to(x, (prod(x.shape[:-1]), x.shape[-1]))


def _input_rule(ct: Any, weight: Any) -> Any:
    return matmul_arrays(ct, weight) if len(ct.shape) == 2 else matmul(ct, weight)


def _bias_rule(ct: Any) -> Any:
    return reduce_sum(ct, ALL_AXES[len(ct.shape) - 1], False)


def _product(x: Any, weight: Any) -> Any:
    if x.ndim == 2 == weight.ndim:
        return x.dot(weight.T)
    _check(x, weight)
    return rows_of(x).dot(weight.T).reshape(*x.shape[:-1], weight.shape[0])


def _sum(x: Any, weight: Any, bias: Any) -> Any:
    out = _product(x, weight)
    if bias.shape != out.shape[-1:]:
        raise ValueError("the bias has another length")
    return np.add(out, bias, out=out) if out.dtype is bias.dtype else out + bias


def _check(x: Any, weight: Any, bias: Any = None) -> None:
    if not x.shape or len(weight.shape) != 2 or x.shape[-1] != weight.shape[1]:
        raise ValueError("features differ")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError("the bias has another length")


def _standard(xp: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    _check(x, weight, bias)
    flat = xp.matmul(xp.reshape(x, (prod(x.shape[:-1]), x.shape[-1])), xp.matrix_transpose(weight))
    out = xp.reshape(flat, (*x.shape[:-1], weight.shape[0]))
    return out if bias is None else out + bias


def _shape(x: Any, weight: Any, bias: Any = None) -> Shape:
    _check(x, weight, bias)
    return (*x.shape[:-1], weight.shape[0])


def _product_of_columns(x: Any, y: Any) -> Any:
    if x.ndim == 2 == y.ndim:
        return x.T.dot(y)
    return rows_of(x).T.dot(rows_of(y))


def _samples(rng: np.random.Generator) -> list[Any]:
    return [((rng.normal(size=(*front, 3)), rng.normal(size=(4, 3))), ()) for front in ((), (5,), (2, 5))]


product = primitive(
    "linear",
    BILINEAR,
    [_input_rule, lambda ct, x: product_of_columns(ct, x)],
    inputs="x weight",
    forward=_product,
    standard=_standard,
    shape_rule=_shape,
    samples=_samples,
)
affine = primitive(
    "affine",
    GENERAL,
    [_input_rule, lambda ct, x: product_of_columns(ct, x), _bias_rule],
    inputs="x weight bias",
    forward=_sum,
    standard=_standard,
    shape_rule=_shape,
    samples=lambda rng: [((*operands, rng.normal(size=4)), ()) for operands, _ in _samples(rng)],
)
product_of_columns = primitive(
    "product_of_columns",
    BILINEAR,
    [lambda ct, y: product(y, ct), lambda ct, x: matmul(x, ct)],
    doc="xᵀ y over all rows at once, whatever axes they stand along",
    inputs="x y",
    forward=_product_of_columns,
    standard=lambda xp, x, y: xp.matmul(
        xp.matrix_transpose(xp.reshape(x, (prod(x.shape[:-1]), x.shape[-1]))),
        xp.reshape(y, (prod(y.shape[:-1]), y.shape[-1])),
    ),
    shape_rule=lambda x, y: (x.shape[-1], y.shape[-1]),
    samples=lambda rng: [
        ((rng.normal(size=(*front, 3)), rng.normal(size=(*front, 2))), ()) for front in ((), (5,), (2, 5))
    ],
)


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input weightᵀ + bias.

    **Shapes** `input f[..., n], weight f[m, n], bias f[m] -> f[..., m]`.  **Derivative** `ct weight`, `ctᵀ input`
    over all rows at once, and the sum of `ct` over rows.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.nn.linear(cr.tensor([1.0, 10.0]), cr.tensor([[1.0, 2.0], [3.0, 4.0]]), cr.tensor([0.5, 0.0])).tolist()
    [21.5, 43.0]
    """
    try:
        return product(input, weight) if bias is None else affine(input, weight, bias)
    except ShapeError:
        raise _mismatch(input, weight, bias) from None


def _mismatch(x: Any, weight: Any, bias: Any) -> ShapeError:
    """What is wrong with the shapes."""
    have, of_weight = shape_of(x), shape_of(weight)
    kind = dtype_name(weight.dtype) if hasattr(weight, "dtype") else ""
    shown = {"input": x, "weight": weight}
    if len(of_weight) == 2 and have and have[-1] == of_weight[1]:
        expected = f"bias {kind}[{of_weight[0]}]"
        return ShapeError(explain("linear", "the bias has another length", **shown, bias=bias, expected=expected))
    expected = f"weight {kind}[m, {have[-1] if have else 'n'}]"
    turned = len(of_weight) == 2 and have and of_weight[0] == have[-1]
    remedy = "weight.T: a weight is (out, in)" if turned else ""
    return ShapeError(explain("linear", "features differ", **shown, expected=expected, remedy=remedy))
