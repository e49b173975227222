"""Abstract arrays: a shape, a dtype, and the equation that made them; no numbers.

The second recording.  Running a function on them leaves every operation behind, differentiated or not, backward
passes included; `core.equations` makes the equations.  An abstract array is a mutable box around its equation, so
that an in-place operator can put a new equation into the box that everybody holds.
"""

from __future__ import annotations

from itertools import count
from math import prod
from typing import Any, NoReturn

from chainrule.errors import BranchError, explain
from chainrule.types import Shape

_next_number = count(1).__next__


class Equation:
    """`primitive(*arguments, *parameters)`; without a primitive an input or, with a source, a constant."""

    __slots__ = ("arguments", "dtype", "number", "parameters", "primitive", "shape", "source")

    def __init__(
        self,
        primitive: Any,
        arguments: tuple[Equation, ...],
        parameters: Any,
        shape: Shape,
        dtype: Any,
        source: Any = None,
    ) -> None:
        self.number = _next_number()
        self.primitive = primitive
        self.arguments = arguments
        self.parameters = parameters
        self.shape = tuple(shape)
        self.dtype = dtype
        self.source = source

    def __repr__(self) -> str:
        return f"{self.primitive or 'input'}{list(self.shape)}"


class Abstract:
    """An array without numbers.  `Abstract(shape, dtype)` is an input; operations make the others."""

    __slots__ = ("__weakref__", "equation")

    def __init__(self, shape: Shape, dtype: Any, equation: Equation | None = None) -> None:
        self.equation = equation or Equation(None, (), (), shape, dtype)

    shape = property(lambda self: self.equation.shape)
    dtype = property(lambda self: self.equation.dtype)
    ndim = property(lambda self: len(self.equation.shape))
    size = property(lambda self: prod(self.equation.shape))

    def copy(self) -> Abstract:
        """Another box around the same equation: what is written to one does not show in the other."""
        return Abstract(self.shape, self.dtype, self.equation)

    def __repr__(self) -> str:
        return f"Abstract({list(self.shape)}, {self.dtype})"

    def _concrete(self, *_: Any) -> NoReturn:
        fault = "the value of an abstract array was asked for"
        raise BranchError(explain("trace", fault, x=self, remedy="`where` instead of a branch on a traced value"))

    __bool__ = __float__ = __int__ = __index__ = __array__ = __iter__ = _concrete


def reach_equations(outputs: list[Equation]) -> list[Equation]:
    """All equations that `outputs` need, oldest first; what nothing needs never shows up."""
    seen: dict[int, Equation] = {}
    todo = list(outputs)
    while todo:
        equation = todo.pop()
        if equation.number not in seen:
            seen[equation.number] = equation
            todo += equation.arguments
    return [seen[number] for number in sorted(seen)]
