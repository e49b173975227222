"""A program to look at: equations as text, and what makes two programs one."""

from __future__ import annotations

from typing import Any

from chainrule.backends.abstract import Equation, reach_equations
from chainrule.compiler.kinds import kind_of
from chainrule.compiler.program import Program
from chainrule.compiler.report import drawing as kernels_drawn
from chainrule.errors import describe


class Lowered:
    """A program that was compiled and not run."""

    def __init__(self, made: Any) -> None:
        self.program: Program = made.program
        self.execute: Any = made.execute

    def as_text(self) -> str:
        """The equations, then what the executor made of them."""
        plan = getattr(self.execute, "as_text", None)
        return equations_text(self.program) + (f"\n\n{plan()}" if plan is not None else "")

    def __str__(self) -> str:
        return self.as_text()

    def drawing(self) -> Any:
        """Boxes and arrows for `cr.draw`: the kernels, or without native code the equations."""
        schedule = getattr(self.execute, "schedule", None)
        return kernels_drawn(schedule) if schedule is not None else equations_drawn(self.program)


def equations_drawn(program: Program) -> Any:
    """Each equation as a box, ((lines), kind), and arrows from arguments to what they are arguments of."""
    inputs = {equation.number for equation in program.inputs}
    outputs = {equation.number for equation in program.outputs}
    every = reach_equations(list(program.outputs))
    places = {equation.number: k for k, equation in enumerate(every)}

    def box(equation: Equation) -> tuple[tuple[str, ...], str]:
        is_leaf = equation.primitive is None
        name = "input" if equation.number in inputs else "constant" if is_leaf else str(equation.primitive)
        kind = "leaf" if is_leaf else "output" if equation.number in outputs else "operation"
        return (name, describe(equation)), kind

    arrows = [(places[a.number], places[e.number]) for e in every for a in e.arguments]
    return [box(equation) for equation in every], arrows


def equations_text(program: Program) -> str:
    """One line for each equation: `%3 f32[2, 3] = multiply %0 %1`."""
    names: dict[int, str] = {}
    lines: list[str] = []
    for k, equation in enumerate(program.inputs):
        names[equation.number] = f"%{len(names)}"
        lines.append(f"{names[equation.number]} {describe(equation)} = input {k}")
    for equation in reach_equations(list(program.outputs)):
        if equation.number not in names:
            name = names[equation.number] = f"%{len(names)}"
            lines.append(f"{name} {describe(equation)} = {_right_side(equation, names)}")
    outputs = [
        names[e.number] + ("" if target is None else f" into input {target}")
        for e, target in zip(program.outputs, program.targets, strict=True)
    ]
    return "\n".join([*lines, f"return {', '.join(outputs)}"])


def _right_side(equation: Equation, names: dict[int, str]) -> str:
    if equation.primitive is None:
        return f"constant {equation.source.item()!r}" if equation.source.size == 1 else "constant"
    arguments = " ".join(names[a.number] for a in equation.arguments)
    parameters = f" {equation.parameters!r}" if equation.parameters else ""
    return f"{equation.primitive} {arguments}{parameters}"


def signature(program: Program) -> Any:
    """A key that two programs have in common if, and only if, they compute the same in the same way."""
    numbers: dict[int, int] = {e.number: k for k, e in enumerate(program.inputs)}
    parts: list[Any] = [(e.shape, str(e.dtype)) for e in program.inputs]
    for equation in reach_equations([*program.outputs, *program.flagged]):
        if equation.number in numbers:
            continue
        numbers[equation.number] = len(numbers)
        source: Any = equation.source
        constant = None if source is None else (source.tobytes(), source.strides)
        arguments = tuple(numbers[a.number] for a in equation.arguments)
        parts.append(
            (
                _frozen_primitive(equation.primitive),
                arguments,
                _frozen(equation.parameters),
                equation.shape,
                str(equation.dtype),
                constant,
            )
        )
    outputs = tuple(numbers[e.number] for e in program.outputs)
    return tuple(parts), outputs, program.targets, program.watched, tuple(numbers[e.number] for e in program.flagged)


def _frozen_primitive(primitive: Any) -> Any:
    if hasattr(primitive, "turns"):  # a loop, which has a program of its own
        return signature(primitive.program), primitive.carried, primitive.firsts, primitive.turns
    return primitive if isinstance(primitive, str) else _Same(primitive)


def _frozen(value: Any) -> Any:
    """Parameters as something that can be compared and has a hash; an object is itself."""
    kind = kind_of(value)
    if kind in (tuple, list):
        return (kind.__name__, *map(_frozen, value))
    if hasattr(value, "tobytes"):
        return value.tobytes(), value.shape, str(value.dtype)
    if kind is slice:
        return "slice", _frozen(value.start), _frozen(value.stop), _frozen(value.step)
    if isinstance(value, float):
        return repr(value)
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return kind, value


class _Same:
    """An object that is equal to itself alone."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
