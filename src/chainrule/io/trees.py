"""States as JSON and arrays: what goes in comes back the same, types of keys and bits of numbers included.

JSON's own None, booleans, strings, lists, finite floats and small integers stand for themselves; anything else is an
object with one entry that says what it is: `{"tuple": [...]}`, `{"dict": [[key, value], ...]}`, `{"array": 3}`, the
third of the arrays beside.  Nothing but what is listed here is ever made of a file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.core.calls import is_tensor
from chainrule.errors import DTypeError, explain
from chainrule.io.archive import KINDS
from chainrule.tensor import Tensor
from chainrule.types import Array

Json = Any
SMALL = 1 << 63  # Python refuses to write very long integers in decimal, so from here on they are hexadecimal
DEEPEST = 100  # containers in containers: packing, JSON and unpacking recurse a few calls for each
KEYS = (str, int, float, tuple, type(None), np.generic)  # what may be a key of a dictionary
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def place(array: Array) -> Any:
    """What two arrays have in common when they are the same entries of the same memory in the same order."""
    if not array.size:
        return id(array)
    strides = [step for step, length in zip(array.strides, array.shape, strict=True) if length > 1]
    return array.__array_interface__["data"][0], array.shape, *strides, array.dtype.str


class Packing:
    """Values packed so far: `arrays`, and `names`, which say where in the values they were."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.names: list[str] = []
        self._known: dict[Any, int] = {}

    def pack(self, name: str, value: Any) -> Json:
        """One value.  An array that is in it twice comes back as one; values do not share arrays with each other.

        **Raises** DTypeError, naming the place, for what cannot be stored.
        """
        self._known = {}
        return self._pack(value, (name,))

    def _pack(self, value: Any, path: tuple[Any, ...]) -> Json:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if len(path) > DEEPEST:
            fault = f"{path[0]} contains itself, or is nested more than {DEEPEST} deep"
            raise DTypeError(explain("io.save_checkpoint", fault))
        if value is None or kind in (bool, str) or (kind is int and -SMALL <= value < SMALL):
            return value
        if kind is int:
            return {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
        if kind is list:
            return [self._pack(entry, (*path, at)) for at, entry in enumerate(value)]
        if kind is tuple:
            return {"tuple": [self._pack(entry, (*path, at)) for at, entry in enumerate(value)]}
        if kind is dict:
            pairs = value.items()
            return {"dict": [[self._pack_key(key, path), self._pack(entry, (*path, key))] for key, entry in pairs]}
        if kind is np.ndarray:
            return {"array": self._add(value, path)}
        if issubclass(kind, np.generic):
            return {"scalar": self._add(np.asarray(value), path)}
        if is_tensor(value):
            return {"tensor": [self._add(np.asarray(value.data), path), value.requires_grad and value.is_leaf]}
        if isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in BIT_GENERATORS:
            return {"generator": self._pack(value.bit_generator.state, path)}
        raise _refused(path, value)

    def _pack_key(self, key: Any, path: tuple[Any, ...]) -> Json:
        if not issubclass(type(key), KEYS):
            raise _refused((*path, key), key)
        return self._pack(key, (*path, key))

    def _add(self, array: Array, path: tuple[Any, ...]) -> int:
        if array.dtype.kind not in KINDS:
            raise _refused(path, array)
        number = self._known.setdefault(place(array), len(self.arrays))
        if number == len(self.arrays):
            self.arrays.append(array)
            self.names.append("/".join(map(str, path)))
        return number


def _refused(path: tuple[Any, ...], value: Any) -> DTypeError:
    name = str(path[0]) + "".join(f"[{key!r}]" for key in path[1:])
    fault = f"{name} cannot be stored: numbers, strings, None, lists, tuples, dictionaries, arrays and generators can"
    return DTypeError(explain("io.save_checkpoint", fault, value=value))


def unpack(packed: Json, arrays: list[Array]) -> Any:
    """The value.  **Raises** whatever it may if `packed` is not of our making."""
    if isinstance(packed, list):
        return [unpack(entry, arrays) for entry in packed]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()  # pyright: ignore[reportUnknownVariableType]
    return _UNPACK[kind](content, arrays)


def _unpack_generator(content: Json, arrays: list[Array]) -> np.random.Generator:
    state = unpack(content, arrays)
    if state["bit_generator"] not in BIT_GENERATORS:
        raise ValueError(f"a generator {state['bit_generator']}")
    bits = getattr(np.random, state["bit_generator"])(0)
    bits.state = state
    return np.random.Generator(bits)


_UNPACK: dict[str, Callable[[Any, list[Array]], Any]] = {
    "int": lambda text, arrays: int(text, 16),
    "float": lambda text, arrays: struct.unpack(">d", bytes.fromhex(text))[0],
    "tuple": lambda entries, arrays: tuple(unpack(entries, arrays)),
    "dict": lambda pairs, arrays: {unpack(key, arrays): unpack(value, arrays) for key, value in pairs},
    "array": lambda number, arrays: arrays[number],
    "scalar": lambda number, arrays: arrays[number][()],
    "tensor": lambda content, arrays: Tensor(arrays[content[0]], requires_grad=content[1]),
    "generator": _unpack_generator,
}
