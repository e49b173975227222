"""Programs as expressions, one equation after another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chainrule.backends.abstract import Equation, reach_equations
from chainrule.compiler.expressions import Expression, reach
from chainrule.compiler.lowering.arrays import NATIVE, Array, NoSpellingError, constant
from chainrule.compiler.lowering.namespace import Namespace
from chainrule.compiler.lowering.peephole import Simplifying
from chainrule.compiler.lowering.records import OPAQUE, SPELLINGS
from chainrule.compiler.program import Program
from chainrule.core.primitive import PRIMITIVES

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Lowered(NamedTuple):
    """A program in expressions."""

    graph: Simplifying
    outputs: tuple[Expression, ...]
    inputs: tuple[Expression, ...]
    """By position, also those that nothing needs."""
    opaque: tuple[str, ...]
    """The names of records that stayed as they are, for reports."""
    flagged: tuple[Expression, ...]
    """What the program's flagged equations became, as far as the outputs need them."""
    watched: tuple[int, ...]
    """Positions of inputs in which a NaN calls for the careful program, and at which no `watched` looks on the way."""


_IN_LOOPS = {"elementwise", "rows", "along_axis", "reduction"}
"""Families whose records read their inputs entry by entry: there a look at each costs nothing."""


def lower(program: Program, watch: bool = True) -> Lowered:
    """The expressions of a program's outputs; with `watch` they look for NaN in watched inputs where they read them."""
    graph = Simplifying()
    inputs = tuple(graph.input(k, e.shape, e.dtype) for k, e in enumerate(program.inputs))
    known: dict[int, Any] = {e.number: x for e, x in zip(program.inputs, inputs, strict=True)}
    # what is written in place is read by the very last kernels, which must not fail any more
    seen = [k for k in program.watched if watch and k not in program.targets and inputs[k].dtype in _FLOATS]
    work = _Lowering(Namespace(graph), known, {inputs[k].number: graph.watched(inputs[k]) for k in seen})
    for equation in reach_equations(list(program.outputs)):
        if equation.number not in known:
            known[equation.number] = work.value(equation)
    outputs = tuple(known[e.number] for e in program.outputs)
    looked_at = {e.arguments[0].attribute for e in reach(outputs) if e.op == "watched"}
    flagged = tuple(known[e.number] for e in program.flagged if e.number in known)
    watched = tuple(k for k in program.watched if k not in looked_at)
    return Lowered(graph, outputs, inputs, tuple(work.opaque), flagged, watched)


class _Lowering:
    """The values of equations so far, by number; several outputs are a tuple."""

    def __init__(self, xp: Namespace, known: dict[int, Any], watched: dict[int, Expression]) -> None:
        self.xp = xp
        self.watched = watched
        """What stands for a watched input, by its number, where loops read it."""
        self.graph = xp.graph
        self.known = known
        self.opaque: list[str] = []

    def value(self, equation: Equation) -> Any:
        """What an equation is: an expression, a tuple of them, or the equation itself where that is opaque."""
        primitive = equation.primitive
        if primitive is None:
            return self._constant(equation)
        if primitive == "pick":
            return self._picked(equation)
        of = [self.known[a.number] for a in equation.arguments]
        try:
            return self._spelled(equation, of)
        except NoSpellingError:
            self.opaque.append(primitive.name)
            return equation if primitive.multiple else self._opaque(equation, of)

    def _constant(self, equation: Equation) -> Expression:
        if equation.source is None:
            raise ValueError("an equation without a primitive that is no input and holds no array")
        return constant(self.graph, np.asarray(equation.source, equation.dtype))

    def _picked(self, equation: Equation) -> Expression:
        (whole,) = equation.arguments
        value: Any = self.known[whole.number]
        k: int = equation.parameters[0]
        if not isinstance(value, Equation):
            return self.graph.cast(value[k], equation.dtype)
        of = [self.known[a.number] for a in whole.arguments]
        return self.graph.opaque(of, whole, equation.shape, equation.dtype, k)

    def _opaque(self, equation: Equation, of: list[Expression]) -> Expression:
        return self.graph.opaque(of, equation, equation.shape, equation.dtype)

    def _spelled(self, equation: Equation, of: list[Expression]) -> Any:
        primitive = equation.primitive
        name = primitive.name
        if name in OPAQUE or PRIMITIVES.get(name) is not primitive:
            raise NoSpellingError(name)
        spelling = SPELLINGS.get(name) or primitive.standard
        if self.watched and primitive.family.name in _IN_LOOPS:
            of = [self.watched.get(x.number, x) for x in of]
        arrays: list[Any] = [Array(self.graph, x) for x in of]
        out = spelling(self.xp, *([arrays] if primitive.variadic else arrays), *equation.parameters)
        if primitive.multiple:
            return tuple(array.expression for array in out)
        if equation.dtype not in NATIVE:
            raise NoSpellingError(str(equation.dtype))
        result = out.expression
        if result.shape != equation.shape:
            raise ValueError(f"{name}: lowered to the shape {result.shape} in place of {equation.shape}")
        return self.graph.cast(result, equation.dtype)
