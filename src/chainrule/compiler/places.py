"""Where a function finds what it reads and writes: every object reached from it, each once, and the places in each.

The idea: an object that can hold something (a list, a closure cell, the attributes of a module, a tensor) is a `Thing`
with named `places`; what stands in a place is an array, a number, or another thing.  A trace puts boxes into places,
compares them afterwards, and puts back what was there.  The walk is made once per specialisation, never per call.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextvars import ContextVar
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from chainrule.compiler.kinds import (
    ARRAY,
    ATOMS,
    BOUND,
    CELL,
    CLASS,
    DEFAULTS,
    DICTIONARY,
    FUNCTION,
    LIST,
    MISSING,
    OBJECT,
    OPAQUE,
    PARTIAL,
    PARTS,
    SET,
    SPACE,
    TENSOR,
    TUPLE,
    Kind,
    attributes_of,
    is_installed,
    is_library,
    kind_of,
)  # fmt: skip
from chainrule.core.primitive import Primitive
from chainrule.core.template import late

_CLOSED: Any = (
    Primitive, type(sys), types.BuiltinFunctionType, np.ufunc, np.random.Generator,
    weakref.ReferenceType, ContextVar, types.CodeType, types.GeneratorType, property,
)  # fmt: skip


class Thing:
    """One object: what it is, where it was met first, and what it held when the walk came by."""

    __slots__ = ("before", "first", "given", "kind", "names", "number", "parts", "value")

    def __init__(self, value: Any, kind: Kind, first: Place | None, given: bool, number: int) -> None:
        self.value = value
        self.kind = kind
        self.first = first
        self.given = given
        """Whether it came with the arguments: another one may come with the next call."""
        self.number = number
        self.names: set[str] = set()
        self.before: dict[Any, Any] = {}
        self.parts: dict[str, Thing] = {}
        """What belongs to it for good: a function's cells, a method's function."""

    def now(self) -> dict[Any, Any]:
        """What it holds now."""
        if self.kind is SPACE:
            return {name: self.value.get(name, MISSING) for name in self.names}
        return self.kind.read(self.value)

    def restore(self) -> None:
        """Let it hold what it held before."""
        if self.kind in (TUPLE, OPAQUE):
            return
        if self.kind is SET:
            if set(self.value) != set(self.before.values()):
                self.value.clear()
                self.value.update(self.before.values())
            return
        if self.kind is LIST:
            if len(self.value) == len(self.before) and all(map(is_, self.value, self.before.values())):
                return
            self.value.clear()
            self.value.extend(self.before.values())
            return
        now = self.now()
        for key, value in self.before.items():
            if now.get(key, MISSING) is value:
                continue
            if value is MISSING:
                self.kind.delete(self.value, key)
            else:
                self.kind.write(self.value, key, value)
        for key in now.keys() - self.before.keys():
            self.kind.delete(self.value, key)


class Place(NamedTuple):
    """Something that stands somewhere: `owner[key]`, whatever that means for the owner."""

    owner: Thing
    key: Any

    @property
    def path(self) -> tuple[Any, ...]:
        """How one comes here, to know the place again in another walk."""
        keys: list[Any] = []
        place: Place | None = self
        while place is not None:
            keys.append(place.key)
            place = place.owner.first
        return tuple(reversed(keys))

    def __str__(self) -> str:
        """As a user would write it: `self.scale`, `history[3]`, `lr`."""
        text = ""
        for key in self.path:
            if key in ("f", "arguments", "keywords", "cell_contents", "function", *DEFAULTS, *PARTS) or isinstance(
                key, tuple
            ):
                continue
            if isinstance(key, str) and key.isidentifier():
                text += f".{key}" if text else key
            else:
                text += f"[{key!r}]" if text else f"argument {key}"
        return text or "the function"


class Walk:
    """Everything reached from a function and its arguments.

    `names` and `spaces`: what code entered by an earlier trace was seen to name, and the globals it named them in.
    """

    def __init__(
        self, f: Any, arguments: list[Any], keywords: dict[str, Any], names: set[str], spaces: list[dict[str, Any]]
    ) -> None:
        self.things: dict[int, Thing] = {}
        self.kept: list[Any] = []
        """So that no identity is given to another object while this walk is used."""
        self.others: dict[int, list[Place]] = {}
        """By identity, all the places of a thing after the first."""
        self.names = set(names)
        self.modules: set[int] = set()
        """Numbers of spaces that were met as modules: their attributes are read, not only names of globals."""
        self.todo: list[Thing] = []
        self.functions: dict[types.CodeType, list[Thing]] = {}
        self.generators: dict[int, tuple[Any, Place]] = {}
        self.root = Thing({"f": f, "arguments": arguments, "keywords": keywords}, DICTIONARY, None, True, 0)
        self.arguments = self._add(arguments, LIST, Place(self.root, "arguments"), True)
        self.keywords = self._add(keywords, DICTIONARY, Place(self.root, "keywords"), True)
        self.function = self.meet(f, Place(self.root, "f"), False)
        for space in spaces:
            self._space(space)
        self._go_on()

    def __iter__(self) -> Iterator[Thing]:
        return iter(self.things.values())

    def thing(self, value: Any) -> Thing | None:
        """The thing that `value` is, if it was met."""
        found = self.things.get(id(value))
        return found if found is not None and found.value is value else None

    def _go_on(self) -> None:
        opened = -1
        while self.todo or len(self.names) + len(self.modules) > opened:
            while self.todo:
                self._open(self.todo.pop())
            opened = len(self.names) + len(self.modules)
            for thing in [t for t in self.things.values() if t.kind is SPACE]:
                names = {n for n in self.names if thing.number in self.modules or n[:1] == "."}
                for name in sorted({n.lstrip(".") for n in names} - thing.names):
                    thing.names.add(name)
                    thing.before[name] = held = thing.value.get(name, MISSING)
                    self.meet(held, Place(thing, name), False)

    def _add(self, value: Any, kind: Kind, place: Place | None, given: bool) -> Thing:
        thing = self.things[id(value)] = Thing(value, kind, place, given, len(self.things))
        self.kept.append(value)
        self.todo.append(thing)
        return thing

    def _space(self, space: dict[str, Any], place: Place | None = None) -> Thing:
        found = self.thing(space)
        place = place or Place(self.root, ("globals", str(space.get("__name__"))))
        return self._add(space, SPACE, place, False) if found is None else found

    def meet(self, value: Any, place: Place, given: bool) -> Thing | None:
        """Take note of what stands in a place; None for what has no parts."""
        # by type(), since isinstance asks an object that stands for another for its class, which may do anything
        if issubclass(type(value), ATOMS) or value is MISSING or kind_of(value) is ARRAY:
            return None
        found = self.thing(value)
        if found is not None:
            self.others.setdefault(id(value), []).append(place)
            return found
        if issubclass(type(value), types.ModuleType):
            module: Any = value
            if is_library(module.__name__) or is_installed(module):
                return None
            space = self._space(attributes_of(module), place)
            self.modules.add(space.number)
            return space
        if issubclass(type(value), np.random.Generator):
            self.generators[id(value)] = value, place
        return self._add(value, _classified(value), place, given)

    def _open(self, thing: Thing) -> None:
        value, kind, given = thing.value, thing.kind, thing.given
        if kind is FUNCTION:
            self._open_function(thing)
        elif kind is BOUND:
            for name in _parts_of(value):
                self._part(thing, name, getattr(value, name), given)
        elif kind is OBJECT:
            self._open_class(kind_of(value))
        elif kind is CLASS:
            self._open_class(value)
        thing.before = thing.now()
        for key, held in thing.before.items():
            self.meet(held, Place(thing, key), given)

    def _part(self, thing: Thing, name: str, value: Any, given: bool) -> None:
        part = self.meet(value, Place(thing, name), given)
        if part is not None:
            thing.parts[name] = part

    def _open_function(self, thing: Thing) -> None:
        f = thing.value
        if is_library(f.__module__) and ("<locals>" not in f.__qualname__ or hasattr(f, "primitive")):
            return  # what a function of ours holds itself is no one's state; one made by a transform holds the user's
        self.functions.setdefault(f.__code__, []).append(thing)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if self.thing(cell) is None:
                thing.parts[name] = self._add(cell, CELL, Place(thing, name), thing.given)
            else:
                thing.parts[name] = self.things[id(cell)]
        if not is_library(f.__module__):
            self.names |= names_in(f.__code__)
            self._space(f.__globals__)

    def _open_class(self, kind: type) -> None:
        """The methods of a user's class, for the globals that they name, and what the class itself holds."""
        for base in kind.__mro__:
            if is_library(base.__module__) or self.thing(base) is not None:
                continue
            self._add(base, CLASS, Place(self.root, base.__qualname__), False)
            for held in vars(base).values():
                for f in functions_in(held):
                    if self.thing(f) is None:
                        self._add(f, FUNCTION, Place(self.root, f.__qualname__), False)


def functions_in(held: Any) -> list[types.FunctionType]:
    """The functions of what a class holds: of a method, a property, a compiled function."""
    found = (getattr(held, name, None) for name in ("__func__", "fget", "fset", "fdel", "func", "function"))
    return [f for f in (held, *found) if isinstance(f, types.FunctionType)]


def _parts_of(value: Any) -> tuple[str, ...]:
    if issubclass(type(value), types.MethodType):
        return "__self__", "__func__"
    return ("function",)


_KINDS: dict[type, Kind] = {
    list: LIST, deque: LIST, tuple: TUPLE, dict: DICTIONARY, OrderedDict: DICTIONARY, set: SET, frozenset: SET,
    types.FunctionType: FUNCTION, types.MethodType: BOUND, functools.partial: PARTIAL,
}  # fmt: skip


def register_bound(kind: type) -> None:
    """A class whose objects are functions around another, in the attribute `function`."""
    _KINDS[kind] = BOUND


def register_partial(kind: type) -> None:
    """A class derived from `functools.partial`."""
    _KINDS[kind] = PARTIAL


def _classified(value: Any) -> Kind:
    kind = kind_of(value)
    found = _KINDS.get(kind)
    if found is not None:
        return found
    if issubclass(kind, late("Tensor")):
        return TENSOR
    if issubclass(type(value), type):
        return OPAQUE if is_library(getattr(value, "__module__", "")) else CLASS
    if issubclass(type(value), (*_CLOSED, ARRAY)):
        return OPAQUE
    for base, known in ((tuple, TUPLE), (list, LIST), (dict, DICTIONARY)):
        if issubclass(kind, base):
            return known
    hidden = is_library(kind.__module__) and not (
        kind.__module__.startswith("chainrule") and hasattr(value, "__dict__")
    )
    return OPAQUE if hidden and not issubclass(type(value), types.SimpleNamespace) else OBJECT


_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_GLOBAL = frozenset(dis.opmap[name] for name in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"))


def _globals_in(code: types.CodeType) -> Iterator[str]:
    """The names that code takes from its globals: read from the instructions themselves, for `dis` takes a third of a trace."""
    names, extended = code.co_names, 0
    for op, small in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = extended | small
        extended = argument << 8 if op == dis.EXTENDED_ARG else 0
        if op in _GLOBAL:
            yield names[argument >> 1 if op == _LOAD_GLOBAL else argument]  # its last bit says something else


@functools.cache
def names_in(code: types.CodeType) -> frozenset[str]:
    """The names in a function's code, and in what is defined within it: what it may look up, `getattr` by text too.

    Names of globals are there once more with a dot before them.
    """
    names: set[str] = set()
    todo: list[Any] = [code]
    while todo:
        found = todo.pop()
        if isinstance(found, types.CodeType):
            names.update(found.co_names, found.co_freevars)
            names.update(f".{name}" for name in _globals_in(found))
            todo += found.co_consts
        elif isinstance(found, str) and found.isidentifier():
            names.add(found)
        elif isinstance(found, (tuple, frozenset)):
            todo += found  # pyright: ignore[reportUnknownArgumentType]
    if ".globals" in names:  # which is asked for them by text
        names.update(f".{name}" for name in tuple(names) if name[0] != ".")
    return frozenset(names)
