"""Layers that are one matrix: `Linear`."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, explain
from chainrule.nn import initialisers
from chainrule.nn.module import Module, parameter
from chainrule.ops.linear import linear


def check_sizes(operation: str, **sizes: Any) -> None:
    """**Raises** ArgumentError for a size that is no positive integer."""
    for name, size in sizes.items():
        given: dict[str, Any] = {name: size}
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
            raise ArgumentError(explain(operation, f"{name} is no positive integer", **given))


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
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        bound = 1.0 / sqrt(in_features)  # kaiming_uniform_ with a = sqrt(5)
        self.weight = initialisers.uniform_(parameter((out_features, in_features), dtype), -bound, bound, generator)
        self.bias = initialisers.uniform_(parameter(out_features, dtype), -bound, bound, generator) if bias else None

    def forward(self, x: Any) -> Any:
        """x @ weight.T + bias."""
        return linear(x, self.weight, self.bias)
