"""The kinds of things that can hold something, and how what they hold is read and written."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from chainrule.backends.registry import type_of as kind_of

ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...), range, slice, np.generic, np.dtype)
"""Values without parts: what they are is all there is to know."""
ARRAY: Any = np.ndarray
SCALAR: Any = np.generic
"""NumPy's two classes, which no checker of types can know in full."""
MISSING: Any = type("Missing", (), {})()
LONGEST = 1000
"""The longest list or dictionary of plain values whose content is compared at every call."""
_LIBRARIES = frozenset({"", "chainrule", "numpy", *sys.stdlib_module_names}) - {"__main__"}
"""Generated code has no module's name."""


@cache
def is_library(module: Any) -> bool:
    """Whether code of this module's name is chainrule's, NumPy's or Python's own: its globals are no one's state."""
    return str(module).partition(".")[0] in _LIBRARIES or str(module).startswith("namedtuple_")


def is_installed(module: types.ModuleType) -> bool:
    """Whether a module is part of an installed package: what is in it stays, and to look may cost or warn."""
    file = getattr(module, "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


attributes_of: Any = vars
"""The attributes of an object; the type of what it gives no checker can know."""


class Kind(NamedTuple):
    """How the places of one kind of thing are read, written and spelled in code."""

    name: str
    read: Callable[[Any], dict[Any, Any]]
    write: Callable[[Any, Any, Any], None]
    delete: Callable[[Any, Any], None]
    by_name: bool = True
    """Whether a place counts only if code that was entered names it."""


def _fixed(*_: Any) -> None:
    raise TypeError("what stands here is fixed")


def _put(value: Any, key: Any, content: Any) -> None:
    value[key] = content


def _drop(value: Any, key: Any) -> None:
    del value[key]


def _own(value: Any) -> dict[str, Any]:
    """The attributes of an object; the mutable ones of its class too, where the user wrote it."""
    found: dict[str, Any] = dict(getattr(value, "__dict__", ()))
    for base in kind_of(value).__mro__:
        if is_library(base.__module__):
            continue
        for name in _slots(base):
            if hasattr(value, name):
                found.setdefault(name, getattr(value, name))
    return found


def _slots(base: type) -> Iterable[str]:
    names = vars(base).get("__slots__", ())
    return [n for n in ((names,) if isinstance(names, str) else names) if not n.startswith("__")]


def _set_attribute(value: Any, key: str, content: Any) -> None:
    attributes = getattr(value, "__dict__", None)
    if attributes is not None and (key in attributes or not hasattr(kind_of(value), key)):
        attributes[key] = content
    else:
        object.__setattr__(value, key, content)


def _delete_attribute(value: Any, key: str) -> None:
    value.__dict__.pop(key, None)


def _class_data(value: Any) -> dict[str, Any]:
    """What a user's class holds itself: no functions, nothing that Python put there."""
    held_by_it: dict[str, Any] = dict(attributes_of(value))
    return {
        name: held
        for name, held in held_by_it.items()
        if not (name.startswith("__") or callable(held) or hasattr(held, "__get__"))
    }


def _of_tensor(tensor: Any) -> dict[str, Any]:
    return {"data": tensor.data, "grad": tensor.grad}


def _numbered(values: Any) -> dict[int, Any]:
    entries: Any = enumerate(values)
    return dict(entries)


def _nothing(_: Any) -> dict[Any, Any]:
    return {}


def _cell(cell: Any) -> dict[str, Any]:
    try:
        return {"cell_contents": cell.cell_contents}
    except ValueError:  # empty
        return {}


def _empty(cell: Any, _: Any) -> None:
    del cell.cell_contents


def _defaults(f: Any) -> dict[str, Any]:
    if is_library(f.__module__):
        return {}
    return {name: getattr(f, name) for name in DEFAULTS if getattr(f, name)}


def _of_partial(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in PARTS}


def _set_partial(value: Any, key: Any, content: Any) -> None:
    state = {**_of_partial(value), key: content}
    value.__setstate__((*state.values(), vars(value)))


DEFAULTS = ("__defaults__", "__kwdefaults__")
PARTS = ("func", "args", "keywords")
TENSOR = Kind("tensor", _of_tensor, setattr, _fixed)
LIST = Kind("list", _numbered, _put, _drop, False)
TUPLE = Kind("tuple", _numbered, _fixed, _fixed, False)
DICTIONARY = Kind("dictionary", dict, _put, _drop, False)
SET = Kind("set", _numbered, _fixed, _fixed, False)
OBJECT = Kind("object", _own, _set_attribute, _delete_attribute)
CLASS = Kind("class", _class_data, setattr, delattr)
SPACE = Kind("space", _nothing, _put, _drop)
"""The globals of a module, of which only the names that code has are looked at."""
CELL = Kind("cell", _cell, setattr, _empty)
FUNCTION = Kind("function", _defaults, setattr, _fixed)
PARTIAL = Kind("partial", _of_partial, _set_partial, _fixed, False)
BOUND = Kind("bound", _nothing, _fixed, _fixed, False)
OPAQUE = Kind("opaque", _nothing, _fixed, _fixed)
