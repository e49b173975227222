"""What a finished run says: a program's outputs, what is written in place, what is bound, and the lines that make it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from chainrule.backends.abstract import Equation
from chainrule.compiler.arithmetic import Arithmetic
from chainrule.compiler.effects import find_line
from chainrule.compiler.inputs import AgainError, EagerError
from chainrule.compiler.kinds import (
    ARRAY,
    LIST,
    MISSING,
    OPAQUE,
    SET,
    TENSOR,
    TUPLE,
    kind_of,
)
from chainrule.compiler.places import Place, Thing
from chainrule.compiler.results import Code, KeptError, Results, kept_error
from chainrule.compiler.trace import Run
from chainrule.core.equations import Trace, tracing
from chainrule.core.graph import Node, is_freed, reach
from chainrule.errors import FreedGraphError, SideEffectError, explain
from chainrule.transforms.arguments import identity

_IDENTITY: Any = identity.primitive  # pyright: ignore[reportFunctionMemberAccess]


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
            expected = self.run.placed.get((thing.number, key), before.get(key, MISSING))
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
