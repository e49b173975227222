"""The native code that all programs share, compiled once: the entry that Python calls, and threads."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from threading import Thread
from typing import NamedTuple

from chainrule.compiler.native import entry, spmd, threads
from chainrule.compiler.native.cache import load
from chainrule.compiler.native.layout import layout
from chainrule.compiler.native.machine import LOCK, QUICK, Code, host, library
from chainrule.errors import MissingExtraError

_OF_PYTHON = (
    "PyTuple_New", "PyTuple_SetItem", "PyList_GetItem", "PyList_SetItem", "Py_IncRef", "Py_DecRef",
    "PyLong_FromLongLong", "PyLong_AsLongLong", "PyErr_Occurred", "PyErr_Clear", "PyErr_SetNone", "PyErr_SetString",
    "PyErr_NoMemory", "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip


class Runtime(NamedTuple):
    shared: Code
    """`run`, `worker`, `halt`, `chainrule_barrier`."""
    entry: int
    """Address of the function that Python calls; 0 where objects are laid out in another way than we know."""


_made: list[Runtime] = []


def runtime() -> Runtime:
    """The shared code, and its functions known to code that is loaded from now on."""
    with LOCK:
        if not _made:
            for name in _OF_PYTHON:
                function = getattr(ctypes.pythonapi, name)
                library().add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
            shared = load(spmd.text(host().architecture, threads=threads.POSSIBLE), QUICK).code
            for name in ("run", "chainrule_barrier") if threads.POSSIBLE else ("run",):
                library().add_symbol(name, shared.address(name))
            at = layout()
            _kept.append(shared)
            if at is not None:
                _kept.append(load(entry.text(at)).code)
            _made.append(Runtime(shared, _kept[-1].address("entry") if at else 0))
    return _made[0]


_kept: list[Code] = []


def prepare() -> None:
    """Begin to make the shared code, beside what Python does meanwhile: the first program will want it."""

    def work() -> None:
        with suppress(MissingExtraError):  # whoever compiles a program will hear of it
            runtime()

    if not _made:
        Thread(target=work, name="chainrule-compiler").start()
