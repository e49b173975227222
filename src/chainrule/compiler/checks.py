"""The checks that guards are written with: a value, an object by its identity, an argument by its structure."""

from __future__ import annotations

import inspect
import weakref
from math import copysign
from typing import Any

from chainrule.compiler.kinds import (
    ATOMS,
    BOUND,
    DEFAULTS,
    DICTIONARY,
    FUNCTION,
    LIST,
    OBJECT,
    PARTIAL,
    SCALAR,
    SET,
    TENSOR,
    TUPLE,
    attributes_of,
    kind_of,
)  # fmt: skip
from chainrule.compiler.places import Thing
from chainrule.compiler.results import Code, name_of
from chainrule.compiler.traced import Traced

_SETTLED = frozenset({"is_filled", "transient", "unnamed", "limits"})
"""What classes of chainrule say about themselves, and no object says otherwise later."""


class Checks:
    """Writes single checks, one after the other."""

    def __init__(self, traced: Traced, names: set[str]) -> None:
        self.traced = traced
        self.code: Code = traced.code
        self.names = names
        """The names in all code that was entered."""
        self.lines: list[str] = []
        self.tests: list[str] = []
        self.facts: dict[tuple[Any, ...], tuple[str, Any]] = {}
        """By path, in words and as it was: what is looked at, to say later what is another now."""

    def _test(self, *texts: str) -> None:
        self.tests += texts

    def _flush(self) -> None:
        for start in range(0, len(self.tests), 40):
            self.lines.append(f"if not ({' and '.join(self.tests[start : start + 40])}): return MISS")
        self.tests.clear()

    def _load(self, name: str, text: str) -> None:
        self._flush()
        self.lines.append(f"{name} = {text}")

    def _value(self, text: str, value: Any) -> None:
        """A guarded value: the same object, or equal and of the same class."""
        kind = kind_of(value)
        if value is None or kind is bool or value is Ellipsis:
            self._test(f"{text} is {value!r}")
            return
        name = self.code.constant(value)
        if kind is float and (value == 0.0 or value != value):
            equal = f"q == 0.0 and copysign(1.0, q) == {copysign(1.0, value)}" if value == 0.0 else "q != q"
        elif isinstance(value, SCALAR):
            equal = f"q.tobytes() == {value.tobytes()!r}"
        else:
            equal = f"q == {name}"
        self._test(f"((q := {text}) is {name} or q.__class__ is {name}.__class__ and {equal})")

    def _known(self, thing: Thing) -> None:
        """What is known by its identity may still have another length or node."""
        name = name_of(thing)
        if thing.kind in (LIST, DICTIONARY):
            self._test(f"len({name}) == {len(thing.before)}")
            if thing.first is not None:
                self.facts[(*thing.first.path, "len")] = f"len({thing.first})", len(thing.before)
        elif thing.kind is SET:
            self._test(f"{name} == {self.code.constant(set(thing.value))}")
        elif thing.kind is TENSOR:
            node = thing.value.node
            self._test(f"{name}.node is {'None' if node is None else self.code.constant(node)}")
        elif thing.kind is OBJECT and hasattr(thing.value, "__dict__"):
            self._attributes(thing, name)

    def _attributes(self, thing: Thing, name: str) -> None:
        """What an object could have of its own, and has not: its class's value may be hidden later."""
        is_module = any(base.__module__.startswith("chainrule.nn") for base in kind_of(thing.value).__mro__)
        if ("__dict__" in self.names and is_module) or self.traced.run.watch.asks_for_attributes:
            self._test(f"len({name}.__dict__) == {len(attributes_of(thing.value))}")
        for key in sorted(self.names.intersection(dir(thing.value)).difference(attributes_of(thing.value), _SETTLED)):
            held = inspect.getattr_static(thing.value, key)
            if not (key.startswith("_") or callable(held) or hasattr(held, "__get__")):
                if isinstance(held, ATOMS):
                    self.facts[(*(thing.first.path if thing.first else ()), key)] = f"{thing.first}.{key}", held
                    self._value(f"{name}.{key}", held)
                else:
                    self._test(f"{key!r} not in {name}.__dict__")
        for effect in self.traced.effects:
            if effect.thing is thing and effect.key not in thing.before:
                self._test(f"{effect.key!r} not in {name}.__dict__")

    def _given(self, thing: Thing) -> None:
        """What came with the arguments: by its structure, or, where it has an identity of its own, by that."""
        name, kind = name_of(thing), thing.kind
        if kind in (LIST, TUPLE, DICTIONARY):
            self._test(f"{name}.__class__ is {self.code.constant(type(thing.value))}")
            if kind is DICTIONARY:
                self._test(f"[*{name}] == {self.code.constant(list(thing.value))}")
            else:
                self._test(f"len({name}) == {len(thing.before)}")
        elif kind is TENSOR:
            self._test(f"{name}.__class__ is {self.code.constant(type(thing.value))}")
            node = thing.value.node
            state = "wants no gradient" if node is None else "leaf" if node[1] is None else "computed"
            if thing.first is not None:
                self.facts[(*thing.first.path, "node")] = str(thing.first), state
            if node is None:
                self._test(f"{name}.node is None")
            else:
                self._test(f"{name}.node is not None and {name}.node[1] is {'' if node[1] is None else 'not '}None")
        elif kind is FUNCTION:
            self._test(f"{name}.__code__ is {self.code.constant(thing.value.__code__)}")
            self.tests += [f"{name}.{key} is None" for key in DEFAULTS if key not in thing.before]
        elif kind in (BOUND, PARTIAL):
            self._test(f"{name}.__class__ is {self.code.constant(type(thing.value))}")
        elif kind is SET:
            self._test(f"{name} == {self.code.constant(thing.value.copy())}")
        else:
            self._by_identity(thing)

    def _by_identity(self, thing: Thing) -> None:
        name = name_of(thing)
        try:
            reference = weakref.ref(thing.value)
        except TypeError:
            self._test(f"{name} is {self.code.constant(thing.value)}")
            return
        self.code.space[f"w{thing.number}"] = reference
        self._test(f"{name} is w{thing.number}()")
        if thing.kind is OBJECT:
            self._known(thing)
