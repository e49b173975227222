"""One run of a function on boxes: arrays in all places are exchanged for abstract ones, and what is left is compared.

Afterwards every object is as it was, also where the function failed.  What the comparison finds is the specialisation:
a program, where its inputs stand, and what is to be written where (`traced`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from chainrule.backends.abstract import Abstract, reach_equations
from chainrule.backends.registry import is_foreign
from chainrule.compiler.effects import Generators, Iterators, Watch, is_users, line_of, telling_types
from chainrule.compiler.inputs import AgainError, Choices, EagerError, Input
from chainrule.compiler.kinds import (
    ARRAY,
    BOUND,
    FUNCTION,
    MISSING,
    OPAQUE,
    PARTIAL,
    SCALAR,
    SET,
    TENSOR,
    TUPLE,
    is_library,
    kind_of,
)
from chainrule.compiler.loops import looped
from chainrule.compiler.places import Place, Thing, Walk, names_in
from chainrule.core.calls import wrap
from chainrule.core.equations import Trace, tracing
from chainrule.core.graph import Node, leaf_node, next_number
from chainrule.transforms.arguments import identity

_IDENTITY: Any = identity.primitive  # pyright: ignore[reportFunctionMemberAccess]


class Noted(Trace):
    """The trace of a compiled function: a number that is asked for its value is guarded from then on."""

    def __init__(self, careful: bool, run: Run, compile_program: Any) -> None:
        super().__init__(careful)
        self.run = run
        self.refusals: list[Exception] = []
        """What was raised because it could not be traced, whoever caught it; without the frames that it went through."""
        self.lacking = ""
        """An attribute of NumPy's arrays that was asked for in vain."""
        self.compile = compile_program
        """What makes the body of a loop ready."""

    def refuse(self, error: Exception) -> None:
        frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and not is_users(frame):
            frame = frame.f_back
        where = "" if frame is None else line_of(frame)
        text = str(error) if where in str(error) else f"{error} · at {where}"
        self.refusals.append(type(error).__new__(type(error), text))

    def lacks(self, name: str) -> None:
        if is_users(sys._getframe(2)):  # pyright: ignore[reportPrivateUsage]
            self.lacking = name

    def slots(self) -> list[tuple[Any, Callable[[Any], None]]]:
        """What stands in all places now, each with the way to put something else there."""
        return [
            (value, partial(thing.kind.write, thing.value, key))
            for thing in self.run.walk
            if thing.kind not in (SET, TUPLE, OPAQUE, FUNCTION, BOUND, PARTIAL)
            for key, value in thing.now().items()
        ]

    def loop(self, *of: Any) -> Any:
        """A loop as one equation, or None."""
        return looped(self, *of)

    def asked(self, box: Abstract) -> None:
        """**Raises** AgainError where the value depends on nothing but numbers of Python's."""
        needed = {e.number for e in reach_equations([box.equation])}
        numbers = [i for i in self.run.inputs if i.box.weak and i.equation.number in needed]
        arrays = [i for i in self.run.inputs if not i.box.weak and i.equation.number in needed]
        if numbers and not arrays:
            self.run.choices.guarded.update(place.path for i in numbers for place in i.places)
            self.run.is_over = True
            raise AgainError


class Run:
    """A function, its arguments, and everything reached from them, with boxes in all places."""

    def __init__(
        self, f: Any, arguments: list[Any], keywords: dict[str, Any], choices: Choices, careful: bool = False,
        compile_program: Any = None,
    ) -> None:  # fmt: skip
        self.f = f
        self.given_arguments, self.given_keywords = tuple(arguments), dict(keywords)
        self.arguments, self.keywords = list(arguments), dict(keywords)
        self.choices = choices
        self.walk = Walk(f, self.arguments, self.keywords, choices.names, list(choices.spaces.values()))
        self.watch = Watch()
        self.trace = Noted(careful, self, compile_program)
        self.inputs: list[Input] = []
        self._by_array: dict[tuple[int, bool], Input] = {}
        self._by_box: dict[int, Input] = {}
        self.placed: dict[tuple[int, Any], Any] = {}
        """What stands in a place during the trace, where that is not what stood there: by (number of the thing, key)."""
        self.nodes: list[tuple[Thing, Node | None, Any, int, list[Any]]] = []
        self.outer: dict[int, tuple[Thing, Any]] = {}
        """By the number of its node: a tensor that was computed outside, and what stands for it where walks arrive."""
        self.generators = Generators(self.walk)
        self.iterators = Iterators(self.walk)
        self.result: Any = None
        self.is_over = False
        """Whether it has to begin again, though the function may have caught what said so."""
        self._find_inputs()

    # ------------------------------------------------------------------------------------------------- boxes
    def _find_inputs(self) -> None:
        for thing in self.walk:
            for key, value in thing.before.items():
                kind = kind_of(value)
                if kind is ARRAY:
                    if value.dtype.kind not in "biufc":
                        continue
                    if not value.dtype.isnative:
                        raise EagerError("an array in foreign byte order")
                    self._input(value, Place(thing, key), (id(value), thing.given or self.choices.joined))
                elif kind in (int, float) or isinstance(value, SCALAR):
                    place = Place(thing, key)
                    if thing.kind is TENSOR or self.choices.is_live(place, value):
                        self._input(value, place, None)
                elif isinstance(value, ARRAY) or is_foreign(value):
                    raise EagerError(f"an array of {kind.__module__}.{kind.__name__}")

    def _input(self, value: Any, place: Place, identity: tuple[int, bool] | None) -> None:
        known = None if identity is None else self._by_array.get(identity)
        if known is not None:
            known.places.append(place)
            return
        made = Input(len(self.inputs), value, place)
        self.inputs.append(made)
        self._by_box[id(made.box)] = made
        if identity is not None:
            self._by_array[identity] = made

    def input_of(self, box: Any) -> Input | None:
        """The input whose box this is."""
        return self._by_box.get(id(box))

    def input_at(self, thing: Thing, key: Any) -> Input:
        """The input of the array that stands in a place."""
        value = thing.before[key]
        return self._by_array[id(value), thing.given or self.choices.joined]

    def join(self) -> None:
        """**Raises** AgainError where an array is written that stands in another place as another input."""
        written = {id(i.value) for i in self.inputs if i.is_array and i.box.equation is not i.equation}
        if not self.choices.joined and any(
            (number, True) in self._by_array and (number, False) in self._by_array for number in written
        ):
            self.choices.joined = True
            raise AgainError

    def _put_boxes(self) -> None:
        tuples: dict[int, dict[Any, Any]] = {}
        for found in self.inputs:
            for owner, key in found.places:
                if owner.kind is TUPLE:
                    tuples.setdefault(owner.number, {})[key] = found.box
                else:
                    self.placed[owner.number, key] = found.box
        for thing in sorted(self.walk, key=lambda t: -t.number):
            if thing.number in tuples:
                self._rebuild(thing, tuples)
        for thing in self.walk:
            for key in thing.before:
                if (thing.number, key) in self.placed:
                    thing.kind.write(thing.value, key, self.placed[thing.number, key])

    def _rebuild(self, thing: Thing, tuples: dict[int, dict[Any, Any]]) -> None:
        """Another tuple in the places of one that holds arrays or live numbers."""
        entries = [tuples[thing.number].get(k, v) for k, v in enumerate(thing.value)]
        kind = kind_of(thing.value)
        made = kind._make(entries) if hasattr(kind, "_make") else kind(entries)
        for owner, key in [*([thing.first] if thing.first else []), *self.walk.others.get(id(thing.value), ())]:
            if owner.kind is TUPLE:
                tuples.setdefault(owner.number, {})[key] = made
            elif key in owner.before:
                self.placed[owner.number, key] = made
            else:
                raise EagerError("an array in the defaults of a function or in functools.partial")

    def _exchange_nodes(self) -> None:
        for thing in self.walk:
            if thing.kind is not TENSOR:
                continue
            tensor, node = thing.value, thing.value.node
            leaf = node[3] if node is not None and node[1] is None else None
            written, aliases = (leaf.written, list(leaf.aliases)) if leaf is not None else (0, [])
            self.nodes.append((thing, node, getattr(tensor, "shared", MISSING), written, aliases))
            if node is not None and leaf is None:
                stand_in = wrap(tensor.data, None)
                stand_in.node = leaf_node(stand_in)
                tensor.node = [next_number(), _IDENTITY, (stand_in.node,), (), (), tensor.data.shape, tensor.data.dtype]
                self.outer[stand_in.node[0]] = thing, stand_in

    # ----------------------------------------------------------------------------------------------- the run
    def go(self) -> None:
        """Run the function on boxes; `finish` has to follow."""
        self._put_boxes()
        self._exchange_nodes()
        with tracing(self.trace), telling_types(self.walk), self.watch.open():
            self.result = self.f(*self.arguments, **self.keywords)

    def restore(self) -> None:
        """Leave every object as it was."""
        for thing in self.walk:
            thing.restore()
        for thing, node, shared, written, aliases in self.nodes:
            tensor = thing.value
            tensor.node = node
            if node is not None and node[1] is None:
                node[3].written, node[3].aliases[:] = written, aliases
            if shared is not MISSING:
                tensor.shared = shared
            elif hasattr(tensor, "shared"):
                del tensor.shared
        self.generators.restore()

    def has_learnt(self) -> bool:
        """Whether code was entered that names globals which the walk did not look at."""
        names, spaces = set[str](), dict[int, dict[str, Any]]()
        for code, space in self.watch.codes.items():
            if not is_library(space.get("__name__", "")):
                names |= names_in(code)
                spaces[id(space)] = space
        new = not names <= self.walk.names or any(self.walk.thing(space) is None for space in spaces.values())
        if new:
            self.choices.names |= names
            self.choices.spaces.update(spaces)
        return new
