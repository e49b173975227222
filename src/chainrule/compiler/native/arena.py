"""Where buffers lie in one block of memory: those that live at different times share it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ALIGNMENT = 64


class Lifetime(NamedTuple):
    """A buffer of `size` bytes, written first at time `first` and read last at time `last`."""

    size: int
    first: int
    last: int


def arranged(buffers: Sequence[Lifetime]) -> tuple[list[int], int]:
    """An offset for each, and how many bytes that takes: in order of time, each at the lowest offset that is free."""
    offsets = [0] * len(buffers)
    placed: list[tuple[int, int, int]] = []
    """(offset, end, last) of what may still live."""
    total = 0
    for k in sorted(range(len(buffers)), key=lambda k: (buffers[k].first, -buffers[k].size)):
        size, first, last = buffers[k]
        size = -(-size // ALIGNMENT) * ALIGNMENT
        placed = [p for p in placed if p[2] >= first]
        at = 0
        for offset, end, _ in sorted(placed):
            if at + size <= offset:
                break
            at = max(at, end)
        offsets[k] = at
        placed.append((at, at + size, last))
        total = max(total, at + size)
    return offsets, total
