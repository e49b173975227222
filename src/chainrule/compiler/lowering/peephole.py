"""A graph that simplifies what is put into it, wherever the simpler spelling has the same value.

Only what is exact: a product with 1 goes, a sum with 0.0 stays (it turns -0.0 into 0.0), a quotient by a power of two
becomes a product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import frexp, prod
from typing import Any

import numpy as np

from chainrule.compiler.expressions import (
    BINARY,
    REDUCTIONS,
    TRUTHS,
    UNARY,
    AxisMap,
    Expression,
    Graph,
    evaluate,
)
from chainrule.types import Shape

_COMMUTE = {"add", "multiply", "and", "or", "xor", "equal", "not_equal"}
_OF_NOTHING = {"sum": 0, "prod": 1, "any": False, "all": True}
_WHOLE_AXES = {"sum", "max", "min", "any", "all"}
_BOOL = np.dtype(np.bool_)


def scalar_of(x: Expression) -> Any:
    """The number that x is everywhere, in its dtype, or None."""
    if x.op == "view":
        x = x.arguments[0]
    return x.dtype.type(x.attribute) if x.op == "literal" else None


class Simplifying(Graph):
    """A graph without empty arrays, arithmetic on literals and operations that change nothing."""

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
        rule = _RULES.get(op)
        simpler = rule(self, of, numbers) if rule is not None else None
        return super().apply(op, *of) if simpler is None else simpler

    def _folded(self, op: str, numbers: list[Any], shape: Shape) -> Expression:
        """An operation on literals, done now."""
        if op == "select":
            return self.literal(numbers[1] if numbers[0] else numbers[2], numbers[1].dtype, shape)
        if op in UNARY or op in BINARY:
            with np.errstate(all="ignore"):
                value = (UNARY.get(op) or BINARY[op])(*numbers)
            return self.literal(value, value.dtype, shape)
        graph = Graph()
        value = evaluate([graph.apply(op, *(graph.literal(n, n.dtype) for n in numbers))], [])[0]
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
        if x.op == "cast" and _is_lossless(x.arguments[0].dtype, x.dtype):
            return self.cast(x.arguments[0], dtype)
        if dtype == _BOOL:  # what is no bool is compared with 0 in any case
            return self.apply("not_equal", x, self.literal(0, x.dtype, x.shape))
        return super().cast(x, dtype)

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
        if x.op in ("concat", "pad") and prod(shape):
            found = self._inside(x, shape, maps)
            if found is not None:
                return found
        if x.op == "iota":
            (offset, terms), *_ = [maps[x.attribute]]
            if offset == 0 and ((len(terms) == 1 and terms[0][1] == 1) or not terms):
                return self.iota(shape, terms[0][0], x.dtype) if terms else self.literal(0, x.dtype, shape)
        return super().view(x, shape, maps)

    def _nothing(self, dtype: Any, shape: Shape) -> Expression:
        return super().view(self.literal(0, dtype), shape, [])

    def _inside(self, x: Expression, shape: Shape, maps: Sequence[AxisMap]) -> Expression | None:
        """A view of a concat or of a pad that meets one operand only."""
        reach = [_reach(axis_map, shape) for axis_map in maps]
        if x.op == "pad":
            (inner,) = x.arguments
            starts = [before for before, _ in x.attribute[0]]
        else:
            axis, start = x.attribute, 0
            for inner in x.arguments:
                if start <= reach[axis][0] and reach[axis][1] < start + inner.shape[axis]:
                    break
                start += inner.shape[axis]
            else:
                return None
            starts = [start if k == axis else 0 for k in range(x.ndim)]
        fits = all(s <= low and high < s + n for s, n, (low, high) in zip(starts, inner.shape, reach, strict=True))
        if not fits:
            return None
        return self.view(inner, shape, [(o - s, terms) for s, (o, terms) in zip(starts, maps, strict=True)])

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
        return super().reduce(op, x, axes)

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
        if n != 1 != m and x.dtype != _BOOL:
            return super().dot(x, y)
        left, right = self.reshape(x, (*front, m, 1, k)), self.reshape(_swapped(self, y), (*front, 1, n, k))
        whole, last = (*front, m, n, k), len(front) + 2
        terms = self.apply(multiply, self.broadcast(left, whole), self.broadcast(right, whole))
        if _fastest(x if n == 1 else y) == (len(front) + (n == 1)):
            return self.reduce(add, terms, (last,))
        ahead = (*range(len(front)), last, last - 2, last - 1)  # entries to be added lie apart in memory: row by row
        return self.reduce(add, self.permute(terms, ahead), (len(front),))


def _swapped(graph: Graph, x: Expression) -> Expression:
    return graph.permute(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _fastest(x: Expression) -> int:
    """The axis along which the entries of x lie closest in memory."""
    if x.op != "view":
        return x.ndim - 1
    return next((min(terms, key=lambda term: abs(term[1]))[0] for _, terms in reversed(x.attribute) if terms), 0)


def _reach(axis_map: AxisMap, shape: Shape) -> tuple[int, int]:
    """The lowest and the highest index that a map takes."""
    offset, terms = axis_map
    ends = [stride * (shape[axis] - 1) for axis, stride in terms]
    return offset + sum(min(end, 0) for end in ends), offset + sum(max(end, 0) for end in ends)


def _is_lossless(source: Any, target: Any) -> bool:
    """Whether a cast loses nothing; NumPy calls that of int64 to float64 safe, which it is not."""
    if source.kind in "iu" and target.kind == "f":
        return source.itemsize < target.itemsize
    return np.can_cast(source, target, "safe")


# ---------------------------------------------------------------- rules: (graph, operands, their numbers) -> simpler or None
Rule = Callable[[Simplifying, tuple[Expression, ...], list[Any]], Expression | None]


def _is(number: Any, value: float) -> bool:
    """Whether a literal is `value`, with its sign."""
    return number is not None and number == value and bool(np.signbit(number)) == (str(value)[0] == "-")


def _add(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    if _is(numbers[1], -0.0) or (x.dtype.kind in "iu" and _is(numbers[1], 0)):
        return x
    if y.op == "negative":
        return g.apply("subtract", x, y.arguments[0])
    return g.apply("subtract", y, x.arguments[0]) if x.op == "negative" else None


def _subtract(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    if _is(numbers[1], 0.0):
        return x
    if _is(numbers[0], -0.0):
        return g.apply("negative", y)
    return g.apply("add", x, y.arguments[0]) if y.op == "negative" else None


def _multiply(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    if _is(numbers[1], 1.0):
        return x
    if _is(numbers[1], -1.0) and x.dtype.kind != "u":
        return g.apply("negative", x)
    if x.op == y.op == "negative":
        return g.apply("multiply", x.arguments[0], y.arguments[0])
    return None


def _divide(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    n = numbers[1]
    if n is None:
        return None
    limit = np.finfo(n.dtype).maxexp - 2
    if np.isfinite(n) and abs(frexp(n)[0]) == 0.5 and abs(frexp(n)[1]) < limit:
        return g.apply("multiply", x, g.literal(1 / n, n.dtype, y.shape))
    return None


def _negative(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    return of[0].arguments[0] if of[0].op == "negative" else None


def _absolute(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    (x,) = of
    if x.op == "absolute" or x.dtype.kind == "u":
        return x
    return g.apply("absolute", x.arguments[0]) if x.op == "negative" and x.dtype.kind == "f" else None


def _not(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    return of[0].arguments[0] if of[0].op == "not" else None


def _and(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    if x is y:
        return x
    if x.dtype == _BOOL and numbers[1] is not None:
        return x if numbers[1] else y
    return None


def _or(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    if x is y:
        return x
    if x.dtype == _BOOL and numbers[1] is not None:
        return y if numbers[1] else x
    return None


def _select(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    condition, x, y = of
    if numbers[0] is not None or x is y:
        return y if numbers[0] is not None and not numbers[0] else x
    return g.apply("select", condition.arguments[0], y, x) if condition.op == "not" else None


def _extreme(g: Simplifying, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    return of[0] if of[0] is of[1] else None


_RULES: dict[str, Rule] = {
    "add": _add, "subtract": _subtract, "multiply": _multiply, "divide": _divide, "negative": _negative,
    "absolute": _absolute, "not": _not, "and": _and, "or": _or, "select": _select, "maximum": _extreme,
    "minimum": _extreme,
}  # fmt: skip
assert set(_WHOLE_AXES) <= set(REDUCTIONS)
