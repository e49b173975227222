"""Convolution: the functions, and layers with PyTorch's names, shapes and start.

What is computed is a cross-correlation, as in PyTorch: kernels are not turned around.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.nn.initialisers import uniform_
from chainrule.nn.linear import check_sizes
from chainrule.nn.module import Module, parameter
from chainrule.nn.sliding import batched, each, one, seen, windows
from chainrule.ops.arguments import as_operand
from chainrule.ops.convolution import convolve, convolve_and_shift, to_input
from chainrule.ops.elementwise import add
from chainrule.ops.views import reshape_to
from chainrule.ops.windows import Windows
from chainrule.types import Shape

Sizes = int | tuple[int, ...]
"""One integer for all axes, or one for each."""


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Any:
    """Kernels slid along one axis: out[n, o, i] = bias[o] + Σ_ck weight[o, c, k] input[n, c, i·stride - padding + k].

    **Shapes** `input f[n, c, l], weight f[o, c / groups, k], bias f[o] -> f[n, o, (l + 2 padding - k) // stride + 1]`.
    The rest as in `conv2d`.

    >>> import numpy as np, chainrule as cr
    >>> cr.nn.conv1d(np.array([[[1.0, 2.0, 4.0]]]), np.array([[[-1.0, 1.0]]]))
    array([[[1., 2.]]])
    """
    return _convolved("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Any:
    """Kernels slid over images.

    **Shapes** `input f[n, c, h, w], weight f[o, c / groups, kh, kw], bias f[o] -> f[n, o, h', w']` with
    h' = (h + 2 padding - dilation (kh - 1) - 1) // stride + 1; one image may come without n.  `stride`, `padding`
    (zeros), `dilation`: an integer, or one for each axis; `padding` also "valid", which is 0, or "same", which keeps
    h and w at stride 1, with the odd one at the end.  Output channels of a group see its input channels only.
    Dtypes are promoted as in a product of matrices.  **Derivative** two more convolutions, right at every order.
    **Raises** ShapeError, ArgumentError.

    The result has its channels last in memory, where the next layer reads them fastest; its shape says nothing of it.

    >>> import chainrule as cr
    >>> cr.nn.conv2d(cr.ones((1, 1, 4, 4)), cr.ones((1, 1, 3, 3)), padding=1)[0, 0, :2].tolist()
    [[4.0, 6.0, 6.0, 4.0], [6.0, 9.0, 9.0, 6.0]]
    """
    return _convolved("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Any:
    """The transpose of `conv1d`; as `conv_transpose2d`, along one axis.

    >>> import numpy as np, chainrule as cr
    >>> cr.nn.conv_transpose1d(np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0, 100.0]]]), stride=2)
    array([[[  1.,  10., 102.,  20., 200.]]])
    """
    return _transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Any:
    """The transpose of `conv2d` as a linear map of its input: each entry is spread over a window of the output.

    **Shapes** `input f[n, c, h, w], weight f[c, o / groups, kh, kw], bias f[o] -> f[n, o, h', w']` with
    h' = (h - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1.  `output_padding` chooses among the
    sizes from which `conv2d` would have made h.  **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.conv_transpose2d(cr.ones((1, 3, 4, 4)), cr.ones((3, 8, 3, 3)), stride=2, padding=1, output_padding=1).shape
    (1, 8, 8, 8)
    """
    return _transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


# --------------------------------------------------------------------------------------------------------- how they do it
def _convolved(
    name: str, ndim: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    x, alone = batched(name, x, ndim)
    weight, bias = _checked(name, ndim, x, weight, bias, groups, transposed=False)
    kernel = tuple(weight.shape[2:])
    stride, dilation = each(name, "stride", stride, ndim), each(name, "dilation", dilation, ndim)
    over = windows(name, x, kernel, stride, padding_of(name, padding, kernel, stride, dilation), dilation)
    x = seen(x, over)
    out = convolve(x, weight, over, groups) if bias is None else convolve_and_shift(x, weight, bias, over, groups)
    return one(out, alone)


def padding_of(name: str, padding: Any, kernel: Shape, stride: Shape, dilation: Shape) -> tuple[Shape, Shape]:
    """How much before and after each axis.

    **Raises** ArgumentError for "same" with a stride, and for any other word.
    """
    if not isinstance(padding, str):
        both = each(name, "padding", padding, len(kernel), 0)
        return both, both
    if padding == "valid":
        return (0,) * len(kernel), (0,) * len(kernel)
    if padding != "same" or prod(stride) != 1:
        expected = "integers, 'valid', or with stride 1 'same'"
        raise ArgumentError(explain(name, "bad padding", padding=padding, stride=stride, expected=expected))
    total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return tuple(n // 2 for n in total), tuple(n - n // 2 for n in total)


def _checked(name: str, ndim: int, x: Any, weight: Any, bias: Any, groups: Any, transposed: bool) -> tuple[Any, Any]:
    """Weight and bias as operands, which fit.

    **Raises** ShapeError, ArgumentError.
    """
    weight = as_operand(weight)
    if len(weight.shape) != ndim + 2 or 0 in weight.shape:
        first = "in, out / groups" if transposed else "out, in / groups"
        expected = f"weight [{first}, {'kernel' if ndim == 1 else 'kernel heights, widths'}]"
        raise ShapeError(explain(name, "the weight is no set of kernels", weight=weight, expected=expected))
    check_groups(name, groups, weight.shape[0], weight=weight)
    channels = weight.shape[0] if transposed else groups * weight.shape[1]
    if x.shape[1] != channels:
        fault = f"the input has {x.shape[1]} channels, the weight reads {channels}"
        expected = f"input [n, {channels}, ...]"
        raise ShapeError(explain(name, fault, input=x, weight=weight, groups=groups, expected=expected))
    count = groups * weight.shape[1] if transposed else weight.shape[0]
    if bias is not None:
        bias = as_operand(bias)
        if tuple(bias.shape) != (count,):
            raise ShapeError(
                explain(name, "the bias has one number for each output channel", bias=bias, expected=f"[{count}]")
            )
    return weight, bias


def check_groups(name: str, groups: Any, *counts: int, **operands: Any) -> None:
    """**Raises** ArgumentError for groups that do not divide the channels."""
    if isinstance(groups, bool) or not isinstance(groups, (int, np.integer)) or groups < 1:
        raise ArgumentError(explain(name, "groups is no positive integer", groups=groups))
    for channels in counts:
        if channels % groups:
            fault = f"{groups} groups do not divide {channels} channels"
            raise ArgumentError(
                explain(name, fault, **operands, groups=groups, expected="a common divisor of the channels")
            )


def _transposed(
    name: str,
    ndim: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    x, alone = batched(name, x, ndim)
    weight, bias = _checked(name, ndim, x, weight, bias, groups, transposed=True)
    stride, dilation = each(name, "stride", stride, ndim), each(name, "dilation", dilation, ndim)
    low, extra = each(name, "padding", padding, ndim, 0), each(name, "output_padding", output_padding, ndim, 0)
    if any(more >= max(s, d) for more, s, d in zip(extra, stride, dilation, strict=True)):
        fault = "output_padding below the stride or the dilation is expected"
        raise ArgumentError(explain(name, fault, output_padding=output_padding, stride=stride, dilation=dilation))
    kernel, out = tuple(weight.shape[2:]), tuple(x.shape[2:])
    full = Windows(out, kernel, stride, dilation, low, out).extent
    size = tuple(n - 2 * p + more for n, p, more in zip(full, low, extra, strict=True))
    if min(size) < 1 or min(out) < 1:
        fault = f"nothing is left of the output, its size would be {size}"
        raise ShapeError(explain(name, fault, input=x, weight=weight, padding=padding))
    y = to_input(x, weight, Windows(size, kernel, stride, dilation, low, out), groups)
    return one(y if bias is None else add(y, reshape_to(bias, (1, y.shape[1], *(1,) * ndim))), alone)


# --------------------------------------------------------------------------------------------------------------- layers
class _Convolution(Module):
    """What the layers share: their settings, and parameters that start as PyTorch's do."""

    ndim = 1
    transposed = False

    def _set_up(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes,
        dilation: Sizes,
        groups: int,
        bias: bool,
        dtype: Any,
        generator: np.random.Generator | None,
    ) -> None:
        name = type(self).__name__
        check_sizes(name, in_channels=in_channels, out_channels=out_channels)
        check_groups(name, groups, in_channels, out_channels)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = each(name, "kernel_size", kernel_size, self.ndim)
        self.stride = each(name, "stride", stride, self.ndim)
        self.dilation = each(name, "dilation", dilation, self.ndim)
        self.groups = groups
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        bound = 1.0 / sqrt(prod(shape[1:]))  # kaiming_uniform_ with a = sqrt(5)
        self.weight = uniform_(parameter(shape, dtype), -bound, bound, generator)
        self.bias = uniform_(parameter(out_channels, dtype), -bound, bound, generator) if bias else None


class _Conv(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        self._set_up(in_channels, out_channels, kernel_size, stride, dilation, groups, bias, dtype, generator)
        padding_of(type(self).__name__, padding, self.kernel_size, self.stride, self.dilation)
        self.padding = padding

    def forward(self, x: Any) -> Any:
        """The convolution of x with the weight, plus the bias."""
        name = type(self).__name__
        how = self.stride, self.padding, self.dilation, self.groups
        return _convolved(name, self.ndim, x, self.weight, self.bias, *how)


class _ConvTranspose(_Convolution):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        *,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        self._set_up(in_channels, out_channels, kernel_size, stride, dilation, groups, bias, dtype, generator)
        name = type(self).__name__
        self.padding = each(name, "padding", padding, self.ndim, 0)
        self.output_padding = each(name, "output_padding", output_padding, self.ndim, 0)

    def forward(self, x: Any) -> Any:
        """The transposed convolution of x with the weight, plus the bias."""
        name = type(self).__name__
        how = self.stride, self.padding, self.output_padding, self.groups, self.dilation
        return _transposed(name, self.ndim, x, self.weight, self.bias, *how)


class Conv1d(_Conv):
    """Kernels slid along one axis, `conv1d`; arguments, parameters and their start are PyTorch's.

    **Shapes** `x f[n, in_channels, l] -> f[n, out_channels, l']`; weight (out_channels, in_channels / groups, k), bias
    (out_channels).  Both start evenly between ±1/√(in_channels / groups · k).  **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.Conv1d(4, 8, 3, padding="same")(cr.ones((2, 4, 10))).shape
    (2, 8, 10)
    """


class Conv2d(_Conv):
    """Kernels slid over images, `conv2d`; arguments, parameters and their start are PyTorch's.

    **Shapes** `x f[n, in_channels, h, w] -> f[n, out_channels, h', w']`; weight (out_channels, in_channels / groups, kh,
    kw), bias (out_channels).  Both start evenly between ±1/√(in_channels / groups · kh kw).  **Raises** ShapeError,
    ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.Conv2d(3, 16, 3, stride=2, padding=1)(cr.ones((2, 3, 9, 9))).shape
    (2, 16, 5, 5)
    """

    ndim = 2


class ConvTranspose1d(_ConvTranspose):
    """The transpose of `Conv1d`, `conv_transpose1d`; weight (in_channels, out_channels / groups, k).

    >>> import chainrule as cr
    >>> cr.nn.ConvTranspose1d(8, 4, 4, stride=2, padding=1)(cr.ones((2, 8, 5))).shape
    (2, 4, 10)
    """


class ConvTranspose2d(_ConvTranspose):
    """The transpose of `Conv2d`, `conv_transpose2d`: from few places to many.

    **Shapes** `x f[n, in_channels, h, w] -> f[n, out_channels, h', w']`; weight (in_channels, out_channels / groups, kh,
    kw), bias (out_channels).  Both start evenly between ±1/√(out_channels / groups · kh kw), as in PyTorch.
    **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.ConvTranspose2d(16, 3, 3, stride=2, padding=1, output_padding=1)(cr.ones((2, 16, 5, 5))).shape
    (2, 3, 10, 10)
    """

    ndim = 2
