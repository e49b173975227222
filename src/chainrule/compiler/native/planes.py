"""Images as convolutions read them: surrounded by their padding, so that every entry of a kernel is one offset.

A channel is one plane of memory; where windows move by several entries at a time it is several, one for each remainder,
so that neighbouring windows read neighbouring entries.  Windows of one axis have a first axis of length 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from chainrule.compiler.native.packing import at_most, each
from chainrule.compiler.native.tiles import load_part, nought, picked
from chainrule.compiler.native.writer import Writer, scalar, typed
from chainrule.ops.windows import Windows


class Axis(NamedTuple):
    """Along one axis: window i reads `kernel` places, `dilation` apart, from place `i * stride` on."""

    out: int
    kernel: int
    stride: int
    dilation: int
    size: int
    low: int
    """Entry r of the image stands at place `r * apart + low`, if there is such a place."""
    apart: int = 1

    @property
    def extent(self) -> int:
        return (self.out - 1) * self.stride + self.dilation * (self.kernel - 1) + 1

    @property
    def length(self) -> int:
        """Of each of the `stride` planes."""
        return -(-self.extent // self.stride)

    @property
    def inside(self) -> tuple[int, int]:
        """The first entry that has a place, and how many have."""
        first = max(0, -(self.low // self.apart))
        return first, max(0, min(self.size, (self.extent - 1 - self.low) // self.apart + 1) - first)


def axes(windows: Windows, *, to_input: bool) -> tuple[Axis, Axis]:
    """How a convolution reads x, or how `convolve_to_input` reads y."""
    found = [
        Axis(n, k, 1, d, out, d * (k - 1) - low, s) if to_input else Axis(out, k, s, d, n, low)
        for n, k, s, d, low, out in zip(
            windows.size, windows.kernel, windows.stride, windows.dilation, windows.low, windows.out, strict=True
        )
    ]
    return found[0] if len(found) > 1 else Axis(1, 1, 1, 1, 1, 0), found[-1]


class Planes(NamedTuple):
    """Where the places of a channel lie."""

    rows: Axis
    columns: Axis
    gap: int = 0
    """Entries between one channel and the next."""

    @property
    def part(self) -> int:
        """Entries with the same remainders."""
        return self.rows.length * self.columns.length

    @property
    def entries(self) -> int:
        return self.rows.stride * self.columns.stride * self.part + self.gap

    @property
    def taps(self) -> int:
        """Entries of a kernel."""
        return self.rows.kernel * self.columns.kernel

    def _at(self, w: Writer, place: str, axis: Axis, step: int, part: int) -> str:
        """The offset due to one axis."""
        if axis.stride == 1:
            return w.multiply_add(place, step, "0")
        phase, position = w.value(f"urem i64 {place}, {axis.stride}"), w.value(f"udiv i64 {place}, {axis.stride}")
        return w.multiply_add(phase, part, w.multiply_add(position, step, "0"))

    def row(self, w: Writer, place: str) -> str:
        return self._at(w, place, self.rows, self.columns.length, self.columns.stride * self.part)

    def column(self, w: Writer, place: str) -> str:
        return self._at(w, place, self.columns, 1, self.part)

    def tabulate(self, w: Writer, table: str, channels: int) -> None:
        """Write down the offset of each (channel, entry of the kernel)."""
        high, wide = self.rows.kernel, self.columns.kernel

        def entry(c: str, i: str, j: str) -> None:
            down = self.row(w, w.multiply_add(i, self.rows.dilation, "0"))
            right = self.column(w, w.multiply_add(j, self.columns.dilation, "0"))
            offset = w.multiply_add(c, self.entries, w.multiply_add(down, 1, right))
            at = w.multiply_add(c, self.taps, w.multiply_add(i, wide, j))
            w.store(offset, table, at, "int64")

        each(w, (channels, high, wide), entry)

    def fill(self, w: Writer, dtype: Any, width: int, source: str, target: str, channels: int) -> None:
        """Copy the image to its places; what is around it was cleared before."""
        (first_row, rows), (first, columns) = self.rows.inside, self.columns.inside
        dense = self.columns.stride == self.columns.apart == 1

        def row(c: str, r: str) -> None:
            place = w.multiply_add(r, self.rows.apart, str(first_row * self.rows.apart + self.rows.low))
            start = w.multiply_add(c, self.entries, self.row(w, place))
            entry = w.multiply_add(w.multiply_add(r, 1, str(first_row)), self.columns.size, str(first))
            here = w.address(source, w.multiply_add(c, self.rows.size * self.columns.size, entry), dtype)
            low = first * self.columns.apart + self.columns.low
            if dense:
                copy(w, dtype, width, here, w.address(target, w.multiply_add(start, 1, str(low)), dtype), columns)
                return
            if self.columns.apart == 1 and width % self.columns.stride == 0:
                self._deal(w, dtype, width, here, w.address(target, start, dtype), low, columns)
                return

            def one(x: str, _: list[str]) -> None:
                at = self.column(w, w.multiply_add(x, self.columns.apart, str(low)))
                w.store(w.load(here, x, dtype), target, w.multiply_add(at, 1, start), dtype)

            w.loop(columns, one)

        if rows and columns:
            each(w, (channels, rows), row)

    def _deal(self, w: Writer, dtype: Any, width: int, source: str, target: str, low: int, count: int) -> None:
        """`count` neighbours, the first of them for place `low`, to where their remainders belong."""
        step = self.columns.stride

        def piece(x: str, position: str, n: int) -> None:
            some = w.load(source, x, dtype, n)
            for lane in range(min(step, n)):
                phase, more = (lane + low) % step, (lane + low) // step
                lanes = range(lane, n, step)
                at = w.multiply_add(position, 1, str(phase * self.part + more))
                w.store(picked(w, some, dtype, n, lanes), target, at, dtype, len(lanes))

        def vector(j: str, _: list[str]) -> None:
            piece(w.multiply_add(j, width, "0"), w.multiply_add(j, width // step, "0"), width)

        whole = count // width
        w.loop(whole, vector)
        if count % width:
            piece(str(whole * width), str(whole * width // step), count % width)


def copy(w: Writer, dtype: Any, width: int, source: str, target: str, count: int) -> None:
    """`count` neighbours."""
    whole = count // width * width

    def several(x: str, _: list[str]) -> None:
        w.store(w.load(source, x, dtype, width), target, x, dtype, width)

    w.loop(whole, several, step=width)
    if count > whole:
        rest = count - whole
        w.store(load_part(w, source, str(whole), dtype, rest, rest), target, str(whole), dtype, rest)


def clear(w: Writer, dtype: Any, width: int, target: str, count: int) -> None:
    """Zeros, up to the next multiple of `width`."""
    w.loop(count, lambda x, _: w.store(nought(dtype, width), target, x, dtype, width), step=width)


class Pixels(NamedTuple):
    """Vectors of results: which windows each is of."""

    width: int
    vectors: int
    run: int
    """Lanes of windows in one row; behind them come those of the next."""
    pitch: int
    """Between the starts of rows of windows, in a plane."""
    across: int
    """Vectors in a row of windows; 0: vectors go on over the ends of rows."""
    staged: bool
    """Some lanes are of no window: they read what is between rows.  Rows of results lie `pitch` apart as well."""
    last: int
    """Where the last vector starts, if it overlaps with the one before it; else -1."""

    @property
    def runs(self) -> int:
        return self.width // self.run

    def offset(self, w: Writer, vector: str) -> tuple[str, str]:
        """Where the first window starts in a plane, and which result it is."""
        result = w.multiply_add(vector, self.width, "0")
        if self.last >= 0:
            result = at_most(w, result, self.last)
            return result, result
        if self.run < self.width:
            return w.multiply_add(vector, self.runs * self.pitch, "0"), result
        if self.across > 1:
            row, rest = w.value(f"udiv i64 {vector}, {self.across}"), w.value(f"urem i64 {vector}, {self.across}")
            return w.multiply_add(row, self.pitch, w.multiply_add(rest, self.width, "0")), result
        return (w.multiply_add(vector, self.pitch, "0") if self.across else result), result

    def load(self, w: Writer, dtype: Any, pointer: str) -> str:
        """One place for each window."""
        if self.run == self.width:
            return w.load(pointer, "0", dtype, self.width)
        return joined(w, dtype, self.run, [w.load(pointer, str(r * self.pitch), dtype, self.run) for r in range(self.runs)])  # fmt: skip


MOST_RUNS = 4


def pixels(planes: Planes, width: int) -> Pixels:
    """The best way of cutting results into vectors."""
    high, wide, pitch = planes.rows.out, planes.columns.out, planes.columns.length
    every = high * wide
    if wide % width == 0:
        return Pixels(width, every // width, width, pitch, wide // width, staged=False, last=-1)
    if (pitch == wide or high == 1) and every >= width:
        return Pixels(width, -(-every // width), width, pitch, 0, staged=False, last=every - width)
    if width % wide == 0 and width // wide <= MOST_RUNS and every % width == 0:
        return Pixels(width, every // width, wide, pitch, 0, staged=False, last=-1)
    reach = (high - 1) * pitch + wide
    return Pixels(width, -(-reach // width), width, pitch, 0, staged=True, last=-1)


def joined(w: Writer, dtype: Any, lanes: int, parts: Sequence[str]) -> str:
    """Vectors one after the other in one vector; a power of two of them."""

    def both(x: str, y: str, n: int) -> str:
        kind = typed(scalar(dtype).llvm, n)
        if n == 1:
            first = w.value(f"insertelement <2 x {kind}> poison, {kind} {x}, i32 0")
            return w.value(f"insertelement <2 x {kind}> {first}, {kind} {y}, i32 1")
        order = ", ".join(f"i32 {lane}" for lane in range(2 * n))
        return w.value(f"shufflevector {kind} {x}, {kind} {y}, <{2 * n} x i32> <{order}>")

    values, n = list(parts), lanes
    while len(values) > 1:
        values, n = [both(x, y, n) for x, y in zip(values[::2], values[1::2], strict=True)], 2 * n
    return values[0]
