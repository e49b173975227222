"""A compiled program, ready to be called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from chainrule.compiler.native import frame
from chainrule.compiler.native.kernel import OUT_OF_RANGE, Call, Opaque, Place, Schedule
from chainrule.compiler.native.machine import Code, compile_text, host
from chainrule.compiler.native.module import Module, build

_PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class OutOfRange(LookupError):
    """An index beyond its axis: nothing was written, and eager mode has the words for it."""


class Executable:
    """A program's machine code, with everything that lives as long as it does."""

    executor = "native"
    guards = False

    def __init__(self, schedule: Schedule, inputs: int) -> None:
        start = perf_counter()
        self.schedule = schedule
        self.module: Module = build(schedule, inputs, host().architecture)
        self._code = Code(compile_text(self.module.text))
        self.seconds = perf_counter() - start
        self._constants = [np.ascontiguousarray(c) for c in schedule.constants]
        self._addresses = np.array([c.ctypes.data for c in self._constants] or [0], np.uint64)
        self._inputs = inputs
        self._parts: list[Callable[..., Any] | Opaque] = [
            _PART(self._code.address(part)) if isinstance(part, str) else part for part in self.module.parts
        ]
        self._spare: list[Any] = []

    @property
    def kernels(self) -> int:
        return sum(isinstance(step, Call) for step in self.schedule.steps)

    @property
    def arena(self) -> int:
        return self.module.workspace

    def as_text(self) -> str:
        return self.module.text

    def __call__(self, values: Sequence[Any]) -> list[Any] | None:
        outputs = [np.empty(shape, dtype) for shape, dtype in self.schedule.types[self._inputs :]]
        workspace = self._spare.pop() if self._spare else _aligned(self.module.workspace)
        try:
            failed = self._run(list(values), outputs, workspace)
        finally:
            self._spare.append(workspace)
        if failed & OUT_OF_RANGE:
            raise OutOfRange
        return None if failed else outputs

    def _run(self, values: list[Any], outputs: list[Any], workspace: Any) -> int:
        words = frame.frame_bytes(len(values) + len(outputs)) // 8
        carried = _aligned(8 * words).view(np.uint64)
        carried[:] = 0
        carried[frame.WORKSPACE // 8] = workspace.ctypes.data
        carried[frame.CONSTANTS // 8] = self._addresses.ctypes.data
        first = frame.ARRAYS // 8
        carried[first : first + len(values) + len(outputs)] = [a.ctypes.data for a in (*values, *outputs)]
        flags = carried[:1].view(np.int32)

        def array(place: Place, shape: Any, dtype: Any) -> Any:
            kind, number = place
            if kind == "arena":
                return np.ndarray(shape, dtype, workspace, number)
            return {"input": values, "output": outputs, "constant": self._constants}[kind][number].reshape(shape)

        for part in self._parts:
            if isinstance(part, Opaque):
                if _opaque(part, array):
                    flags[1] |= frame.CAREFUL
            else:
                part(carried.ctypes.data, 0, 1)
            if flags.any():
                break
        return int(flags[0] | flags[1])


def _opaque(step: Opaque, array: Callable[[Place, Any, Any], Any]) -> bool:
    """Let the record compute; whether an invalid operation was among it."""
    equation: Any = step.equation
    primitive = equation.primitive
    operands = [array(p, a.shape, a.dtype) for p, a in zip(step.operands, equation.arguments, strict=True)]
    invalid: list[str] = []
    with np.errstate(all="ignore", invalid="call", call=lambda kind, _: invalid.append(kind)):
        made = primitive.forward(*([operands] if primitive.variadic else operands), *equation.parameters)
    results = made if primitive.multiple else (made,)
    for place, value in zip(step.results, results, strict=True):
        value = np.asarray(value)
        array(place, value.shape, value.dtype)[...] = value
    return bool(invalid)


def _aligned(size: int) -> Any:
    """Bytes that begin at a cache line."""
    block = np.empty(size + 64, np.uint8)
    skipped = -block.ctypes.data % 64
    return block[skipped : skipped + size]
