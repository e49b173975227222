"""The function that runs at every call: straight-line code that checks, loads, executes and writes back.

The idea: a specialisation holds for exactly the objects and values that its trace saw, so its check is a list of
comparisons known beforehand, written out as Python.  What came with the arguments is looked at by its structure,
everything else by its identity.  Places that no code entered names, and from which nothing is read, are not looked at.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from types import CodeType
from typing import Any

from chainrule.backends.abstract import Equation, reach_equations
from chainrule.compiler.checks import Checks
from chainrule.compiler.effects import only_makes
from chainrule.compiler.inputs import Input, is_option
from chainrule.compiler.kinds import (
    ARRAY,
    ATOMS,
    CELL,
    CLASS,
    DICTIONARY,
    FUNCTION,
    LIST,
    LONGEST,
    MISSING,
    OBJECT,
    PARTIAL,
    SCALAR,
    SET,
    SPACE,
    TENSOR,
    TUPLE,
    attributes_of,
    kind_of,
)  # fmt: skip
from chainrule.compiler.places import Place, Thing, functions_in, names_in
from chainrule.compiler.results import name_of
from chainrule.compiler.traced import Traced


class Miss:
    """What the generated function gives where its specialisation does not hold.

    `eager`: why no other would, and the function has to run as it is; `failed`: because its trace or its program did;
    `lasting`: every call will.
    """

    __slots__ = ("eager", "failed", "lasting")

    def __init__(self, eager: str = "", failed: bool = False, lasting: bool = False) -> None:
        self.eager = eager
        self.failed = failed
        self.lasting = lasting


MISS = Miss()


class Known:
    """Which object stood somewhere, without keeping it."""

    def __init__(self, value: Any) -> None:
        self.number = id(value)
        self.text = kind_of(value).__name__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and other.number == self.number

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"a {self.text}, another one" if self.text else "another"


class Guards(Checks):
    """Writes the generated function of one specialisation."""

    def __init__(self, traced: Traced, inputs: list[Input]) -> None:
        super().__init__(traced, _entered_names(traced))
        self.walk = traced.walk
        self.inputs = inputs
        self.in_program = {i.number for i in inputs}
        self.wanted = self.in_program | traced.results.inputs | traced.arithmetic.used
        """Numbers of the inputs that the program, or what it leaves, refers to."""
        self.unshared = {i.number for i in traced.written}
        """Numbers of those that are written: a tensor whose memory a graph keeps moves first."""
        self.reads_gradients = "grad" in self.names
        self.met: set[int] = set()
        self.loaded: dict[int, str] = {}
        """By the number of an input that was loaded: "given", "kept" or "number"."""
        self._numbers = {(p.owner.number, p.key): i for i in traced.run.inputs if not i.is_array for p in i.places}
        self._relevant = self._find_relevant()

    # --------------------------------------------------------------------------------------------- what matters
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
        if (thing.number, key) in self._relevant:
            return True
        if thing.kind is TUPLE and hasattr(thing.value, "_fields"):  # of a named tuple the fields that are named
            fields = thing.value._fields
            return thing.given or fields[key] in self.names or not self.names.intersection(fields)
        if thing.kind is OBJECT and key.startswith("_") and kind_of(thing.value).__module__.startswith("chainrule."):
            return False  # what our own classes keep to themselves, and set once
        if not thing.kind.by_name:
            return True
        if thing.kind is TENSOR:
            return key == "data" or (self.reads_gradients and id(thing.value) not in self.traced.run.watch.forgotten)
        if thing.kind is FUNCTION:
            return True
        if thing.kind is SPACE and f".{key}" in self.names:
            return True
        return thing.kind is CELL or (
            key in self.names and (thing.kind is not SPACE or thing.number in self.walk.modules)
        )

    # --------------------------------------------------------------------------------------------------- things
    def go(self) -> None:
        """Write the checks, from the arguments and from the function itself."""
        for thing in self.walk:  # with live numbers in it another tuple may come, so it is looked at by its structure
            if thing.kind is TUPLE and all(isinstance(v, (int, float)) for v in thing.value):
                thing.given = thing.given or any(self._number_input(thing, k) for k in thing.before)
        self._arguments()
        todo = [self.walk.arguments, self.walk.keywords]
        if self.walk.function is not None:
            self._constant(self.walk.function)
            self._known(self.walk.function)
            self.met.add(self.walk.function.number)
            todo.append(self.walk.function)
        by_number = {t.number: t for t in self.walk}
        for thing in self.walk:
            entered = thing.kind is FUNCTION and not thing.given and self._entered(thing.value.__code__)
            if (entered or thing.kind in (SPACE, CLASS)) and thing.number not in self.met:
                self._constant(thing)
                self.met.add(thing.number)
                todo.append(thing)
        self._code()
        while todo:  # what came with the arguments first, so that everything else can be compared with it
            todo.sort(key=lambda t: not t.given)
            todo += self._open(todo.pop(0))
        left = [by_number[n] for n in sorted(self._needed_things) if n not in self.met and n in by_number]
        for thing in left:  # what is needed and was reached by no place that code names
            if thing.number not in self.met:
                self._constant(thing)
                self.met.add(thing.number)
                todo.append(thing)
                while todo:
                    todo += self._open(todo.pop(0))
        self._flush()

    def _code(self) -> None:
        """The functions that were entered have the code that they had, and are still what their classes have."""
        for thing in self.walk:
            if thing.kind is FUNCTION and thing.number in self.met and self._entered(thing.value.__code__):
                self._test(f"{name_of(thing)}.__code__ is {self.code.constant(thing.value.__code__)}")
            elif thing.kind is SPACE:  # a name that is not there may come to be
                code = [c for c, space in self.traced.run.watch.codes.items() if space is thing.value]
                named = {name for c in code for name in names_in(c) if name[0] == "."}
                for key, held in thing.before.items():
                    if held is MISSING and f".{key}" in named and not hasattr(builtins, key):
                        self._test(f"{key!r} not in {name_of(thing)}")
            elif thing.kind is CLASS:
                for key, held in attributes_of(thing.value).items():
                    if any(self._entered(f.__code__) for f in functions_in(held)):
                        self._test(f"{name_of(thing)}.__dict__[{key!r}] is {self.code.constant(held)}")

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
        if thing.kind is SET:  # whose elements are known with it
            return self.code.constant(thing.before[key])
        if thing.kind in (TENSOR, OBJECT, CLASS, CELL, FUNCTION, PARTIAL):
            return f"{owner}.{key}"
        return f"{owner}[{self.code.literal(key)}]"

    def _place(self, thing: Thing, key: Any, value: Any) -> Thing | None:
        """Write the check of one place; the thing that stands there, the first time."""
        if value is MISSING:
            return None
        text = self._text(thing, key)
        if kind_of(value) is ARRAY and value.dtype.kind in "biufc":
            self._fact(Place(thing, key), (value.shape, str(value.dtype)))
            self._array(thing, key, text, value)
            return None
        found = self._number_input(thing, key)
        if isinstance(value, (bool, int, float, str, type(None))):
            self._fact(Place(thing, key), kind_of(value) if found is not None else value)
        if found is not None:
            self._number(found, text, value)
        elif not isinstance(value, ATOMS):
            return self._thing(thing, key, text, value)
        elif not _is_fixed(thing):
            self._value(text, value)
        return None

    def _thing(self, thing: Thing, key: Any, text: str, value: Any) -> Thing | None:
        """Write the check of a place where something stands that has places itself."""
        target = self.walk.thing(value)
        if target is None:  # a module
            if thing.kind is not SPACE:
                self._test(f"{text} is {self.code.constant(value)}")
            return None
        if target.kind is TUPLE and not target.given and all(isinstance(v, ATOMS) for v in target.value):
            if _is_fixed(thing):
                return None
            self._fact(Place(thing, key), repr(value))
            name = self.code.constant(value)
            self._test(f"((q := {text}) is {name} or q.__class__ is {name}.__class__ and repr(q) == {repr(value)!r})")
            return None
        if target.number in self.met:
            if not _is_fixed(thing):
                self._test(f"{text} is {name_of(target)}")
            return None
        if target.given and not thing.given and target.kind is not TUPLE:  # it came by a way that nobody takes
            return None
        self.met.add(target.number)
        self.facts[(*Place(thing, key).path, "is")] = str(Place(thing, key)), Known(value)
        if target.given:
            self._load(name_of(target), text)
            self._given(target)
        else:
            self._constant(target)
            if not _is_fixed(thing):
                self._test(f"{text} is {name_of(target)}")
            self._known(target)
        return target

    def _fact(self, place: Place, value: Any) -> None:
        self.facts[place.path] = str(place), value

    def _number_input(self, thing: Thing, key: Any) -> Input | None:
        return self._numbers.get((thing.number, key))

    def _number(self, found: Input, text: str, value: Any) -> None:
        name, kind = f"x{found.number}", kind_of(value)
        self._load(name, text)
        self.loaded[found.number] = "number"
        if isinstance(value, SCALAR):
            self._test(f"{name}.dtype == {self.code.constant(value.dtype)} and {name}.shape == ()")
            return
        self._test(f"{name}.__class__ is {kind.__name__}")
        if kind is int and found.number in self.in_program:
            self._test(f"-9223372036854775808 <= {name} <= 9223372036854775807")
        elif is_option(found.places[0].path):
            self._test(name)  # a term that is off is left out of the program

    def _array(self, thing: Thing, key: Any, text: str, value: Any) -> None:
        found = self.traced.run.input_at(thing, key)
        name = f"x{found.number}"
        if found.number in self.loaded:
            self._test(f"{text} is {name}")
        elif found.number in self.wanted or len(found.places) > 1:
            # One array in two places may have been bound from one to the other, which only shows while they are two.
            if found.number in self.unshared and thing.kind is TENSOR and thing.value.node is None:
                owner = name_of(thing)
                self._flush()
                self.lines.append(f"if getattr({owner}, 'shared', False): move({owner})")
            self._load(name, text)
            self.loaded[found.number] = "given" if thing.given else "kept"
        elif key == "grad" and any(e.thing is thing and e.key == key for e in self.traced.effects):
            self._test(f"{text}.__class__ is ndarray")  # forgotten before anything was computed
        elif thing.given or thing.kind.by_name:  # read by nobody, but a trace may have looked at its shape
            same = "" if thing.given else f"q is {self.code.constant(value)} or "
            dtype = self.code.constant(value.dtype)
            self._test(
                f"((q := {text}).__class__ is ndarray and ({same}q.shape == {value.shape} and q.dtype == {dtype}))"
            )


def _is_fixed(thing: Thing) -> bool:
    """Whether what stands in a thing is known with its identity."""
    return thing.kind is SET or (thing.kind is TUPLE and not thing.given)


def _entered_names(traced: Traced) -> set[str]:
    names: set[str] = set()
    for code in traced.run.watch.codes:
        if not only_makes(code):
            names |= names_in(code)
    return names


def used_inputs(traced: Traced, outputs: Iterable[Equation]) -> list[Input]:
    """The inputs that a program needs, or that are left behind themselves."""
    needed = {e.number for e in reach_equations(list(outputs))}
    numbers = traced.results.inputs | {i.number for i in traced.written}
    return [i for i in traced.run.inputs if i.equation.number in needed or (i.number in numbers and i.is_array)]
