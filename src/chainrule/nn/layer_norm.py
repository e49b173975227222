"""Layers that normalise each example by itself: `LayerNorm` and `RMSNorm`."""

from __future__ import annotations

from typing import Any

from chainrule.nn import initialisers
from chainrule.nn.module import Module, parameter
from chainrule.ops.arguments import as_shape
from chainrule.ops.layer_norm import layer_norm, rms_norm


class LayerNorm(Module):
    """(x - mean) / sqrt(variance + eps) weight + bias, over the last axes, whose lengths are `normalized_shape`.

    **Shapes** `x f[..., n] -> f[..., n]`; weight, which starts at 1, and bias, at 0, f[n].  Without
    `elementwise_affine` there is neither.  **Raises** ShapeError, ArgumentError.
    **Source** Ba, Kiros and Hinton, Layer Normalization, 2016.

    >>> import chainrule as cr
    >>> cr.nn.LayerNorm(2)(cr.tensor([[1.0, 3.0]])).round().tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = None,
        generator: Any = None,
    ) -> None:
        self.normalized_shape, self.eps = as_shape("LayerNorm", normalized_shape), eps
        shape, affine = self.normalized_shape, elementwise_affine
        self.weight = initialisers.ones_(parameter(shape, dtype)) if affine else None
        self.bias = initialisers.zeros_(parameter(shape, dtype)) if affine and bias else None

    def forward(self, x: Any) -> Any:
        """x, normalised."""
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """x / sqrt(mean of x² + eps) weight, over the last axes, whose lengths are `normalized_shape`.

    **Shapes** `x f[..., n] -> f[..., n]`; weight, which starts at 1, f[n].  Without `eps` the spacing of numbers at 1
    is taken.  **Raises** ShapeError, ArgumentError.
    **Source** Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.

    >>> import chainrule as cr
    >>> (cr.nn.RMSNorm(2, eps=0.0)(cr.tensor([[1.0, 7.0]])) * 5.0).round().tolist()
    [[1.0, 7.0]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = None,
        generator: Any = None,
    ) -> None:
        self.normalized_shape, self.eps = as_shape("RMSNorm", normalized_shape), eps
        self.weight = initialisers.ones_(parameter(self.normalized_shape, dtype)) if elementwise_affine else None

    def forward(self, x: Any) -> Any:
        """x, normalised."""
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)
