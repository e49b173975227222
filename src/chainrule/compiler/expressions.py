"""Array expressions: the few operations that native code is made of, and what each means, in NumPy.

An equation says `softmax`; lowered it says maximum, subtract, exp, sum, divide.  Expressions are hash-consed, so equal
ones are one object; shapes never broadcast by themselves; one `view` stands for every affine way of looking at an
array (broadcast, transpose, slice, flip, window), and views of views are folded into one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from chainrule.core.primitive import PRIMITIVES
from chainrule.types import Shape

_BOOL = np.dtype(np.bool_)
_COMPARED = 1 << 16  # bytes; constants up to this size are one if their entries are

AxisMap = tuple[int, tuple[tuple[int, int], ...]]
"""Where a view looks along one axis of its source: `offset + sum of stride * index[axis]` over (axis, stride)."""


def _erf(x: Any) -> Any:
    from math import erf

    each: Any = np.vectorize(erf, otypes=[np.float64])
    return each(x).astype(x.dtype)


UNARY: dict[str, Callable[..., Any]] = {
    "negative": np.negative, "absolute": np.absolute, "sign": np.sign, "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "rint": np.rint, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "signbit": np.signbit, "not": np.invert, "erf": _erf,
}  # fmt: skip
"""Of one array.  `erf` is no function of NumPy's.  `not` inverts truth values and the bits of integers."""
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "remainder": np.remainder,
    "floor_divide": np.floor_divide, "power": np.power, "maximum": np.maximum, "minimum": np.minimum,
    "atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}  # fmt: skip
"""Of two arrays of one shape and dtype.  maximum and minimum pass NaN on."""
TRUTHS = {
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isnan", "isinf", "isfinite", "signbit",
}  # fmt: skip
"""Operations whose result is bool whatever they are given."""
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.add.reduce, "prod": np.multiply.reduce, "max": np.maximum.reduce, "min": np.minimum.reduce,
    "any": np.logical_or.reduce, "all": np.logical_and.reduce,
}  # fmt: skip
"""Along axes, which vanish, in the dtype of the operand.  An extreme of nothing is never asked for."""
CONVOLUTIONS = {"convolve", "convolve_to_input", "convolve_to_weight"}
"""As the records of these names: of x and w, of y and w, of x and y; the attribute is (windows, groups)."""
ELEMENTWISE = {*UNARY, *BINARY, "select", "cast", "bounded", "watched"}


class Expression:
    """`op(*arguments, attribute)` of a known shape and dtype.  Made by `Graph`, which gives every one its number."""

    __slots__ = ("arguments", "attribute", "dtype", "number", "op", "shape", "size")

    def __init__(self, number: int, op: str, arguments: tuple[Expression, ...], shape: Shape, dtype: Any, attribute: Any) -> None:  # fmt: skip
        self.number = number
        self.op = op
        self.arguments = arguments
        self.shape = shape
        self.dtype: np.dtype[Any] = dtype
        self.attribute: Any = attribute
        self.size = prod(shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        of = ", ".join(f"%{a.number}" for a in self.arguments)
        more = "" if self.attribute is None else f" {self.attribute!r}"
        return f"%{self.number} = {self.op}({of}) {self.dtype}{list(self.shape)}{more}"


class Graph:
    """A set of expressions.  `nodes[k].number == k`; arguments have smaller numbers than what is made of them."""

    def __init__(self) -> None:
        self.nodes: list[Expression] = []
        self._known: dict[Any, Expression] = {}

    def _make(self, op: str, arguments: tuple[Expression, ...], shape: Iterable[int], dtype: Any, attribute: Any = None, key: Any = None) -> Expression:  # fmt: skip
        shape, dtype = tuple(map(int, shape)), np.dtype(dtype)
        known = (op, tuple(a.number for a in arguments), shape, dtype, attribute if key is None else key)
        found = self._known.get(known)
        if found is None:
            found = self._known[known] = Expression(len(self.nodes), op, arguments, shape, dtype, attribute)
            self.nodes.append(found)
        return found

    # ------------------------------------------------------------ sources
    def input(self, index: int, shape: Shape, dtype: Any) -> Expression:
        """The array passed at position `index`, C-contiguous."""
        return self._make("input", (), shape, dtype, index)

    def literal(self, value: Any, dtype: Any, shape: Shape = ()) -> Expression:
        """One number, everywhere in `shape`."""
        dtype = np.dtype(dtype)
        made = dtype.type(value)
        one = self._make("literal", (), (), dtype, made.item(), (made.tobytes(),))
        return self.broadcast(one, shape)

    def constant(self, array: np.ndarray[Any, Any]) -> Expression:
        """An array that belongs to the program."""
        array = np.array(array, order="C")  # its owner may write to it
        key = (array.tobytes(),) if array.nbytes <= _COMPARED else (id(array),)
        return self._make("constant", (), array.shape, array.dtype, array, key)

    def iota(self, shape: Shape, axis: int, dtype: Any = np.int64) -> Expression:
        """The index along `axis`."""
        return self._make("iota", (), shape, dtype, axis)

    # ------------------------------------------------------------ elementwise
    def apply(self, op: str, *of: Expression) -> Expression:
        """An operation of UNARY or BINARY, or `select(condition, x, y)`, on operands of one shape."""
        last = of[-1]
        unlike = any(a.shape != last.shape for a in of) or any(a.dtype != last.dtype for a in of[op == "select" :])
        if unlike or op not in ELEMENTWISE:
            raise TypeError(f"{op} of {of}")
        return self._make(op, of, last.shape, _BOOL if op in TRUTHS else last.dtype)

    def cast(self, x: Expression, dtype: Any) -> Expression:
        """As NumPy's astype: floats to integers truncate, anything to bool is `!= 0`."""
        return x if x.dtype == np.dtype(dtype) else self._make("cast", (x,), x.shape, dtype)

    def bounded(self, x: Expression, length: int) -> Expression:
        """x, of int64; an entry outside of `0 <= x < length` makes the whole program fail."""
        return self._make("bounded", (x,), x.shape, x.dtype, length)

    def watched(self, x: Expression) -> Expression:
        """x, of floats; a NaN in it means that the careful program must run."""
        return self._make("watched", (x,), x.shape, x.dtype)

    # ------------------------------------------------------------ looking at arrays
    def view(self, x: Expression, shape: Shape, maps: Sequence[AxisMap]) -> Expression:
        """`out[i] = x[offset + sum(stride * i[axis])]`, one map per axis of x; every index must lie inside x."""
        maps = tuple((offset, tuple((a, s) for a, s in terms if s and shape[a] != 1)) for offset, terms in maps)
        if x.op == "view":
            folded: list[AxisMap] = []
            inner: tuple[AxisMap, ...] = x.attribute
            for first, terms in inner:
                offset, strides = first, dict[int, int]()
                for axis, stride in terms:
                    offset += stride * maps[axis][0]
                    for a, s in maps[axis][1]:
                        strides[a] = strides.get(a, 0) + stride * s
                folded.append((offset, tuple(sorted((a, s) for a, s in strides.items() if s))))
            return self.view(x.arguments[0], shape, folded)
        same = x.shape == tuple(shape) and all(
            offset == 0 and terms == (((k, 1),) if n != 1 else ())
            for k, ((offset, terms), n) in enumerate(zip(maps, shape, strict=True))
        )
        return x if same else self._make("view", (x,), shape, x.dtype, maps)

    def broadcast(self, x: Expression, shape: Shape) -> Expression:
        """x repeated along axes of length 1 and new axes in front."""
        if x.shape == shape:
            return x
        front = len(shape) - x.ndim
        return self.view(x, tuple(shape), [(0, ((front + k, 1),) if n != 1 else ()) for k, n in enumerate(x.shape)])

    def permute(self, x: Expression, axes: Sequence[int]) -> Expression:
        return self.view(x, tuple(x.shape[a] for a in axes), [(0, ((list(axes).index(k), 1),)) for k in range(x.ndim)])

    def slice(self, x: Expression, starts: Sequence[int], shape: Sequence[int], steps: Sequence[int]) -> Expression:
        """Steps may be negative."""
        return self.view(x, tuple(shape), [(a, ((k, s),)) for k, (a, s) in enumerate(zip(starts, steps, strict=True))])

    def reshape(self, x: Expression, shape: Shape) -> Expression:
        """The same entries in row-major order."""
        if x.op == "reshape":
            x = x.arguments[0]
        if x.shape == tuple(shape):
            return x
        # axes of length 1 come and go without touching the order of entries: an affine view
        if tuple(n for n in x.shape if n != 1) == tuple(n for n in shape if n != 1):
            kept = iter([k for k, n in enumerate(shape) if n != 1])
            return self.view(x, tuple(shape), [(0, ((next(kept), 1),)) if n != 1 else (0, ()) for n in x.shape])
        return self._make("reshape", (x,), shape, x.dtype)

    # ------------------------------------------------------------ moving entries
    def pad(self, x: Expression, widths: Sequence[tuple[int, int]], fill: Any = 0) -> Expression:
        """`fill` before and after x, along each axis."""
        if not any(a or b for a, b in widths):
            return x
        shape = tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True))
        value = x.dtype.type(fill)
        return self._make("pad", (x,), shape, x.dtype, (tuple(map(tuple, widths)), value.item()), (tuple(map(tuple, widths)), value.tobytes()))  # fmt: skip

    def concat(self, parts: Sequence[Expression], axis: int) -> Expression:
        parts = [p for p in parts if p.shape[axis]] or [parts[0]]
        if len(parts) == 1:
            return parts[0]
        first = parts[0].shape
        total = sum(p.shape[axis] for p in parts)
        return self._make("concat", tuple(parts), (*first[:axis], total, *first[axis + 1 :]), parts[0].dtype, axis)

    def gather(self, x: Expression, indices: Expression, axis: int) -> Expression:
        """`np.take`, of int64 indices.  One that is negative or beyond the end makes the whole program fail."""
        shape = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
        return self._make("gather", (x, indices), shape, x.dtype, axis)

    def scatter(self, base: Expression, indices: Expression, values: Expression, axis: int, how: str) -> Expression:
        """`base` with `values`, which has the shape of `gather(base, indices, axis)`, put there: "add" or "set"."""
        return self._make("scatter", (base, indices, values), base.shape, base.dtype, (axis, how))

    def scatter_view(self, x: Expression, shape: Shape, maps: Sequence[AxisMap]) -> Expression:
        """The adjoint of `view(y, x.shape, maps)` for y of `shape`: zeros, to which each entry of x is added."""
        return self._make("scatter_view", (x,), shape, x.dtype, tuple(maps))

    # ------------------------------------------------------------ folding
    def reduce(self, op: str, x: Expression, axes: Iterable[int]) -> Expression:
        """An operation of REDUCTIONS along `axes`, which vanish."""
        axes = tuple(sorted(axes))
        shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        if all(x.shape[k] == 1 for k in axes):
            return self.reshape(x, shape)
        return self._make(op, (x,), shape, x.dtype, axes)

    def position(self, op: str, x: Expression, axis: int) -> Expression:
        """argmax or argmin along one axis, which vanishes; int64; the first of equals, or of NaNs."""
        return self._make(op, (x,), (*x.shape[:axis], *x.shape[axis + 1 :]), np.int64, axis)

    def dot(self, x: Expression, y: Expression) -> Expression:
        """`x[..., m, k] @ y[..., k, n]`, with equal leading axes."""
        return self._make("dot", (x, y), (*x.shape[:-1], y.shape[-1]), x.dtype)

    def convolve(self, op: str, x: Expression, y: Expression, shape: Shape, windows: Any, groups: int) -> Expression:
        """An operation of CONVOLUTIONS, on operands of one dtype."""
        return self._make(op, (x, y), shape, x.dtype, (windows, groups))

    # ------------------------------------------------------------ what has no lowering
    def opaque(self, of: Sequence[Expression], equation: Any, shape: Shape, dtype: Any, pick: int | None = None) -> Expression:  # fmt: skip
        """An equation that its own `forward` computes; `pick` numbers one of several outputs."""
        return self._make("opaque", tuple(of), shape, dtype, (equation, pick), (equation.number, pick))


def reach(outputs: Iterable[Expression]) -> list[Expression]:
    """Everything that `outputs` need, arguments first."""
    seen: dict[int, Expression] = {}
    todo = list(outputs)
    while todo:
        node = todo.pop()
        if node.number not in seen:
            seen[node.number] = node
            todo += node.arguments
    return [seen[number] for number in sorted(seen)]


# ---------------------------------------------------------------- what everything means
_where: Any = np.where  # whose stub does not know what comes out


def _positions(shape: Shape, maps: Sequence[AxisMap]) -> tuple[Any, ...]:
    grid: tuple[Any, ...] = np.indices(shape, sparse=True) if shape else ()
    return tuple(
        np.broadcast_to(offset + sum(s * grid[a] for a, s in terms), shape).astype(np.intp) for offset, terms in maps
    )


def _checked(indices: Any, length: int) -> Any:
    if ((indices < 0) | (indices >= length)).any():
        raise IndexError(f"an index leaves an axis of length {length}")
    return indices


def _value(e: Expression, v: list[Any], inputs: Sequence[Any]) -> Any:  # noqa: C901, PLR0912 - one case per operation
    op, attribute = e.op, e.attribute
    if op == "input":
        return np.asarray(inputs[attribute])
    if op in ("literal", "constant"):
        return np.asarray(attribute, e.dtype)
    if op == "iota":
        grid: Any = np.indices(e.shape, sparse=True)
        return np.broadcast_to(grid[attribute], e.shape).astype(e.dtype)
    if op in UNARY:
        return UNARY[op](v[0])
    if op in BINARY:
        return BINARY[op](v[0], v[1])
    if op == "select":
        return _where(v[0], v[1], v[2])
    if op == "cast":
        return v[0].astype(e.dtype)
    if op == "bounded":
        return _checked(v[0], attribute)
    if op == "watched":
        return v[0]
    if op == "view":
        return v[0][_positions(e.shape, attribute)] if v[0].ndim else np.broadcast_to(v[0], e.shape)
    if op == "reshape":
        return v[0].reshape(e.shape)
    if op == "pad":
        return np.pad(v[0], attribute[0], constant_values=attribute[1])
    if op == "concat":
        return np.concatenate(v, attribute)
    if op == "gather":
        return np.take(v[0], _checked(v[1], v[0].shape[attribute]), attribute)
    if op == "scatter":
        axis, how = attribute
        out = v[0].copy()
        at = (*(slice(None),) * axis, _checked(v[1], out.shape[axis]))
        np.add.at(out, at, v[2]) if how == "add" else out.__setitem__(at, v[2])
        return out
    if op == "scatter_view":
        out = np.zeros(e.shape, e.dtype)
        np.add.at(out, _positions(v[0].shape, attribute), v[0])
        return out
    if op in REDUCTIONS:
        return REDUCTIONS[op](v[0], axis=attribute, dtype=e.dtype)
    if op in ("argmax", "argmin"):
        position: Any = getattr(np, op)
        return position(v[0], axis=attribute)
    if op == "dot":
        return np.matmul(v[0], v[1])
    if op in CONVOLUTIONS:
        return _by_record(PRIMITIVES[op], v, attribute, None)
    return _by_record(attribute[0].primitive, v, attribute[0].parameters, attribute[1])


def _by_record(primitive: Any, v: list[Any], parameters: Any, pick: int | None) -> Any:
    """By the operation itself."""
    out = primitive.forward(*([v] if primitive.variadic else v), *parameters)
    return out if pick is None else out[pick]


def evaluate(outputs: Sequence[Expression], inputs: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """What `outputs` are, by NumPy, one expression after another: the meaning that native code is tested against."""
    values: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for e in reach(outputs):
            values[e.number] = np.asarray(_value(e, [values[a.number] for a in e.arguments], inputs))
    return [values[e.number] for e in outputs]
