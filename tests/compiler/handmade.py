"""Kernels and schedules written by hand: what the runtime is tested with, whatever code generation does."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.compiler.native.executable import Executable
from chainrule.compiler.native.kernel import OUT_OF_RANGE, Call, Kernel, Place, Schedule
from chainrule.compiler.native.writer import Writer, scalar


def entries(shape: Any) -> int:
    return int(np.prod(shape, dtype=int))


def add_number(shape: Any, dtype: Any, number: str = "1.0", *, work: float = 1.0) -> Kernel:
    """`a1 = a0 + number`, entry by entry; `work` exaggerates how much that is."""
    w, n, s = Writer(), entries(shape), scalar(dtype)
    operation = "fadd" if s.kind == "f" else "add"

    def body(i: str, _: list[str]) -> None:
        x = w.load("%a0", i, dtype)
        w.store(w.value(f"{operation} {s.llvm} {x}, {number}"), "%a1", i, dtype)

    w.loop("%end", body, start="%begin")
    return Kernel("\n".join(w.lines), 2, (1,), n, label=f"x + {number}", flop=n * work, moved=2 * n * s.bytes * work)


def pick(length: int) -> Kernel:
    """`a2[0] = a0[a1[0]]`; an index outside a0 sets the status."""
    w = Writer()
    at = w.load("%a1", "0", "int64")
    beyond = w.value(f"icmp uge i64 {at}, {length}")
    w.when(beyond, lambda: w.line(f"store i32 {OUT_OF_RANGE}, ptr %status"))
    safe = w.value(f"select i1 {beyond}, i64 0, i64 {at}")
    w.store(w.load("%a0", safe, "float32"), "%a2", "0", "float32")
    return Kernel("\n".join(w.lines), 3, (2,), 1, label="gather")


def program(*calls: tuple[Kernel, tuple[Place, ...]], inputs: Any, outputs: Any = (), commit: int | None = None, checked: int = 0, arena: int = 0, constants: Any = ()) -> Executable:  # fmt: skip
    """`inputs` and `outputs` are (shape, dtype) each."""
    types = tuple((tuple(s), np.dtype(d)) for s, d in (*inputs, *outputs))
    steps = tuple(Call(kernel, places) for kernel, places in calls)
    whole = len(steps) if commit is None else commit
    return Executable(Schedule(steps, whole, checked, arena, tuple(constants), types), len(inputs))
