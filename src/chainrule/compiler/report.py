"""Where the time of a compiled program goes, kernel by kernel, beside what this machine can do at most.

The idea: a kernel cannot be faster than its bytes through memory and its operations through the vector units; both limits
are measured here, by kernels made by the same code generation, and a kernel's time is told as a share of the slower one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
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
        return "\n".join([f"{calls} kernels, {_time(self.seconds)}", head, *lines, limits])

    __str__ = as_text


def _line(row: Row, total: float) -> str:
    seconds = max(row.seconds, 1e-9)
    of_limit = f"{min(row.bound / seconds, 1.0):8.0%}" if row.bound else f"{'':8}"
    return (
        f"{_time(row.seconds):>10} {row.seconds / total:6.1%} {row.calls:5} {row.flop / seconds / 1e9:8.1f} "
        f"{row.moved / seconds / 1e9:7.1f} {of_limit}  {row.label}"
    )


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def report(executable: Any) -> Report:
    """Time every kernel of a native program, on numbers made up for it.

    **Raises** ArgumentError for a program that NumPy executes.
    """
    if getattr(executable, "executor", "numpy") != "native":
        fault = "NumPy executes this program, an operation at a time, and there are no kernels to tell of"
        raise ArgumentError(explain("explain", fault, remedy="pip install 'chainrule[jit]', or jit(executor='native')"))
    flops, bandwidth = limits()
    times = executable.profile(made_up(executable.schedule.types[: executable.inputs]))
    rows = tuple(sorted(_rows(times, flops, bandwidth), key=lambda row: -row.seconds))
    return Report(rows, flops, bandwidth)


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
    made: dict[Any, int] = {}
    for number, step in enumerate(schedule.steps):
        kernel = getattr(step, "kernel", None)
        written = [step.operands[k] for k in kernel.written] if kernel else list(step.results)
        label = kernel.label if kernel else f"{getattr(step.equation, 'primitive', step.equation)}, by NumPy"
        here: list[int] = []
        for k, place in enumerate(step.operands):
            if kernel and k in kernel.written and place[0] != "input":
                continue
            if place not in made and place[0] in ("input", "constant"):
                made[place] = len(boxes)
                boxes.append(((_name(place), *_type(schedule, place)), "leaf"))
            if place in made:
                here.append(made[place])
        box = len(boxes)
        last = number >= schedule.commit or any(place[0] == "output" for place in written)
        boxes.append(((label,), "output" if last else "operation"))
        arrows += [(source, box) for source in dict.fromkeys(here)]
        made.update(dict.fromkeys(written, box))
    return boxes, arrows


def _name(place: tuple[str, int]) -> str:
    return f"{place[0]} {place[1]}"


def _type(schedule: Any, place: tuple[str, int]) -> list[str]:
    if place[0] != "input":
        return []
    shape, dtype = schedule.types[place[1]]
    return [f"{np.dtype(dtype)}[{', '.join(map(str, shape))}]"]
