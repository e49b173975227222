"""The native code that all programs share, compiled once: the entry that Python calls, and threads."""

from __future__ import annotations

import ctypes
from functools import cache

from chainrule.compiler.native import entry, spmd, threads
from chainrule.compiler.native.cache import load
from chainrule.compiler.native.layout import layout
from chainrule.compiler.native.machine import Code, host, library

_OF_PYTHON = (
    "PyTuple_New", "PyTuple_SetItem", "PyList_GetItem", "PyList_SetItem", "Py_IncRef", "Py_DecRef", "PyLong_FromLongLong", "PyLong_AsLongLong",
    "PyErr_Occurred", "PyErr_Clear", "PyErr_SetNone", "PyErr_SetString", "PyErr_NoMemory", "PyEval_SaveThread",
    "PyEval_RestoreThread",
)  # fmt: skip


@cache
def runtime() -> Code:
    """`run`, `alone`, `worker`, `halt`, `chainrule_barrier`, and `entry` where objects are laid out as we know them."""
    for name in _OF_PYTHON:
        function = getattr(ctypes.pythonapi, name)
        library().add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    at = layout()
    text = spmd.text(host().architecture, threads=threads.POSSIBLE) + (entry.text(at) if at else "")
    code = load(text).code
    if threads.POSSIBLE:
        library().add_symbol("chainrule_barrier", code.address("chainrule_barrier"))
    return code
