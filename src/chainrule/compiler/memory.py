"""One block of memory for all values that live and die within a program, planned in bytes before it runs."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from chainrule.backends.abstract import Equation

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


class Arena:
    """Places in the block, given out and taken back in the order of the program."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []
        """(offset, bytes) of the gaps, by offset; no two of them touch."""

    def take(self, count: int) -> int:
        """The offset of `count` bytes: in the smallest gap that holds them, otherwise at the end."""
        count = _rounded(count)
        fitting = min((gap for gap in self._free if gap[1] >= count), key=lambda gap: gap[1], default=None)
        if fitting is None and self._free and sum(self._free[-1]) == self.size:  # the last gap, made longer
            fitting = self._free[-1]
            self.size = fitting[0] + count
        if fitting is None:
            self.size += count
            return self.size - count
        self._free.remove(fitting)
        offset, length = fitting
        if length > count:
            insort(self._free, (offset + count, length - count))
        return offset

    def give_back(self, offset: int, count: int) -> None:
        """The `count` bytes at `offset` are not needed any more."""
        count = _rounded(count)
        for gap in [gap for gap in self._free if sum(gap) == offset or gap[0] == offset + count]:
            self._free.remove(gap)
            offset, count = min(offset, gap[0]), count + gap[1]
        insort(self._free, (offset, count))


def _rounded(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT


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
    arena, places = Arena(), dict[int, int]()
    for equation in equations:
        over = dead.get(equation.number, ())
        gone = [e for e in over if e.number in places]
        if equation.number in wanted:
            heir = next((e for e in gone if _may_take_over(equation, e)), None)
            places[equation.number] = places[heir.number] if heir else arena.take(_bytes(equation))
            gone = [e for e in gone if e is not heir]
        if equation in over and equation.number in wanted:
            gone.append(equation)
        for e in gone:
            arena.give_back(places[e.number], _bytes(e))
    return places, arena.size


def _may_take_over(equation: Equation, operand: Equation) -> bool:
    loop = equation.primitive.forward.signature is None  # a product reads an operand again after it has begun to write
    return loop and operand in equation.arguments and (operand.shape, operand.dtype) == (equation.shape, equation.dtype)


def _bytes(equation: Equation) -> int:
    return prod(equation.shape) * equation.dtype.itemsize
