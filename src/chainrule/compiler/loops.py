"""A loop as one equation: its body is traced once, becomes a program of its own, and runs turn after turn.

What the body leaves in boxes and places that outlive it is carried from turn to turn, beside the carry that it returns;
so an imperative training step is a body.  A loop through which a gradient flows stays unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from chainrule import boxes, tree
from chainrule.backends.abstract import Abstract, Equation, reach_equations
from chainrule.backends.registry import type_of
from chainrule.compiler.numpy_executor import compile_program
from chainrule.compiler.program import Executable, Program
from chainrule.compiler.simplify import assemble, leant_on, substituted
from chainrule.core.calls import is_tensor, is_weak, raw, wrap
from chainrule.core.equations import Trace
from chainrule.core.graph import is_freed, next_number
from chainrule.errors import TraceError

_AT_MOST = 5000
"""Equations of a loop that is written out: below, one program is compiled in a second or two, and runs faster."""


class Loop:
    """The record of one loop: `turns` runs of `program`, whose inputs are what is carried, rows, and what stays."""

    name = "loop"
    multiple = fresh = True
    variadic = is_view = hides = False
    same = expected = None
    parameters: tuple[str, ...] = ()

    def __init__(self, program: Program, carried: int, firsts: Sequence[int], turns: int, compile_: Any) -> None:
        self.program = program
        self.carried = carried
        self.firsts = tuple(firsts)
        """Of each array that is read row by row: the row of the first turn."""
        self.turns = turns
        self.inputs = tuple(f"x{k}" for k in range(len(program.inputs)))
        self.rules = (None,) * len(program.inputs)
        """No gradient flows through."""
        self._compile: Callable[[Program], Executable] = compile_
        self._ready: Executable | None = None

    def __repr__(self) -> str:
        return f"loop of {self.turns} turns"

    def names(self, count: int) -> tuple[str, ...]:
        """The names of the operands, for messages."""
        return self.inputs

    def shape_rule(self, *_: Any) -> list[tuple[Any, Any]]:
        """Shape and dtype of each output."""
        kinds = [(e.shape, e.dtype) for e in self.program.outputs]
        return kinds[: self.carried] + [((self.turns, *shape), dtype) for shape, dtype in kinds[self.carried :]]

    def forward(self, *arrays: Any) -> tuple[Any, ...]:
        """What was carried, at the end, and the other outputs of all turns, stacked."""
        ready = self._ready = self._ready or self._compile(self.program)
        run: Any = getattr(ready, "entry", ready)  # the native one, without the way around it
        end = self.carried + len(self.firsts)
        carried: list[Any] = [np.array(a, order="C") for a in arrays[: self.carried]]
        rows = [np.asarray(a, order="C") for a in arrays[self.carried : end]]
        stays = [np.asarray(a, order="C") for a in arrays[end:]]
        stacks = [np.empty((self.turns, *e.shape), e.dtype) for e in self.program.outputs[self.carried :]]
        for k in range(self.turns):
            turn = [row[first + k, ...] for row, first in zip(rows, self.firsts, strict=True)]
            found: Any = run((*carried, *turn, *stays))
            if found is None or isinstance(found, int):  # None; or an array that does not fit, which cannot be
                np.divide(0.0, 0.0)  # an invalid operation, for whoever looks at the flag of the whole program
                break
            for stack, value in zip(stacks, found, strict=True):
                stack[k] = value
        return (*carried, *stacks)


class Repeated:
    """The draws of all turns of a loop, in their order; one of these stands for each draw of a turn."""

    def __init__(self, draws: Sequence[Any], turns: int, kept: list[Any], number: int) -> None:
        self._draws = draws
        self._turns = turns
        self._kept = kept
        self._number = number

    def __call__(self) -> Any:
        """The first one draws for all."""
        if self._number == 0:
            turns = [[draw() for draw in self._draws] for _ in range(self._turns)]
            self._kept[:] = [np.stack(column) for column in zip(*turns, strict=True)]
        return self._kept[self._number]


class _Carried(NamedTuple):
    """Something that one turn hands to the next."""

    before: Equation
    """What the body reads."""
    after: Equation
    """What it leaves."""
    start: Equation
    """What stands there when the loop begins."""
    finish: Callable[[Equation], Any]
    """What happens with the last one."""


class _Body:
    """One turn, traced with new inputs in all places, which are set back."""

    def __init__(self, trace: Trace, extra: dict[int, Abstract], first: int) -> None:
        self.trace = trace
        self.first = first
        """What is newer than this number belongs to the turn."""
        self.slots: list[tuple[Any, Any]] = list(trace.slots())
        self.boxes = {id(v): v for v, _ in self.slots if isinstance(v, Abstract)} | extra
        self.outer = {key: box.equation for key, box in self.boxes.items()}
        self.mine: dict[int, Equation] = {}
        self.marks = len(trace.draws), len(trace.flagged), len(trace.watched)
        self.draws: list[Any] = []
        self.flagged: list[Equation] = []
        self.watched: list[Equation] = []
        self.strange: dict[int, Abstract] = {}
        """Boxes that were written and are in no place that is known."""
        self.rebound: list[tuple[Any, Abstract, Abstract]] | None = []
        """(how to put something there, what stood there, what stands there now); None where that is no carry."""

    def run(self, f: Callable[..., Any], *operands: Any) -> Any:
        trace = self.trace
        for key, box in self.boxes.items():
            self.mine[key] = box.equation = Equation(None, (), (), box.shape, box.dtype)
        outer, written = trace.written, dict[int, Any]()
        trace.written = written
        try:
            made = f(*operands)
            now = list(trace.slots())
            self.after = {key: box.equation for key, box in self.boxes.items()}
            self._compare(now)
            found = {key: reference() for key, (reference, _) in written.items() if key not in self.boxes}
            self.strange = {key: box for key, box in found.items() if box is not None}
        finally:
            trace.written = outer
            for reference, before in written.values():
                box = reference()
                if box is not None:
                    box.equation = before
            for key, box in self.boxes.items():
                box.equation = self.outer[key]
            for (value, put), (now_there, _) in zip(self.slots, trace.slots(), strict=False):
                if now_there is not value:
                    put(value)
            draws, flagged, watched = self.marks
            self.draws, self.flagged, self.watched = (
                trace.draws[draws:],
                trace.flagged[flagged:],
                trace.watched[watched:],
            )
            del trace.draws[draws:], trace.flagged[flagged:], trace.watched[watched:]
        return made

    def _compare(self, now: list[tuple[Any, Any]]) -> None:
        """Find the places that were rebound, and whether they can be carried."""
        if len(now) != len(self.slots):
            self.rebound = None
            return
        ways: dict[int, Any] = {}
        for (before, put), (after, _) in zip(self.slots, now, strict=True):
            if isinstance(before, Abstract) and ways.setdefault(id(before), after) is not after:
                self.rebound = None  # two places shared an array, and now they do not
                return
            if after is before or self.rebound is None or _is_plain_same(before, after):
                continue
            if not (isinstance(before, Abstract) and isinstance(after, Abstract) and _type(before) == _type(after)):
                self.rebound = None
                return
            self.rebound.append((put, before, after))


def _is_plain_same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and issubclass(type(a), (bool, int, float, str)) and a == b  # pyright: ignore[reportUnknownArgumentType]


def _type(box: Abstract) -> tuple[Any, ...]:
    return box.shape, box.dtype, box.weak, box.fixed


def looped(trace: Trace, f: Callable[..., Any], carry: Any, rows: list[Any], form: Any, turns: int, cost: int) -> Any:  # fmt: skip
    """`(carry, stacked results)` of `turns` turns after the first as one equation; None where they have to be written out.

    `rows`, in the structure `form`: arrays whose row k + 1 turn k gets.  `cost`: the equations of a turn.
    """
    if cost * turns <= _AT_MOST or any(is_tensor(row) and row.node is not None for row in rows):
        return None
    leaves, structure = tree.flatten(carry)
    if any(is_tensor(leaf) and leaf.node is not None for leaf in leaves):
        return None
    extra: dict[int, Abstract] = {}
    for _ in range(4):
        first_number = Equation(None, (), (), (), np.dtype(bool)).number
        starts = [_box_of(leaf) for leaf in leaves]
        turn = [_row_of(row) for row in rows]
        given = [_like(leaf, box) for leaf, box in zip(leaves, starts, strict=True)]
        body = _Body(trace, extra, first_number)
        handed = [_like(row, box) for row, box in zip(rows, turn, strict=True)]
        refused = len(trace.refusals)
        try:
            after, result = body.run(f, tree.unflatten(structure, given), tree.unflatten(form, handed))
        except TraceError:
            del trace.refusals[refused:]
            return None  # written out, perhaps its numbers are known
        if not body.strange:
            break
        extra |= body.strange
    else:
        return None
    ends = tree.flatten_as(structure, after, "scan")
    values, results_form = tree.flatten(result)
    if body.rebound is None or not all(map(_is_value, (*ends, *values))):
        return None
    finals: list[Equation] = []
    carried = [
        _Carried(box.equation, _equation(trace, end), _equation(trace, leaf), finals.append)
        for leaf, box, end in zip(leaves, starts, ends, strict=True)
    ]
    carried += _carried_by(body)
    stacks = _build(trace, body, carried, list(zip(turn, rows, strict=True)), turns, values)
    carry = tree.unflatten(structure, [_like(leaf, _boxed(e, leaf)) for leaf, e in zip(leaves, finals, strict=True)])
    return carry, tree.unflatten(results_form, [_stacked(v, e) for v, e in zip(values, stacks, strict=True)])


def _carried_by(body: _Body) -> list[_Carried]:
    """What boxes and places hand on."""
    found: list[_Carried] = []
    places: dict[int, list[Any]] = {}
    for put, before, after in body.rebound or ():
        puts = places.setdefault(id(before), [])
        puts.append(put)
        if len(puts) > 1:
            continue

        def rebind(equation: Equation, puts: list[Any] = puts, after: Abstract = after) -> None:
            made = Abstract(after.shape, after.dtype, equation, after.weak, after.fixed)
            for put in puts:
                put(made)

        found.append(_Carried(body.mine[id(before)], after.equation, body.outer[id(before)], rebind))
    for key, box in body.boxes.items():
        if key not in places and body.after[key] is not body.mine[key]:

            def write(equation: Equation, box: Abstract = box) -> None:
                boxes.write(box, Abstract(box.shape, box.dtype, equation))

            found.append(_Carried(body.mine[key], body.after[key], body.outer[key], write))
    return found


def _build(trace: Any, body: _Body, carried: list[_Carried], rows: list[Any], turns: int, values: list[Any]) -> list[Equation]:  # fmt: skip
    """The equation of the loop, put where it belongs; the stacked results."""
    results = [_equation(trace, value) for value in values]
    wanted = [*(c.after for c in carried), *results]
    walks = [*body.flagged, *body.watched]
    read = [c.before for c in carried] + [box.equation for box, _ in rows] + [equation for equation, _ in body.draws]
    stays = {body.mine[key].number: (body.mine[key], body.outer[key]) for key in body.boxes}
    known = {equation.number for equation in read}
    free = [pair for number, pair in stays.items() if number not in known]
    outer = leant_on([*wanted, *walks], body.first)
    stand_ins = {e.number: Equation(None, (), (), e.shape, e.dtype) for e in outer}
    instead = substituted([*wanted, *walks], stand_ins)
    inputs = [*read, *(mine for mine, _ in free), *stand_ins.values()]
    inner = SimpleNamespace(
        careful=trace.careful,
        flagged=[instead[e.number] for e in body.flagged],
        watched=[instead[e.number] for e in body.watched],
    )
    targets = [*range(len(carried)), *(None for _ in results)]
    program: Any = assemble(inner, inputs, [instead[e.number] for e in wanted], targets)  # pyright: ignore[reportArgumentType]
    program, kept = _without_unused(program, len(read))
    firsts = [1] * len(rows) + [0] * len(body.draws)
    loop = Loop(program, len(carried), firsts, turns, getattr(trace, "compile", compile_program))
    drawn = _repeat(trace, [draw for _, draw in body.draws], [e for e, _ in body.draws], turns)
    start = [c.start for c in carried] + [_equation(trace, row) for _, row in rows] + drawn
    last = [*(stands for _, stands in free), *outer]
    whole = Equation(loop, (*start, *(last[k] for k in kept)), (), (), np.dtype(bool))
    picks = [Equation("pick", (whole,), (k,), e.shape, e.dtype) for k, e in enumerate(program.outputs[: len(carried)])]
    stacks = [
        Equation("pick", (whole,), (len(carried) + k,), (turns, *e.shape), e.dtype)
        for k, e in enumerate(program.outputs[len(carried) :])
    ]
    if program.flagged:
        trace.flagged += [*picks, *stacks]
    for c, pick in zip(carried, picks, strict=True):
        c.finish(pick)
    return stacks


def _without_unused(program: Program, read: int) -> tuple[Program, list[int]]:
    """The program without the inputs from number `read` on that nothing needs, and the numbers of those that stay."""
    needed = {e.number for e in reach_equations([*program.outputs, *program.flagged])}
    kept = [k for k, e in enumerate(program.inputs[read:]) if e.number in needed]
    numbers = [*range(read), *(read + k for k in kept)]
    watched = tuple(numbers.index(k) for k in program.watched if k in numbers)
    return program._replace(inputs=tuple(program.inputs[k] for k in numbers), watched=watched), kept


def _repeat(trace: Any, draws: list[Any], equations: list[Equation], turns: int) -> list[Equation]:
    """Inputs that hold the draws of all turns."""
    kept: list[Any] = []
    made = [Equation(None, (), (), (turns, *e.shape), e.dtype) for e in equations]
    trace.draws += [(e, Repeated(draws, turns, kept, k)) for k, e in enumerate(made)]
    return made


# ------------------------------------------------------------ leaves
def _is_value(leaf: Any) -> bool:
    """Whether a leaf can be computed by a program, and no gradient flows through it."""
    if is_tensor(leaf):
        return leaf.node is None or is_freed(leaf.node)
    return is_weak(leaf) or issubclass(type(leaf), (Abstract, np.ndarray, np.generic))


def _equation(trace: Trace, leaf: Any) -> Equation:
    data = raw(leaf)
    return data.equation if isinstance(data, Abstract) else trace.constant(np.asarray(data))


def _box_of(leaf: Any) -> Abstract:
    """A new input like a leaf."""
    data = raw(leaf)
    like: Any = data if hasattr(data, "dtype") else np.asarray(data)
    return Abstract(
        like.shape, like.dtype, None, is_weak(data), issubclass(type(data), np.generic) or getattr(data, "fixed", False)
    )


def _row_of(row: Any) -> Abstract:
    data = raw(row)
    return Abstract(data.shape[1:], data.dtype, fixed=len(data.shape) == 1)


def _boxed(equation: Equation, like: Any) -> Abstract:
    box = _box_of(like)
    box.equation = equation
    return box


def _like(leaf: Any, box: Abstract) -> Any:
    return wrap(box, None, type_of(leaf)) if is_tensor(leaf) else box


def _stacked(value: Any, equation: Equation) -> Any:
    """Results of all turns, as the kind of one; what a backward pass has freed stays freed."""
    box = Abstract(equation.shape, equation.dtype, equation)
    if not is_tensor(value):
        return box
    node = value.node and [next_number(), value.node[1], None, None, (), equation.shape, equation.dtype]
    return wrap(box, node, type_of(value))
