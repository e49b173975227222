"""A compiled program, ready to be called: natively in one go, or part by part where NumPy computes in between."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np

from chainrule.compiler.native import frame, threads
from chainrule.compiler.native.cache import load
from chainrule.compiler.native.context import Constants, OutOfRange, make_entry, written_inputs
from chainrule.compiler.native.kernel import OUT_OF_RANGE, Call, Kernel, Opaque, Place, Schedule
from chainrule.compiler.native.machine import host, machine
from chainrule.compiler.native.module import Module, build
from chainrule.compiler.native.runtime import runtime
from chainrule.compiler.native.watch import CarefulError

__all__ = ["Executable", "KernelTime", "OutOfRange"]


_MEASURABLE = 3e-7  # seconds: the counter that stamps are read from moves in steps of 10 to 40 ns
_Types = tuple[tuple[Any, Any], ...]


class KernelTime(NamedTuple):
    """One kernel in a report."""

    kernel: Kernel
    seconds: float


class Executable:
    """A program's machine code, with everything that lives as long as it does."""

    executor = "native"

    def __init__(self, schedule: Schedule, inputs: int) -> None:
        start = perf_counter()
        self.schedule = schedule
        self.inputs = inputs
        self._capacity = threads.get_num_threads()
        self.module: Module = build(schedule, inputs, host().architecture, self._capacity, avx512=_avx512())
        runtime()  # before the code that calls it
        self._code, self.source = load(self.module.text)
        """`source`: whether the code was "compiled", or came from "disk" or "memory"."""
        if self.module.parallel:
            threads.start()
        self._constants = Constants.of(schedule.constants)
        self._workspace = _aligned(self.module.workspace)
        entry = make_entry(schedule, inputs, self.module, self._code, self._constants, self._workspace, self._capacity)
        self.guards = self.numbers = entry is not None
        """Whether `entry(values)` is there and looks at every argument by itself, Python numbers among them."""
        if entry is not None:
            self.entry: Callable[[tuple[Any, ...]], Any] = entry
        self._written = written_inputs(schedule)
        self._parts = [self._code.address(p) if isinstance(p, str) else p for p in self.module.parts]
        self._spare: list[Any] = [self._workspace] if entry is None else []
        self.seconds = perf_counter() - start

    # ------------------------------------------------------------ reports
    @property
    def calls(self) -> list[Kernel]:
        """The kernels in the order in which they run."""
        return [step.kernel for step in self.schedule.steps if isinstance(step, Call)]

    @property
    def kernels(self) -> int:
        return len(self.calls)

    @property
    def arena(self) -> int:
        """Bytes between calls: intermediate results and scratch memory."""
        return self.module.workspace

    def as_text(self) -> str:
        """The LLVM module."""
        return self.module.text

    def fault(self, told: int) -> int:
        """The number of the argument that did not fit, from what `entry` gave."""
        return told - 1

    def profile(self, values: Sequence[Any], seconds: float = 0.1) -> list[KernelTime]:
        """How long each kernel takes, on one thread, on copies of `values`: the least of the runs that fit into a time.

        A short kernel runs several times in a row.
        """
        once = self._measure(values, [1] * len(self.schedule.steps), seconds / 2)
        often = [int(min(max(_MEASURABLE / max(t, 1e-9), 1), 1000)) for t in once]
        best = self._measure(values, often, seconds / 2)
        steps = zip(self.schedule.steps, best, strict=True)
        return [KernelTime(step.kernel, t) for step, t in steps if isinstance(step, Call)]

    def _measure(self, values: Sequence[Any], repeats: Sequence[int], seconds: float) -> list[float]:
        """Seconds of each step, which runs so many times; 0 for one that did not run, as something went wrong before."""
        module = build(self.schedule, self.inputs, host().architecture, repeats=repeats, avx512=_avx512())
        code = load(module.text).code
        parts = [code.address(p) if isinstance(p, str) else p for p in module.parts]
        copies, outputs, workspace = [np.array(v) for v in values], self._outputs(), _aligned(module.workspace)
        best: Any = np.full(len(repeats), np.inf)
        ends: list[tuple[float, int]] = []  # by the clock, and by the counter that stamps are read from
        while len(ends) < 2 or ends[-1][0] - ends[0][0] < seconds:
            stamps = np.zeros((len(repeats), 2), np.int64)
            for copy, value in zip(copies, values, strict=True):
                copy[...] = value
            self._run(parts, copies, outputs, workspace, stamps)
            ends.append((perf_counter(), int(stamps.max())))
            best = np.minimum(best, np.where(stamps[:, 1] > 0, stamps[:, 1] - stamps[:, 0], np.inf))
        best *= (ends[-1][0] - ends[0][0]) / max(ends[-1][1] - ends[0][1], 1)
        return [0.0 if np.isinf(t) else float(t) / n for t, n in zip(best, repeats, strict=True)]

    # ------------------------------------------------------------ calls
    def __call__(self, values: Sequence[Any]) -> list[Any] | None:
        """The fresh outputs; None where the careful program must run.  **Raises** OutOfRange; nothing was written then.

        Without `guards` whoever calls has looked at the arguments.
        """
        if self.guards:
            told = self.entry(tuple(values))
            if isinstance(told, int):
                raise TypeError(f"argument {self.fault(told)} of a compiled program does not fit")
            return told if told is None else list(told)
        outputs = self._outputs()
        whole = [_whole(value) for value in values]
        workspace = self._spare.pop() if self._spare else _aligned(self.module.workspace)
        try:
            failed = self._run(self._parts, whole, outputs, workspace)
        finally:
            self._spare.append(workspace)
        if failed & OUT_OF_RANGE:
            raise OutOfRange
        if failed:
            return None
        for k in self._written:
            if whole[k] is not values[k]:
                values[k][...] = whole[k]
        return outputs

    def _outputs(self) -> list[Any]:
        types = cast("Sequence[tuple[Any, Any]]", self.schedule.types[self.inputs :])
        return [np.empty(shape, dtype) for shape, dtype in types]

    def _run(self, parts: Sequence[int | Opaque], values: list[Any], outputs: list[Any], workspace: Any, stamps: Any = None) -> int:  # fmt: skip
        arrays = [*values, *outputs]
        carried = _aligned(frame.frame_bytes(len(arrays))).view(np.uint64)
        carried[:] = 0
        carried[frame.WORKSPACE // 8] = workspace.ctypes.data
        carried[frame.CONSTANTS // 8] = self._constants.addresses.ctypes.data
        carried[frame.ARRAYS // 8 : frame.ARRAYS // 8 + len(arrays)] = [a.ctypes.data for a in arrays]
        if stamps is not None:
            carried[frame.TIMES // 8] = stamps.ctypes.data
        flags = carried[:1].view(np.int32)

        def array(place: Place, shape: Any, dtype: Any) -> Any:
            kind, number = place
            if kind == "arena":
                return np.ndarray(shape, dtype, workspace, number)
            known: dict[str, Sequence[Any]] = {"input": values, "output": outputs, "constant": self._constants.arrays}
            return known[kind][number].reshape(shape)

        run = _runner()
        cell = threads.cell() if self.module.parallel and stamps is None else None
        for part in parts:
            if isinstance(part, Opaque):
                if _opaque(part, array, checked=self.schedule.checked > 0):
                    flags[1] |= frame.CAREFUL
            else:
                carried[frame.BARRIER // 8] = 0
                run(cell, part, carried.ctypes.data, self._capacity, 1)
            if flags.any():
                break
        return int(flags[0] | flags[1])


def _avx512() -> bool:
    return machine().vector_bytes == 64


def _runner() -> Callable[..., int]:
    """`run`, called with the interpreter's lock, which it lets go of by itself."""
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return ctypes.PYFUNCTYPE(ctypes.c_int, *kinds)(runtime().shared.address("run"))


def _opaque(step: Opaque, array: Callable[[Place, Any, Any], Any], checked: bool) -> bool:
    """Let the record compute; whether the careful program must run: for an invalid operation only if that is `checked`."""
    equation: Any = step.equation
    primitive = equation.primitive
    operand_types, result_types = cast("_Types", step.operand_types), cast("_Types", step.result_types)
    operands = [array(p, *t) for p, t in zip(step.operands, operand_types, strict=True)]
    invalid: list[str] = []
    try:
        with np.errstate(all="ignore", invalid="call", call=lambda kind, _: invalid.append(kind)):
            made = primitive.forward(*([operands] if primitive.variadic else operands), *equation.parameters)
    except CarefulError:
        return True
    for place, pick, t in zip(step.results, step.picks, result_types, strict=True):
        array(place, *t)[...] = made if pick is None else made[pick]
    return checked and bool(invalid)


def _whole(array: Any) -> Any:
    """An array as native code reads it: itself, or a copy of one that lies otherwise in memory."""
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C")


def _aligned(size: int) -> Any:
    """Bytes that begin at a cache line."""
    block = np.empty(size + 64, np.uint8)
    skipped = -block.ctypes.data % 64
    return block[skipped : skipped + size]
