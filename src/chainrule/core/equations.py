"""Recording on abstract arrays: every operation leaves an equation and an abstract result.

Shapes come from a record's rule, dtypes from NumPy itself, asked once per combination on arrays of one element.  What a
program needs to know besides its equations is noted in the open `Trace`: draws, walks, and where a NaN may hide.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract, Equation
from chainrule.core.generators import Draw, around


class Trace:
    """What is known of, and noted in, one run of a function on abstract arrays.

    `careful`: walks look at every entry from the start, as if the invalid flag were up.  Otherwise walks mask nothing,
    and the program is right while no operation that `flagged` needs is invalid and nothing in `watched` is NaN.
    """

    def __init__(self, careful: bool = False) -> None:
        self.careful = careful
        self.refusals: list[Exception] = []
        """What was raised because it could not be traced, whoever caught it."""
        self.draws: list[tuple[Equation, Draw]] = []
        """Inputs that are drawn anew in each run, in this order."""
        self.generator = around()
        self.flagged: list[Equation] = []
        """What walks arrived at."""
        self.watched: list[Equation] = []
        """Operands of operations that may leave a NaN out."""
        self.numbers: set[int] = set()
        """The numbers of equations of Python numbers alone, which give Python numbers."""
        self.written: dict[int, tuple[weakref.ref[Abstract], Equation]] | None = None
        """While a branch runs, the boxes that it wrote to, with their equations of before."""
        self._constants: dict[int, tuple[Any, Equation]] = {}

    def constant(self, data: Any) -> Equation:
        """An array that is met with its numbers: they are copied, since its owner may write to it afterwards."""
        known = self._constants.get(id(data))
        if known is not None and known[1].dtype == data.dtype and known[1].source.tobytes() == data.tobytes():
            return known[1]
        source = data if 0 in getattr(data, "strides", ()) else np.array(data)  # one value everywhere stays one
        equation = Equation(None, (), (), source.shape, source.dtype, source)
        self._constants[id(data)] = data, equation  # which keeps the array, and so its number, from being used again
        return equation

    def asked(self, box: Abstract) -> None:
        """The value of a box is asked for; where this does not raise, BranchError is raised."""

    def refuse(self, error: Exception) -> None:
        """An error is about to be raised, because something cannot be traced."""

    def slots(self) -> Iterable[tuple[Any, Callable[[Any], None]]]:
        """What stands in each place that may hold traced values, in a fixed order, and how to put something there."""
        return ()

    def loop(self, *of: Any) -> Any:
        """A loop as one equation, see `compiler.loops.looped`; None: write it out."""
        return None

    def writes(self, box: Abstract) -> None:
        """A box is about to get another equation."""
        if self.written is not None:
            self.written.setdefault(id(box), (weakref.ref(box), box.equation))

    def walked(self, results: Iterable[Any]) -> None:
        """A walk arrived at these cotangents or tangents."""
        self.flagged += [result.equation for result in results if isinstance(result, Abstract)]

    def draw(self, draw: Draw) -> Equation:
        """A draw as an input."""
        like = draw.example()
        equation = Equation(None, (), (), like.shape, like.dtype)
        self.draws.append((equation, draw))
        return equation


@contextmanager
def tracing(trace: Trace | None = None) -> Generator[Trace]:
    """Inside, operations accept abstract arrays, and what a program needs to know is noted in `trace`."""
    trace = trace or Trace()
    modes.add_unusual(1)
    token = modes.tracing.set(trace)
    try:
        yield trace
    finally:
        modes.tracing.reset(token)
        modes.add_unusual(-1)


def record(primitive: Any, datas: list[Any], parameters: tuple[Any, ...]) -> Any:
    """The abstract result of `primitive`, tied to a new equation; a tuple of them where it has several outputs."""
    trace: Trace = modes.tracing.get() or Trace()
    arguments = tuple(data.equation if isinstance(data, Abstract) else trace.constant(data) for data in datas)
    types: Any = (arguments,) if primitive.variadic else arguments
    shape = primitive.shape_rule(*types, *parameters)
    if primitive.multiple:
        whole = Equation(primitive, arguments, parameters, (), arguments[0].dtype)
        return tuple(Abstract(s, d, Equation("pick", (whole,), (k,), s, d)) for k, (s, d) in enumerate(shape))
    dtype = primitive.dtype_rule(*types, *parameters) if primitive.dtype_rule else _asked(primitive, types, parameters)
    return Abstract(shape, dtype, Equation(primitive, arguments, parameters, shape, dtype), fixed=shape == ())


def _asked(primitive: Any, types: Any, parameters: tuple[Any, ...]) -> Any:
    if primitive.family.name in ("linear", "view"):
        return types[0].dtype
    return _ask(primitive, tuple((len(a.shape), a.dtype) for a in types), parameters)


@cache
def _ask(primitive: Any, types: tuple[Any, ...], parameters: tuple[Any, ...]) -> Any:
    with np.errstate(all="ignore"):
        return primitive.forward(*[np.ones((1,) * ndim, dtype) for ndim, dtype in types], *parameters).dtype
