"""Which library computes, found from the types of the arrays.

NumPy is known from the start and needs no look-up.  Another library of the array API standard becomes known when one
of its arrays is met for the first time, or by `use`; from then on calls look at the types of their operands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import modes
from chainrule.errors import BackendError, describe, explain

NUMPY_TYPES = (np.ndarray, np.generic)
_namespaces: dict[type, Any] = {}


def is_numpy(array: Any) -> bool:
    """Whether NumPy computes with this array; its 0-d results are scalars, not arrays."""
    return issubclass(type(array), NUMPY_TYPES)  # an abstract array says that it is one


def type_of(value: Any) -> Any:
    """Its class."""
    return type(value)  # pyright: ignore[reportUnknownVariableType]


def is_numpy_dtype(dtype: Any) -> bool:
    """Whether this is a dtype of NumPy's."""
    return isinstance(dtype, np.dtype)


def is_number(array: Any) -> bool:
    """Whether this is one of NumPy's scalars, which cannot be written to."""
    return issubclass(type(array), np.generic)


def is_foreign(array: Any) -> bool:
    """Whether another library of the array API standard owns this array.  Meeting one registers its library."""
    kind = type_of(array)
    if kind in _namespaces:
        return True
    if is_numpy(array) or not hasattr(kind, "__array_namespace__"):
        return False
    use(array.__array_namespace__(), kind)
    return True


def use(namespace: Any, array_type: type) -> None:
    """Make another library of the array API standard a backend.

    Not needed where its arrays are met inside a tensor.  A bare array of a library not met yet goes to NumPy, which may
    turn it into one of its own: looking at every bare array would cost every backward pass.

    **Raises** nothing; a library twice is the same as once.
    """
    if array_type not in _namespaces:
        modes.add_unusual(1)
    _namespaces[array_type] = namespace


def namespace_of(array: Any) -> Any:
    """The array API namespace that computes with `array`: NumPy's own for NumPy."""
    return np if is_numpy(array) else _namespaces[type(array)]


def dtype_in(library: Any, dtype: Any) -> Any:
    """A dtype given as NumPy understands it, as the dtype of that name in `library`; one of its own as it is."""
    return getattr(library, np.dtype(dtype).name) if isinstance(dtype, (str, type, np.dtype)) else dtype


def common_namespace(operation: str, operands: dict[str, Any]) -> Any:
    """The one library that owns all operands, which are given by name.

    **Raises** BackendError where two libraries meet.
    """
    libraries: dict[str, Any] = {name: np.ndarray if is_numpy(a) else type(a) for name, a in operands.items()}
    if len(set(libraries.values())) > 1:
        named = [f"{name} {describe(a)} of {libraries[name].__module__.split('.')[0]}" for name, a in operands.items()]
        fault = " · ".join(["arrays of different libraries", *named])
        raise BackendError(explain(operation, fault, remedy="all operands as arrays of one library"))
    return namespace_of(next(iter(operands.values())))
