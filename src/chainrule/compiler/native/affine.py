"""Places in arrays as sums over loop variables, known before any loop is written.

`3 + 20*i + j` tells what changes with which loop, what is contiguous, and which axes can be walked as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple


class Affine(NamedTuple):
    """`first + sum(coefficient * variable)`; terms sorted by variable, no coefficient is zero."""

    first: int = 0
    terms: tuple[tuple[int, int], ...] = ()

    def plus(self, other: Affine, times: int = 1) -> Affine:
        if not other.terms or times == 0:
            return Affine(self.first + times * other.first, self.terms)
        if not self.terms and times == 1:
            return Affine(self.first + other.first, other.terms)
        sums = dict(self.terms)
        for variable, coefficient in other.terms:
            sums[variable] = sums.get(variable, 0) + times * coefficient
        return Affine(self.first + times * other.first, tuple(sorted((v, c) for v, c in sums.items() if c)))

    def of(self, variable: int) -> int:
        return next((c for v, c in self.terms if v == variable), 0)


ZERO = Affine()


class Variable(NamedTuple):
    """A loop variable, from 0 to `extent - 1`; or one computed from others (`value`: its number on the tape)."""

    extent: int
    depends: frozenset[int]
    value: int | None = None


class SplitError(Exception):
    """Some reshape needs `variable` as two loops, the inner one of `length` turns."""

    def __init__(self, variable: int, length: int) -> None:
        super().__init__(variable, length)
        self.variable, self.length = variable, length


def combined(strides: Iterable[int], index: Sequence[Affine], first: int = 0) -> Affine:
    """`first + sum(stride * index)`."""
    total = Affine(first)
    for stride, at in zip(strides, index, strict=True):
        if stride:
            total = total.plus(at, stride)
    return total


def divided(a: Affine, by: int, variables: Sequence[Variable]) -> tuple[Affine, Affine] | None:
    """Quotient and remainder where both are affine; None where they are not.

    **Raises** SplitError where they would be with one variable in two.
    """
    whole, left = divmod(a.first, by)
    quotient = Affine(whole, tuple((v, c // by) for v, c in a.terms if c % by == 0))
    remainder = Affine(left, tuple((v, c) for v, c in a.terms if c % by))
    low = left + sum(c * (variables[v].extent - 1) for v, c in remainder.terms if c < 0)
    high = left + sum(c * (variables[v].extent - 1) for v, c in remainder.terms if c > 0)
    if low >= 0 and high < by:
        return quotient, remainder
    for v, c in remainder.terms:
        extent, length = variables[v].extent, by // c if c > 0 and by % c == 0 else 0
        if variables[v].value is None and 1 < length < extent and extent % length == 0:
            raise SplitError(v, length)
    return None


class Domain:
    """The loops of a kernel: variables that walk the axes of `shape`; an axis may be walked by several."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        self.factors: list[list[int]] = [[n] if n != 1 else [] for n in shape]
        self.variables: list[Variable] = []
        self.axes: list[list[int]] = []
        self.restart()

    def restart(self) -> None:
        """Number the variables anew, in the order of axes."""
        self.variables.clear()
        self.axes = []
        for lengths in self.factors:
            first = len(self.variables)
            self.axes.append(list(range(first, first + len(lengths))))
            self.variables += [Variable(n, frozenset((first + k,))) for k, n in enumerate(lengths)]

    def split(self, wish: SplitError) -> None:
        for lengths, numbers in zip(self.factors, self.axes, strict=True):
            if wish.variable in numbers:
                at = numbers.index(wish.variable)
                lengths[at : at + 1] = [lengths[at] // wish.length, wish.length]
        self.restart()

    def index(self) -> tuple[Affine, ...]:
        """The place in `shape` where the loops are."""
        out: list[Affine] = []
        for lengths, numbers in zip(self.factors, self.axes, strict=True):
            out.append(Affine(0, tuple((v, prod(lengths[k + 1 :])) for k, v in enumerate(numbers))))
        return tuple(out)
