"""One compiled case of a function: the program, ready to run, within the code that guards it and writes back."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from math import copysign
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Equation
from chainrule.compiler.differentiable import Differentiable
from chainrule.compiler.guards import MISS, Guards, Miss, used_inputs
from chainrule.compiler.inputs import Input
from chainrule.compiler.kinds import ARRAY, CELL, CLASS, OBJECT, SCALAR, TENSOR, kind_of
from chainrule.compiler.program import Program
from chainrule.compiler.results import Code, name_of
from chainrule.compiler.simplify import assemble, substituted
from chainrule.compiler.traced import Effect, Traced, outputs_of
from chainrule.core.graph import next_number, own_copy

Path = tuple[Any, ...]
_HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
_A_WHILE: Any = 10_000
"""How long NumPy may think about two arrays."""
_KINDS = (np.ndarray, int, float)
_BEYOND = Miss("a number that is another kind of number than when it was traced, or beyond 64 bits")
_FAULTS = (AttributeError, LookupError, TypeError, ValueError, NameError)
"""What a check raises where something is missing or is no number: then the specialisation does not hold."""


class Specialisation:
    """What the compiled function runs for arguments and a state of one kind."""

    def __init__(
        self, traced: Traced, plan: Plan, execute: Any, rescue: Any, derivatives: Differentiable | None
    ) -> None:
        """`rescue`: called with this, the arguments and the draws where the careful program must run."""
        self.program = plan.program
        self.execute = execute
        self.derivatives = derivatives
        self.careful: Specialisation | None = None
        self.text = ""
        self.facts: dict[Path, tuple[str, Any]] = {}
        self.run = _written(self, traced, plan, partial(rescue, self))


class Plan(NamedTuple):
    """A program, and what is passed to it: inputs from places, then numbers that Python computed, then draws."""

    program: Program
    inputs: list[Input]
    numbers: list[Equation]


def program_of(traced: Traced, more: Sequence[Any] = ()) -> Plan:
    """The program of a finished trace.  `more`: further outputs, after the fresh ones."""
    outputs, targets = outputs_of(traced)
    fresh = len(traced.results.outputs)
    outputs[fresh:fresh] = more
    targets[fresh:fresh] = [None] * len(more)
    trace: Any = traced.run.trace
    # The equations of a result that is to be differentiated are kept whole.
    numbers = [] if traced.live else traced.arithmetic.border([*outputs, *trace.flagged])
    stand_ins = {e.number: Equation(None, (), (), e.shape, e.dtype) for e in numbers}
    if numbers:
        count = len(outputs), len(trace.flagged)
        changed = substituted([*outputs, *trace.flagged, *trace.watched], stand_ins)
        outputs, rest = changed[: count[0]], changed[count[0] :]
        trace = SimpleNamespace(careful=trace.careful, flagged=rest[: count[1]], watched=rest[count[1] :])
    inputs = used_inputs(traced, [*outputs, *trace.flagged])
    position = {i.number: k for k, i in enumerate(inputs)}
    draws = [equation for equation, _ in traced.run.trace.draws]
    equations = [*(i.equation for i in inputs), *stand_ins.values(), *draws]
    where = [None if target is None else position[target] for target in targets]
    return Plan(assemble(trace, equations, outputs, where), inputs, numbers)


def _written(made: Specialisation, traced: Traced, plan: Plan, rescue: Any) -> Callable[..., Any]:
    inputs = plan.inputs
    guards = Guards(traced, inputs)
    guards.go()
    made.facts = guards.facts
    code = traced.code
    space = code.space
    space.update(
        MISS=MISS, FAULTS=_FAULTS, ndarray=np.ndarray, asarray=np.asarray, copysign=copysign, modes=modes,
        next_number=next_number, move=_move, release=_release, rescue=rescue, Miss=Miss, OrderedDict=OrderedDict,
        execute=getattr(made.execute, "entry", made.execute), write=OBJECT.write, delete=OBJECT.delete, failed=_failed, BEYOND=_BEYOND,
    )  # fmt: skip
    derivatives = made.derivatives
    kept, nodes = derivatives.lines(traced, len(traced.results.outputs)) if derivatives else ([], [])
    body = [
        *_modes(traced),
        "try:",
        *("    " + line for line in [*guards.lines, *_distinct(traced)]),
        "except FAULTS: return MISS",
        *_array_checks(code, traced, inputs, guards, made.execute),
        *_running(traced, plan, guards, made.execute, kept),
        *_unpacked(made.program),
        *_marks(traced, code),
        *nodes,
        *code.lines,
        *_effects(traced.effects, code),
        f"return {traced.answer}",
    ]
    made.text = "def run(arguments, keywords, drawn=None):\n" + "\n".join("    " + line for line in body)
    exec(compile(made.text, "<guards>", "exec"), space)
    return space["run"]


def _modes(traced: Traced) -> list[str]:
    paused = bool(modes.paused) and modes.is_paused()
    lines = [f"if {'not ' if paused else ''}(modes.paused and modes.is_paused()): return MISS"]
    if modes.default_dtype.__code__ in traced.run.watch.codes:
        lines.append(f"if modes.default_dtype() != {traced.code.constant(modes.default_dtype())}: return MISS")
    return lines


def _distinct(traced: Traced) -> list[str]:
    """Tensors that are changed must not be one, where they were not in the trace."""
    written = {i.number for i in traced.written}
    changed = {e.thing.number for e in traced.effects if e.thing.kind is TENSOR}
    for found in traced.run.inputs:
        if found.number in written:
            changed.update(place.owner.number for place in found.places if place.owner.kind is TENSOR)
    things = [t for t in traced.walk if t.number in changed]
    if not any(t.given for t in things) or len(things) < 2:
        return []
    names = ", ".join(f"id({name_of(t)})" for t in things)
    return [f"if len({{{names}}}) != {len(things)}: return MISS"]


# ------------------------------------------------------------------------------------------------------------ arrays
def _array_checks(code: Code, traced: Traced, inputs: list[Input], guards: Guards, execute: Any) -> list[str]:
    """Type, dtype, shape and who shares memory.  What stands in its place since the last look needs no other."""
    arrays = [i for i in inputs if guards.loaded.get(i.number) in ("given", "kept")]
    if not arrays or (getattr(execute, "guards", False) and not traced.run.trace.draws):
        return []
    written = {i.number for i in traced.written}
    look = Look(code.space, arrays, written)
    code.space["look"] = look
    code.space.update({f"s{i.number}": None for i in arrays})
    code.space["owners"] = set[int]()
    tests: list[str] = []
    for found in arrays:
        name = f"x{found.number}"
        if guards.loaded[found.number] == "kept" or found.number in written:
            tests.append(f"{name} is s{found.number}")
            continue
        like = code.constant(found.value.dtype)
        tests.append(f"{name}.__class__ is ndarray and {name}.dtype is {like} and {name}.shape == {found.value.shape}")
        if written:
            owner = f"(b := {name}.base) is None or b.__class__ is ndarray and b.base is None"
            tests.append(f"({owner}) and id({name} if b is None else b) not in owners")
    values = "".join(f"x{i.number}, " for i in arrays)
    return [f"if not ({' and '.join(tests)}):", f"    q = look(({values}))", "    if q is not None: return q"]


class _Everything:
    def __contains__(self, _: Any) -> bool:
        return True


class Look:
    """The thorough look at arrays that are not the ones of the last call."""

    def __init__(self, space: dict[str, Any], arrays: list[Input], written: set[int]) -> None:
        self.space = space
        self.types = [(i.number, i.value.shape, i.value.dtype, i.number in written) for i in arrays]

    def __call__(self, values: Sequence[Any]) -> Miss | None:
        targets: list[Any] = []
        others: list[Any] = []
        for value, (_, shape, dtype, is_written) in zip(values, self.types, strict=True):
            if kind_of(value) is not ARRAY:
                if not isinstance(value, SCALAR) or is_written:
                    return MISS
            elif is_written and not value.flags.writeable:
                return Miss("an array that would be written is read-only")
            if value.shape != shape or value.dtype != dtype:
                return MISS
            (targets if is_written else others).append(value)
        if targets and _overlap(targets, others):
            return Miss("an array that is written shares memory with another")
        owned = all(_owner(t).base is None for t in targets)
        self.space["owners"] = {id(_owner(t)) for t in targets} if owned else _Everything()
        self.space.update({f"s{number}": value for value, (number, *_) in zip(values, self.types, strict=True)})
        return None


def _owner(array: Any) -> Any:
    return array if type(array.base) is not np.ndarray else array.base


def _overlap(targets: list[Any], others: list[Any]) -> bool:
    """Whether a target shares memory with another array.  Arrays that own their memory share it with their views only."""
    groups: dict[int, list[Any]] = {}
    for array in (*targets, *others):
        if isinstance(array, np.ndarray):
            owner = _owner(array)
            groups.setdefault(id(owner) if owner.base is None else 0, []).append(array)
    unknown = groups.pop(0, [])
    numbers = {id(t) for t in targets}
    for group in [*groups.values(), [*unknown, *(targets if unknown else ())]]:
        for k, a in enumerate(group):
            for b in group[:k]:
                if a is not b and (id(a) in numbers or id(b) in numbers) and _share(a, b):
                    return True
    return any(a is b for k, a in enumerate(targets) for b in targets[:k]) or any(id(o) in numbers for o in others)


def _share(a: Any, b: Any) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, _A_WHILE)
    except np.exceptions.TooHardError:
        return True


# ---------------------------------------------------------------------------------------------------------- running
def _failed(error: Exception) -> Miss:
    """An error of the program, such as an index out of range: eager mode meets it too, and words it."""
    return Miss(f"{type(error).__name__}: {error}", failed=True)


def _running(traced: Traced, plan: Plan, guards: Guards, execute: Any, kept: list[str]) -> list[str]:
    code, inputs = traced.code, plan.inputs
    checks = traced.arithmetic.checks(plan.numbers)
    lines = [f"try: {'; '.join(traced.arithmetic.lines)}", "except Exception as error: return failed(error)", *checks]
    if not traced.arithmetic.lines:
        lines = checks
    if not plan.program.outputs:
        return lines
    direct = getattr(execute, "numbers", False)
    values = [f"x{i.number}" if direct or i.is_array else f"asarray(x{i.number})" for i in inputs]
    for equation in plan.numbers:
        name = str(traced.arithmetic.text(equation))
        values.append(name if direct and equation.dtype.kind != "b" else f"asarray({name})")
    draws = [draw for _, draw in traced.run.trace.draws]
    if draws:
        calls = ", ".join(f"{code.constant(draw)}()" for draw in draws)
        lines.append(f"if drawn is None: drawn = [{calls}]")
        values.append("*drawn")
    leaves = _leaves(traced, code)
    if leaves:
        lines.append(f"if {' or '.join(leaf + '.aliases' for leaf in leaves)}: release(({', '.join(leaves)}, ))")
    lines += kept
    text = "".join(value + ", " for value in values)
    lines.append(f"try: v = execute(({text}))")
    lines.append("except Exception as error: return failed(error)")
    has_guards = getattr(execute, "guards", False)
    lines.append(f"if v.__class__ is not {'tuple' if has_guards else 'list'}:")
    if has_guards:
        written = [k for k, i in enumerate(inputs) if i in traced.written]
        code.space["adapt"] = Adapted(guards.code.space["execute"], plan.program.inputs, written)
        lines += [f"    if v is not None: v = adapt(({text}))", "    if v.__class__ is Miss: return v"]
    if not traced.run.trace.careful:
        lines.append("    if v is None: return rescue(arguments, keywords, drawn)")
    return [*lines, "    v = list(v)"]


def _unpacked(program: Program) -> list[str]:
    """A name for each fresh output."""
    count = sum(target is None for target in program.targets)
    return [f"{', '.join(f'v{k}' for k in range(count))}, = v"] if count else []


class Adapted:
    """Arrays of the right type that native code cannot take as they lie in memory: copied, and written back."""

    def __init__(self, execute: Any, types: Sequence[Any], written: list[int]) -> None:
        self.execute = execute
        self.types = types
        self.written = written

    def __call__(self, values: Sequence[Any]) -> Any:
        if not all(isinstance(value, SCALAR) or kind_of(value) in _KINDS for value in values):
            return MISS
        arrays = [np.asarray(value) for value in values]
        for array, like in zip(arrays, self.types, strict=False):
            if array.shape != like.shape or array.dtype != like.dtype:
                return MISS
        targets = [arrays[k] for k in self.written]
        if not all(t.flags.writeable for t in targets):
            return Miss("an array that would be written is read-only")
        others = [a for k, a in enumerate(arrays) if k not in self.written]
        if targets and _overlap(targets, others):
            return Miss("an array that is written shares memory with another")
        whole = [np.require(np.ascontiguousarray(a).reshape(a.shape), None, ["C", "A"]) for a in arrays]
        found = self.execute(tuple(whole))
        if found.__class__ is int:
            return Miss("an array does not lie in memory as native code needs it")
        if found is not None:
            for k in self.written:
                if whole[k] is not arrays[k]:
                    arrays[k][...] = whole[k]
        return found


def _leaves(traced: Traced, code: Code) -> list[str]:
    """The leaves whose memory is written, in code."""
    found: list[str] = []
    for written in traced.written:
        for owner, key in written.places:
            if owner.kind is TENSOR and key == "data" and owner.value.node is not None:
                node = owner.value.node
                if node[1] is None:
                    found.append(f"{name_of(owner)}.node[3]" if owner.given else code.constant(node[3]))
    return found


def _marks(traced: Traced, code: Code) -> list[str]:
    """Tell graphs that the leaves were written: one number for all."""
    leaves = _leaves(traced, code)
    if not leaves:
        return []
    names = "".join(f"{leaf}.written = " for leaf in leaves)
    if not _HAS_GIL:
        return ["with modes.lock:", f"    {names}modes.last_write = next_number()"]
    # Between a comparison and a store no other thread runs, so a later number is never replaced; a lock costs 0.25 us.
    return [f"{names}n = next_number()", "if modes.last_write < n: modes.last_write = n"]


def _move(tensor: Any) -> None:
    """A tensor whose memory a graph or another tensor looks at: it is written elsewhere."""
    tensor.data = own_copy(tensor.data)
    tensor.shared = False


def _release(leaves: Any) -> None:
    """Values that look at the memory of leaves which will be written keep what they see."""
    for leaf in leaves:
        for alias in leaf.aliases:
            view = alias()
            if view is not None:
                view.data = own_copy(view.data)
        leaf.aliases.clear()


def _effects(effects: list[Effect], code: Code) -> list[str]:
    lines: list[str] = []
    for effect in effects:
        name, key, kind = name_of(effect.thing), effect.key, effect.thing.kind
        if effect.text is None:
            lines.append(f"delete({name}, {key!r})" if kind is OBJECT else f"del {name}[{code.literal(key)}]")
        elif kind in (TENSOR, CELL, CLASS) or (kind is OBJECT and kind_of(effect.thing.value).__setattr__ is object.__setattr__):  # fmt: skip
            lines.append(f"{name}.{key} = {effect.text}")
        elif kind is OBJECT:
            lines.append(f"write({name}, {key!r}, {effect.text})")
        else:
            lines.append(f"{name}[{code.literal(key)}] = {effect.text}")
    return lines
