"""Batch normalisation: the function, and layers with PyTorch's names.

A batch is divided by its biased standard deviation; the running estimate takes the unbiased variance, as in PyTorch.
A batch that a checkpoint computes again does not count again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.core.calls import raw
from chainrule.core.generators import is_again
from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.nn.initialisers import ones_, zeros_
from chainrule.nn.linear import check_sizes
from chainrule.nn.module import Module, parameter
from chainrule.ops.arguments import as_operand
from chainrule.ops.batch_norm import batch_normal
from chainrule.ops.creation import filled
from chainrule.ops.elementwise import add, divide, multiply, sqrt, subtract
from chainrule.ops.norms import narrow, wide
from chainrule.ops.views import reshape_to
from chainrule.types import Shape


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel less its mean, over the square root of its variance + eps, times weight plus bias.

    **Shapes** `input f[n, c, ...] -> f[n, c, ...]`, everything else `f[c]` or None.  In training mean and variance are
    those of the batch over all axes but channels, and the running ones, unless None, move towards them in place, by
    the share `momentum` of the way; the running variance takes the unbiased one, n / (n - 1) times as large.
    Otherwise mean and variance are the running ones.  **Derivative** through mean and variance too, at every order.
    **Raises** ShapeError, in training also for one value a channel; ArgumentError.
    **Source** Ioffe, Szegedy, Batch normalization, 2015, algorithm 1.

    >>> import chainrule as cr
    >>> cr.nn.batch_norm(cr.tensor([[1.0], [3.0]]), None, None, training=True, eps=0.0).tolist()
    [[-1.0], [1.0]]
    """
    return _normalised("batch_norm", input, running_mean, running_var, weight, bias, training, momentum, eps)


def _normalised(
    name: str, x: Any, mean: Any, var: Any, weight: Any, bias: Any, training: Any, momentum: Any, eps: float
) -> Any:
    x, dtype = wide(x)
    shape: Shape = tuple(x.shape)
    if len(shape) < 2:
        raise ShapeError(explain(name, "the input has no axis of channels", input=x, expected="[n, channels, ...]"))
    vectors = {"running_mean": mean, "running_var": var, "weight": weight, "bias": bias}
    for vector, value in vectors.items():
        if value is not None and tuple(as_operand(value).shape) != shape[1:2]:
            fault = f"{vector} has one number for each of {shape[1]} channels"
            raise ShapeError(explain(name, fault, input=x, **{vector: value}))
    if training:
        return narrow(_of_batch(name, x, mean, var, weight, bias, momentum, float(eps)), dtype)
    if mean is None or var is None:
        raise ArgumentError(explain(name, "without running estimates there is only training", remedy="training=True"))
    each = (1, shape[1], *(1,) * (len(shape) - 2))
    mean, var = (reshape_to(as_operand(value), each) for value in (mean, var))
    scale = sqrt(add(var, float(eps)))
    scale = divide(1.0, scale) if weight is None else divide(reshape_to(as_operand(weight), each), scale)
    out = multiply(subtract(x, mean), scale)
    return narrow(out if bias is None else add(out, reshape_to(as_operand(bias), each)), dtype)


def _of_batch(
    name: str, x: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: Any, eps: float
) -> Any:
    channels = x.shape[1]
    values = x.size // channels if channels else 0
    if values == 1:
        fault = "one value a channel has no variance"
        raise ShapeError(explain(name, fault, input=x, remedy="a larger batch, or eval()"))
    scale = filled((channels,), 1.0, raw(x)) if weight is None else as_operand(weight)
    shift = filled((channels,), 0.0, raw(x)) if bias is None else as_operand(bias)
    out, mean, var = batch_normal(x, scale, shift, eps)
    if values and not is_again():
        _move(running_mean, raw(mean), momentum)
        _move(running_var, raw(var) * (values / (values - 1)), momentum)
    return out


def _move(running: Any, towards: Any, momentum: Any) -> None:
    """A share of the way, in the array's own memory."""
    if running is not None:
        running = raw(running)
        running *= 1.0 - momentum
        running += momentum * towards


class BatchNorm(Module):
    """Batch normalisation of channels, which are the second axis, whatever the number of axes.

    `eps` is added to the variance; `momentum` is the share of the way that running estimates move towards those of a
    batch, or None for the average over all batches so far.  Parameters weight and bias (num_features) start as ones
    and zeros, unless not `affine`; buffers running_mean, running_var, num_batches_tracked, unless not
    `track_running_stats`: then batches are normalised by their own estimates in `eval()` too.
    **Shapes** `x f[n, num_features, ...] -> f[n, num_features, ...]`.  **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> layer = cr.nn.BatchNorm(1)
    >>> layer(cr.tensor([[1.0], [3.0]])).shape, layer.running_mean.tolist(), layer.running_var.round(6).tolist()
    ((2, 1), [0.2], [1.1])
    """

    axes: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: Any = None,
    ) -> None:
        check_sizes(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        weight = parameter(num_features, dtype)
        self.weight = ones_(weight) if affine else None
        self.bias = zeros_(parameter(num_features, dtype)) if affine else None
        self.running_mean = np.zeros(num_features, weight.dtype) if track_running_stats else None
        self.running_var = np.ones(num_features, weight.dtype) if track_running_stats else None
        self.num_batches_tracked = np.array(0) if track_running_stats else None

    def forward(self, x: Any) -> Any:
        """x, normalised."""
        name, momentum = type(self).__name__, self.momentum
        x = as_operand(x)
        if self.axes and len(x.shape) not in self.axes:
            expected = " or ".join(map(str, self.axes))
            raise ShapeError(explain(name, f"the input has {len(x.shape)} axes", input=x, expected=expected))
        if len(x.shape) > 1 and x.shape[1] != self.num_features:
            fault = f"the input has {x.shape[1]} channels"
            raise ShapeError(explain(name, fault, input=x, expected=f"[n, {self.num_features}, ...]"))
        training = self.training or self.running_mean is None
        counted = self.num_batches_tracked if self.training and not is_again() else None
        if momentum is None:
            momentum = 0.0 if counted is None else 1.0 / (counted + 1)
        how = self.running_mean, self.running_var, self.weight, self.bias, training, momentum, self.eps
        out = _normalised(name, x, *how)
        if counted is not None:
            counted += 1
        return out


class BatchNorm1d(BatchNorm):
    """Batch normalisation of x f[n, num_features] or f[n, num_features, l]; see `BatchNorm`."""

    axes = (2, 3)


class BatchNorm2d(BatchNorm):
    """Batch normalisation of images f[n, num_features, h, w]; see `BatchNorm`."""

    axes = (4,)
