"""The gradient of a convolution's weights: sums over all windows of all examples.

Lanes are windows, so neither operand is reordered: a tile is some channels of y times some entries of kernels, each a
vector of partial sums, which are added up when a number of examples that the caches hold is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.compiler.expressions import Expression
from chainrule.compiler.native.kernel import Machine
from chainrule.compiler.native.packing import Scratch, at_most, each
from chainrule.compiler.native.planes import Planes, axes, clear, copy, pixels
from chainrule.compiler.native.tiles import LATENCY, PIPES, add, added_up, load_part, multiply_add, nought
from chainrule.compiler.native.writer import Writer, scalar, typed


def _shape(machine: Machine, rows: int, depth: int) -> tuple[int, int]:
    """How many channels times how many entries of kernels stay in registers."""

    def cost(shape: tuple[int, int]) -> tuple[float, int]:
        r, s = shape
        # windows seldom start where a line of the cache does: such a load is two
        cycles = max(r * s / PIPES, (r + 2 * s) / PIPES, LATENCY) + 0.5
        return -(-rows // r) * -(-depth // s) * cycles, -r * s

    return min(
        (
            (r, s)
            for r in range(1, min(rows, 8) + 1)
            for s in range(1, min(depth, 9) + 1)
            if r * s + r + 3 <= machine.registers
        ),
        key=cost,
    )


class Correlation:
    """`convolve_to_weight` in the making; units are blocks of channels of y."""

    def __init__(self, machine: Machine, e: Expression) -> None:
        self.w, self.dtype = Writer(), e.dtype
        windows, self.groups = e.attribute
        x, y = (a.shape for a in e.arguments)
        bytes_ = scalar(e.dtype).bytes
        self.width = machine.vector_bytes // bytes_
        rows, columns = axes(windows, to_input=False)
        self.pixels = pixels(Planes(rows, columns), self.width)
        self.spots = rows.out * columns.out
        # lanes that are no window must find zeros in y, and read nothing of another channel
        self.staged = self.pixels.staged or self.pixels.vectors * self.width != self.spots
        self.planes = Planes(rows, columns, 2 * self.width if self.staged else 0)
        self.count, self.channels, self.rows = x[0], x[1] // self.groups, y[1] // self.groups
        self.depth = self.channels * self.planes.taps
        self.r, self.s = _shape(machine, self.rows, self.depth)
        self.row_blocks, self.depth_blocks = -(-self.rows // self.r), -(-self.depth // self.s)
        # a block of y that is read often is copied, as examples lie powers of two apart, which caches do not like
        self.copied = self.staged or self.depth_blocks >= 4
        self.extent = self.groups * self.row_blocks
        self.image = self.groups * self.channels * self.planes.entries
        self.lanes = self.pixels.vectors * self.width
        several = min(machine.l1_bytes // (2 * self.r * self.lanes), machine.l2_bytes // (2 * self.image)) // bytes_
        rounds = -(-self.count // max(1, several))
        self.several = -(-self.count // rounds)
        self.block = -(-self.r * self.s // self.width) * self.width
        self.cleared = self.several * self.image + 2 * self.width
        self.scratch = Scratch(self.w)
        self.table = self.scratch.reserve(self.depth, 8)
        self.places = self.scratch.reserve(self.cleared + self.width, bytes_)
        self.copies = self.r * self.several * self.lanes if self.copied else 0
        self.copy = self.scratch.reserve(self.copies, bytes_)
        self.sums = self.scratch.reserve(self.extent * self.depth_blocks * self.block, bytes_)

    def write(self) -> None:
        w, dtype, width = self.w, self.dtype, self.width
        self.planes.tabulate(w, self.table, self.channels)
        clear(w, dtype, width, self.places, self.cleared)
        if self.staged:
            clear(w, dtype, width, self.copy, self.copies)
        size = self.depth_blocks * self.block

        def nothing(u: str, _: list[str]) -> None:
            clear(w, dtype, width, w.address(self.sums, w.multiply_add(u, size, "0"), dtype), size)

        w.loop("%end", nothing, start="%begin")
        w.loop(self.count, lambda n, _: self._examples(n), step=self.several)
        w.loop("%end", lambda u, _: self._finish(u), start="%begin")

    def _examples(self, first: str) -> None:
        """What `several` examples from `first` on add."""
        w, dtype = self.w, self.dtype
        count: int | str = self.several
        if self.count % self.several:
            count = at_most(w, w.value(f"sub nsw i64 {self.count}, {first}"), self.several)
        entries = self.groups * self.channels * self.planes.rows.size * self.planes.columns.size

        def fill(n: str, _: list[str]) -> None:
            source = w.address("%a0", w.multiply_add(w.multiply_add(n, 1, first), entries, "0"), dtype)
            target = w.address(self.places, w.multiply_add(n, self.image, "0"), dtype)
            self.planes.fill(w, dtype, self.width, source, target, self.groups * self.channels)

        w.loop(count, fill)
        w.loop("%end", lambda u, _: self._unit(u, first, count), start="%begin")

    def _place(self, u: str) -> tuple[str, str]:
        """The group, and the first channel of y, of a unit."""
        w = self.w
        if self.row_blocks == 1:
            return u, w.multiply_add(u, self.rows, "0")
        group = w.value(f"udiv i64 {u}, {self.row_blocks}") if self.groups > 1 else "0"
        block = w.value(f"urem i64 {u}, {self.row_blocks}") if self.groups > 1 else u
        row = w.multiply_add(block, self.r, "0")
        if self.rows % self.r:
            row = at_most(w, row, self.rows - self.r)
        return group, w.multiply_add(group, self.rows, row)

    def _unit(self, u: str, first: str, count: int | str) -> None:
        w, dtype = self.w, self.dtype
        group, row = self._place(u)
        every = self.groups * self.rows * self.spots
        y = w.address("%a1", w.multiply_add(first, every, w.multiply_add(row, self.spots, "0")), dtype)
        y_row, y_step = self.spots, every
        if self.copied:
            w.loop(self.r, lambda r, _: self._stage(y, r, count))
            y, y_row, y_step = self.copy, self.several * self.lanes, self.lanes
        image = w.address(self.places, w.multiply_add(group, self.channels * self.planes.entries, "0"), dtype)

        def block(b: str, _: list[str]) -> None:
            starts = [w.address(image, w.load(self.table, w.multiply_add(self._first(b), 1, str(s)), "int64"), dtype) for s in range(self.s)]  # fmt: skip
            sums = self._tile(y, y_row, y_step, starts, count)
            at = w.multiply_add(w.multiply_add(u, self.depth_blocks, b), self.block, "0")
            for k in range(0, len(sums), self.width):
                there = w.address(self.sums, w.multiply_add(at, 1, str(k)), dtype)
                so_far = w.load(there, "0", dtype, self.width)
                more = added_up(w, dtype, self.width, sums[k : k + self.width])
                w.store(add(w, dtype, self.width, so_far, more), there, "0", dtype, self.width)

        w.loop(self.depth_blocks, block)

    def _first(self, block: str) -> str:
        """The first entry of a block; the last block is moved back to be a whole one."""
        entry = self.w.multiply_add(block, self.s, "0")
        return at_most(self.w, entry, self.depth - self.s) if self.depth % self.s else entry

    def _tile(self, y: str, y_row: int, y_step: int, starts: Sequence[str], count: int | str) -> list[str]:
        """The sums over `count` examples, `r` times `s` vectors."""
        w, dtype, width = self.w, self.dtype, self.width
        kind = typed(scalar(dtype).llvm, width)

        def vector(n: str, p: str, sums: Sequence[str]) -> list[str]:
            offset, result = self.pixels.offset(w, p) if not self.staged else (w.multiply_add(p, width, "0"),) * 2
            here = w.address(y, w.multiply_add(n, y_step, result), dtype)
            ys = [w.load(here, str(r * y_row), dtype, width) for r in range(self.r)]
            at, out = w.multiply_add(n, self.image, offset), list(sums)
            for s, start in enumerate(starts):
                place = w.address(start, at, dtype)
                x = w.load(place, "0", dtype, width) if self.staged else self.pixels.load(w, dtype, place)
                for r in range(self.r):
                    out[r * self.s + s] = multiply_add(w, dtype, width, ys[r], x, out[r * self.s + s])
            return out

        def example(n: str, sums: list[str]) -> list[str]:
            return w.loop(self.pixels.vectors, lambda p, so_far: vector(n, p, so_far), [(kind, v) for v in sums])

        nothing = [(kind, nought(dtype, width))] * (self.r * self.s)
        return w.loop(count, example, nothing)

    def _stage(self, y: str, r: str, count: int | str) -> None:
        """Channel r of y, where it must be with its rows as far apart as those of x."""
        w, dtype, wide, lines = self.w, self.dtype, self.planes.columns.out, self.planes.rows.out
        if not self.staged:
            wide, lines = self.spots, 1
        every = self.groups * self.rows * self.spots

        def row(n: str, line: str) -> None:
            here = w.multiply_add(n, every, w.multiply_add(r, self.spots, w.multiply_add(line, wide, "0")))
            there = w.multiply_add(r, self.several * self.lanes, w.multiply_add(n, self.lanes, w.multiply_add(line, self.pixels.pitch, "0")))  # fmt: skip
            copy(w, dtype, self.width, w.address(y, here, dtype), w.address(self.copy, there, dtype), wide)

        each(w, (count, lines), row)

    def _finish(self, u: str) -> None:
        """The sums to where they belong."""
        w, dtype = self.w, self.dtype
        _, row = self._place(u)

        def entries(b: str, r: str) -> None:
            at = w.multiply_add(w.multiply_add(u, self.depth_blocks, b), self.block, w.multiply_add(r, self.s, "0"))
            there = w.multiply_add(w.multiply_add(row, 1, r), self.depth, self._first(b))
            value = load_part(w, self.sums, at, dtype, self.s, self.s)
            w.store(value, "%a2", there, dtype, self.s)

        each(w, (self.depth_blocks, self.r), entries)
