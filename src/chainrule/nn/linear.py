"""Layers that are one matrix: `Linear`."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.nn import initialisers
from chainrule.nn.module import Module, parameter
from chainrule.ops.arguments import as_operand
from chainrule.ops.elementwise import add
from chainrule.ops.linalg import matmul
from chainrule.ops.views import permute_dims


def count(operation: str, **sizes: Any) -> None:
    """**Raises** ArgumentError for a size that is no positive integer."""
    for name, size in sizes.items():
        given: dict[str, Any] = {name: size}
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
            raise ArgumentError(explain(operation, f"{name} is no positive integer", **given))


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias.

    **Shapes** `input f[..., in], weight f[out, in], bias f[out] -> f[..., out]`.  **Raises** ShapeError.

    >>> import chainrule as cr, numpy as np
    >>> cr.nn.linear(np.array([1.0, 2.0]), np.array([[3.0, 4.0]]), np.array([0.5]))
    array([11.5])
    """
    input, weight = as_operand(input), as_operand(weight)
    if len(weight.shape) != 2 or not input.shape or input.shape[-1] != weight.shape[1]:
        expected = f"f[..., {weight.shape[1]}]" if len(weight.shape) == 2 else "a weight of two axes, (out, in)"
        raise ShapeError(
            explain("linear", "inputs do not fit the weight", input=input, weight=weight, expected=expected)
        )
    out = matmul(input, permute_dims(weight, (1, 0)))
    return out if bias is None else add(out, bias)


class Linear(Module):
    """y = x @ weight.T + bias.

    **Shapes** `x f[..., in_features] -> f[..., out_features]`; weight (out_features, in_features).  Both start evenly
    between ±1/sqrt(in_features), as in PyTorch.  **Raises** ArgumentError, ShapeError.

    >>> import chainrule as cr
    >>> cr.nn.Linear(3, 2, generator=cr.random.generator(0))
    Linear(in_features=3, out_features=2) · weight f64[2, 3] · bias f64[2] · 8 parameters
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        count("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        bound = 1.0 / sqrt(in_features)  # kaiming_uniform_ with a = sqrt(5)
        self.weight = initialisers.uniform_(parameter((out_features, in_features), dtype), -bound, bound, generator)
        self.bias = initialisers.uniform_(parameter(out_features, dtype), -bound, bound, generator) if bias else None

    def forward(self, x: Any) -> Any:
        """x @ weight.T + bias."""
        return linear(x, self.weight, self.bias)
