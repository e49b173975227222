"""Rules for one operation of numbers: what is simpler and has the same value, bit for bit but for the sign of a NaN."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp
from typing import Any

import numpy as np

from chainrule.compiler.expressions import Expression, Graph

_BOOL = np.dtype(np.bool_)

Rule = Callable[[Graph, tuple[Expression, ...], list[Any]], Expression | None]
"""Of a graph, operands, and the numbers that these are everywhere, or None: something simpler, or None."""


def _is(number: Any, value: float) -> bool:
    """Whether a literal is `value`, with its sign."""
    return number is not None and number == value and bool(np.signbit(number)) == (str(value)[0] == "-")


def _add(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    if _is(numbers[1], -0.0) or (x.dtype.kind in "iu" and _is(numbers[1], 0)):
        return x
    if y.op == "negative":
        return g.apply("subtract", x, y.arguments[0])
    return g.apply("subtract", y, x.arguments[0]) if x.op == "negative" else None


def _subtract(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    if _is(numbers[1], 0.0):
        return x
    if _is(numbers[0], -0.0):
        return g.apply("negative", y)
    return g.apply("add", x, y.arguments[0]) if y.op == "negative" else None


def _multiply(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    if _is(numbers[1], 1.0):
        return x
    if _is(numbers[1], -1.0) and x.dtype.kind != "u":
        return g.apply("negative", x)
    if x.op == y.op == "negative" or (x is y and x.op == "absolute" and x.dtype.kind == "f"):
        return g.apply("multiply", x.arguments[0], y.arguments[0])
    return None


def _divide(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    n = numbers[1]
    if n is None:
        return None
    limit = np.finfo(n.dtype).maxexp - 2
    if np.isfinite(n) and abs(frexp(n)[0]) == 0.5 and abs(frexp(n)[1]) < limit:
        return g.apply("multiply", x, g.literal(1 / n, n.dtype, y.shape))
    return None


def _negative(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    return of[0].arguments[0] if of[0].op == "negative" else None


def _absolute(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    (x,) = of
    if x.op == "absolute" or x.dtype.kind == "u":
        return x
    return g.apply("absolute", x.arguments[0]) if x.op == "negative" and x.dtype.kind == "f" else None


def _not(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    return of[0].arguments[0] if of[0].op == "not" else None


def _and(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    if x is y:
        return x
    if x.dtype == _BOOL and numbers[1] is not None:
        return x if numbers[1] else y
    return None


def _or(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    x, y = of
    if x is y:
        return x
    if x.dtype == _BOOL and numbers[1] is not None:
        return y if numbers[1] else x
    return None


def _select(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    condition, x, y = of
    if numbers[0] is not None or x is y:
        return y if numbers[0] is not None and not numbers[0] else x
    return g.apply("select", condition.arguments[0], y, x) if condition.op == "not" else None


def _extreme(g: Graph, of: tuple[Expression, ...], numbers: list[Any]) -> Expression | None:
    return of[0] if of[0] is of[1] else None


RULES: dict[str, Rule] = {
    "add": _add, "subtract": _subtract, "multiply": _multiply, "divide": _divide, "negative": _negative,
    "absolute": _absolute, "not": _not, "and": _and, "or": _or, "select": _select, "maximum": _extreme,
    "minimum": _extreme,
}  # fmt: skip
