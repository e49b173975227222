"""Inputs in which a NaN calls for the careful program: a kernel that looks for one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from chainrule.compiler.native.frame import CAREFUL
from chainrule.compiler.native.kernel import Call, Kernel, Machine, Opaque, Schedule
from chainrule.compiler.native.writer import SCALARS, Writer, scalar, typed


class CarefulError(Exception):
    """An opaque step asks for the careful program."""


def watching(schedule: Schedule, watched: Sequence[int], machine: Machine) -> Schedule:
    """The schedule, with a look at the `watched` inputs before everything else."""
    looks: list[Call | Opaque] = []
    for k in watched:
        shape, dtype = _type(schedule, k)
        if dtype.kind in "fc" and prod(shape):
            native = dtype.name in SCALARS
            looks.append(Call(_kernel(shape, dtype, machine), (("input", k),)) if native else _slow(k, shape, dtype))
    n = len(looks)
    return schedule._replace(
        steps=(*looks, *schedule.steps),
        commit=schedule.commit + n,
        checked=schedule.checked and schedule.checked + n,
    )


def _type(schedule: Schedule, k: int) -> tuple[tuple[int, ...], Any]:
    shape, dtype = cast("tuple[Any, Any]", schedule.types[k])
    return tuple(shape), np.dtype(dtype)


def _slow(k: int, shape: Sequence[int], dtype: Any) -> Opaque:
    """For a dtype that native code does not know: NumPy looks."""

    def forward(x: Any) -> None:
        if np.isnan(x).any():
            raise CarefulError

    equation = SimpleNamespace(primitive=SimpleNamespace(forward=forward, variadic=False), parameters=())
    return Opaque(equation, (("input", k),), (), (), ((shape, dtype),), ())


def _kernel(shape: Sequence[int], dtype: Any, machine: Machine) -> Kernel:
    """A share of fewer entries than a vector holds goes one by one; of others the last vector may overlap with the one before."""
    w, s = Writer(), scalar(dtype)
    width = machine.vector_bytes // s.bytes

    def look(width: int) -> None:
        kind, truths = typed(s.llvm, width), typed("i1", width)

        def body(at: str, found: list[str]) -> list[str]:
            if width > 1:
                at = w.intrinsic("llvm.smin.i64", "i64", at, w.value(f"sub i64 %end, {width}"))
            x = w.load("%a0", at, dtype, width)
            return [w.value(f"or {truths} {found[0]}, {w.value(f'fcmp uno {kind} {x}, {x}')}")]

        none = "false" if width == 1 else "zeroinitializer"
        (found,) = w.loop("%end", body, [(truths, none)], start="%begin", step=width)
        if width > 1:
            w.declarations.add(f"declare i1 @llvm.vector.reduce.or.v{width}i1({truths})")
            found = w.value(f"call i1 @llvm.vector.reduce.or.v{width}i1({truths} {found})")
        w.when(found, lambda: w.line(f"{w.name()} = atomicrmw or ptr %status, i32 {CAREFUL} monotonic"))

    wide = w.value(f"icmp sge i64 {w.value('sub i64 %end, %begin')}, {width}")
    w.when(wide, lambda: look(width))
    narrow = w.value(f"xor i1 {wide}, true")
    w.when(narrow, lambda: look(1))
    size = prod(shape)
    return Kernel("\n".join(w.lines), 1, (), size, declarations=frozenset(w.declarations), label="isnan", flop=size, moved=size * s.bytes)  # fmt: skip
