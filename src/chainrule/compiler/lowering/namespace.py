"""The array API over expressions: what the `standard` of a record computes with, so that it becomes its lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from chainrule.compiler.expressions import BINARY, UNARY, Expression
from chainrule.compiler.lowering import indexing
from chainrule.compiler.lowering.arrays import (
    NATIVE,
    Array,
    NoSpellingError,
    common_shape,
    constant,
    elementwise,
    lifted,
    loop,
    power,
    promoted,
    select,
)
from chainrule.compiler.lowering.peephole import Simplifying, scalar_of
from chainrule.ops.arguments import several
from chainrule.types import Shape

_ALIASES = {
    "abs": "absolute", "round": "rint", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
    "bitwise_invert": "not",
}  # fmt: skip
_BOOL = np.dtype(np.bool_)


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return tuple(int(k) % ndim for k in several(axis))


class Namespace:
    """Functions under the array API's names, on `Array`s of one graph."""

    bool = _BOOL
    iinfo = staticmethod(np.iinfo)
    result_type = staticmethod(promoted)

    def __init__(self, graph: Simplifying) -> None:
        self.graph = graph
        self.linalg = self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = _ALIASES.get(name, name)
        if op not in UNARY and op not in BINARY:
            raise AttributeError(name)
        function = partial(elementwise, self.graph, op)
        setattr(self, name, function)
        return function

    def array(self, expression: Expression) -> Array:
        """An expression as an array."""
        return Array(self.graph, expression)

    # ------------------------------------------------------------ creation
    def full(self, shape: Any, value: Any, dtype: Any = None) -> Array:
        dtype = np.dtype(np.asarray(value).dtype if dtype is None else dtype)
        if dtype.kind in "iu" and not np.isfinite(value):
            raise NoSpellingError(f"{value} as {dtype}")
        return self.array(self.graph.literal(value, dtype, several(shape)))

    def zeros(self, shape: Any, dtype: Any = np.float64) -> Array:
        return self.full(shape, 0, dtype)

    def full_like(self, x: Array, value: Any) -> Array:
        return self.full(x.shape, value, x.dtype)

    def zeros_like(self, x: Array) -> Array:
        return self.full(x.shape, 0, x.dtype)

    def ones_like(self, x: Array) -> Array:
        return self.full(x.shape, 1, x.dtype)

    def asarray(self, value: Any, dtype: Any = None, copy: Any = None) -> Array:
        """An array of NumPy's as a constant; one of ours in a box of its own."""
        if isinstance(value, Array):
            return self.array(value.expression if dtype is None else self.graph.cast(value.expression, dtype))
        array = np.asarray(value, dtype)
        if array.dtype not in NATIVE:
            raise NoSpellingError(str(array.dtype))
        return self.array(constant(self.graph, array))

    def arange(self, count: int, dtype: Any = np.int64) -> Array:
        return self.array(self.graph.iota((count,), 0, dtype))

    # ------------------------------------------------------------ elementwise
    def square(self, x: Array) -> Array:
        x = self.astype(x, loop(np.square, (x.dtype,))[0])
        return x * x

    def positive(self, x: Array) -> Array:
        return self.array(x.expression)

    def reciprocal(self, x: Array) -> Array:
        if x.dtype.kind != "f":
            raise NoSpellingError("a reciprocal of integers")
        return 1 / x

    def pow(self, x: Array, y: Any) -> Array:
        dtype = promoted(x, y)
        number = scalar_of(y.expression) if isinstance(y, Array) else None
        # in `pow` NumPy has no way of its own for roots
        if number is not None and dtype.kind == "f" and number == np.rint(number) and np.isfinite(number):
            shape = common_shape(x.shape, y.shape)
            return power(self.graph, self.broadcast_to(self.astype(x, dtype), shape), int(number))
        return power(self.graph, x, y)

    def logaddexp(self, x: Array, y: Array) -> Array:
        """The larger one and log(1 + e^-distance); two equal infinities have no distance."""
        dtype = loop(np.logaddexp, (x.dtype, y.dtype))[0]
        x, y = self.astype(x, dtype), self.astype(y, dtype)
        top = self.maximum(x, y)
        if scalar_of(y.expression) == 0:
            below = -self.abs(x)
            return top + self.log1p(self.exp(self.broadcast_to(below, top.shape)))
        same = x == y
        below = self.where(same, 0.0, self.minimum(x, y)) - self.where(same, 0.0, top)
        return top + self.log1p(self.exp(below))

    def erf(self, x: Array) -> Array:
        dtype = x.dtype if x.dtype.kind == "f" else np.result_type(x.dtype, np.float32)  # as its tiles are
        return self.array(self.graph.apply("erf", lifted(self.graph, x, dtype)))

    def where(self, condition: Array, x: Any, y: Any) -> Array:
        return select(self.graph, condition, x, y)

    def astype(self, x: Array, dtype: Any) -> Array:
        dtype = np.dtype(dtype)
        if dtype not in NATIVE:
            raise NoSpellingError(str(dtype))
        return self.array(self.graph.cast(x.expression, dtype))

    def _logical(self, op: str, *of: Array) -> Array:
        return elementwise(self.graph, op, *(self.astype(a, _BOOL) for a in of))

    def logical_and(self, x: Array, y: Array) -> Array:
        return self._logical("and", x, y)

    def logical_or(self, x: Array, y: Array) -> Array:
        return self._logical("or", x, y)

    def logical_xor(self, x: Array, y: Array) -> Array:
        return self._logical("xor", x, y)

    def logical_not(self, x: Array) -> Array:
        return self._logical("not", x)

    # ------------------------------------------------------------ views
    def reshape(self, x: Array, shape: Any) -> Array:
        shape = tuple(shape)
        if -1 in shape:
            known = prod(n for n in shape if n != -1)
            shape = tuple(x.size // max(known, 1) if n == -1 else n for n in shape)
        return self.array(self.graph.reshape(x.expression, shape))

    def broadcast_to(self, x: Array, shape: Shape) -> Array:
        return self.array(self.graph.broadcast(x.expression, tuple(shape)))

    def permute_dims(self, x: Array, axes: Sequence[int]) -> Array:
        return self.array(self.graph.permute(x.expression, axes))

    def matrix_transpose(self, x: Array) -> Array:
        return self.permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))

    def moveaxis(self, x: Array, source: int, target: int) -> Array:
        order = [k for k in range(x.ndim) if k != source % x.ndim]
        order.insert(target % x.ndim, source % x.ndim)
        return self.permute_dims(x, order)

    def squeeze(self, x: Array, axis: Any) -> Array:
        gone = _axes(axis, x.ndim)
        return self.reshape(x, tuple(n for k, n in enumerate(x.shape) if k not in gone))

    def flip(self, x: Array, axis: Any) -> Array:
        turned = _axes(axis, x.ndim)
        starts = [n - 1 if k in turned else 0 for k, n in enumerate(x.shape)]
        steps = [-1 if k in turned else 1 for k in range(x.ndim)]
        return self.array(self.graph.slice(x.expression, starts, x.shape, steps))

    def roll(self, x: Array, shifts: tuple[int, ...], axis: tuple[int, ...]) -> Array:
        return self.array(indexing.rolled(self.graph, x.expression, shifts, axis))

    def diagonal(self, x: Array, offset: int = 0) -> Array:
        return self.array(indexing.diagonal(self.graph, x.expression, offset))

    def tril(self, x: Array, k: int = 0) -> Array:
        return self.array(indexing.triangle(self.graph, x.expression, "greater_equal", k))

    def triu(self, x: Array, k: int = 0) -> Array:
        return self.array(indexing.triangle(self.graph, x.expression, "less_equal", k))

    # ------------------------------------------------------------ joining
    def concat(self, xs: Sequence[Array], axis: int = 0) -> Array:
        dtype = promoted(*xs)
        return self.array(self.graph.concat([lifted(self.graph, x, dtype) for x in xs], axis))

    def stack(self, xs: Sequence[Array], axis: int = 0) -> Array:
        axis %= xs[0].ndim + 1
        return self.concat([self.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in xs], axis)

    def unstack(self, x: Array, axis: int = 0) -> list[Array]:
        return [x[(*(slice(None),) * axis, k)] for k in range(x.shape[axis])]

    # ------------------------------------------------------------ positions
    def take(self, x: Array, indices: Array, axis: int) -> Array:
        return self.array(indexing.take(self.graph, x.expression, indices.expression, axis))

    def take_along_axis(self, x: Array, indices: Array, axis: int) -> Array:
        return self.array(indexing.taken_along(self.graph, x.expression, indices.expression, axis))

    # ------------------------------------------------------------ folding
    def _folded(self, op: str, x: Array, axis: Any, keepdims: bool, dtype: Any = None) -> Array:
        axes = _axes(axis, x.ndim)
        x = x if dtype is None else self.astype(x, dtype)
        if op in ("sum", "prod", "max", "min") and x.dtype == _BOOL:
            op = "any" if op in ("sum", "max") else "all"
        out = self.array(self.graph.reduce(op, x.expression, axes))
        return self.reshape(out, tuple(1 if k in axes else n for k, n in enumerate(x.shape))) if keepdims else out

    def sum(self, x: Array, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Array:
        return self._folded("sum", x, axis, keepdims, dtype or np.add.reduce(np.ones(1, x.dtype)).dtype)

    def prod(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return self._folded("prod", x, axis, keepdims, np.multiply.reduce(np.ones(1, x.dtype)).dtype)

    def max(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return self._folded("max", x, axis, keepdims)

    def min(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return self._folded("min", x, axis, keepdims)

    def all(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return self._folded("all", x, axis, keepdims, _BOOL)

    def any(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return self._folded("any", x, axis, keepdims, _BOOL)

    def count_nonzero(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return self._folded("sum", self.astype(x, _BOOL), axis, keepdims, np.int64)

    def mean(self, x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        return self.sum(x, axis, keepdims) / prod(x.shape[k] for k in _axes(axis, x.ndim))

    def _position(self, op: str, x: Array, axis: int, keepdims: bool) -> Array:
        data = self.graph.cast(x.expression, np.uint8) if x.dtype == _BOOL else x.expression
        out = self.array(self.graph.position(op, data, axis))
        return self.reshape(out, (*x.shape[:axis], 1, *x.shape[axis + 1 :])) if keepdims else out

    def argmax(self, x: Array, axis: int, keepdims: bool = False) -> Array:
        return self._position("argmax", x, axis, keepdims)

    def argmin(self, x: Array, axis: int, keepdims: bool = False) -> Array:
        return self._position("argmin", x, axis, keepdims)

    # ------------------------------------------------------------ products
    def matmul(self, x: Array, y: Array) -> Array:
        """Of stacks of matrices; many with one matrix is one product."""
        graph, dtype = self.graph, promoted(x, y)
        a, b = lifted(graph, x, dtype), lifted(graph, y, dtype)
        *front, m, k = a.shape
        n = b.shape[-1]
        if b.ndim == 2 and front:
            flat = graph.dot(graph.reshape(a, (prod(front) * m, k)), b)
            return self.array(graph.reshape(flat, (*front, m, n)))
        both = common_shape(tuple(front), b.shape[:-2])
        return self.array(graph.dot(graph.broadcast(a, (*both, m, k)), graph.broadcast(b, (*both, k, n))))
