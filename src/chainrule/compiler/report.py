"""Where the time of a compiled program goes, kernel by kernel, beside what this machine can do at most.

The idea: a kernel cannot be faster than its bytes through memory and its operations through the vector units; both limits
are measured here, by kernels made by the same code generation, and a kernel's time is told as a share of the slower one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from textwrap import wrap
from time import perf_counter
from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, explain

_SIZES = (1 << 13, 1 << 17, 1 << 24)
"""Entries of float32 whose doubling measures the bandwidth: in the first cache, in the second, in memory."""
_CHAINS = 12
"""Independent sums of products, which hide each other's latency."""
_TURNS = 4096


@dataclass(frozen=True)
class Row:
    """Kernels of one text, together."""

    label: str
    calls: int
    seconds: float
    flop: float
    moved: float
    """Bytes that must be read and written once."""
    bound: float
    """Seconds that the machine would need at its limits."""


@dataclass(frozen=True)
class Report:
    """What `explain` found; its text is a table, the slowest kernels first."""

    rows: tuple[Row, ...]
    flops: float
    """Operations a second at most, one thread, float32."""
    bandwidth: dict[int, float]
    """Bytes a second at most, by the bytes of an array that is doubled."""
    call: float
    """Seconds of the whole program, its own look at the arguments included, on as many threads as it runs on."""

    @property
    def seconds(self) -> float:
        return sum(row.seconds for row in self.rows)

    def as_text(self, most: int = 25) -> str:
        """The `most` slowest kernels, one line each."""
        total = self.seconds or 1.0
        head = f"{'time':>10} {'share':>6} {'calls':>5} {'GFLOP/s':>8} {'GB/s':>7} {'of limit':>8}  kernel"
        lines = [_line(row, total) for row in self.rows[:most]]
        rest = self.rows[most:]
        if rest:
            share = sum(row.seconds for row in rest) / total
            lines.append(f"{_time(share * total):>10} {share:6.1%} {sum(r.calls for r in rest):5}  {len(rest)} others")
        memory = ", ".join(f"{rate / 1e9:.0f} GB/s at {size >> 10} KiB" for size, rate in self.bandwidth.items())
        limits = f"limits of one thread: {self.flops / 1e9:.0f} GFLOP/s in float32; {memory}"
        calls = sum(row.calls for row in self.rows)
        about = f"{calls} kernels, {_time(self.seconds)}; with the call around them {_time(self.call)}"
        return "\n".join([about, head, *lines, limits, "x0, x1 ... are inputs; ... stands for what is left out"])

    __str__ = as_text


def _line(row: Row, total: float) -> str:
    seconds = row.seconds
    rates = f"{'':8} {'':7} {'':8}"  # the clock ticks every few nanoseconds
    if seconds >= 2e-8 * row.calls:
        of_limit = f"{min(row.bound / seconds, 1.0):8.0%}" if row.bound else f"{'':8}"
        rates = f"{row.flop / seconds / 1e9:8.1f} {row.moved / seconds / 1e9:7.1f} {of_limit}"
    label = row.label if len(row.label) <= 90 else f"{row.label[:87]}..."
    return f"{_time(seconds):>10} {seconds / total:6.1%} {row.calls:5} {rates}  {label}"


def _time(seconds: float) -> str:
    if seconds < 1e-6:
        return f"{seconds * 1e9:.0f} ns"
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def report(executable: Any) -> Report:
    """Time every kernel of a native program, on numbers made up for it.

    **Raises** ArgumentError for a program that NumPy executes.
    """
    if getattr(executable, "executor", "numpy") != "native":
        fault = "NumPy executes this program, an operation at a time, and there are no kernels to tell of"
        raise ArgumentError(explain("explain", fault, remedy="pip install 'chainrule[jit]'"))
    flops, bandwidth = limits()
    values = made_up(executable.schedule.types[: executable.inputs])
    rows = tuple(sorted(_rows(executable.profile(values), flops, bandwidth), key=lambda row: -row.seconds))
    return Report(rows, flops, bandwidth, _seconds_of(lambda: executable(values)))


def _seconds_of(call: Callable[[], Any], at_least: float = 0.05) -> float:
    """The least of calls that fill some time."""
    times: list[float] = []
    while sum(times) < at_least:
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)


def made_up(types: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Arrays of these types: small numbers, and zeros where they may be indices."""
    made: list[Any] = []
    for shape, dtype in types:
        array: Any = np.zeros(shape, dtype)
        if array.dtype.kind == "f":
            array.flat = 0.1 + np.arange(array.size) % 97 / 100
        made.append(array)
    return made


def _rows(times: Sequence[Any], flops: float, bandwidth: dict[int, float]) -> Iterable[Row]:
    together: dict[str, list[Any]] = {}
    for each in times:
        together.setdefault(each.kernel.body, []).append(each)
    for same in together.values():
        kernel = same[0].kernel
        count, seconds = len(same), sum(each.seconds for each in same)
        rate = next((r for size, r in bandwidth.items() if kernel.moved <= 2 * size), min(bandwidth.values()))
        bound = count * max(kernel.flop / (flops / (2 if "double" in kernel.body else 1)), kernel.moved / rate)
        yield Row(kernel.label, count, seconds, kernel.flop * count, kernel.moved * count, bound)


@cache
def limits() -> tuple[float, dict[int, float]]:
    """Operations a second, and bytes a second by the size of an array, of one thread of this machine."""
    from chainrule.compiler.native.executable import Executable
    from chainrule.compiler.native.kernel import Call, Schedule
    from chainrule.compiler.native.machine import machine

    width = machine().vector_bytes // 4
    types = ((width,), np.dtype(np.float32))
    call = Call(_sums_of_products(width), (("input", 0), ("output", 0)))
    program = Executable(Schedule((call,), 1, 0, 0, (), (types, types)), 1)
    seconds = program.profile(made_up([types]))[0].seconds
    rates: dict[int, float] = {}
    for size in _SIZES:
        found = _doubling(size).profile(made_up([((size,), np.float32)]))
        rates[4 * size] = 8 * size / sum(each.seconds for each in found)
    return 2.0 * width * _CHAINS * _TURNS / seconds, rates


def _sums_of_products(width: int) -> Any:
    from chainrule.compiler.native.kernel import Kernel
    from chainrule.compiler.native.writer import Writer, typed

    w, dtype, kind = Writer(), np.dtype(np.float32), typed("float", width)
    x = w.load("%a0", "0", dtype, width)
    name = f"llvm.fmuladd.v{width}f32"

    def turn(_: str, sums: list[str]) -> list[str]:
        return [w.intrinsic(name, kind, x, x, each) for each in sums]

    sums = w.loop(_TURNS, turn, [(kind, x)] * _CHAINS)
    total = sums[0]
    for each in sums[1:]:
        total = w.value(f"fadd {kind} {total}, {each}")
    w.store(total, "%a1", "0", dtype, width)
    declared = frozenset(w.declarations)
    return Kernel("\n".join(w.lines), 2, (1,), 1, declarations=declared, label="sums of products")


def _doubling(size: int) -> Any:
    from chainrule.compiler.expressions import Graph
    from chainrule.compiler.native.executable import Executable
    from chainrule.compiler.native.machine import machine
    from chainrule.compiler.native.schedule import plan

    graph, dtype = Graph(), np.dtype(np.float32)
    x = graph.input(0, (size,), dtype)
    doubled = graph.apply("multiply", x, graph.literal(2.0, dtype, (size,)))
    return Executable(plan([doubled], [None], [x], machine()), 1)


# ---------------------------------------------------------------- a picture
def drawing(schedule: Any) -> tuple[list[tuple[tuple[str, ...], str]], list[tuple[int, int]]]:
    """Kernels as boxes, (lines, kind), and arrows from what writes an array to what reads it."""
    boxes: list[tuple[tuple[str, ...], str]] = []
    arrows: list[tuple[int, int]] = []
    made: list[tuple[str, int, int, int]] = []
    """What was written, the newest last: kind of place, from where to where, by which box."""
    for number, step in enumerate(schedule.steps):
        kernel = getattr(step, "kernel", None)
        label = kernel.label if kernel else f"{getattr(step.equation, 'primitive', step.equation)}, by NumPy"
        writes = kernel.written if kernel else ()
        if kernel and not writes:
            continue  # it looks for NaN in an input
        sources: list[int] = []
        for k, place in enumerate(step.operands):
            if k in writes and place[0] != "input":
                continue
            where = _where(step, k)
            found = _writers(made, where)
            if not found and place[0] in ("input", "constant"):
                found = [len(boxes)]
                made.append((where[0], where[1], where[2], len(boxes)))
                boxes.append(((_name(place), *_type(schedule, place)), "leaf"))
            sources += found
        written = [_where(step, k) for k in writes] if kernel else [(p[0], p[1], p[1] + 1) for p in step.results]
        last = number >= schedule.commit or any(kind == "output" for kind, *_ in written)
        arrows += [(source, len(boxes)) for source in dict.fromkeys(sources)]
        made += [(kind, first, end, len(boxes)) for kind, first, end in written]
        boxes.append((tuple(wrap(label, 48)[:4]), "output" if last else "operation"))
    return boxes, arrows


def _where(step: Any, k: int) -> tuple[str, int, int]:
    """The place of an operand, and where it ends."""
    kind, first = step.operands[k]
    size = step.bytes[k] if kind == "arena" and getattr(step, "bytes", ()) else 1
    return kind, first, first + size


def _writers(made: list[tuple[str, int, int, int]], where: tuple[str, int, int]) -> list[int]:
    """The boxes that wrote what stands there now: the newest for each part."""
    kind, first, end = where
    open_parts, found = [(first, end)], list[int]()
    for other, start, stop, box in reversed(made):
        if other != kind:
            continue
        left: list[tuple[int, int]] = []
        for a, b in open_parts:
            if start < b and a < stop:
                found.append(box)
                left += [(x, y) for x, y in ((a, start), (stop, b)) if x < y]
            else:
                left.append((a, b))
        open_parts = left
        if not open_parts:
            break
    return found


def _name(place: tuple[str, int]) -> str:
    return f"{place[0]} {place[1]}"


def _type(schedule: Any, place: tuple[str, int]) -> list[str]:
    if place[0] != "input":
        return []
    shape, dtype = schedule.types[place[1]]
    return [f"{np.dtype(dtype)}[{', '.join(map(str, shape))}]"]
