"""Products with very few columns, as inner products: lanes run along k, and are added up at the end of a block of rows."""

from __future__ import annotations

from math import prod
from typing import Any

from chainrule.compiler.native.kernel import Machine
from chainrule.compiler.native.matrices import Problem
from chainrule.compiler.native.packing import Scratch, at_most, pack
from chainrule.compiler.native.tiles import added_up, multiply_add, nought, picked, width_of
from chainrule.compiler.native.writer import Writer, scalar, typed


def suits(machine: Machine, dtype: Any, p: Problem) -> bool:
    """Whether most lanes would stand idle otherwise, and what is read lies along k."""
    width, few = width_of(machine, dtype), p.n * 4 <= width_of(machine, dtype)
    return few and p.k >= width and p.a.column == 1 and not p.batch and scalar(dtype).kind == "f"


class InnerProduct:
    """One kernel in the making; units are blocks of rows whose results fill a vector."""

    def __init__(self, machine: Machine, dtype: Any, p: Problem, names: tuple[str, str, str]) -> None:
        self.w, self.dtype, self.p, self.names = Writer(), dtype, p, names
        self.width = width_of(machine, dtype)
        self.rows = min(self.width // p.n, p.m)
        self.extent = -(-p.m // self.rows) * prod(p.batch)
        self.scratch = Scratch(self.w)
        self.packed = "" if p.b.row == 1 else self.scratch.reserve(p.n * p.k, scalar(dtype).bytes)

    def write(self) -> str:
        w = self.w
        w.when(w.value("icmp slt i64 %begin, %end"), self._all)
        return "\n".join(w.lines)

    def _all(self) -> None:
        w, p = self.w, self.p
        b, step = w.address(self.names[1], str(p.b.offset), self.dtype), p.b.column
        if self.packed:
            pack(w, self.dtype, b, self.packed, p.k, p.k, p.n, (p.b.row, p.b.column), self.width)
            b, step = self.packed, p.k
        w.loop("%end", lambda u, _: self._block(u, b, step), start="%begin")

    def _block(self, u: str, b: str, step: int) -> None:
        w, p, dtype, width = self.w, self.p, self.dtype, self.width
        row = w.multiply_add(u, self.rows, "0")
        if p.m % self.rows:
            row = at_most(w, row, p.m - self.rows)
        a = w.address(self.names[0], w.multiply_add(row, p.a.row, str(p.a.offset)), dtype)

        def turn(k: str, sums: list[str], valid: int = width) -> list[str]:
            right = w.address(b, k, dtype)
            ys = [self._load(right, str(j * step), valid) for j in range(p.n)]
            left, out = w.address(a, k, dtype), list[str]()
            for i in range(self.rows):
                x = self._load(left, str(i * p.a.row), valid)
                out += [multiply_add(w, dtype, width, x, y, sums[i * p.n + j]) for j, y in enumerate(ys)]
            return out

        kind, whole = typed(scalar(dtype).llvm, width), p.k // width * width
        sums = w.loop(whole, turn, [(kind, nought(dtype, width))] * (self.rows * p.n), step=width)
        if p.k > whole:
            sums = turn(str(whole), sums, p.k - whole)
        found = added_up(w, dtype, width, sums)
        c = w.address(self.names[2], w.multiply_add(row, p.c.row, str(p.c.offset)), dtype)
        if p.c.column == 1 and p.c.row == p.n:
            self._store(found, range(self.rows * p.n), c, 0)
            return
        for i in range(self.rows):
            for j in range(p.n):
                self._store(found, [i * p.n + j], c, i * p.c.row + j * p.c.column)

    def _load(self, pointer: str, offset: str, valid: int) -> str:
        """`valid` neighbours, and zeros."""
        w, llvm = self.w, scalar(self.dtype).llvm
        some = w.load(pointer, offset, self.dtype, valid)
        if valid == self.width:
            return some
        kind = typed(llvm, self.width)
        if valid == 1:
            return w.value(f"insertelement {kind} zeroinitializer, {llvm} {some}, i32 0")
        part = typed(llvm, valid)
        order = ", ".join(f"i32 {min(lane, valid)}" for lane in range(self.width))
        return w.value(f"shufflevector {part} {some}, {part} zeroinitializer, <{self.width} x i32> <{order}>")

    def _store(self, value: str, lanes: Any, pointer: str, offset: int) -> None:
        some = picked(self.w, value, self.dtype, self.width, lanes)
        self.w.store(some, pointer, str(offset), self.dtype, len(lanes))
