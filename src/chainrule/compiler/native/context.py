"""What the native entry needs of one program, in memory, and the Python function made of both."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.compiler.native import frame, records, threads
from chainrule.compiler.native.kernel import Call, Schedule
from chainrule.compiler.native.layout import layout, type_numbers
from chainrule.compiler.native.machine import Code
from chainrule.compiler.native.module import Module
from chainrule.compiler.native.runtime import runtime

_LONG = 20e-6  # seconds: shorter than this, letting other Python threads run costs more than it gives
_TAKES_ONE_ARGUMENT = 0x8  # CPython's METH_O

Type = tuple[Any, ...]
"""(shape, dtype)."""


class OutOfRange(LookupError):  # noqa: N818 - it never reaches a user
    """An index beyond its axis: nothing was written, and eager mode has the words for it."""


class Constants(NamedTuple):
    """A program's own arrays, and the table of their addresses."""

    arrays: tuple[Any, ...]
    addresses: Any

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> Constants:
        kept = tuple(np.ascontiguousarray(a) for a in arrays)
        return cls(kept, np.array([a.ctypes.data for a in kept] or [0], np.uint64))


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))  # fmt: skip


class _Context(np.ndarray):
    """An array of addresses that keeps alive what it points to: `self` of the native function."""

    kept: tuple[Any, ...]


def written_inputs(schedule: Schedule) -> list[int]:
    """The inputs whose memory the program writes."""
    return sorted({
        call.operands[k][1]
        for call in schedule.steps[schedule.commit :]
        if isinstance(call, Call)
        for k in call.kernel.written
        if call.operands[k][0] == "input"
    })  # fmt: skip


def make_entry(schedule: Schedule, inputs: int, module: Module, code: Code, constants: Constants, workspace: Any, capacity: int) -> Callable[..., Any] | None:  # fmt: skip
    """`entry(values)`, or None where a program has opaque steps or objects are laid out in another way than we know."""
    at = layout()
    if at is None or len(module.parts) != 1 or not isinstance(module.parts[0], str):
        return None
    written = written_inputs(schedule)
    dims: list[Any] = []
    given = [_input_record(t, k in written, dims) for k, t in enumerate(schedule.types[:inputs])]
    made = [_output_record(t, dims) for t in schedule.types[inputs:]]
    input_records = np.array([tuple(r) for r in given] or [(0,) * 8], np.uint64)
    output_records = np.array([tuple(r) for r in made] or [(0,) * 4], np.uint64)
    filled = [k for k in written if given[k].bytes]
    written_list = np.array(filled or [0], np.int64)
    spares: list[Any] = [None] * (2 * len(made))
    slots = (len(given) + len(made) + 7) // 8 * 8  # whole vectors of addresses
    ends = frame.ARRAYS + 8 * slots
    numbers = ends + 8 * (slots + 8)
    values: dict[str, Any] = {
        "array_type": id(np.ndarray), "tuple_type": id(tuple), "float_type": id(float), "int_type": id(int),
        "none": id(None), "out_of_range": id(OutOfRange), "type_error": id(TypeError), "new": at.new,
        "part": code.address(module.parts[0]), "inputs": len(given), "outputs": len(made), "written": len(filled),
        "workspace": workspace.ctypes.data, "busy": 0, "workspace_bytes": workspace.size,
        "frame_bytes": numbers + 8 * len(given) + 64, "ends": ends, "numbers": numbers,
        "constants": constants.addresses.ctypes.data, "input_records": input_records.ctypes.data,
        "output_records": output_records.ctypes.data, "written_list": written_list.ctypes.data,
        "pool": threads.cell() if module.parallel else 0, "threads": capacity,
        "long": module.parallel or module.seconds > _LONG, "spares": id(spares) if at.counted else 0,
    }  # fmt: skip
    context: Any = np.array([int(values[name]) for name in records.CONTEXT], np.uint64).view(_Context)
    method = _Method(b"program", runtime().entry, _TAKES_ONE_ARGUMENT, None)
    context.kept = (
        spares,
        schedule,
        code,
        constants,
        workspace,
        dims,
        input_records,
        output_records,
        written_list,
        method,
    )
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(method), context, None)


def _input_record(type_: Type, written: bool, dims: list[Any]) -> records.InputRecord:
    shape, dtype = type_[0], np.dtype(type_[1])
    number = {"float64": 1, "int64": 2}.get(dtype.name, 0) if shape == () and not written else 0
    flags = records.CONTIGUOUS | records.ALIGNED | (records.WRITEABLE if written else 0)
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    return records.InputRecord(
        id(_kept(dtype)), type_numbers(dtype), len(shape), _dims(shape, dims), size, flags, dtype.itemsize - 1, number
    )


def _output_record(type_: Type, dims: list[Any]) -> records.OutputRecord:
    return records.OutputRecord(id(_kept(np.dtype(type_[1]))), len(type_[0]), _dims(type_[0], dims))


_descriptors: dict[str, Any] = {}


def _kept(dtype: Any) -> Any:
    """NumPy's own descriptor for this dtype, which lives as long as the process."""
    return _descriptors.setdefault(dtype.name, np.dtype(dtype.type))


def _dims(shape: Sequence[int], dims: list[Any]) -> int:
    dims.append((ctypes.c_int64 * max(len(shape), 1))(*shape))
    return ctypes.addressof(dims[-1])
