"""A block of a product that stays in registers: how large it is, and its innermost loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from chainrule.compiler.native.kernel import Machine
from chainrule.compiler.native.writer import Writer, scalar, typed

PIPES = 2
"""Multiplications and loads begun in a cycle by the cores that we know."""
LATENCY = 4
"""Cycles until a sum may be used again."""


class Tile(NamedTuple):
    """`rows` times `vectors` of `width` columns."""

    rows: int
    vectors: int
    width: int


def width_of(machine: Machine, dtype: Any) -> int:
    """Entries in a vector."""
    return machine.vector_bytes // scalar(dtype).bytes


def ways_of(rows: int, vectors: int) -> int:
    """Sums kept apart for each entry, so that each may take its time: a power of two."""
    ways = 1
    while rows * vectors * ways < PIPES * LATENCY:
        ways *= 2
    return ways


def _cycles(rows: int, vectors: int) -> float:
    """For one step along k."""
    return max(rows * vectors, rows + vectors) / PIPES + 1


def choose(machine: Machine, dtype: Any, m: int, n: int, edge: float = 0.03) -> Tile:
    """The tile that covers m x n in the fewest cycles; a tile of another size may cost `edge`, for its instructions."""
    width = width_of(machine, dtype)
    across = -(-n // width)

    def cost(tile: tuple[int, int]) -> tuple[float, int]:
        rows, vectors = tile
        full, rest = divmod(across, vectors)
        each = full * _cycles(rows, vectors) + (_cycles(rows, rest) if rest else 0)
        # every kind of edge is one more tile to be written
        edges = 1 + edge * ((rest > 0) + (m % rows > 0))
        return -(-m // rows) * each * edges, -rows * vectors

    fitting = [
        (rows, vectors)
        for vectors in range(1, min(4, across) + 1)
        for rows in range(1, min(16, m) + 1)
        if rows * vectors + vectors + 2 <= machine.registers
    ]
    return Tile(*min(fitting, key=cost), width)


def multiply_add(w: Writer, dtype: Any, width: int, x: str, y: str, total: str) -> str:
    """`x * y + total`, rounded once where the machine can."""
    s = scalar(dtype)
    kind = typed(s.llvm, width)
    if s.kind == "f":
        suffix = s.suffix if width == 1 else f"v{width}{s.suffix}"
        return w.intrinsic(f"llvm.fmuladd.{suffix}", kind, x, y, total)
    times, plus = ("and", "or") if s.kind == "b" else ("mul", "add")
    return w.value(f"{plus} {kind} {w.value(f'{times} {kind} {x}, {y}')}, {total}")


def add(w: Writer, dtype: Any, width: int, x: str, y: str) -> str:
    s = scalar(dtype)
    return w.value(f"{'fadd' if s.kind == 'f' else 'or' if s.kind == 'b' else 'add'} {typed(s.llvm, width)} {x}, {y}")


def nought(dtype: Any, width: int) -> str:
    if width > 1:
        return "zeroinitializer"
    return {"f": "0.0", "b": "false"}.get(scalar(dtype).kind, "0")


def accumulate(
    w: Writer,
    dtype: Any,
    tile: Tile,
    steps: int | str,
    left: Callable[[str], Sequence[str]],
    right: Callable[[str], Sequence[str]],
    initial: Sequence[str] | None = None,
) -> list[str]:
    """The sums over k < `steps` of `left(k)[row] * right(k)[vector]`, row by row, added to `initial`.

    left gives a number for each row of the tile, right a vector of columns for each of its vectors.
    """
    rows, vectors, width = tile
    s = scalar(dtype)
    kind = typed(s.llvm, width)
    nothing = [nought(dtype, width)] * (rows * vectors)

    def turn(k: str, sums: Sequence[str]) -> list[str]:
        columns, out = right(k), list[str]()
        for row, number in enumerate(left(k)):
            each = w.spread(number, s.llvm, width)
            for v in range(vectors):
                out.append(multiply_add(w, dtype, width, each, columns[v], sums[row * vectors + v]))
        return out

    ways = ways_of(rows, vectors) if isinstance(steps, int) else 1
    while isinstance(steps, int) and ways > max(1, steps // 4):
        ways //= 2
    whole = steps // ways * ways if isinstance(steps, int) else steps
    entries = rows * vectors

    def turns(k: str, sums: list[str]) -> list[str]:
        out: list[str] = []
        for way in range(ways):
            out += turn(w.multiply_add(k, 1, str(way)), sums[way * entries : (way + 1) * entries])
        return out

    first = list(initial) if initial is not None else nothing
    start = first + nothing * (ways - 1)
    sums = w.loop(whole, turns, [(kind, value) for value in start], step=ways)
    for way in range(ways - 1, 0, -1):
        half = sums[(way - 1) * entries : way * entries]
        sums[(way - 1) * entries : way * entries] = [
            add(w, dtype, width, x, y) for x, y in zip(half, sums[way * entries :][:entries], strict=True)
        ]
    sums = sums[:entries]
    if isinstance(steps, int) and isinstance(whole, int):
        sums = w.loop(steps, turn, [(kind, value) for value in sums], start=whole)
    return sums


def load_part(w: Writer, pointer: str, offset: str, dtype: Any, width: int, valid: int) -> str:
    """`valid` neighbours, and in the rest of the vector the last one again: no other value can raise a flag."""
    if valid == width:
        return w.load(pointer, offset, dtype, width)
    llvm = scalar(dtype).llvm
    some = w.load(pointer, offset, dtype, valid)
    if valid == 1:
        return w.spread(some, llvm, width)
    kind = typed(llvm, valid)
    order = ", ".join(f"i32 {min(lane, valid - 1)}" for lane in range(width))
    return w.value(f"shufflevector {kind} {some}, {kind} poison, <{width} x i32> <{order}>")


def picked(w: Writer, value: str, dtype: Any, width: int, lanes: Sequence[int]) -> str:
    """Some lanes of a vector as a shorter one."""
    kind = typed(scalar(dtype).llvm, width)
    if width == len(lanes):
        return value
    if len(lanes) == 1:
        return w.value(f"extractelement {kind} {value}, i32 {lanes[0]}")
    order = ", ".join(f"i32 {lane}" for lane in lanes)
    return w.value(f"shufflevector {kind} {value}, {kind} poison, <{len(lanes)} x i32> <{order}>")


def store_part(w: Writer, value: str, pointer: str, offset: str, dtype: Any, width: int, valid: int) -> None:
    """The first `valid` of a vector."""
    w.store(picked(w, value, dtype, width, range(valid)), pointer, offset, dtype, valid)


def added_up(w: Writer, dtype: Any, width: int, values: Sequence[str]) -> str:
    """The sum of the lanes of each of at most `width` vectors, in the lane of its number."""
    kind = typed(scalar(dtype).llvm, width)

    nothing = nought(dtype, width)
    orders = [", ".join(f"i32 {2 * lane + odd}" for lane in range(width)) for odd in (0, 1)]

    def paired(x: str, y: str) -> str:
        if x == y == nothing:
            return x
        even, odd = (w.value(f"shufflevector {kind} {x}, {kind} {y}, <{width} x i32> <{order}>") for order in orders)
        return add(w, dtype, width, even, odd)

    rows = [*values, *[nothing] * (width - len(values))]
    while len(rows) > 1:
        rows = [paired(x, y) for x, y in zip(rows[::2], rows[1::2], strict=True)]
    return rows[0]
