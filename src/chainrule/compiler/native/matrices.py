"""Where the operands of a product lie, and the same problem with fewer axes."""

from __future__ import annotations

from typing import NamedTuple

from chainrule.types import Shape

Layout = tuple[int, tuple[int, ...]]
"""Offset and strides (batch, rows, columns), in entries of the operand; any number along axes of length 1."""


class Matrices(NamedTuple):
    """Where the entries of a matrix of each batch lie, in entries from the start of the operand."""

    offset: int
    batch: tuple[int, ...]
    """A stride for each axis of the batch; 0 where all have the same."""
    row: int
    column: int

    @staticmethod
    def of(layout: Layout) -> Matrices:
        offset, (*batch, row, column) = layout
        return Matrices(offset, tuple(batch), row, column)

    def turned(self) -> Matrices:
        return self._replace(row=self.column, column=self.row)


class Problem(NamedTuple):
    """`c = a @ b` for each of a batch: sizes, and where everything lies."""

    batch: Shape
    m: int
    n: int
    k: int
    a: Matrices
    b: Matrices
    c: Matrices


def problem(batch: Shape, m: int, n: int, k: int, a: Layout, b: Layout, c: Layout) -> Problem:
    """Axes of length 1 lie as if they were longer ones of neighbours."""
    x, y, z = Matrices.of(a), Matrices.of(b), Matrices.of(c)
    if n == 1:
        y, z = y._replace(column=1), z._replace(column=1)
    if k == 1:
        x = x._replace(column=1)
    return Problem(batch, m, n, k, x, y, z)


def merged(p: Problem) -> Problem:
    """The same with as few axes of batches as the strides allow; those where b stays the same become rows."""
    axes = [[n, *strides] for n, *strides in zip(p.batch, p.a.batch, p.b.batch, p.c.batch, strict=True) if n != 1]
    for number in range(len(axes) - 2, -1, -1):
        (n, *outer), (count, *inner) = axes[number : number + 2]
        if outer == [count * stride for stride in inner]:
            axes[number : number + 2] = [[n * count, *inner]]
    m, k = p.m, p.k
    while axes and axes[-1][2] == 0 and axes[-1][1] == m * p.a.row and axes[-1][3] == m * p.c.row:
        m *= axes.pop()[0]
    n = [axis[0] for axis in axes]
    strides = [tuple(axis[which] for axis in axes) for which in (1, 2, 3)]
    a, b, c = (x._replace(batch=new) for x, new in zip((p.a, p.b, p.c), strides, strict=True))
    return Problem(tuple(n), m, p.n, k, a, b, c)
