"""Convolutions as products that never write their windows down: the offsets of a kernel's entries are a table.

Rows of the product are channels, whose weights are packed; columns are windows, read from `planes`.  For the input the
same is done with turned kernels over cotangents that lie apart.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from chainrule.compiler.expressions import Expression
from chainrule.compiler.native.kernel import Kernel
from chainrule.compiler.native.packing import pack
from chainrule.compiler.native.correlations import Correlation
from chainrule.compiler.native.planes import Planes, Scratch, axes, clear, copy, pixels
from chainrule.compiler.native.products import Epilogue
from chainrule.compiler.native.tiles import Registers, Tile, accumulate, choose
from chainrule.compiler.native.writer import Writer, scalar


class Weights(NamedTuple):
    """Where the weight of (group, channel out, channel in, entry of the kernel) lies."""

    group: int
    row: int
    channel: int
    entry: int
    first: int


def convolution_kernel(machine: Registers, e: Expression, *, more: int = 0, written: tuple[int, ...] = (), epilogue: Epilogue | None = None) -> Kernel:  # fmt: skip
    """`e`, of the ops of CONVOLUTIONS, from contiguous operands to contiguous results.

    The rows that the epilogue is told of are pairs of an example and a channel of results.
    """
    made: Any
    if e.op == "convolve_to_weight":
        made = Correlation(machine, e)
    else:
        made = _Convolution(machine, e, epilogue)
    w: Writer = made.w
    w.when(w.value("icmp slt i64 %begin, %end"), made.write)
    windows, groups = e.attribute
    x, y = (a.shape for a in e.arguments)
    smaller = min(e.size, prod(x), prod(y))
    return Kernel(
        "\n".join(w.lines),
        operands=3 + more,
        written=(2, *written),
        extent=made.extent,
        scratch=made.scratch.bytes,
        functions=frozenset(w.functions),
        declarations=frozenset(w.declarations),
        label=f"{e.op} {'x'.join(map(str, x))} {'x'.join(map(str, y))}",
        flop=2.0 * _multiplications(e),
        moved=float(scalar(e.dtype).bytes * (e.size + prod(x) + prod(y))) if smaller else 0.0,
    )


def _multiplications(e: Expression) -> int:
    windows, groups = e.attribute
    x, y = (a.shape for a in e.arguments)
    if e.op == "convolve":
        return x[0] * prod(windows.out) * prod(y)
    if e.op == "convolve_to_input":
        return x[0] * prod(windows.out) * prod(y)
    return x[0] * prod(windows.out) * prod(e.shape)


class _Convolution:
    """`convolve` or `convolve_to_input` in the making; units are examples."""

    def __init__(self, machine: Registers, e: Expression, epilogue: Epilogue | None) -> None:
        self.w, self.dtype, self.epilogue = Writer(), e.dtype, epilogue
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
        self.tile: Tile = choose(machine, e.dtype, self.rows, self.pixels.count * vector)
        self._reserve()

    def _reserve(self) -> None:
        bytes_, rows = scalar(self.dtype).bytes, self.tile.rows
        self.scratch = Scratch()
        self.blocks = -(-self.rows // rows)
        self.at_table = self.scratch.reserve(self.depth, 8)
        self.at_weights = self.scratch.reserve(self.groups * self.blocks * rows * self.depth, bytes_)
        # vectors that go on over the ends of rows read a little beyond the last plane
        slack = self.pixels.count * self.pixels.width + self.pixels.width
        self.image = self.groups * self.channels * self.planes.entries
        self.cleared = self.image + slack
        self.at_image = self.scratch.reserve(self.cleared + self.pixels.width, bytes_)
        self.results = self.pixels.count * self.pixels.width if self.pixels.staged else self.spots
        staged = self.groups * self.rows * self.results if self.pixels.staged else 0
        self.at_results = self.scratch.reserve(staged, bytes_)

    def _at(self, offset: int) -> str:
        return self.w.address("%scratch", str(offset), "int8")

    def write(self) -> None:
        w, dtype, width = self.w, self.dtype, self.tile.width
        self.table, self.packed, self.places = (
            self._at(self.at_table),
            self._at(self.at_weights),
            self._at(self.at_image),
        )
        self.planes.tabulate(w, self.table, self.channels)
        w.loop(self.groups, lambda g, _: self._pack(g))
        clear(w, dtype, width, self.places, self.cleared)
        entries = self.groups * self.channels * self.planes.rows.size * self.planes.columns.size

        def example(n: str, _: list[str]) -> None:
            source = w.address("%a0", w.multiply_add(n, entries, "0"), dtype)
            self.planes.fill(w, dtype, width, source, self.places, self.groups * self.channels)
            self.target = w.address("%a2", w.multiply_add(n, self.groups * self.rows * self.spots, "0"), dtype)
            self.c = self._at(self.at_results) if self.pixels.staged else self.target
            w.loop(self.groups, lambda g, _: self._group(g))
            if self.pixels.staged:
                w.loop(self.groups * self.rows, lambda o, _: self._unstage(o))
            if self.epilogue is not None:
                rows = self.groups * self.rows
                self.epilogue(w, w.multiply_add(n, rows, "0"), str(rows))

        w.loop("%end", example, start="%begin")

    def _start(self, block: str) -> str:
        """The first row of a block; the last block is moved back to be a whole one."""
        w, rows = self.w, self.tile.rows
        row = w.multiply_add(block, rows, "0")
        if self.rows % rows == 0:
            return row
        last = self.rows - rows
        return str(min(int(row), last)) if row.isdigit() else w.intrinsic("llvm.smin.i64", "i64", row, str(last))

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

    def _group(self, g: str) -> None:
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
            at = w.address(self.c, w.multiply_add(row, self.results, "0"), dtype)
            for v, (_, result) in enumerate(where):
                there = w.address(at, result, dtype)
                for r in range(rows):
                    w.store(sums[r * vectors + v], there, str(r * self.results), dtype, width)

        def panel(b: str, j: str) -> None:
            first = w.multiply_add(j, vectors, "0")
            if pixels_.count % vectors:
                last = pixels_.count - vectors
                first = str(min(int(first), last)) if first.isdigit() else w.intrinsic("llvm.smin.i64", "i64", first, str(last))  # fmt: skip
            tile(b, first)

        panels = -(-pixels_.count // vectors)
        w.loop(self.blocks, lambda b, _: each(w, panels, b, panel))

    def _unstage(self, o: str) -> None:
        w, dtype, wide = self.w, self.dtype, self.planes.columns.out

        def row(o: str, y: str) -> None:
            here = w.address(self.c, w.multiply_add(o, self.results, w.multiply_add(y, self.pixels.pitch, "0")), dtype)
            there = w.address(self.target, w.multiply_add(o, self.spots, w.multiply_add(y, wide, "0")), dtype)
            copy(w, dtype, self.tile.width, here, there, wide)

        each(w, self.planes.rows.out, o, row)


def each(w: Writer, count: int, outer: str, body: Any) -> None:
    """`body(outer, index)`, carrying nothing."""
    w.loop(count, lambda i, _: body(outer, i))
