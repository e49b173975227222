"""Abstract arrays: a shape, a dtype, and the equation that made them; no numbers.

The second recording.  Running a function on them leaves every operation behind, differentiated or not, backward
passes included; `core.equations` makes the equations.  An abstract array is a mutable box around its equation, so
that an in-place operator can put a new equation into the box that everybody holds.
"""

from __future__ import annotations

import weakref
from itertools import count
from math import prod
from typing import Any

import numpy as np

from chainrule import modes
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

    def on(self, arguments: tuple[Equation, ...]) -> Equation:
        """The same of other arguments; this one, if they are its own."""
        if all(a is b for a, b in zip(arguments, self.arguments, strict=True)):
            return self
        return Equation(self.primitive, arguments, self.parameters, self.shape, self.dtype)


class Abstract:
    """An array without numbers.  `Abstract(shape, dtype)` is an input; operations make the others.

    `weak`: it stands for a Python number, which takes the dtype of its partner.  `fixed`: it stands for a number, Python's
    or NumPy's, which no operator writes to.  `source` of a view: the box that it looks at, and by which operation.
    """

    __slots__ = ("__weakref__", "equation", "fixed", "source", "views", "weak")

    def __init__(
        self, shape: Shape, dtype: Any, equation: Equation | None = None, weak: bool = False, fixed: bool = False
    ) -> None:
        self.equation = equation or Equation(None, (), (), shape, np.dtype(dtype))
        self.weak = weak
        self.fixed = fixed or weak
        self.source: tuple[Abstract, Any, Any] | None = None
        self.views: list[weakref.ref[Abstract]] = []

    shape = property(lambda self: self.equation.shape)
    dtype = property(lambda self: self.equation.dtype)
    ndim = property(lambda self: len(self.equation.shape))
    size = property(lambda self: prod(self.equation.shape))
    itemsize = property(lambda self: self.equation.dtype.itemsize)
    nbytes = property(lambda self: prod(self.equation.shape) * self.equation.dtype.itemsize)

    def copy(self) -> Abstract:
        """Another box around the same equation: what is written to one does not show in the other."""
        return Abstract(self.shape, self.dtype, self.equation)

    def look_at(self, source: Abstract, primitive: Any, parameters: Any) -> None:
        """Note that this array shares the memory of `source`; `boxes.write` keeps the two alike."""
        self.source = (source, primitive, parameters)
        source.views.append(weakref.ref(self))

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - of object's it may be set
        """What this stands for, for whoever asks `isinstance`: code that tells arrays and numbers apart goes its usual way."""
        if self.weak:
            return {"b": bool, "i": int}.get(self.dtype.kind, float)
        return self.dtype.type if self.fixed else np.ndarray

    def __getattr__(self, name: str) -> Any:
        """What NumPy's arrays have and these have not: the trace is told, for the function may only ask whether it is."""
        trace = modes.tracing.get()
        if trace is not None and name[0] != "_" and hasattr(np.ndarray, name):
            trace.lacks(name)
        raise AttributeError(f"a traced array has no {name}")

    def __repr__(self) -> str:
        """Its type; of a value that a user's code makes into text, that would be a lie, so a trace is asked."""
        return f"Abstract({list(self.shape)}, {self.dtype})" if modes.tracing.get() is None else self._concrete()

    __str__ = __repr__

    def __format__(self, how: str) -> str:
        return repr(self) if not how else self._concrete()

    def __hash__(self) -> int:
        """Of a number the trace is asked; arrays have none."""
        if self.fixed:
            self._concrete()
        raise TypeError("unhashable type: 'numpy.ndarray'")

    def _concrete(self, *_: Any) -> Any:
        trace = modes.tracing.get()
        if trace is not None:
            trace.asked(self)
        fault = "the value of an abstract array was asked for"
        raise BranchError(explain("trace", fault, x=self, remedy="`where` instead of a branch on a traced value"))

    __bool__ = __float__ = __int__ = __index__ = __array__ = __complex__ = item = tolist = _concrete


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
