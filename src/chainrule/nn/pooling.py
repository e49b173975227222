"""Pooling: the largest or the mean entry of windows; functions, and layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.core.calls import raw
from chainrule.errors import ArgumentError, explain
from chainrule.nn.module import Module
from chainrule.nn.sliding import batched, each, one, seen, windows
from chainrule.ops.creation import beside_of
from chainrule.ops.elementwise import divide
from chainrule.ops.linalg import matmul
from chainrule.ops.norms import narrow, wide
from chainrule.ops.pooling import max_pool, window_sums
from chainrule.ops.windows import Windows

Sizes = int | tuple[int, ...]
"""One integer for all axes, or one for each."""


def max_pool1d(
    input: Any,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest entry of each window along one axis; as `max_pool2d`.

    >>> import numpy as np, chainrule as cr
    >>> cr.nn.max_pool1d(np.array([[[1, 5, 2, 3]]]), 2)
    array([[[5, 3]]])
    """
    return _largest("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Any,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest entry of each window of an image.

    **Shapes** `input f[n, c, h, w] -> f[n, c, h', w']` with h' as in `conv2d`, or rounded up where `ceil_mode`; one
    image may come without n.  `stride` is the kernel's size where it is None.  Padding is never the largest: it stands
    for -inf, and integers stay integers.  **Derivative** 1 at the largest entry; m entries of a window that tie get
    1/m each, as in `max` (PyTorch: 1 at the first).  **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> x = cr.tensor([[[1.0, 2.0], [4.0, 4.0]]], requires_grad=True)
    >>> cr.nn.max_pool2d(x, 2).backward()
    >>> x.grad.tolist()
    [[[0.0, 0.0], [0.5, 0.5]]]
    """
    return _largest("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool1d(
    input: Any,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window along one axis; as `avg_pool2d`.

    >>> import numpy as np, chainrule as cr
    >>> cr.nn.avg_pool1d(np.array([[[1, 5, 2, 3]]]), 2)
    array([[[3. , 2.5]]])
    """
    return _mean("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Any,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of an image.

    **Shapes** as in `max_pool2d`.  Padding counts as zeros, or not at all without `count_include_pad`; what a last
    window reaches beyond the padding, where `ceil_mode`, never counts.  `divisor_override` divides in place of the
    count.  Means of integers are float64.  **Derivative** the cotangent over the count, spread over the window.
    **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.avg_pool2d(cr.tensor([[[1.0, 2.0], [3.0, 6.0]]]), 2).tolist()
    [[[3.0]]]
    """
    name = "avg_pool2d"
    return _mean(name, 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool1d(input: Any, output_size: Sizes) -> Any:
    """Means over as many windows as `output_size` says; as `adaptive_avg_pool2d`, along one axis."""
    return _adaptive("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Any, output_size: Sizes) -> Any:
    """Means over a grid of windows that has the size asked for: 1 is the mean of the whole image.

    **Shapes** `input f[n, c, h, w] -> f[n, c, h', w']`.  Window i of h' goes from floor(i h / h') to ceil((i+1) h / h').
    **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.adaptive_avg_pool2d(cr.tensor([[[1.0, 2.0], [3.0, 6.0]]]), 1).tolist()
    [[[3.0]]]
    """
    return _adaptive("adaptive_avg_pool2d", 2, input, output_size)


# --------------------------------------------------------------------------------------------------------- how they do it
def _over(
    name: str, x: Any, ndim: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Windows:
    kernel = each(name, "kernel_size", kernel_size, ndim)
    strides = kernel if stride is None else each(name, "stride", stride, ndim)
    dilations, low = each(name, "dilation", dilation, ndim), each(name, "padding", padding, ndim, 0)
    if any(2 * p > d * (k - 1) + 1 for p, k, d in zip(low, kernel, dilations, strict=True)):
        fault = "padding of more than half a kernel: a window could hold nothing else"
        raise ArgumentError(explain(name, fault, padding=padding, kernel_size=kernel_size))
    return windows(name, x, kernel, strides, (low, low), dilations, ceil_mode)


def _largest(name: str, ndim: int, x: Any, *how: Any) -> Any:
    x, alone = batched(name, x, ndim)
    over = _over(name, x, ndim, *how)
    return one(max_pool(seen(x, over), over), alone)


def _mean(
    name: str,
    ndim: int,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    with_padding: bool,
    divisor: Any,
) -> Any:
    x, alone = batched(name, x, ndim)
    x, dtype = wide(x)
    over = _over(name, x, ndim, kernel, stride, padding, 1, ceil_mode)
    if divisor is None:
        counts = _counts(over, with_padding)
        divisor = float(counts.flat[0]) if (counts == counts.flat[0]).all() else beside_of(counts, raw(x))
    elif divisor == 0:
        raise ArgumentError(explain(name, "divisor_override is 0", expected="another number, or None"))
    return narrow(one(divide(window_sums(seen(x, over), over), divisor), alone), dtype)


def _counts(over: Windows, with_padding: bool) -> Any:
    """How many entries each window has."""
    total: Any = np.ones((1,) * len(over.out))
    for axis, (n, k, s, low, out) in enumerate(
        zip(over.size, over.kernel, over.stride, over.low, over.out, strict=True)
    ):
        start = np.arange(out) * s - low
        stop = np.minimum(start + k, n + low if with_padding else n)
        count = stop - (start if with_padding else np.maximum(start, 0))
        total = total * count.reshape([out if a == axis else 1 for a in range(len(over.out))])
    return total


def _adaptive(name: str, ndim: int, x: Any, output_size: Any) -> Any:
    x, alone = batched(name, x, ndim)
    x, dtype = wide(x)
    out, size = each(name, "output_size", output_size, ndim), tuple(x.shape[2:])
    if all(n % m == 0 and n for n, m in zip(size, out, strict=True)):
        kernel = tuple(n // m for n, m in zip(size, out, strict=True))
        return narrow(one(_mean(name, ndim, x, kernel, None, 0, False, True, None), alone), dtype)
    shares = [beside_of(_shares(n, m), raw(x)) for n, m in zip(size, out, strict=True)]
    y = matmul(x, shares[-1].T)
    return narrow(one(y if ndim == 1 else matmul(shares[0], y), alone), dtype)


def _shares(n: int, out: int) -> Any:
    """The matrix [out, n] that takes the means of n entries in `out` windows."""
    at, i = np.arange(n), np.arange(out)[:, None]
    held = (at >= i * n // out) & (at < -(-(i + 1) * n // out))
    return held / held.sum(axis=1, keepdims=True)


# --------------------------------------------------------------------------------------------------------------- layers
class _MaxPool(Module):
    ndim = 1

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.ceil_mode = padding, dilation, ceil_mode

    def forward(self, x: Any) -> Any:
        """The largest entry of each window."""
        how = self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        return _largest(type(self).__name__, self.ndim, x, *how)


class _AvgPool(Module):
    ndim = 1
    divisor_override: int | None = None

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad

    def forward(self, x: Any) -> Any:
        """The mean of each window."""
        how = self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override
        return _mean(type(self).__name__, self.ndim, x, *how)


class MaxPool1d(_MaxPool):
    """The largest entry of each window along one axis: `max_pool1d`."""


class MaxPool2d(_MaxPool):
    """The largest entry of each window of an image: `max_pool2d`.

    >>> import chainrule as cr
    >>> cr.nn.MaxPool2d(2)(cr.ones((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    ndim = 2


class AvgPool1d(_AvgPool):
    """The mean of each window along one axis: `avg_pool1d`."""


class AvgPool2d(_AvgPool):
    """The mean of each window of an image: `avg_pool2d`.

    >>> import chainrule as cr
    >>> cr.nn.AvgPool2d(2)(cr.ones((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    ndim = 2

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override


class AdaptiveAvgPool1d(Module):
    """Means over as many windows as asked for: `adaptive_avg_pool1d`."""

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = output_size

    def forward(self, x: Any) -> Any:
        """The means."""
        return adaptive_avg_pool1d(x, self.output_size)


class AdaptiveAvgPool2d(Module):
    """Means over a grid of windows of the size asked for: `adaptive_avg_pool2d`.

    >>> import chainrule as cr
    >>> cr.nn.AdaptiveAvgPool2d(1)(cr.ones((2, 3, 7, 5))).shape
    (2, 3, 1, 1)
    """

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = output_size

    def forward(self, x: Any) -> Any:
        """The means."""
        return adaptive_avg_pool2d(x, self.output_size)
