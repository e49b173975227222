"""A graph that simplifies what is put into it, wherever the simpler spelling has the same value.

Only what is exact: a product with 1 goes, a sum with 0.0 stays (it turns -0.0 into 0.0), a quotient by a power of two
becomes a product.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce as fold
from math import prod
from typing import Any

import numpy as np

from chainrule.compiler.expressions import (
    BINARY,
    TRUTHS,
    UNARY,
    AxisMap,
    Expression,
    Graph,
)
from chainrule.compiler.lowering import looking
from chainrule.compiler.lowering.rules import RULES
from chainrule.types import Shape

_COMMUTE = {"add", "multiply", "and", "or", "xor", "equal", "not_equal"}
_OF_NOTHING = {"sum": 0, "prod": 1, "any": False, "all": True}
_WHOLE_AXES = {"sum", "max", "min", "any", "all"}
_PAIRWISE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}
_SHORT, _FEW = 4, 16  # entries of a row, rows
_BOOL = np.dtype(np.bool_)


def is_repeated(x: Expression) -> bool:
    """Whether x is one entry of something, everywhere."""
    if x.op == "view" and not any(terms for _, terms in x.attribute):
        return True
    return x.size == 1


def scalar_of(x: Expression) -> Any:
    """The number that x is everywhere, in its dtype, or None."""
    if x.op == "view":
        x = x.arguments[0]
    return x.dtype.type(x.attribute) if x.op == "literal" else None


class Simplifying(Graph):
    """A graph without empty arrays, arithmetic on literals and operations that change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.joined: set[int] = set()
        """Numbers of elementwise operations on concats, and on nothing else that is longer than one entry."""
        self.strict: set[tuple[int, int]] = set()
        """(indices, length): these do not count from the end, a negative one makes the program fail."""

    # ------------------------------------------------------------ elementwise
    def apply(self, op: str, *of: Expression) -> Expression:
        """As in `Graph`, or something simpler."""
        if op in _COMMUTE and (of[0].number, 1) > (of[1].number, 0):
            of = (of[1], of[0])
        numbers = [scalar_of(a) for a in of]
        if op in _COMMUTE and numbers[0] is not None:
            of, numbers = (of[1], of[0]), numbers[::-1]
        shape = of[0].shape
        if prod(shape) == 0:
            return self.literal(0, _BOOL if op in TRUTHS else of[-1].dtype, shape)
        if all(n is not None for n in numbers):
            return self._folded(op, numbers, shape)
        choice = self._of_choice(op, of, numbers)
        if choice is not None:
            return choice
        rule = RULES.get(op)
        simpler = rule(self, of, numbers) if rule is not None else None
        return self._noted(super().apply(op, *of)) if simpler is None else simpler

    def _of_choice(self, op: str, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
        """An operation on literals and on a choice between two literals is such a choice."""
        if op == "select" or not any(a.op == "select" for a in of):
            return None
        chosen = [a for a, n in zip(of, numbers, strict=True) if n is None]
        if len(chosen) != 1 or chosen[0].op != "select":
            return None
        condition, *both = chosen[0].arguments
        if any(scalar_of(a) is None for a in both):
            return None
        x, y = (self.apply(op, *(side if n is None else a for a, n in zip(of, numbers, strict=True))) for side in both)
        return self.apply("select", condition, x, y)

    def _noted(self, out: Expression) -> Expression:
        """Remember what is worked out from concats alone."""
        long = [a for a in out.arguments if not is_repeated(a)]
        if long and all(a.op == "concat" or a.number in self.joined for a in long):
            self.joined.add(out.number)
        return out

    def _folded(self, op: str, numbers: list[Any], shape: Shape) -> Expression:
        """An operation on literals, done now."""
        if op == "select":
            return self.literal(numbers[1] if numbers[0] else numbers[2], numbers[1].dtype, shape)
        with np.errstate(all="ignore"):
            value = (UNARY.get(op) or BINARY[op])(*numbers)
        return self.literal(value, value.dtype, shape)

    def cast(self, x: Expression, dtype: Any) -> Expression:
        """As in `Graph`; a cast of a cast that lost nothing is one cast."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        number = scalar_of(x)
        if number is not None:
            with np.errstate(all="ignore"):
                return self.literal(number.astype(dtype), dtype, x.shape)
        if x.op == "select" and all(scalar_of(a) is not None for a in x.arguments[1:]) and dtype != _BOOL:
            return self.apply("select", x.arguments[0], *(self.cast(a, dtype) for a in x.arguments[1:]))
        if x.op == "cast" and _is_lossless(x.arguments[0].dtype, x.dtype):
            return self.cast(x.arguments[0], dtype)
        if dtype == _BOOL:  # what is no bool is compared with 0 in any case
            return self.apply("not_equal", x, self.literal(0, x.dtype, x.shape))
        return self._noted(super().cast(x, dtype))

    def bounded(self, x: Expression, length: int) -> Expression:
        """As in `Graph`."""
        number = scalar_of(x)
        return x if number is not None and 0 <= number < length else super().bounded(x, length)

    # ------------------------------------------------------------ looking at arrays
    def view(self, x: Expression, shape: Shape, maps: Sequence[AxisMap]) -> Expression:
        """As in `Graph`; of one part of a concat, or of what lies inside of padding, without that."""
        shape = tuple(shape)
        if prod(shape) == 0:
            return self._nothing(x.dtype, shape)
        found = looking.simpler(self, x, shape, maps)
        if found is not None:
            return found
        return super().view(x, shape, maps)

    def _nothing(self, dtype: Any, shape: Shape) -> Expression:
        return super().view(self.literal(0, dtype), shape, [])

    def reshape(self, x: Expression, shape: Shape) -> Expression:
        """As in `Graph`; a literal stays one."""
        number = scalar_of(x)
        if number is not None or prod(shape) == 0:
            return self.literal(0 if number is None else number, x.dtype, shape)
        return super().reshape(x, shape)

    # ------------------------------------------------------------ moving entries
    def pad(self, x: Expression, widths: Sequence[tuple[int, int]], fill: Any = 0) -> Expression:
        """As in `Graph`; a literal that is the filling stays one."""
        number = scalar_of(x) if x.size else x.dtype.type(fill)
        if number is not None and number.tobytes() == x.dtype.type(fill).tobytes():
            shape = tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True))
            return self.literal(number, x.dtype, shape)
        return super().pad(x, widths, fill)

    def concat(self, parts: Sequence[Expression], axis: int) -> Expression:
        """As in `Graph`; equal literals become one."""
        total, first = sum(p.shape[axis] for p in parts), parts[0]
        parts = [p for p in parts if p.size]
        numbers = [scalar_of(p) for p in parts] or [first.dtype.type(0)]
        if all(n is not None and n.tobytes() == numbers[0].tobytes() for n in numbers):
            return self.literal(numbers[0], first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))
        return super().concat(parts, axis)

    def gather(self, x: Expression, indices: Expression, axis: int) -> Expression:
        """As in `Graph`."""
        if prod(x.shape[:axis]) * indices.size * prod(x.shape[axis + 1 :]) == 0:
            return self._nothing(x.dtype, x.shape[:axis] + indices.shape + x.shape[axis + 1 :])
        return super().gather(x, indices, axis)

    def scatter(self, base: Expression, indices: Expression, values: Expression, axis: int, how: str) -> Expression:
        """As in `Graph`."""
        return super().scatter(base, indices, values, axis, how) if values.size else base

    def scatter_view(self, x: Expression, shape: Shape, maps: Sequence[AxisMap]) -> Expression:
        """As in `Graph`."""
        if x.size == 0 or prod(shape) == 0:
            return self.literal(0, x.dtype, shape)
        return super().scatter_view(x, shape, maps)

    # ------------------------------------------------------------ folding
    def reduce(self, op: str, x: Expression, axes: Iterable[int]) -> Expression:
        """As in `Graph`; of what is repeated along an axis, once."""
        axes = tuple(sorted(axes))
        shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        if x.size == 0 or not axes:
            return self.literal(_OF_NOTHING.get(op, 0), x.dtype, shape) if axes else x
        if x.op == "view" and op in _WHOLE_AXES:
            used = {axis for _, terms in x.attribute for axis, _ in terms}
            idle = [k for k in axes if k not in used and x.shape[k] > 1]
            if idle:
                return self._of_repeated(op, x, axes, idle)
        n = x.shape[axes[-1]]
        if axes == (x.ndim - 1,) and 1 < n <= _SHORT and x.size > n * _FEW:
            return self._across(op, x)
        return super().reduce(op, x, axes)

    def _across(self, op: str, x: Expression) -> Expression:
        """Short rows folded entry by entry, so that vectors run across rows: five to ten times as fast for rows of two."""
        *front, n = x.shape
        maps: list[AxisMap] = [(0, ((k, 1),)) for k in range(len(front))]
        each = [self.view(x, tuple(front), [*maps, (k, ())]) for k in range(n)]
        return fold(lambda a, b: self.apply(_PAIRWISE[op], a, b), each)

    def _of_repeated(self, op: str, x: Expression, axes: tuple[int, ...], idle: list[int]) -> Expression:
        once = tuple(1 if k in idle else n for k, n in enumerate(x.shape))
        out = self.reduce(op, self.view(x.arguments[0], once, x.attribute), axes)
        if op != "sum":
            return out
        return self.apply("multiply", out, self.literal(prod(x.shape[k] for k in idle), out.dtype, out.shape))

    def dot(self, x: Expression, y: Expression) -> Expression:
        """As in `Graph`; elementwise where an axis has length 1, and for bool, which add by `or`."""
        *front, m, k = x.shape
        n = y.shape[-1]
        shape = (*front, m, n)
        if prod(shape) == 0 or k == 0:
            return self.literal(0, x.dtype, shape)
        multiply, add = ("and", "any") if x.dtype == _BOOL else ("multiply", "sum")
        if k == 1:
            return self.apply(multiply, self.broadcast(x, shape), self.broadcast(y, shape))
        if n == 1 or m == 1:
            return self.reshape(self._by_vector(x, y, multiply, add), shape)
        if x.dtype != _BOOL:
            return super().dot(x, y)
        left, right = self.reshape(x, (*front, m, 1, k)), self.reshape(_swapped(self, y), (*front, 1, n, k))
        whole = (*front, m, n, k)
        terms = self.apply(multiply, self.broadcast(left, whole), self.broadcast(right, whole))
        return self.reduce(add, terms, (len(front) + 2,))

    def _by_vector(self, x: Expression, y: Expression, multiply: str, add: str) -> Expression:
        """A product with a row or a column, in the order in which the matrix lies in memory."""
        matrix, row = (x, y) if y.shape[-1] == 1 else (_swapped(self, y), x)
        last = matrix.ndim - 1  # the entries to be added lie along the last axis, or else one row below the other
        if _fastest(matrix) == last:
            vector = self.reshape(row, (*matrix.shape[:-2], 1, matrix.shape[-1]))
        else:
            vector = self.reshape(row, (*matrix.shape[:-2], matrix.shape[-1], 1))
            matrix, last = _swapped(self, matrix), last - 1
        return self.reduce(add, self.apply(multiply, matrix, self.broadcast(vector, matrix.shape)), (last,))


def _swapped(graph: Graph, x: Expression) -> Expression:
    return graph.permute(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _fastest(x: Expression) -> int:
    """The axis along which the entries of x lie closest in memory."""
    if x.op != "view":
        return x.ndim - 1
    return next((min(terms, key=lambda term: abs(term[1]))[0] for _, terms in reversed(x.attribute) if terms), 0)


def _is_lossless(source: Any, target: Any) -> bool:
    """Whether a cast loses nothing; NumPy calls that of int64 to float64 safe, which it is not."""
    if source.kind in "iu" and target.kind == "f":
        return source.itemsize < target.itemsize
    return np.can_cast(source, target, "safe")
