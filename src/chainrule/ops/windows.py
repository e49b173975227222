"""Windows that slide over the axes behind the first two, for convolution and pooling.

Axes are examples, channels, then any number that are slid over.  `Windows` says in one canonical form which entries
each window reads, so that neither a stride with a remainder nor any padding is a case of its own.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from chainrule.types import Shape

Index = tuple[Any, ...]
WHOLE = slice(None)


class Windows(NamedTuple):
    """Along each axis: window i starts at entry `i * stride - low` and reads `kernel` entries, `dilation` apart.

    `size` is the length of what they slide over; beyond its ends there is padding.  `out` counts the windows.
    """

    size: Shape
    kernel: Shape
    stride: Shape
    dilation: Shape
    low: Shape
    out: Shape

    @property
    def extent(self) -> Shape:
        """How far the windows reach, from the start of the first to the end of the last."""
        each = zip(self.out, self.kernel, self.stride, self.dilation, strict=True)
        return tuple((n - 1) * s + d * (k - 1) + 1 for n, k, s, d in each)

    @property
    def is_whole(self) -> bool:
        """Whether there is no padding, and no entry that no window reaches."""
        return not any(self.low) and self.extent == self.size

    @property
    def are_apart(self) -> bool:
        """Whether no entry is read twice."""
        return all(d * (k - 1) < s for k, s, d in zip(self.kernel, self.stride, self.dilation, strict=True))

    def turned(self) -> Windows:
        """Of stride 1: windows over the results, each of which reads what one entry of x went into."""
        low = tuple(d * (k - 1) - p for k, d, p in zip(self.kernel, self.dilation, self.low, strict=True))
        return self._replace(size=self.out, low=low, out=self.size)


@lru_cache(1024)
def along(windows: Windows, axis: int) -> tuple[slice, ...]:
    """For each entry of the kernel along one axis: where the windows find it, counted from the first start."""
    n, k, s, d = (part[axis] for part in (windows.out, windows.kernel, windows.stride, windows.dilation))
    return tuple(slice(a * d, a * d + (n - 1) * s + 1, s) for a in range(k))


@lru_cache(1024)
def positions(windows: Windows) -> tuple[Index, ...]:
    """For each entry of the kernel, in row-major order, the index that reads it for all windows at once."""
    axes = [along(windows, axis) for axis in range(len(windows.out))]
    return tuple((WHOLE, WHOLE, *index) for index in product(*axes))


@lru_cache(1024)
def skips(windows: Windows) -> bool:
    """Whether some entry is read by no window."""
    for axis, (n, low) in enumerate(zip(windows.size, windows.low, strict=True)):
        read = np.zeros(low + max(n, windows.extent[axis]), bool)
        for part in along(windows, axis):
            read[part] = True
        if not read[low : low + n].all():
            return True
    return False


@lru_cache(1024)
def inside(windows: Windows) -> tuple[Index, Index]:
    """Where the entries that are read lie in what the windows reach over, and where in the array itself."""
    target: list[slice] = []
    source: list[slice] = []
    for n, low, extent in zip(windows.size, windows.low, windows.extent, strict=True):
        start = max(-low, 0)
        stop = max(min(n, extent - low), start)
        target.append(slice(start + low, stop + low))
        source.append(slice(start, stop))
    return (WHOLE, WHOLE, *target), (WHOLE, WHOLE, *source)


def padded(xp: Any, x: Any, windows: Windows, fill: Any = 0) -> Any:
    """x, cut and filled up to what the windows reach over."""
    if windows.is_whole:
        return x
    target, source = inside(windows)
    out = filled_beside(xp, x, (*x.shape[:2], *windows.extent), fill)
    out[target] = x[source]
    return out


def unpadded(xp: Any, y: Any, windows: Windows) -> Any:
    """The transpose of `padded`: what fell on padding is dropped, entries out of reach get zeros."""
    if windows.is_whole:
        return y
    target, source = inside(windows)
    out = filled_beside(xp, y, (*y.shape[:2], *windows.size), 0)
    out[source] = y[target]
    return out


def filled_beside(xp: Any, x: Any, shape: Shape, fill: Any) -> Any:
    """An array of x's dtype; in NumPy with its axes in the order in which x has them in memory."""
    return np.full_like(x, fill, shape=shape) if xp is np else xp.full(shape, fill, dtype=x.dtype)


SAMPLES = (
    Windows((5, 4), (2, 3), (2, 1), (1, 1), (0, 1), (2, 4)),  # a remainder; padding, overlap
    Windows((4,), (2,), (2,), (1,), (0,), (2,)),  # nothing left over
    Windows((6,), (2,), (3,), (2,), (3,), (3,)),  # dilation; more padding than kernel
)
"""Examples for the generic suite."""
