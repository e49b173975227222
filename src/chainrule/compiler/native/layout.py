"""Where CPython and NumPy keep what native code reads by itself: found out, then tested on real objects.

Nothing is taken on trust: where a single answer differs from Python's own, native code keeps its hands off objects,
and programs are called through Python.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from functools import cache
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

SLOTS_OF_API = {"array type": 2, "descriptor type": 3, "new from descriptor": 94}
"""Positions in NumPy's table of C functions, which stay as they are: programs of any age are linked against it.
**Source** numpy/_core/code_generators/numpy_api.py."""


_DTYPE: Any = np.dtype


class Layout(NamedTuple):
    """Offsets in bytes from the start of an object."""

    type: int
    data: int
    ndim: int
    shape: int
    base: int
    descriptor: int
    flags: int
    weak: int
    """Of an array: who refers to it without holding it."""
    number: int
    """Of a descriptor: which type, an i32."""
    order: int
    """Of a descriptor: one character, its order of bytes."""
    length: int
    """Of a tuple."""
    items: int
    float_value: int
    new: int
    """Address of the function that makes an array; not an offset."""
    counted: bool
    """Whether the first four bytes of an object count its references, so that 1 means: nobody else has it."""


@cache
def layout() -> Layout | None:
    """The layout of this interpreter and this NumPy; None where it is not the one that we know."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    head = object.__basicsize__
    guess = Layout(
        type=head - 8, data=head, ndim=head + 8, shape=head + 16, base=head + 32, descriptor=head + 40,
        flags=head + 48, weak=head + 56, number=head + 12, order=head + 10, length=head, items=tuple.__basicsize__,
        float_value=head, new=0, counted=False,
    )  # fmt: skip
    if guess.weak + 8 > np.ndarray.__basicsize__ or guess.number + 4 > type(np.dtype("f4")).__basicsize__:
        return None
    tried = all(_array_fits(a, guess) for a in _samples()) and all(_tuple_fits(t, guess) for t in ((), (1,), (1, "a")))
    if not tried or _read(ctypes.c_double, 2.5, guess.float_value) != 2.5:
        return None
    new = _maker()
    return guess._replace(new=new, counted=_counted()) if new else None


def type_numbers(dtype: Any) -> int:
    """One bit for each of NumPy's types that are this one: an integer of 64 bits may be a long or a long long."""
    known = [np.dtype(c) for c in "?bhilqpBHILQPefdgFDG"]
    return sum(1 << n for n in {d.num for d in known if d == dtype and d.itemsize == dtype.itemsize})


def swapped_order() -> str:
    """The character by which a descriptor says that its bytes stand in the other order."""
    return ">" if sys.byteorder == "little" else "<"


def _read(kind: Any, thing: Any, offset: int) -> Any:
    return kind.from_address(id(thing) + offset).value


def _samples() -> list[Any]:
    """Arrays that differ in all that is read."""
    made = [np.zeros(shape, dtype) for shape in ((), (3,), (2, 5), (4, 0, 2)) for dtype in "?bBhHiIqQfd"]
    bytes_ = np.zeros(41, np.uint8)
    read_only = np.ones((3, 2))
    read_only.flags.writeable = False
    return [*made, bytes_[1:].view("f8"), np.zeros((3, 4), order="F"), np.zeros((4, 6), "f4")[::2, 1:], read_only,
            np.zeros(3, ">f4"), np.zeros(3, "<i8"), np.zeros(2, "c16"), np.zeros(2, "f2"), np.zeros(2, "U3")]  # fmt: skip


def _array_fits(array: Any, at: Layout) -> bool:
    order = "=" if array.dtype.isnative else swapped_order()
    dims = (
        (ctypes.c_int64 * array.ndim).from_address(_read(ctypes.c_void_p, array, at.shape) or 0) if array.ndim else ()
    )
    return (
        _read(ctypes.c_void_p, array, at.type) == id(array.__class__)
        and _read(ctypes.c_void_p, array, at.data) == array.ctypes.data
        and _read(ctypes.c_int32, array, at.ndim) == array.ndim
        and tuple(dims) == array.shape
        and _read(ctypes.c_void_p, array, at.descriptor) == id(array.dtype)
        and _read(ctypes.c_void_p, array, at.base) == (None if array.base is None else id(array.base))
        and _weakly_held(array, at)
        and _read(ctypes.c_int32, array, at.flags) & 0x505 == array.flags.num & 0x505
        and _read(ctypes.c_int32, array.dtype, at.number) == array.dtype.num
        and (_read(ctypes.c_char, array.dtype, at.order).decode() == swapped_order()) == (order == swapped_order())
    )


def _weakly_held(array: Any, at: Layout) -> bool:
    before = _read(ctypes.c_void_p, array, at.weak)
    held = ref(array)
    return before is None and _read(ctypes.c_void_p, array, at.weak) == id(held)


def _counted() -> bool:
    """Not so where Python runs without its global lock, which counts in other ways."""
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sys.byteorder != "little":
        return False
    holders = [np.empty(3)]
    count = ctypes.c_uint32.from_address(id(holders[0]))
    alone = count.value
    holders *= 6
    together = count.value
    del holders[2:]
    return (alone, together, count.value) == (1, 6, 2)


def _tuple_fits(values: tuple[Any, ...], at: Layout) -> bool:
    read = [_read(ctypes.c_void_p, values, at.items + 8 * k) for k in range(len(values))]
    return _read(ctypes.c_int64, values, at.length) == len(values) and read == [id(v) for v in values]


def _maker() -> int:
    """Address of PyArray_NewFromDescr, once it has made an array for us; else 0."""
    try:
        from numpy._core._multiarray_umath import _ARRAY_API  # type: ignore[attr-defined]
    except ImportError:
        return 0
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = (ctypes.c_void_p * 100).from_address(pointer(_ARRAY_API, None))
    types = (table[SLOTS_OF_API["array type"]], table[SLOTS_OF_API["descriptor type"]])
    if types != (id(np.ndarray), id(_DTYPE)):
        return 0
    address = table[SLOTS_OF_API["new from descriptor"]] or 0
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
        ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
    )(address)  # fmt: skip
    dtype, dims = np.dtype("f4"), (ctypes.c_int64 * 2)(3, 5)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # it takes one away
    made = make(np.ndarray, dtype, 2, ctypes.addressof(dims), None, None, 0, None)
    right = type(made) is np.ndarray and made.shape == (3, 5) and made.dtype is dtype
    return address if right and made.flags.carray and made.flags.owndata else 0
