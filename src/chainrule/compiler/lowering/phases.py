"""The gradient of the input of a convolution with strides, without a multiplication by zero.

Entries of the input that lie a stride apart are met by the same part of the kernel: each such phase is a gradient of a
convolution of stride 1, and the phases lie interleaved.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import NamedTuple

from chainrule.compiler.expressions import Expression, Graph
from chainrule.ops.windows import Windows


class _Phase(NamedTuple):
    """Along one axis: entries `first`, `first + stride` ... of the input, `entries` of them."""

    entry: int
    """The first entry of the kernel that meets them; the others lie a stride apart."""
    kernel: int
    entries: int
    low: int


def helps(windows: Windows) -> bool:
    """Whether there are strides, and no dilation, under which phases would meet scattered parts of a kernel."""
    return prod(windows.stride) > 1 and prod(windows.dilation) == 1


def to_input(graph: Graph, y: Expression, w: Expression, windows: Windows, groups: int) -> Expression:
    """`convolve_to_input(y, w)` for windows with strides."""
    axes, strides = len(windows.out), windows.stride
    n, channels = y.shape[0], groups * w.shape[1]
    most = tuple(-(-size // s) for size, s in zip(windows.size, strides, strict=True))
    parts: list[Expression] = []
    for found in product(*(_phases(windows, axis) for axis in range(axes))):
        shape = (n, channels, *(f.entries for f in found))
        if all(shape) and all(f.kernel for f in found):
            part = _part(graph, y, w, windows, groups, found)
        else:
            part = graph.literal(0, y.dtype, shape)
        widths = [(0, 0), (0, 0), *((0, most_ - f.entries) for most_, f in zip(most, found, strict=True))]
        parts.append(graph.reshape(graph.pad(part, widths), (1, n, channels, *most)))
    together = graph.reshape(graph.concat(parts, 0), (*strides, n, channels, *most))
    order = [axes, axes + 1]
    for axis in range(axes):
        order += [axes + 2 + axis, axis]
    full = tuple(m * s for m, s in zip(most, strides, strict=True))
    mixed = graph.reshape(graph.permute(together, order), (n, channels, *full))
    shape = (n, channels, *windows.size)
    return graph.slice(mixed, (0,) * len(shape), shape, (1,) * len(shape))


def _phases(windows: Windows, axis: int) -> list[_Phase]:
    size, kernel, stride, low = (part[axis] for part in (windows.size, windows.kernel, windows.stride, windows.low))
    found: list[_Phase] = []
    for first in range(stride):
        entry = (first + low) % stride
        met, entries = max(0, -(-(kernel - entry) // stride)), max(0, -(-(size - first) // stride))
        found.append(_Phase(entry, met, entries, (first + low) // stride))
    return found


def _part(graph: Graph, y: Expression, w: Expression, windows: Windows, groups: int, found: tuple[_Phase, ...]) -> Expression:  # fmt: skip
    kernel, size, ones = tuple(f.kernel for f in found), tuple(f.entries for f in found), (1,) * len(found)
    starts, steps = (0, 0, *(f.entry for f in found)), (1, 1, *windows.stride)
    weights = graph.slice(w, starts, (*w.shape[:2], *kernel), steps)
    apart = Windows(size, kernel, ones, ones, tuple(f.low for f in found), windows.out)
    return graph.convolve("convolve_to_input", y, weights, (y.shape[0], groups * w.shape[1], *size), apart, groups)
