"""Expressions at one place: the few numbers that must be computed for each turn of a kernel's loops.

`Reader.at(expression, index)` walks down from what is wanted to what lies in memory and writes every number on the way
on a tape, once.  Views and reshapes leave nothing there: they only change the index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.compiler.expressions import ELEMENTWISE, REDUCTIONS, AxisMap, Expression
from chainrule.compiler.native.affine import ZERO, Affine, Domain, Variable, combined, divided
from chainrule.compiler.native.strides import contiguous, strided

CHEAP = {
    "negative", "absolute", "add", "subtract", "multiply", "maximum", "minimum", "less", "less_equal", "greater",
    "greater_equal", "equal", "not_equal", "and", "or", "xor", "not", "select", "cast", "isnan", "isinf", "isfinite",
    "signbit", "copysign", "floor", "ceil", "trunc", "rint", "shift_left", "shift_right", "bounded", "sign",
    "watched",
}  # fmt: skip
MIDDLE = {"divide", "sqrt"}


def cost(op: str) -> int:
    """Of one elementwise operation, roughly in additions."""
    return 1 if op in CHEAP else 4 if op in MIDDLE else 12


class Step(NamedTuple):
    """One number on the tape."""

    op: str
    """Elementwise, or: "literal" (`more` is its value), "index" (`more`, an Affine, as a number), "load" (`more` is
    (source, Affine)), "reduce" (`more` is the operation), "bounded" (`more` is the length), "watched"."""
    arguments: tuple[int, ...]
    dtype: np.dtype[Any]
    more: Any
    depends: frozenset[int]
    """The loop variables it changes with."""


class Reader:
    """Expressions within the loops of a domain, on one tape."""

    def __init__(self, domain: Domain, folded: Sequence[int], lies: Callable[[Expression], bool]) -> None:
        self.domain = domain
        self.folded = frozenset(folded)
        """Variables over which reductions run."""
        self.lies = lies
        """Whether an expression is to be read from memory."""
        self.variables: list[Variable] = list(domain.variables)
        self.steps: list[Step] = []
        self._known: dict[Any, int] = {}
        self._at: dict[Any, int] = {}

    # ------------------------------------------------------------ writing on the tape
    def step(self, op: str, arguments: tuple[int, ...], dtype: Any, more: Any = None, depends: frozenset[int] = frozenset()) -> int:  # fmt: skip
        key = (op, arguments, dtype, more)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.steps)
            depends = depends.union(*(self.steps[a].depends for a in arguments))
            self.steps.append(Step(op, arguments, np.dtype(dtype), more, depends))
        return found

    def depends(self, a: Affine) -> frozenset[int]:
        return frozenset[int]().union(*(self.variables[v].depends for v, _ in a.terms))

    def number(self, a: Affine, dtype: Any) -> int:
        return self.step("index", self.values(a), dtype, a, self.depends(a))

    def values(self, a: Affine) -> tuple[int, ...]:
        """What on the tape an index is computed from."""
        found = (self.variables[v].value for v, _ in a.terms)
        return tuple(v for v in found if v is not None)

    def variable(self, value: int, extent: int) -> Affine:
        """A computed index as a variable."""
        for number, known in enumerate(self.variables):
            if known.value == value:
                return Affine(0, ((number, 1),))
        self.variables.append(Variable(extent, self.steps[value].depends, value))
        return Affine(0, ((len(self.variables) - 1, 1),))

    def divided(self, a: Affine, by: int, extent: int) -> tuple[Affine, Affine]:
        """Quotient and remainder of an index below `extent`; computed where there is no formula for all turns."""
        if by == 1:
            return a, ZERO
        found = divided(a, by, self.variables)
        if found is None:
            whole, divisor = self.number(a, np.int64), self.step("literal", (), np.int64, by)
            quotient = self.step("quotient", (whole, divisor), np.int64)
            found = self.variable(quotient, -(-extent // by)), None
            rest = self.step("modulo", (whole, divisor), np.int64)
            return found[0], self.variable(rest, by)
        return found

    def unflattened(self, flat: Affine, shape: Sequence[int]) -> tuple[Affine, ...]:
        """The index along each axis of the entry that is number `flat` in row-major order."""
        out: list[Affine] = []
        extent = 1
        for n in shape:
            extent *= n
        for n in shape:
            if n == 1:
                out.append(ZERO)
                continue
            below = extent // n
            at, flat = self.divided(flat, below, extent)
            extent = below
            out.append(at)
        return tuple(out)

    # ------------------------------------------------------------ walking down
    def at(self, e: Expression, index: tuple[Affine, ...]) -> int:
        key = (e.number, index)
        found = self._at.get(key)
        if found is None:
            found = self._at[key] = self._read(e, index)
        return found

    def flat(self, e: Expression, flat: Affine) -> int:
        """The entry that is number `flat` in row-major order."""
        if self.lies(e):
            return self.load(e, flat)
        return self.at(e, self.unflattened(flat, e.shape))

    def load(self, source: Expression, offset: Affine) -> int:
        return self.step("load", self.values(offset), source.dtype, (source, offset), self.depends(offset))

    def _read(self, e: Expression, index: tuple[Affine, ...]) -> int:
        op = e.op
        if self.lies(e):
            return self.load(e, combined(contiguous(e.shape), index))
        if op == "literal":
            return self.step("literal", (), e.dtype, e.attribute)
        if op == "iota":
            axis: int = e.attribute
            return self.number(index[axis], e.dtype)
        if op in ("view", "reshape"):
            return self._look(e, index)
        if op == "gather":
            return self._gather(e, index)
        if op == "bounded":
            return self.step("bounded", (self.at(e.arguments[0], index),), e.dtype, e.attribute)
        if op in ELEMENTWISE:
            return self.step(op, tuple(self.at(a, index) for a in e.arguments), e.dtype)
        if op in REDUCTIONS:
            return self._reduce(e, index)
        raise TypeError(f"{op} is computed by no loop")

    def _look(self, e: Expression, index: tuple[Affine, ...]) -> int:
        window = strided(e)
        if self.lies(window.source):
            return self.load(window.source, combined(window.strides, index, window.offset))
        inner = e.arguments[0]
        if e.op == "reshape":
            return self.flat(inner, combined(contiguous(e.shape), index))
        maps: tuple[AxisMap, ...] = e.attribute
        moved = (combined([s for _, s in terms], [index[a] for a, _ in terms], first) for first, terms in maps)
        return self.at(inner, tuple(moved))

    def _gather(self, e: Expression, index: tuple[Affine, ...]) -> int:
        x, indices = e.arguments
        axis: int = e.attribute
        depth = indices.ndim
        chosen = self.at(indices, index[axis : axis + depth])
        checked = self.step("bounded", (chosen,), np.int64, x.shape[axis])
        place = self.variable(checked, x.shape[axis])
        return self.at(x, (*index[:axis], place, *index[axis + depth :]))

    def _reduce(self, e: Expression, index: tuple[Affine, ...]) -> int:
        """A reduction of these loops: over the folded variables, the others being where `index` is."""
        inner = e.arguments[0]
        body = self.at(inner, self.operand(e, index))
        depends = self.steps[body].depends - self.folded
        made = self.step("reduce", (body,), e.dtype, e.op)
        self.steps[made] = self.steps[made]._replace(depends=depends)
        return made

    def operand(self, e: Expression, index: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """Where the operand of a reduction is read: along its axes where the domain is, or by rows and columns."""
        inner, axes = e.arguments[0], e.attribute
        if inner.shape == self.domain.shape:
            whole = self.domain.index()
            if tuple(whole[k] for k in range(inner.ndim) if k not in axes) == index:
                return whole
        flat = combined(contiguous(self.domain.shape), self.domain.index())
        rows = Affine(flat.first, tuple((v, c) for v, c in flat.terms if v not in self.folded))
        length = inner.size // e.size
        assert rows == Affine().plus(combined(contiguous(e.shape), index), length), (e, index)
        return self.unflattened(flat, inner.shape)
