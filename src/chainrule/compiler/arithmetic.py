"""What Python computes of its own numbers: a step counter, a rate halved, `2 * n` of an argument n.

Such equations are no part of the program.  They are lines of Python, before it runs, so integers grow as Python's do,
and an error is Python's.  What the program needs of them is passed to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainrule.backends.abstract import Equation, reach_equations

_BINARY = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%",
    "power_of_numbers": "**", "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=",
}  # fmt: skip
_UNARY = {"negative": "-", "positive": "+"}
_CLASSES = {"f": "float", "i": "int", "b": "bool"}


class Arithmetic:
    """The lines for the numbers of one trace."""

    def __init__(self, inputs: Sequence[Any], numbers: set[int], literal: Any) -> None:
        """`numbers`: of equations of numbers alone; `literal`: the text of a constant."""
        self.lines: list[str] = []
        self.used: set[int] = set()
        """Numbers of the inputs that the lines read."""
        self._numbers = numbers
        self._literal = literal
        self._inputs = {i.equation.number: i.number for i in inputs if type(i.value) in (int, float)}
        self._names: dict[int, str | None] = {number: f"x{k}" for number, k in self._inputs.items()}

    def text(self, equation: Equation) -> str | None:
        """The name of a number that Python computes, or None for one that hangs on arrays."""
        if equation.number not in self._names:
            for each in reach_equations([equation]):
                if each.number not in self._names:
                    self._names[each.number] = self._computed(each)
        self._use(equation)
        return self._names[equation.number]

    def _computed(self, equation: Equation) -> str | None:
        if equation.primitive is None:
            source: Any = equation.source
            return self._literal(source.item()) if source is not None and equation.shape == () else None
        operands = [self._names[a.number] for a in equation.arguments]
        if equation.number not in self._numbers or None in operands:
            return None
        name = equation.primitive.name
        if name in _BINARY:
            text = f"{operands[0]} {_BINARY[name]} {operands[1]}"
        elif name in _UNARY:
            text = f"{_UNARY[name]}{operands[0]}"
        elif name in ("abs", "square"):
            text = f"abs({operands[0]})" if name == "abs" else f"{operands[0]} * {operands[0]}"
        else:
            return None
        self.lines.append(f"n{equation.number} = {text}")
        return f"n{equation.number}"

    def _use(self, equation: Equation) -> None:
        if self._names[equation.number] is not None:
            self.used |= {self._inputs[e.number] for e in reach_equations([equation]) if e.number in self._inputs}

    def border(self, wanted: Sequence[Equation]) -> list[Equation]:
        """The numbers computed here that the other equations behind `wanted` need."""
        reached = reach_equations(list(wanted))
        found: dict[int, Equation] = {}
        for equation in reached:
            if not self.is_computed(equation):
                found.update({a.number: a for a in equation.arguments if self.is_computed(a)})
        found.update({e.number: e for e in wanted if self.is_computed(e)})
        return [found[number] for number in sorted(found)]

    def is_computed(self, equation: Equation) -> bool:
        """Whether a line here computes it."""
        return equation.number in self._numbers and self.text(equation) is not None

    def checks(self, border: Sequence[Equation]) -> list[str]:
        """That what is passed to the program is of the type it was traced with; anything else runs as it is."""
        lines: list[str] = []
        for equation in border:
            name = self.text(equation)
            lines.append(f"if {name}.__class__ is not {_CLASSES[equation.dtype.kind]}: return BEYOND")
            if equation.dtype.kind == "i":
                lines.append(f"if not -9223372036854775808 <= {name} <= 9223372036854775807: return BEYOND")
        return lines
