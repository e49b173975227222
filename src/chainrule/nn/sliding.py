"""Arguments of convolution and pooling, normalised at the door into `Windows`."""

from __future__ import annotations

from functools import lru_cache
from operator import index as as_integer
from typing import Any

from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.ops.arguments import as_operand
from chainrule.ops.indexing import getitem
from chainrule.ops.views import reshape_to
from chainrule.ops.windows import Windows, skips
from chainrule.types import Shape


def each(operation: str, name: str, value: Any, ndim: int, least: int = 1) -> Shape:
    """One integer for each axis that is slid over, from one for all or one each.

    **Raises** ArgumentError for anything else, and for one below `least`.
    """
    try:
        given = tuple(map(as_integer, value)) if isinstance(value, (tuple, list)) else (as_integer(value),) * ndim  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    except TypeError:
        given = ()
    if len(given) != ndim or min(given) < least or isinstance(value, bool):
        expected = f"an integer of at least {least}" + (f", or {ndim} of them" if ndim > 1 else "")
        raise ArgumentError(explain(operation, f"bad {name} {value!r}", expected=expected))
    return given


def batched(operation: str, x: Any, ndim: int) -> tuple[Any, bool]:
    """x [n, c, ...], and whether it came as one example without an axis for it.

    **Raises** ShapeError for any other number of axes.
    """
    x = as_operand(x)
    axes = ", ".join(("length", "height, width", "depth, height, width")[ndim - 1 : ndim])
    if len(x.shape) == ndim + 1:
        return reshape_to(x, (1, *x.shape)), True
    if len(x.shape) != ndim + 2:
        expected = f"[n, channels, {axes}], or without n"
        raise ShapeError(explain(operation, f"the input has {len(x.shape)} axes", input=x, expected=expected))
    return x, False


def one(y: Any, alone: bool) -> Any:
    """Without the axis that `batched` put in front."""
    return reshape_to(y, y.shape[1:]) if alone else y


@lru_cache(1024)
def _windows(size: Shape, kernel: Shape, stride: Shape, dilation: Shape, low: Shape, high: Shape, up: bool) -> Windows:
    out: list[int] = []
    for n, k, s, d, before, after in zip(size, kernel, stride, dilation, low, high, strict=True):
        free = n + before + after - d * (k - 1) - 1
        count = free // s + 1
        if up and free % s and count * s < n + before:  # one more, unless it would start behind the input
            count += 1
        out.append(count if free >= 0 else 0)
    return Windows(size, kernel, stride, dilation, low, tuple(out))


def windows(
    operation: str, x: Any, kernel: Shape, stride: Shape, padding: Any, dilation: Shape, ceil_mode: bool = False
) -> Windows:
    """The windows over x [n, c, ...].  `padding`: how much before and after each axis, as a pair of shapes.

    **Raises** ShapeError where no window fits.
    """
    low, high = padding
    found = _windows(tuple(x.shape[2:]), kernel, stride, dilation, low, high, bool(ceil_mode))
    if min(found.out) < 1:
        axis = found.out.index(0)
        reach = dilation[axis] * (kernel[axis] - 1) + 1
        have = x.shape[2 + axis] + low[axis] + high[axis]
        fault = (
            f"the kernel reaches over {reach} entries along axis {axis - len(kernel)}, with padding there are {have}"
        )
        raise ShapeError(explain(operation, fault, input=x, remedy="a smaller kernel, more padding, or a larger input"))
    return found


def seen(x: Any, over: Windows) -> Any:
    """x; through an index, which remembers a NaN that it leaves out, where some entry is in no window."""
    return getitem(x, (...,)) if skips(over) else x
