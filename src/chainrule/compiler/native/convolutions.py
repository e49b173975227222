"""Convolutions as products that never write their windows down: the offsets of a kernel's entries are a table.

Rows of the product are channels, whose weights are packed; columns are windows, read from `planes`.  For the input the
same is done with turned kernels over cotangents that lie apart.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from chainrule.compiler.expressions import Expression
from chainrule.compiler.native.correlations import Correlation
from chainrule.compiler.native.kernel import Kernel, Machine
from chainrule.compiler.native.packing import Scratch, at_most, each, pack
from chainrule.compiler.native.planes import Planes, axes, clear, copy, pixels
from chainrule.compiler.native.tiles import Tile, accumulate, choose
from chainrule.compiler.native.writer import Writer, scalar


class Weights(NamedTuple):
    """Where the weight of (group, channel out, channel in, entry of the kernel) lies."""

    group: int
    row: int
    channel: int
    entry: int
    first: int


def convolution_kernel(machine: Machine, e: Expression) -> Kernel:
    """`e`, of the ops of CONVOLUTIONS, from contiguous operands to contiguous results."""
    made = (Correlation if e.op == "convolve_to_weight" else _Convolution)(machine, e)
    w = made.w
    w.when(w.value("icmp slt i64 %begin, %end"), made.write)
    x, y = (a.shape for a in e.arguments)
    return Kernel(
        "\n".join(w.lines),
        operands=3,
        written=(2,),
        extent=made.extent,
        scratch=made.scratch.bytes,
        functions=frozenset(w.functions),
        declarations=frozenset(w.declarations),
        label=f"{e.op} {'x'.join(map(str, x))} {'x'.join(map(str, y))}",
        flop=2.0 * x[0] * prod(e.attribute[0].out) * prod(e.shape if e.op == "convolve_to_weight" else y),
        moved=float(scalar(e.dtype).bytes * (e.size + prod(x) + prod(y))),
    )


class _Convolution:
    """`convolve` or `convolve_to_input` in the making; units are examples."""

    def __init__(self, machine: Machine, e: Expression) -> None:
        self.w, self.dtype = Writer(), e.dtype
        windows, self.groups = e.attribute
        to_input = e.op == "convolve_to_input"
        self.planes = Planes(*axes(windows, to_input=to_input))
        x, weights = (a.shape for a in e.arguments)
        taps, out, width = self.planes.taps, weights[0] // self.groups, weights[1]
        self.extent = x[0]
        if to_input:
            self.channels, self.rows = out, width
            self.weights = Weights(out * width * taps, taps, width * taps, -1, taps - 1)
        else:
            self.channels, self.rows = width, out
            self.weights = Weights(out * width * taps, width * taps, taps, 1, 0)
        self.depth = self.channels * taps
        self.spots = self.planes.rows.out * self.planes.columns.out
        vector = machine.vector_bytes // scalar(e.dtype).bytes
        self.pixels = pixels(self.planes, vector)
        self.tile: Tile = choose(machine, e.dtype, self.rows, self.pixels.vectors * vector)
        bytes_, rows = scalar(self.dtype).bytes, self.tile.rows
        self.blocks = -(-self.rows // rows)
        self.image = self.groups * self.channels * self.planes.entries
        # a block of weights meets all windows, or windows meet all weights: what is met again stays in a cache
        self.keeps_image = self.image * bytes_ <= machine.l2_bytes // 2
        # vectors that go on over the ends of rows read a little beyond the last plane
        self.cleared = self.image + (self.pixels.vectors + 1) * vector
        self.scratch = Scratch(self.w)
        self.table = self.scratch.reserve(self.depth, 8)
        self.packed = self.scratch.reserve(self.groups * self.blocks * rows * self.depth, bytes_)
        self.places = self.scratch.reserve(self.cleared + vector, bytes_)
        self.results = self.pixels.vectors * vector if self.pixels.staged else self.spots
        self.stage = self.scratch.reserve(self.groups * self.rows * self.results if self.pixels.staged else 0, bytes_)

    def write(self) -> None:
        w, dtype, width = self.w, self.dtype, self.tile.width
        self.planes.tabulate(w, self.table, self.channels)
        w.loop(self.groups, lambda g, _: self._pack(g))
        clear(w, dtype, width, self.places, self.cleared)
        channels, rows = self.groups * self.channels, self.groups * self.rows
        entries = channels * self.planes.rows.size * self.planes.columns.size

        def example(n: str, _: list[str]) -> None:
            source = w.address("%a0", w.multiply_add(n, entries, "0"), dtype)
            self.planes.fill(w, dtype, width, source, self.places, channels)
            target = w.address("%a2", w.multiply_add(n, rows * self.spots, "0"), dtype)
            w.loop(self.groups, lambda g, _: self._group(g, self.stage or target))
            if self.stage:
                w.loop(rows, lambda o, _: self._unstage(o, target))

        w.loop("%end", example, start="%begin")

    def _start(self, block: str) -> str:
        """The first row of a block; the last block is moved back to be a whole one."""
        rows = self.tile.rows
        row = self.w.multiply_add(block, rows, "0")
        return at_most(self.w, row, self.rows - rows) if self.rows % rows else row

    def _block(self, g: str, block: str) -> str:
        """The packed weights of a block of rows."""
        w = self.w
        number = w.multiply_add(g, self.blocks, block)
        return w.address(self.packed, w.multiply_add(number, self.tile.rows * self.depth, "0"), self.dtype)

    def _pack(self, g: str) -> None:
        w, dtype, rows, lie = self.w, self.dtype, self.tile.rows, self.weights
        taps = self.planes.taps

        def block(b: str, _: list[str]) -> None:
            offset = w.multiply_add(g, lie.group, w.multiply_add(self._start(b), lie.row, str(lie.first)))
            source, target = w.address("%a1", offset, dtype), self._block(g, b)
            if lie.channel == taps and lie.entry == 1:
                pack(w, dtype, source, target, rows, rows, self.depth, (lie.row, 1), self.tile.width)
                return

            def channel(c: str, _: list[str]) -> None:
                here = w.address(source, w.multiply_add(c, lie.channel, "0"), dtype)
                there = w.address(target, w.multiply_add(c, taps * rows, "0"), dtype)
                pack(w, dtype, here, there, rows, rows, taps, (lie.row, lie.entry), self.tile.width)

            w.loop(self.channels, channel)

        w.loop(self.blocks, block)

    def _group(self, g: str, c: str) -> None:
        w, dtype, pixels_ = self.w, self.dtype, self.pixels
        rows, vectors, width = self.tile
        image = w.address(self.places, w.multiply_add(g, self.channels * self.planes.entries, "0"), dtype)

        def tile(b: str, first: str) -> None:
            weights = self._block(g, b)
            where = [pixels_.offset(w, w.multiply_add(first, 1, str(v))) for v in range(vectors)]
            starts = [w.address(image, offset, dtype) for offset, _ in where]

            def left(k: str) -> list[str]:
                here = w.address(weights, w.multiply_add(k, rows, "0"), dtype)
                return [w.load(here, str(r), dtype) for r in range(rows)]

            def right(k: str) -> list[str]:
                offset = w.load(self.table, k, "int64")
                return [pixels_.load(w, dtype, w.address(start, offset, dtype)) for start in starts]

            sums = accumulate(w, dtype, self.tile, self.depth, left, right)
            row = w.multiply_add(g, self.rows, self._start(b))
            at = w.address(c, w.multiply_add(row, self.results, "0"), dtype)
            for v, (_, result) in enumerate(where):
                there = w.address(at, result, dtype)
                for r in range(rows):
                    w.store(sums[r * vectors + v], there, str(r * self.results), dtype, width)

        def panel(b: str, j: str) -> None:
            first = w.multiply_add(j, vectors, "0")
            if pixels_.vectors % vectors:
                first = at_most(w, first, pixels_.vectors - vectors)
            tile(b, first)

        panels = -(-pixels_.vectors // vectors)

        def turned(j: str, b: str) -> None:
            panel(b, j)

        if self.keeps_image:
            each(w, (self.blocks, panels), panel)
        else:
            each(w, (panels, self.blocks), turned)

    def _unstage(self, o: str, target: str) -> None:
        """A channel of results without what is between rows."""
        w, dtype, wide = self.w, self.dtype, self.planes.columns.out

        def row(y: str, _: list[str]) -> None:
            here = w.multiply_add(o, self.results, w.multiply_add(y, self.pixels.pitch, "0"))
            there = w.multiply_add(o, self.spots, w.multiply_add(y, wide, "0"))
            copy(w, dtype, self.tile.width, w.address(self.stage, here, dtype), w.address(target, there, dtype), wide)

        w.loop(self.planes.rows.out, row)
