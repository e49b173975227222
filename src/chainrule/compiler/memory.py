"""One block of memory for all values that live and die within a program, planned in bytes before it runs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import prod
from typing import Any, NamedTuple

from chainrule.backends.abstract import Equation

_NO_END = 1 << 62
ALIGNMENT = 64  # bytes: a cache line, and the widest vector


class Lifetime(NamedTuple):
    """A buffer of `size` bytes, written first at time `first` and read last at time `last`."""

    size: int
    first: int
    last: int


def arranged(buffers: Sequence[Lifetime]) -> tuple[list[int], int]:
    """An offset for each, and how many bytes that takes: in order of time, each at the lowest offset that is free."""
    offsets = [0] * len(buffers)
    starts, ends = [0], [_NO_END]
    """What is free, in order."""
    living: list[tuple[int, int, int]] = []
    """(last, offset, end), by when they may go."""
    total = 0
    for k in sorted(range(len(buffers)), key=lambda k: (buffers[k].first, -buffers[k].size)):
        size, first, last = buffers[k]
        size = -(-size // ALIGNMENT) * ALIGNMENT
        while living and living[0][0] < first:
            _, start, end = heappop(living)
            if start < end:
                _free(starts, ends, start, end)
        hole = next(i for i, start in enumerate(starts) if ends[i] - start >= size)
        at = offsets[k] = starts[hole]
        starts[hole] = at + size
        if starts[hole] == ends[hole]:
            del starts[hole], ends[hole]
        heappush(living, (last, at, at + size))
        total = max(total, at + size)
    return offsets, total


def _free(starts: list[int], ends: list[int], start: int, end: int) -> None:
    """Put a piece back among those that are free, as one with its neighbours."""
    i = bisect_left(starts, start)
    if i < len(starts) and starts[i] == end:
        end = ends[i]
        del starts[i], ends[i]
    if i > 0 and ends[i - 1] == start:
        ends[i - 1] = end
    else:
        starts.insert(i, start)
        ends.insert(i, end)


def owners_of(equations: Sequence[Equation]) -> dict[int, Equation]:
    """By number, the equation whose memory a value may look at: its own, unless it is a view or a piece.

    `equations` come in their order, inputs and constants among them.
    """
    owners: dict[int, Equation] = {}
    for equation in equations:
        source: Any = equation
        if equation.primitive == "pick":
            whole = equation.arguments[0]
            source = equation if getattr(whole.primitive, "fresh", False) else whole.arguments[0]
        elif equation.primitive is not None and equation.primitive.is_view:
            source = equation.arguments[0]
        owners[equation.number] = equation if source is equation else owners[source.number]
    return owners


def last_readers(equations: Sequence[Equation], kept: Iterable[Equation]) -> dict[int, list[Equation]]:
    """By number, the values that nobody reads after this equation, through views either; `kept` are read for ever.

    Not inputs and constants, whose memory is not the program's.
    """
    owners = owners_of(equations)
    last: dict[int, int] = {}
    for equation in equations:
        for argument in (equation, *equation.arguments):
            last[owners[argument.number].number] = equation.number
    for equation in kept:
        last.pop(owners[equation.number].number, None)
    found: dict[int, list[Equation]] = {}
    for equation in equations:
        if equation.primitive is not None and owners[equation.number] is equation and equation.number in last:
            found.setdefault(last[equation.number], []).append(equation)
    return found


def planned(
    equations: Sequence[Equation], wanted: set[int], dead: Mapping[int, Sequence[Equation]]
) -> tuple[dict[int, int], int]:
    """The offset of each of the `wanted` values, by number, and how many bytes there must be.

    `dead`: as `last_readers` gives it.  A value takes the place of an operand that nobody reads any more where a loop over
    entries may write over what it has read.
    """
    buffers: list[Lifetime] = []
    homes: dict[int, int] = {}
    for time, equation in enumerate(equations):
        gone = [e for e in dead.get(equation.number, ()) if e.number in homes]
        if equation.number in wanted:
            heir = next((e for e in gone if _may_take_over(equation, e)), None)
            if heir is None:
                homes[equation.number] = len(buffers)
                buffers.append(Lifetime(prod(equation.shape) * equation.dtype.itemsize, time, len(equations)))
            else:
                homes[equation.number] = homes[heir.number]
                gone.remove(heir)
        for e in gone:
            buffers[homes[e.number]] = buffers[homes[e.number]]._replace(last=time)
    offsets, size = arranged(buffers)
    return {number: offsets[home] for number, home in homes.items()}, size


def _may_take_over(equation: Equation, operand: Equation) -> bool:
    loop = equation.primitive.forward.signature is None  # a product reads an operand again after it has begun to write
    return loop and operand in equation.arguments and (operand.shape, operand.dtype) == (equation.shape, equation.dtype)
