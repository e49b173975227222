"""One run of a function on boxes: arrays in all places are exchanged for abstract ones, and what is left is compared.

Afterwards every object is as it was, also where the function failed.  What the comparison finds is the specialisation:
a program, where its inputs stand, and what is to be written where (`Traced`).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from chainrule.backends.abstract import Abstract, Equation, reach_equations
from chainrule.backends.registry import is_foreign
from chainrule.compiler.arithmetic import Arithmetic
from chainrule.compiler.effects import Generators, Iterators, Watch, find_line, is_users, line_of, telling_types
from chainrule.compiler.inputs import AgainError, Choices, EagerError, Input
from chainrule.compiler.kinds import (
    ARRAY,
    BOUND,
    FUNCTION,
    LIST,
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
from chainrule.compiler.results import Code, KeptError, Results, kept_error
from chainrule.core.calls import wrap
from chainrule.core.equations import Trace, tracing
from chainrule.core.graph import Node, is_freed, leaf_node, next_number, reach
from chainrule.errors import FreedGraphError, SideEffectError, explain
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
        """Run the function on boxes; `restore` has to follow."""
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


class Effect:
    """Something that is written after the program has run: a place, and the text of its new content; None deletes."""

    __slots__ = ("key", "text", "thing")

    def __init__(self, thing: Thing, key: Any, text: str | None) -> None:
        self.thing = thing
        self.key = key
        self.text = text


class Traced:
    """What a finished run says: outputs, what is written in place, what is bound, and the lines that make it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.walk = run.walk
        self.code = Code()
        self.effects: list[Effect] = []
        self.live: list[Any] = []
        """Tensors left behind whose graph leads out of the function."""
        self.arithmetic = Arithmetic(run.inputs, run.trace.numbers, self.code.literal)
        self.results = Results(self.code, run.walk.thing, self._input_number, self._node_of, self.arithmetic.text)
        run.join()
        self._check_generators()
        self.written = [i for i in run.inputs if i.is_array and i.box.equation is not i.equation]
        for thing in run.walk:
            self._compare(thing)
        self._check_walks()
        try:
            self.answer = self.results.expression(run.result)
        except KeptError as error:
            raise kept_error("the result", "", f"a {error} cannot be made anew at every call") from None

    def _input_number(self, box: Any) -> int | None:
        found = self.run.input_of(box)
        return None if found is None else found.number

    def _node_of(self, tensor: Any) -> str:
        """The node of a tensor that was computed and is left behind."""
        if _leads_to_freed(tensor.node):
            return self.code.constant([0, _IDENTITY, None, None, (), tensor.shape, tensor.dtype])
        self.live.append(tensor)
        return f"nodes[{len(self.live) - 1}]"

    def _check_generators(self) -> None:
        name = self.run.iterators.moved()
        if name is not None:
            fault = f"{name} moves on: an iterator would give its next value once, and that be a constant"
            raise SideEffectError(explain("jit", fault, remedy="what it gives as an argument"))
        name = self.run.generators.moved()
        if name is not None:
            self.run.generators.restore()
            where = self._line(lambda: self.run.generators.moved() is not None)
            fault = f"{name} draws at {where}: NumPy would draw once, and its number be a constant"
            raise SideEffectError(
                explain("jit", fault, remedy="cr.random.normal(..., generator=), or the draw outside")
            )

    # --------------------------------------------------------------------------------------------- comparing
    def _compare(self, thing: Thing) -> None:
        if thing.kind in (TUPLE, OPAQUE):
            return
        now, before = thing.now(), thing.before
        if thing.kind is SET:
            if set(map(id, now.values())) != set(map(id, before.values())):
                self._refuse_growth(thing, len(before))
            return
        if thing.kind is LIST and len(now) != len(before):
            self._refuse_growth(thing, len(before))
        for key in itertools.chain(before, (k for k in now if k not in before)):
            expected = self._expected(thing, key)
            value = now.get(key, MISSING)
            if value is expected or _is_same(value, expected):
                continue
            self._changed(thing, key, value, before.get(key, MISSING))
        if (
            thing.kind is TENSOR
            and id(thing.value) in self.run.watch.forgotten
            and thing.value.grad is before["grad"] is None
        ):
            self.effects.append(Effect(thing, "grad", "None"))  # another call may find a gradient to forget

    def _changed(self, thing: Thing, key: Any, value: Any, before: Any) -> None:
        place = Place(thing, key)
        choices, path = self.run.choices, place.path
        is_number = type(value) in (int, float) and type(before) is type(value)
        if is_number and path not in choices.guarded and path not in choices.lifted:
            choices.lifted.add(path)
            raise AgainError
        if value is MISSING:
            self.effects.append(Effect(thing, key, None))
            return
        try:
            text = self.results.expression(value, as_array=kind_of(before) is ARRAY or key == "grad")
        except KeptError as error:
            where = self._line(lambda: thing.now().get(key, MISSING) is not self._expected(thing, key))
            raise kept_error(str(place), where, f"a {error} keeps a traced value") from None
        self.effects.append(Effect(thing, key, text))

    def _expected(self, thing: Thing, key: Any) -> Any:
        return self.run.placed.get((thing.number, key), thing.before.get(key, MISSING))

    def _refuse_growth(self, thing: Thing, length: int) -> None:
        where = self.run.watch.grown.get(id(thing.value)) or self._line(lambda: len(thing.value) != length)
        name = str(thing.first)
        change = "grows" if len(thing.value) > length else "shrinks" if len(thing.value) < length else "changes"
        fault = f"{name} {change} at {where}: a container that the compiled function found would change once only"
        remedy = "to return the value, and to keep it outside"
        raise SideEffectError(explain("jit", fault, remedy=remedy))

    def _line(self, has_happened: Callable[[], bool]) -> str:
        """Where something happens, found by a second run."""
        run = self.run
        run.restore()
        run.placed.clear()
        again = Run(run.f, list(run.given_arguments), run.given_keywords, run.choices)

        def go() -> None:
            again._put_boxes()  # pyright: ignore[reportPrivateUsage]
            with tracing(Trace()):
                again.f(*again.arguments, **again.keywords)

        run.placed.update(again.placed)
        try:
            return find_line(go, has_happened)
        finally:
            again.restore()

    def _check_walks(self) -> None:
        """A backward pass of the function that goes on outside of it, and tensors that change what they are."""
        for thing, stand_in in self.run.outer.values():
            if stand_in.grad is not None:
                raise EagerError(f"backward reaches the graph of {thing.first}, which was recorded outside")
        for thing, node, *_ in self.run.nodes:
            now = thing.value.node
            was_outer = node is not None and node[1] is not None
            if (now is not node and not was_outer) or (was_outer and (now is None or now[1] is not _IDENTITY)):
                raise EagerError(f"{thing.first} becomes another kind of tensor")


def _leads_to_freed(node: Node) -> bool:
    """Whether the graph of a result was walked, in part or whole, and cannot be walked again."""
    try:
        reach([node])
    except FreedGraphError:
        return True
    return is_freed(node)


def _is_same(value: Any, expected: Any) -> bool:
    """Whether two plain values are the same one, whatever object they are."""
    kind = kind_of(value)
    if kind is not type(expected) or kind not in (int, float, str, bytes, bool, complex):
        return False
    return value == expected and repr(value) == repr(expected)


def outputs_of(traced: Traced) -> tuple[list[Equation], list[int | None]]:
    """All outputs of a program, the fresh ones first, and for each the number of the input it is written to."""
    fresh = traced.results.outputs
    outputs = [*fresh, *(i.box.equation for i in traced.written)]
    return outputs, [*(None for _ in fresh), *(i.number for i in traced.written)]
