"""From a trace to the program that executors get: what nobody needs is gone, and what is the same is computed once.

Only what is right to the bit is done here, for both executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from chainrule.backends.abstract import Equation, reach_equations
from chainrule.compiler.program import Program
from chainrule.compiler.shorter import shortened
from chainrule.core.equations import Trace


def assemble(
    trace: Trace, inputs: Sequence[Equation], outputs: Sequence[Equation], targets: Sequence[int | None]
) -> Program:
    """The program of a closed trace, simplified.  `inputs` are in the order of the values, draws among them."""
    needed = {equation.number for equation in reach_equations(list(outputs))}
    flagged: list[Equation] = []
    watched: list[int] = []
    if not trace.careful:
        flagged = list({e.number: e for e in trace.flagged if e.number in needed}.values())
    if flagged:
        walked = {equation.number for equation in reach_equations(flagged)}
        hidden = walked & {equation.number for equation in reach_equations(trace.watched)}
        watched = [k for k, e in enumerate(inputs) if e.number in hidden and e.dtype.kind == "f"]
    return simplify(Program(tuple(inputs), tuple(outputs), tuple(targets), tuple(watched), tuple(flagged)))


def simplify(program: Program) -> Program:
    """The same program with fewer equations."""
    inputs = {equation.number for equation in program.inputs}
    known: dict[Any, Equation] = {}
    instead: dict[int, Equation] = {}
    for equation in reach_equations([*program.outputs, *program.flagged]):
        if equation.number in inputs:
            instead[equation.number] = equation
            continue
        arguments = tuple(instead[a.number] for a in equation.arguments)
        key = _key(equation, arguments)
        found = known.get(key)
        if found is None:
            found = shortened(equation.on(arguments))
            if found.primitive is None and found is not equation and found.source is not None:
                found = known.setdefault(_key(found, ()), found)
            known[key] = found
        instead[equation.number] = found
    return program._replace(
        outputs=tuple(instead[e.number] for e in program.outputs),
        flagged=_distinct(instead[e.number] for e in program.flagged),
    )


def _distinct(equations: Iterable[Equation]) -> tuple[Equation, ...]:
    return tuple({e.number: e for e in equations}.values())


_SMALL = 1 << 16  # bytes of a constant that is compared with others


def _key(equation: Equation, arguments: tuple[Equation, ...]) -> Any:
    """What two equations that give the same value have in common."""
    if equation.primitive is None:
        source = equation.source
        if getattr(source, "nbytes", _SMALL) >= _SMALL:
            return ("array", id(source))
        return ("constant", equation.shape, equation.dtype, np.asarray(source).tobytes())
    name = equation.primitive if isinstance(equation.primitive, str) else id(equation.primitive)
    return (name, tuple(a.number for a in arguments), tuple(map(_parameter, equation.parameters)))


def _parameter(value: Any) -> Any:
    """A parameter as something that compares equal only with what means the same: 1 is not 1.0, 0.0 is not -0.0."""
    if isinstance(value, tuple):
        return tuple(map(_parameter, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)  # pyright: ignore[reportUnknownMemberType]
    if value is None or isinstance(value, (bool, int, str, np.dtype)):
        return (type(value), value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return (float, value.hex()) if type(value) is float else ("object", id(value))


# ---------------------------------------------------------------- a part of a trace on inputs of its own
def leant_on(outputs: Sequence[Equation], since: int) -> list[Equation]:
    """The equations older than number `since` that newer ones lean on, or that are among `outputs`; no constants."""
    found: dict[int, Equation] = {}
    seen: set[int] = set()
    todo = list(outputs)
    while todo:
        equation = todo.pop()
        if equation.number in seen:
            continue
        seen.add(equation.number)
        if equation.number < since:
            found[equation.number] = equation
        else:
            todo += equation.arguments
    return [found[n] for n in sorted(found) if found[n].source is None]


def substituted(outputs: Sequence[Equation], instead: dict[int, Equation]) -> dict[int, Equation]:
    """By number, what `outputs` and all on the way to them become with others in place of those in `instead`."""
    made = dict(instead)
    seen: dict[int, Equation] = {}
    todo = list(outputs)
    while todo:
        equation = todo.pop()
        if equation.number not in seen and equation.number not in made:
            seen[equation.number] = equation
            todo += equation.arguments
    for number in sorted(seen):
        made[number] = seen[number].on(tuple(made[a.number] for a in seen[number].arguments))
    return made
