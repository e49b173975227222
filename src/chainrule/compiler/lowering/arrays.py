"""Arrays of expressions, as the array API knows arrays: indexed, written to, and with operators.

NumPy's rules of promotion and broadcasting are applied here and in `elementwise`, since expressions know neither.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np

from chainrule.compiler.expressions import BINARY, UNARY, Expression
from chainrule.compiler.lowering.peephole import Simplifying
from chainrule.types import Shape

NATIVE = frozenset(np.dtype(char) for char in "?bBhHiIlLfd")
"""The dtypes of native code."""
_BOOL, _INT32, _INT64 = np.dtype(np.bool_), np.dtype(np.int32), np.dtype(np.int64)
_NUMBERS = (bool, int, float)


class NoSpellingError(Exception):
    """A dtype or a case that native code has not: the equation stays opaque."""


class Array:
    """An expression in a box; `a[index] = v` puts another one into it."""

    __slots__ = ("expression", "graph")
    __array_ufunc__ = None  # NumPy's scalars leave operators to this class

    def __init__(self, graph: Simplifying, expression: Expression) -> None:
        if expression.dtype not in NATIVE:
            raise NoSpellingError(str(expression.dtype))
        self.graph = graph
        self.expression = expression

    shape = property(lambda self: self.expression.shape)
    dtype = property(lambda self: self.expression.dtype)
    ndim = property(lambda self: len(self.expression.shape))
    size = property(lambda self: prod(self.expression.shape))

    def __getitem__(self, index: Any) -> Array:
        from chainrule.compiler.lowering.indexing import read

        return Array(self.graph, read(self.graph, self.expression, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        from chainrule.compiler.lowering.indexing import written

        value = lifted(self.graph, value, self.dtype)
        self.expression = written(self.graph, self.expression, self.graph.cast(value, self.dtype), index)

    def __add__(self, other: Any) -> Array:
        return elementwise(self.graph, "add", self, other)

    def __radd__(self, other: Any) -> Array:
        return elementwise(self.graph, "add", other, self)

    def __sub__(self, other: Any) -> Array:
        return elementwise(self.graph, "subtract", self, other)

    def __rsub__(self, other: Any) -> Array:
        return elementwise(self.graph, "subtract", other, self)

    def __mul__(self, other: Any) -> Array:
        return elementwise(self.graph, "multiply", self, other)

    def __rmul__(self, other: Any) -> Array:
        return elementwise(self.graph, "multiply", other, self)

    def __truediv__(self, other: Any) -> Array:
        return elementwise(self.graph, "divide", self, other)

    def __rtruediv__(self, other: Any) -> Array:
        return elementwise(self.graph, "divide", other, self)

    def __pow__(self, other: Any) -> Array:
        return power(self.graph, self, other)

    def __neg__(self) -> Array:
        return elementwise(self.graph, "negative", self)

    def __lt__(self, other: Any) -> Array:
        return elementwise(self.graph, "less", self, other)

    def __le__(self, other: Any) -> Array:
        return elementwise(self.graph, "less_equal", self, other)

    def __gt__(self, other: Any) -> Array:
        return elementwise(self.graph, "greater", self, other)

    def __ge__(self, other: Any) -> Array:
        return elementwise(self.graph, "greater_equal", self, other)

    def __eq__(self, other: object) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride] - as every array
        return elementwise(self.graph, "equal", self, other)

    def __ne__(self, other: object) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride] - as every array
        return elementwise(self.graph, "not_equal", self, other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


# ---------------------------------------------------------------- elementwise
@cache
def loop(ufunc: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """The dtypes of NumPy's loop for operands of these dtypes, or of Python's types: operands, then the result."""
    try:
        return ufunc.resolve_dtypes((*kinds, None))
    except TypeError as error:
        raise NoSpellingError(str(error)) from error


def kind_of(value: Any) -> Any:
    """What decides how an operand is promoted: a dtype, or the type of a Python number."""
    kind: Any = value.__class__
    if kind in _NUMBERS:
        return _BOOL if kind is bool else kind
    return value.dtype


def promoted(*values: Any) -> Any:
    """The dtype that NumPy gives a result of these operands."""
    strong = [value if type(value) in _NUMBERS else value.dtype for value in values]
    return np.result_type(*strong)


def lifted(graph: Simplifying, value: Any, dtype: Any) -> Expression:
    """An operand as an expression of a dtype."""
    if isinstance(value, Array):
        return graph.cast(value.expression, dtype)
    if type(value) in _NUMBERS:
        if dtype.kind in "iu" and not np.isfinite(value):
            raise NoSpellingError(f"{value} as {dtype}")
        return graph.literal(value, dtype)
    return constant(graph, np.asarray(value, dtype))


def constant(graph: Simplifying, array: Any) -> Expression:
    """A known array: one number, a range or a constant of the program."""
    array = np.asarray(array)
    if array.size and array.dtype in NATIVE:
        first = array.flat[0]
        if array.strides == (0,) * array.ndim or array.size == 1 or _all_are(array, first):
            return graph.literal(first, array.dtype, array.shape)
    elif not array.size:
        return graph.literal(0, array.dtype, array.shape)
    return graph.constant(array)


def _all_are(array: Any, first: Any) -> bool:
    """Whether every entry is `first`, signs of zeros included."""
    return bool((array == first).all() and (np.signbit(array) == np.signbit(first)).all())


@lru_cache(4096)
def common_shape(*shapes: Shape) -> Shape:
    """The shape to which all broadcast."""
    return np.broadcast_shapes(*shapes)


def together(graph: Simplifying, *operands: Expression) -> tuple[Expression, ...]:
    """Expressions broadcast to one shape."""
    shape = operands[0].shape
    if any(a.shape != shape for a in operands):
        shape = common_shape(*(a.shape for a in operands))
    return tuple(graph.broadcast(a, shape) for a in operands)


_OF_BOOLS = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and", "not_equal": "xor"}
_KEPT_BY_INTEGERS = {"floor", "ceil", "trunc"}
_OF_INTEGERS = {"isnan": False, "isinf": False, "isfinite": True}


def elementwise(graph: Simplifying, op: str, *operands: Any) -> Array:
    """An operation of UNARY or BINARY in the dtypes that NumPy would take for it."""
    ufunc = UNARY.get(op) or BINARY[op]
    *types, result = loop(ufunc, tuple(map(kind_of, operands)))
    if op in _OF_INTEGERS and types[0].kind in "biu":
        return Array(graph, graph.literal(_OF_INTEGERS[op], _BOOL, operands[0].shape))
    if len(set(types)) > 1 or not NATIVE.issuperset((*types, result)):
        raise NoSpellingError(f"{op} of {types}")
    of = together(graph, *(lifted(graph, a, dtype) for a, dtype in zip(operands, types, strict=True)))
    if types[0].kind in "biu" and op in _KEPT_BY_INTEGERS:
        return Array(graph, of[0])
    out = _of_bools(graph, op, of) if types[0] == _BOOL else graph.apply(op, *of)
    return Array(graph, graph.cast(out, result))


def _of_bools(graph: Simplifying, op: str, of: tuple[Expression, ...]) -> Expression:
    """Arithmetic and comparison of truth values by logic."""
    if op in ("not", "and", "or", "xor"):
        return graph.apply(op, *of)
    if op in _OF_BOOLS:
        return graph.apply(_OF_BOOLS[op], *of)
    if op == "absolute":
        return of[0]
    if len(of) == 1:
        raise NoSpellingError(f"{op} of bool")
    x, y = of
    spelled: dict[str, Callable[[], Expression]] = {
        "equal": lambda: graph.apply("not", graph.apply("xor", x, y)),
        "less": lambda: graph.apply("and", graph.apply("not", x), y),
        "less_equal": lambda: graph.apply("or", graph.apply("not", x), y),
        "greater": lambda: graph.apply("and", x, graph.apply("not", y)),
        "greater_equal": lambda: graph.apply("or", x, graph.apply("not", y)),
    }
    if op not in spelled:
        raise NoSpellingError(f"{op} of bool")
    return spelled[op]()


def select(graph: Simplifying, condition: Any, x: Any, y: Any) -> Array:
    """NumPy's `where`."""
    dtype = promoted(x, y)
    if dtype not in NATIVE:
        raise NoSpellingError(str(dtype))
    of = together(graph, lifted(graph, condition, _BOOL), lifted(graph, x, dtype), lifted(graph, y, dtype))
    return Array(graph, graph.apply("select", *of))


_MULTIPLIED = 4
"""Up to this exponent a power is a product: each factor rounds once."""


def power(graph: Simplifying, x: Array, y: Any) -> Array:
    """x to a power; one that is known and small as products, as NumPy takes a square, and a root for 0.5."""
    *types, result = loop(np.power, (kind_of(x), kind_of(y)))
    if type(y) not in _NUMBERS:
        if result.kind != "f":
            raise NoSpellingError("a power of integers")
        return elementwise(graph, "power", x, y)
    base = Array(graph, graph.cast(x.expression, types[0]))
    if np.isfinite(y) and y == int(y) and (abs(y) <= _MULTIPLIED if result.kind == "f" else y >= 0):
        return _multiplied(graph, base if y >= 0 else elementwise(graph, "divide", 1, base), abs(int(y)))
    if result.kind != "f":
        raise NoSpellingError("a power of integers")
    return elementwise(graph, "sqrt", base) if y == 0.5 else elementwise(graph, "power", base, y)


def _multiplied(graph: Simplifying, x: Array, count: int) -> Array:
    """The product of `count` times x, by repeated squaring."""
    if count == 0:
        return Array(graph, graph.literal(1, x.dtype, x.shape))
    out, square = None, x
    while True:
        if count & 1:
            out = square if out is None else out * square
        count >>= 1
        if not count:
            return x if out is None else out
        square = square * square


def counter(graph: Simplifying, shape: Shape, axis: int) -> Expression:
    """The index along an axis, to be compared with others: in 32 bits where they suffice, as lanes of float32 are."""
    return graph.iota(shape, axis, _INT32 if shape[axis] < 1 << 31 else _INT64)
