"""Windows that slide: convolution and pooling as views of windows, products and sums.

A convolution that native code has kernels for stays one operation of the graph; `expanded` says what it is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from chainrule.compiler.expressions import AxisMap, Expression
from chainrule.compiler.lowering import phases
from chainrule.compiler.lowering.arrays import Array, lifted, promoted
from chainrule.compiler.lowering.namespace import Namespace
from chainrule.compiler.lowering.peephole import Simplifying
from chainrule.ops.windows import Windows, padded, unpadded
from chainrule.types import Shape

_UNROLLED = 16
"""Kernels of up to so many entries are combined entry by entry, which fuses; larger ones by a reduction."""


# ---------------------------------------------------------------- windows
def windows_of(graph: Simplifying, x: Expression, windows: Windows) -> Expression:
    """All windows of a padded x: [n, c, *out, *kernel]."""
    rank = len(windows.out)
    maps: list[AxisMap] = [(0, ((0, 1),)), (0, ((1, 1),))]
    for k, (stride, dilation) in enumerate(zip(windows.stride, windows.dilation, strict=True)):
        maps.append((0, ((2 + k, stride), (2 + rank + k, dilation))))
    return graph.view(x, (*x.shape[:2], *windows.out, *windows.kernel), maps)


def laid_back(graph: Simplifying, parts: Expression, windows: Windows) -> Expression:
    """The adjoint of `windows_of`: entries of windows [n, c, *out, *kernel] added up where they were read."""
    rank, front = len(windows.out), parts.shape[:2]
    if windows.are_apart and all(d == 1 or k == 1 for d, k in zip(windows.dilation, windows.kernel, strict=True)):
        order = [0, 1, *(axis for k in range(rank) for axis in (2 + k, 2 + rank + k))]
        margins = [m for s, k in zip(windows.stride, windows.kernel, strict=True) for m in ((0, 0), (0, s - k))]
        rows = graph.pad(_looked_through(graph, graph.permute(parts, order)), [(0, 0), (0, 0), *margins])
        long = tuple(n * s for n, s in zip(windows.out, windows.stride, strict=True))
        whole = graph.reshape(rows, (*front, *long))
        return graph.slice(whole, (0,) * (2 + rank), (*front, *windows.extent), (1,) * (2 + rank))
    maps: list[AxisMap] = [(0, ((0, 1),)), (0, ((1, 1),))]
    for k, (stride, dilation) in enumerate(zip(windows.stride, windows.dilation, strict=True)):
        maps.append((0, ((2 + k, stride), (2 + rank + k, dilation))))
    return graph.scatter_view(parts, (*front, *windows.extent), maps)


def _spatial(first: int, windows: Windows) -> tuple[int, ...]:
    return tuple(range(first, first + len(windows.out)))


# ---------------------------------------------------------------- convolution
def is_depthwise(x_channels: int, out_channels: int, groups: int) -> bool:
    """One channel in and one out in each of several groups."""
    return groups > 1 and x_channels == groups == out_channels


def convolution(op: str) -> Callable[..., Array]:
    """The spelling of a record of CONVOLUTIONS."""

    def spelled(xp: Namespace, a: Array, b: Array, windows: Windows, groups: int) -> Array:
        dtype = promoted(a, b)
        x, y = lifted(xp.graph, a, dtype), lifted(xp.graph, b, dtype)
        shape = _result(op, x, y, windows, groups)
        if not (x.size and y.size and prod(shape)):
            return xp.full(shape, 0, dtype)
        channels = {"convolve": (x.shape[1], y.shape[0])}.get(op, (x.shape[1], y.shape[1]))
        if op == "convolve_to_input":
            channels = (groups * y.shape[1], x.shape[1])
        if dtype.kind == "f" and len(windows.out) <= 2 and not is_depthwise(*channels, groups):
            if op == "convolve_to_input" and phases.helps(windows):
                return xp.array(phases.to_input(xp.graph, x, y, windows, groups))
            return xp.array(xp.graph.convolve(op, x, y, shape, windows, groups))
        return xp.array(_EXPANSIONS[op](xp, x, y, windows, groups))

    return spelled


def _result(op: str, x: Expression, y: Expression, windows: Windows, groups: int) -> Shape:
    if op == "convolve":
        return (x.shape[0], y.shape[0], *windows.out)
    if op == "convolve_to_input":
        return (x.shape[0], groups * y.shape[1], *windows.size)
    return (y.shape[1], x.shape[1] // groups, *windows.kernel)


def expanded(graph: Simplifying, e: Expression) -> Expression:
    """One of CONVOLUTIONS as views and products."""
    windows, groups = e.attribute
    return _EXPANSIONS[e.op](Namespace(graph), *e.arguments, windows, groups)


def _columns(xp: Namespace, x: Expression, windows: Windows, groups: int) -> Expression:
    """The entries of windows as a matrix for each group: [groups, n out, channels kernel]."""
    graph = xp.graph
    reached = padded(xp, xp.array(x), windows).expression
    found = windows_of(graph, reached, windows)
    n, channels = x.shape[:2]
    width = channels // groups
    parted = graph.reshape(found, (n, groups, width, *windows.out, *windows.kernel))
    outs, kernels = _spatial(3, windows), _spatial(3 + len(windows.out), windows)
    rows = graph.permute(parted, (1, 0, *outs, 2, *kernels))
    return graph.reshape(rows, (groups, n * prod(windows.out), width * prod(windows.kernel)))


def _rows(graph: Simplifying, y: Expression, groups: int) -> Expression:
    """[n, groups channels, *out] as [groups, n out, channels]."""
    n, channels, *out = y.shape
    parted = graph.reshape(y, (n, groups, channels // groups, *out))
    moved = graph.permute(parted, (1, 0, *range(3, 3 + len(out)), 2))
    return graph.reshape(moved, (groups, n * prod(out), channels // groups))


def _kernels(graph: Simplifying, w: Expression, groups: int) -> Expression:
    """[groups, channels out, channels in kernel]."""
    return graph.reshape(w, (groups, w.shape[0] // groups, prod(w.shape[1:])))


def _swapped(graph: Simplifying, x: Expression) -> Expression:
    return graph.permute(x, (0, 2, 1))


def _forward(xp: Namespace, x: Expression, w: Expression, windows: Windows, groups: int) -> Expression:
    graph, n, count = xp.graph, x.shape[0], w.shape[0]
    if is_depthwise(x.shape[1], count, groups):
        return _by_channel(xp, x, w, windows)
    out = graph.dot(_columns(xp, x, windows, groups), _swapped(graph, _kernels(graph, w, groups)))
    parted = graph.reshape(out, (groups, n, *windows.out, count // groups))
    moved = graph.permute(parted, (1, 0, 2 + len(windows.out), *_spatial(2, windows)))
    return graph.reshape(moved, (n, count, *windows.out))


def _by_channel(xp: Namespace, x: Expression, w: Expression, windows: Windows) -> Expression:
    """A kernel for each channel: the terms of each entry of the kernel, added up."""
    graph, rank = xp.graph, len(windows.out)
    found = windows_of(graph, padded(xp, xp.array(x), windows).expression, windows)
    factors = graph.reshape(w, (1, w.shape[0], *(1,) * rank, *windows.kernel))
    terms = graph.apply("multiply", found, graph.broadcast(factors, found.shape))
    return _over_kernel(xp, "sum", "add", terms, windows)


def _over_kernel(xp: Namespace, op: str, pair: str, parts: Expression, windows: Windows) -> Expression:
    """[n, c, *out, *kernel] folded over the kernel."""
    graph, front = xp.graph, len(windows.out) + 2
    if prod(windows.kernel) > _UNROLLED:
        return graph.reduce(op, parts, _spatial(front, windows))
    total = None
    for place in np.ndindex(*windows.kernel):
        each = _entry(graph, parts, (*(slice(None),) * front, *place))
        total = each if total is None else graph.apply(pair, total, each)
    assert total is not None
    return total


_THROUGH = {"multiply", "select", "not", "less"}


def _entry(graph: Simplifying, x: Expression, index: tuple[Any, ...]) -> Expression:
    """x at an index, taken from the operands of what x is computed from, so that nothing is computed in between."""
    if x.op in _THROUGH:
        return graph.apply(x.op, *(_entry(graph, a, index) for a in x.arguments))
    return Array(graph, x)[index].expression


def _looked_through(graph: Simplifying, x: Expression) -> Expression:
    """A view of masks as masks of views: compared again where they are read, they need no memory."""
    if x.op != "view" or x.arguments[0].op not in _THROUGH:
        return x
    inner = x.arguments[0]
    return graph.apply(
        inner.op, *(_looked_through(graph, graph.view(a, x.shape, x.attribute)) for a in inner.arguments)
    )


def _to_input(xp: Namespace, y: Expression, w: Expression, windows: Windows, groups: int) -> Expression:
    graph, n, width = xp.graph, y.shape[0], w.shape[1]
    rank, count = len(windows.out), w.shape[0] // groups
    if prod(windows.stride) == 1:  # windows over y that read what an entry of x went into, by the kernel turned round
        parted = graph.reshape(w, (groups, count, width, *windows.kernel))
        moved = graph.permute(parted, (0, 2, 1, *range(3, 3 + rank)))
        turned = xp.flip(xp.array(moved), tuple(range(3, 3 + rank))).expression
        return _forward(
            xp, y, graph.reshape(turned, (groups * width, count, *windows.kernel)), windows.turned(), groups
        )
    if is_depthwise(groups * width, w.shape[0], groups):
        whole = (n, groups, *windows.out, *windows.kernel)
        each = graph.broadcast(graph.reshape(y, (*y.shape, *(1,) * rank)), whole)
        factors = graph.broadcast(graph.reshape(w, (1, groups, *(1,) * rank, *windows.kernel)), whole)
        parts = graph.apply("multiply", each, factors)
    else:
        product = graph.dot(_rows(graph, y, groups), _kernels(graph, w, groups))
        parted = graph.reshape(product, (groups, n, *windows.out, width, *windows.kernel))
        order = (1, 0, 2 + rank, *range(2, 2 + rank), *range(3 + rank, 3 + 2 * rank))
        parts = graph.reshape(graph.permute(parted, order), (n, groups * width, *windows.out, *windows.kernel))
    return unpadded(xp, xp.array(laid_back(graph, parts, windows)), windows).expression


def _to_weight(xp: Namespace, x: Expression, y: Expression, windows: Windows, groups: int) -> Expression:
    graph, count, width = xp.graph, y.shape[1], x.shape[1] // groups
    if is_depthwise(x.shape[1], count, groups):
        rank = len(windows.out)
        found = windows_of(graph, padded(xp, xp.array(x), windows).expression, windows)
        each = graph.broadcast(graph.reshape(y, (*y.shape, *(1,) * rank)), found.shape)
        total = graph.reduce("sum", graph.apply("multiply", found, each), (0, *_spatial(2, windows)))
        return graph.reshape(total, (count, width, *windows.kernel))
    product = graph.dot(_swapped(graph, _rows(graph, y, groups)), _columns(xp, x, windows, groups))
    return graph.reshape(product, (count, width, *windows.kernel))


_EXPANSIONS: dict[str, Callable[..., Expression]] = {
    "convolve": _forward, "convolve_to_input": _to_input, "convolve_to_weight": _to_weight,
}  # fmt: skip


def convolve_and_shift(xp: Namespace, x: Array, w: Array, b: Array, windows: Windows, groups: int) -> Array:
    """A convolution and a bias."""
    x, w, b = (xp.astype(a, promoted(x, w, b)) for a in (x, w, b))
    out = convolution("convolve")(xp, x, w, windows, groups)
    return out + xp.reshape(b, (1, w.shape[0], *(1,) * len(windows.out)))


# ---------------------------------------------------------------- pooling
def window_sums(xp: Namespace, x: Array, windows: Windows) -> Array:
    """The sum of each window."""
    if not x.size:
        return xp.full((*x.shape[:2], *windows.out), 0, x.dtype)
    found = windows_of(xp.graph, padded(xp, x, windows).expression, windows)
    return xp.array(_over_kernel(xp, "sum", "add", found, windows))


def over_windows(xp: Namespace, y: Array, windows: Windows) -> Array:
    """Each entry of y all over its window, added up."""
    if prod(windows.stride) == 1 and not windows.are_apart:
        return window_sums(xp, y, windows.turned())
    rank = len(windows.out)
    each = xp.reshape(y, (*y.shape, *(1,) * rank))
    parts = xp.broadcast_to(each, (*y.shape, *windows.kernel))
    return unpadded(xp, xp.array(laid_back(xp.graph, parts.expression, windows)), windows)


def _lowest(dtype: Any) -> Any:
    return -float("inf") if dtype.kind == "f" else np.iinfo(dtype).min if dtype.kind in "iu" else False


def max_pool(xp: Namespace, x: Array, windows: Windows) -> Array:
    """The largest entry of each window."""
    found = windows_of(xp.graph, padded(xp, x, windows, _lowest(x.dtype)).expression, windows)
    ops = ("any", "or") if x.dtype.kind == "b" else ("max", "maximum")
    return xp.array(_over_kernel(xp, *ops, found, windows))


def _kernel_first(xp: Namespace, x: Expression, windows: Windows) -> Expression:
    """[n, c, *out, *kernel] as [*kernel, n, c, *out]."""
    front = len(windows.out) + 2
    return xp.graph.permute(x, (*_spatial(front, windows), *range(front)))


def _kernel_last(xp: Namespace, winners: Array, windows: Windows) -> Expression:
    """Masks [kernel n, c, *out] as [n, c, *out, *kernel]."""
    rank, count = len(windows.out), winners.shape[0] // max(prod(windows.kernel), 1)
    masks = xp.graph.reshape(winners.expression, (*windows.kernel, count, *winners.shape[1:]))
    return _looked_through(xp.graph, xp.graph.permute(masks, (*range(rank, 2 * rank + 2), *range(rank))))


def winners(xp: Namespace, x: Array, top: Array, windows: Windows) -> Array:
    """Which entries are not below the largest of their window: a mask for each entry of the kernel."""
    found = windows_of(xp.graph, padded(xp, x, windows, _lowest(x.dtype)).expression, windows)
    each = xp.array(_kernel_first(xp, found, windows))
    masks = xp.logical_not(each < top)
    return xp.reshape(masks, (prod(windows.kernel) * top.shape[0], *top.shape[1:]))


def _counted(xp: Namespace, won: Expression, windows: Windows, dtype: Any) -> Array:
    """How many won."""
    one, zero = (xp.graph.literal(n, dtype, won.shape) for n in (1, 0))
    each = xp.graph.apply("select", won, one, zero)
    return xp.array(_over_kernel(xp, "sum", "add", each, windows))


def to_winners(xp: Namespace, y: Array, masks: Array, windows: Windows) -> Array:
    """Each entry of y in even shares to those that won."""
    won, rank = _kernel_last(xp, masks, windows), len(windows.out)
    if not won.size:
        return xp.full((*y.shape[:2], *windows.size), 0, y.dtype)
    share = y / _counted(xp, won, windows, y.dtype)
    each = xp.broadcast_to(xp.reshape(share, (*share.shape, *(1,) * rank)), won.shape)
    parts = xp.where(xp.array(won), each, xp.zeros_like(each))
    return unpadded(xp, xp.array(laid_back(xp.graph, parts.expression, windows)), windows)


SPELLINGS: dict[str, Callable[..., Any]] = {
    "convolve": convolution("convolve"),
    "convolve_to_input": convolution("convolve_to_input"),
    "convolve_to_weight": convolution("convolve_to_weight"),
    "convolve_and_shift": convolve_and_shift,
    "max_pool": max_pool,
    "winners": winners,
    "to_winners": to_winners,
    "window_sums": window_sums,
    "over_windows": over_windows,
}
"""By the name of the record."""
