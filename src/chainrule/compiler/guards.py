"""The function that runs at every call: straight-line code that checks, loads, executes and writes back.

The idea: a specialisation holds for exactly the objects and values that its trace saw, so its check is a list of
comparisons known beforehand, written out as Python.  What came with the arguments is looked at by its structure,
everything else by its identity.  Places that no code entered names, and from which nothing is read, are not looked at.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable
from math import copysign
from types import CodeType
from typing import Any

import numpy as np

from chainrule.backends.abstract import Equation, reach_equations
from chainrule.compiler.places import (
    ATOMS, BOUND, CELL, CLASS, DEFAULTS, DICTIONARY, FUNCTION, LIST, LONGEST, MISSING, OBJECT, PARTIAL, SET, SPACE,
    TENSOR, TUPLE, Place, Thing, kind_of, names_in,
)  # fmt: skip
from chainrule.compiler.results import name_of
from chainrule.compiler.trace import Input, Traced, is_option
from chainrule.core.calls import wrap


class Miss:
    """What the generated function gives where its specialisation does not hold; `eager`: why no other would."""

    __slots__ = ("eager",)

    def __init__(self, eager: str = "") -> None:
        self.eager = eager


MISS = Miss()
_SETTLED = frozenset({"is_filled", "transient", "unnamed", "limits"})
"""What classes of chainrule say about themselves, and no object says otherwise later."""


class Guards:
    """Writes the generated function of one specialisation."""

    def __init__(self, traced: Traced, inputs: list[Input]) -> None:
        self.traced = traced
        self.code = traced.code
        self.walk = traced.walk
        self.inputs = inputs
        self.wanted = {i.number for i in inputs}
        """Numbers of the inputs that the program, or what it leaves, refers to."""
        self.unshared = {i.number for i in traced.written}
        """Numbers of those that are written: a tensor whose memory a graph keeps moves first."""
        self.names = self._entered_names()
        self.reads_gradients = "grad" in self.names
        self.lines: list[str] = []
        self.tests: list[str] = []
        self.facts: dict[tuple[Any, ...], tuple[str, Any]] = {}
        """By path, in words and as it was: what is looked at, to say later what is another now."""
        self.met: set[int] = set()
        self.loaded: dict[int, str] = {}
        """By the number of an input that is an array, whether it came with the arguments."""
        self._relevant = self._find_relevant()

    # --------------------------------------------------------------------------------------------- what matters
    def _entered_names(self) -> set[str]:
        names: set[str] = set()
        for code in self.traced.run.watch.codes:
            # What makes a tensor sets its gradient to None; that is no interest in the gradients that there are.
            if not (code is wrap.__code__ or code.co_filename.startswith("<call")):
                names |= names_in(code)
        return names

    def _entered(self, code: CodeType) -> bool:
        return code in self.traced.run.watch.codes

    def _find_relevant(self) -> set[tuple[int, Any]]:
        """The places on a way to an input or an effect that matters, whoever names them."""
        needed: set[tuple[int, Any]] = set()
        things: list[Thing] = [e.thing for e in self.traced.effects]
        by_number = {t.number: t for t in self.walk}
        things += [by_number[n] for n in self.traced.results.things]
        for found in self.traced.run.inputs:
            if found.number in self.wanted:
                needed.add((found.places[0].owner.number, found.places[0].key))
                things.append(found.places[0].owner)
        self._needed_things = set[int]()
        while things:
            thing = things.pop()
            if thing.number not in self._needed_things:
                self._needed_things.add(thing.number)
                if thing.first is not None:
                    needed.add((thing.first.owner.number, thing.first.key))
                    things.append(thing.first.owner)
        return needed

    def _matters(self, thing: Thing, key: Any) -> bool:
        if not thing.kind.by_name or (thing.number, key) in self._relevant:
            return True
        if thing.kind is TENSOR:
            return key == "data" or self.reads_gradients
        if thing.kind is FUNCTION:
            return True
        if thing.kind is SPACE and f".{key}" in self.names:
            return True
        return thing.kind is CELL or (key in self.names and (thing.kind is not SPACE or thing.number in self.walk.modules))

    # --------------------------------------------------------------------------------------------------- things
    def _test(self, *texts: str) -> None:
        self.tests += texts

    def _flush(self) -> None:
        for start in range(0, len(self.tests), 40):
            self.lines.append(f"if not ({' and '.join(self.tests[start : start + 40])}): return MISS")
        self.tests.clear()

    def _load(self, name: str, text: str) -> None:
        self._flush()
        self.lines.append(f"{name} = {text}")

    def go(self) -> None:
        """Write the checks, from the arguments and from the function itself."""
        for thing in self.walk:  # with live numbers in it another tuple may come, so it is looked at by its structure
            if thing.kind is TUPLE and all(isinstance(v, (int, float)) for v in thing.value):
                thing.given = thing.given or any(self._number_input(thing, k) for k in thing.before)
        self._arguments()
        todo = [self.walk.arguments, self.walk.keywords]
        if self.walk.function is not None:
            self._constant(self.walk.function)
            self.met.add(self.walk.function.number)
            todo.append(self.walk.function)
        by_number = {t.number: t for t in self.walk}
        for thing in self.walk:
            entered = thing.kind is FUNCTION and not thing.given and self._entered(thing.value.__code__)
            if (entered or thing.kind in (SPACE, CLASS)) and thing.number not in self.met:
                self._constant(thing)
                self.met.add(thing.number)
                todo.append(thing)
        while todo:  # what came with the arguments first, so that everything else can be compared with it
            todo.sort(key=lambda t: not t.given)
            todo += self._open(todo.pop(0))
        left = [by_number[n] for n in sorted(self._needed_things) if n not in self.met and n in by_number]
        for thing in left:  # what is needed and was reached by no place that code names
            if thing.number not in self.met:
                self._constant(thing)
                self.met.add(thing.number)
                more = self._open(thing)
                while more:
                    more += self._open(more.pop(0))
        self._flush()

    def _arguments(self) -> None:
        arguments, keywords = self.walk.arguments, self.walk.keywords
        self.lines.append(f"if len(arguments) != {len(arguments.before)} or len(keywords) != {len(keywords.before)}: return MISS")  # fmt: skip
        self._load(name_of(arguments), "arguments")
        self._load(name_of(keywords), "keywords")
        self.met |= {arguments.number, keywords.number}

    def _constant(self, thing: Thing) -> None:
        self.code.space[name_of(thing)] = thing.value

    def _open(self, thing: Thing) -> list[Thing]:
        """Write the checks of what stands in a thing; the things that are to be opened next."""
        more: list[Thing] = []
        if thing.kind is FUNCTION and not (self._entered(thing.value.__code__) or thing.number in self._needed_things):
            return more
        for name, part in thing.parts.items():
            if part.number not in self.met:
                self.met.add(part.number)
                self._part(thing, name, part)
                more.append(part)
        if self._is_plain(thing):
            return more
        for key, value in thing.before.items():
            if self._matters(thing, key):
                found = self._place(thing, key, value)
                if found is not None:
                    more.append(found)
        return more

    def _part(self, thing: Thing, name: str, part: Thing) -> None:
        """A function's cell, a method's function: it belongs to its owner for good."""
        if not part.given:
            self._constant(part)
            self._known(part)
        elif part.kind is CELL:
            index = thing.value.__code__.co_freevars.index(name)
            self._load(name_of(part), f"{name_of(thing)}.__closure__[{index}]")
        else:
            self._load(name_of(part), f"{name_of(thing)}.{name}")
            self._given(part)

    def _is_plain(self, thing: Thing) -> bool:
        """A long list or dictionary of plain values: compared as a whole, or by its length alone."""
        if (
            thing.kind not in (LIST, DICTIONARY)
            or len(thing.before) <= 8
            or thing in (self.walk.arguments, self.walk.keywords)
        ):
            return False
        values = list(thing.before.values())
        if not all(isinstance(v, ATOMS) for v in values) or any(self._number_input(thing, k) for k in thing.before):
            return False
        if len(values) <= LONGEST:
            name = name_of(thing)
            entries = f"[*{name}.values()]" if thing.kind is DICTIONARY else name
            self._test(f"{entries} == {self.code.constant(values)}")
            self._test(f"[*map(type, {entries})] == {self.code.constant([type(v) for v in values])}")
        return True

    # --------------------------------------------------------------------------------------------------- places
    def _text(self, thing: Thing, key: Any) -> str:
        """A place in code."""
        owner = name_of(thing)
        if thing.kind in (TENSOR, OBJECT, CLASS, CELL, FUNCTION, PARTIAL):
            return f"{owner}.{key}"
        return f"{owner}[{self.code.literal(key)}]"

    def _place(self, thing: Thing, key: Any, value: Any) -> Thing | None:
        """Write the check of one place; the thing that stands there, the first time."""
        if value is MISSING:
            return None
        text = self._text(thing, key)
        if type(value) is np.ndarray and value.dtype.kind in "biufc":
            self._fact(Place(thing, key), (value.shape, str(value.dtype)))
            self._array(thing, key, text, value)
            return None
        if isinstance(value, (bool, int, float, str, type(None))):
            self._fact(Place(thing, key), value)
        found = self._number_input(thing, key)
        if found is not None:
            self._number(found, text, value)
            return None
        fixed = thing.kind is TUPLE and not thing.given  # known by its identity, so is what stands in it
        if isinstance(value, ATOMS):
            if not fixed:
                self._value(text, value)
            return None
        target = self.walk.thing(value)
        if target is None:  # a module
            self._test(f"{text} is {self.code.constant(value)}") if thing.kind is not SPACE else None
            return None
        if target.number in self.met:
            if not fixed:
                self._test(f"{text} is {name_of(target)}")
            return None
        if target.given and not thing.given and target.kind is not TUPLE:  # it came with the arguments by a way that nobody takes
            return None
        self.met.add(target.number)
        if target.given:
            self._load(name_of(target), text)
            self._given(target)
        else:
            self._constant(target)
            if not fixed:
                self._test(f"{text} is {name_of(target)}")
            self._known(target)
        return target

    def _fact(self, place: Place, value: Any) -> None:
        self.facts[place.path] = str(place), value

    def _number_input(self, thing: Thing, key: Any) -> Input | None:
        box = self.traced.run.placed.get((thing.number, key))
        found = self.traced.run.input_of(box)
        if found is None and thing.kind is TUPLE:
            return next((i for i in self.traced.run.inputs if not i.is_array and (thing, key) in i.places), None)
        return None if found is None or found.is_array else found

    def _number(self, found: Input, text: str, value: Any) -> None:
        name, kind = f"x{found.number}", type(value)
        self._load(name, text)
        self.loaded[found.number] = "number"
        if isinstance(value, np.generic):
            self._test(f"{name}.dtype == {self.code.constant(value.dtype)} and {name}.shape == ()")
            return
        self._test(f"{name}.__class__ is {kind.__name__}")
        if kind is int:
            self._test(f"-9223372036854775808 <= {name} <= 9223372036854775807")
        elif is_option(found.places[0].path):
            self._test(name)  # a term that is off is left out of the program

    def _array(self, thing: Thing, key: Any, text: str, value: np.ndarray[Any, Any]) -> None:
        found = next(i for i in self.traced.run.inputs if i.value is value)
        name = f"x{found.number}"
        if found.number in self.loaded:
            self._test(f"{text} is {name}")
        elif found.number in self.wanted:
            if found.number in self.unshared and thing.kind is TENSOR and thing.value.node is None:
                owner = name_of(thing)
                self._flush()
                self.lines.append(f"if getattr({owner}, 'shared', False): move({owner})")
            self._load(name, text)
            self.loaded[found.number] = "given" if thing.given else "kept"
        elif key == "grad" and any(e.thing is thing and e.key == key for e in self.traced.effects):
            self._test(f"{text}.__class__ is ndarray")  # forgotten before anything was computed
        else:  # read by nobody, but a trace may have looked at its shape
            self._test(f"{text}.shape == {value.shape} and {text}.dtype == {self.code.constant(value.dtype)}")

    def _value(self, text: str, value: Any) -> None:
        """A guarded value: the same object, or equal and of the same class."""
        kind = type(value)
        if value is None or kind is bool or value is Ellipsis:
            self._test(f"{text} is {value!r}")
            return
        name = self.code.constant(value)
        if kind is float and (value == 0.0 or value != value):
            equal = f"q == 0.0 and copysign(1.0, q) == {copysign(1.0, value)}" if value == 0.0 else "q != q"
        elif isinstance(value, np.generic):
            equal = f"q.tobytes() == {value.tobytes()!r}"
        else:
            equal = f"q == {name}"
        self._test(f"((q := {text}) is {name} or q.__class__ is {name}.__class__ and {equal})")

    def _known(self, thing: Thing) -> None:
        """What is known by its identity may still have another length or node."""
        name = name_of(thing)
        if thing.kind in (LIST, DICTIONARY):
            self._test(f"len({name}) == {len(thing.before)}")
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
            self._test(f"len({name}.__dict__) == {len(vars(thing.value))}")
        for key in sorted(self.names.intersection(dir(thing.value)).difference(vars(thing.value), _SETTLED)):
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


def used_inputs(traced: Traced, outputs: Iterable[Equation]) -> list[Input]:
    """The inputs that a program needs, or that are left behind themselves."""
    needed = {e.number for e in reach_equations([*outputs, *traced.run.trace.flagged])}
    numbers = traced.results.inputs | {i.number for i in traced.written}
    return [i for i in traced.run.inputs if i.equation.number in needed or i.number in numbers]
