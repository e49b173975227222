"""Copies of parts of a matrix in the order in which a product reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chainrule.compiler.native.tiles import load_part
from chainrule.compiler.native.writer import Writer, scalar, typed


class Scratch:
    """Parts of the scratch memory."""

    def __init__(self, w: Writer) -> None:
        self.w = w
        self.bytes = 0

    def reserve(self, count: int, bytes_each: int) -> str:
        """The pointer to so much of it, aligned to 64."""
        at = self.bytes
        self.bytes += -(-count * bytes_each // 64) * 64
        return self.w.address("%scratch", str(at), "int8") if count else ""


def at_most(w: Writer, value: str, limit: int) -> str:
    """The smaller of the two."""
    if value.isdigit():
        return str(min(int(value), limit))
    return w.intrinsic("llvm.smin.i64", "i64", value, str(limit))


def each(w: Writer, lengths: Sequence[int | str], body: Callable[..., None]) -> None:
    """`body(index, ...)` for every index of nested loops."""

    def nested(known: tuple[str, ...]) -> None:
        if len(known) == len(lengths):
            body(*known)
        else:
            w.loop(lengths[len(known)], lambda i, _: nested((*known, i)))

    nested(())


def pack(w: Writer, dtype: Any, source: str, target: str, across: int, padded: int, along: int | str, strides: tuple[int, int], width: int) -> None:  # fmt: skip
    """`target[j * padded + i] = source[i * strides[0] + j * strides[1]]` for i < across and j < along.

    Entries between `across` and `padded` repeat the last one.  `width` is that of a vector.
    """
    if strides[0] == 1:
        _copy(w, dtype, source, target, across, padded, along, strides[1], width)
        return
    side = min(width, 8 if scalar(dtype).bytes <= 4 else 4)
    whole = "0"
    if strides[1] == 1 and padded >= side and scalar(dtype).kind != "b":
        whole = str(along // side * side) if isinstance(along, int) else w.value(f"and i64 {along}, {-side}")
        _turn(w, dtype, source, target, across, padded, whole, strides[0], side)
    _one_by_one(w, dtype, source, target, across, padded, (whole, str(along)), strides)


def perhaps(w: Writer, start: str, stop: str, body: Callable[[str], None], step: int = 1) -> None:
    """A loop that may have no turn."""

    def loop() -> None:
        w.loop(stop, lambda i, _: body(i), start=start, step=step)

    if start.isdigit() and stop.isdigit():
        loop()
    else:
        w.when(w.value(f"icmp slt i64 {start}, {stop}"), loop)


def _copy(w: Writer, dtype: Any, source: str, target: str, across: int, padded: int, along: int | str, stride: int, width: int) -> None:  # fmt: skip
    """Rows of neighbours."""

    def row(j: str) -> None:
        read, written = w.multiply_add(j, stride, "0"), w.multiply_add(j, padded, "0")
        here, there = w.address(source, read, dtype), w.address(target, written, dtype)
        for i in range(0, padded, width):
            n = min(width, padded - i)
            value = load_part(w, here, str(min(i, across - 1)), dtype, n, max(1, min(n, across - i)))
            w.store(value, there, str(i), dtype, n)

    perhaps(w, "0", str(along), row)


def _turn(w: Writer, dtype: Any, source: str, target: str, across: int, padded: int, along: str, stride: int, side: int) -> None:  # fmt: skip
    """Squares of `side` rows, turned in registers."""
    kind = typed(scalar(dtype).llvm, side)

    def meet(x: str, y: str, lanes: list[int]) -> str:
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        return w.value(f"shufflevector {kind} {x}, {kind} {y}, <{side} x i32> <{order}>")

    def square(i: str, j: str, last: int) -> None:
        """Rows from i on; those behind number `last` are that one again."""
        here = w.address(source, w.multiply_add(i, stride, j), dtype)
        there = w.address(target, w.multiply_add(j, padded, i), dtype)
        rows = [w.load(here, str(min(r, last) * stride), dtype, side) for r in range(side)]
        half = side // 2
        while half:
            low = [lane if not lane & half else side + lane - half for lane in range(side)]
            high = [lane + half if not lane & half else side + lane for lane in range(side)]
            for r in range(side):
                if not r & half:
                    x, y = rows[r], rows[r + half]
                    rows[r], rows[r + half] = meet(x, y, low), meet(x, y, high)
            half //= 2
        for r, row in enumerate(rows):
            w.store(row, there, str(r * padded), dtype, side)

    def squares(i: str, last: int) -> None:
        perhaps(w, "0", along, lambda j: square(i, j, last), step=side)

    whole = across // side * side
    w.loop(whole, lambda i, _: squares(i, side - 1), step=side)
    for i in range(whole, padded, side):
        first = min(i, padded - side)
        squares(str(first), across - 1 - first)


def _one_by_one(w: Writer, dtype: Any, source: str, target: str, across: int, padded: int, along: tuple[str, str], strides: tuple[int, int]) -> None:  # fmt: skip
    def row(j: str) -> None:
        def entry(i: str, _: list[str]) -> None:
            known = at_most(w, i, across - 1) if padded > across else i
            value = w.load(source, w.multiply_add(known, strides[0], w.multiply_add(j, strides[1], "0")), dtype)
            w.store(value, target, w.multiply_add(j, padded, i), dtype)

        w.loop(padded, entry)

    perhaps(w, *along, row)
