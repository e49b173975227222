"""Equations that need no computing: what multiplies by one, turns around twice, casts to what is there; known numbers.

Each way is right to the bit for every value, signed zeros, infinities and NaN included.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from chainrule.backends.abstract import Equation

_FOLDED = 4096  # bytes: larger constants are computed where they are needed


def shortened(equation: Equation) -> Equation:
    """An equation of the same value that costs less, or `equation` itself; its arguments are short already."""
    if equation.primitive is None or isinstance(equation.primitive, str) or equation.primitive.multiple:
        return equation
    folded = _folded(equation)
    if folded is not None:
        return folded
    way = _WAYS.get(equation.primitive.name)
    found = None if way is None else way(equation, *equation.arguments)
    same = found is not None and (found.shape, found.dtype) == (equation.shape, equation.dtype)
    return found if same and found is not None else equation


def _folded(equation: Equation) -> Equation | None:
    """The value of an equation of constants."""
    if not equation.arguments or any(a.primitive is not None or a.source is None for a in equation.arguments):
        return None
    if equation.primitive.name == "broadcast_to" or prod(equation.shape) * equation.dtype.itemsize > _FOLDED:
        return None
    values: Any = [a.source for a in equation.arguments]
    with np.errstate(all="ignore"):
        value = equation.primitive.forward(*([values] if equation.primitive.variadic else values), *equation.parameters)
    return Equation(None, (), (), equation.shape, equation.dtype, np.asarray(value))


def value_everywhere(equation: Equation) -> Any:
    """The number that all entries are, as 0-d array of the equation's dtype; None where that is not known."""
    while equation.primitive is not None and getattr(equation.primitive, "name", "") in ("broadcast_to", "reshape"):
        equation = equation.arguments[0]
    source = equation.source
    if equation.primitive is not None or source is None or not source.size:
        return None
    first = source[(0,) * source.ndim]
    spread = [step for step, length in zip(source.strides, source.shape, strict=True) if length > 1]
    small = source.nbytes <= _FOLDED and source.tobytes() == first.tobytes() * source.size
    return first if small or not any(spread) else None


def _is(equation: Equation, number: float) -> bool:
    """Whether all entries are this number; zeros by their sign."""
    value = value_everywhere(equation)
    return value is not None and bool(value == number) and bool(np.signbit(value) == np.signbit(number))


def _no_bool(equation: Equation) -> bool:
    return equation.dtype.kind != "b"


def _multiply(equation: Equation, x: Equation, y: Equation) -> Equation | None:
    return x if _is(y, 1.0) else y if _is(x, 1.0) else None


def _divide(equation: Equation, x: Equation, y: Equation) -> Equation | None:
    return x if _is(y, 1.0) else None


def _subtract(equation: Equation, x: Equation, y: Equation) -> Equation | None:
    return x if _is(y, 0.0) and _no_bool(x) else None


def _add(equation: Equation, x: Equation, y: Equation) -> Equation | None:
    nothing = -0.0 if equation.dtype.kind == "f" else 0.0  # 0.0 + -0.0 is 0.0
    if _no_bool(equation):
        return x if _is(y, nothing) else y if _is(x, nothing) else None
    return None


def _twice(equation: Equation, x: Equation, *_: Any) -> Equation | None:
    """An operation that undoes itself."""
    same = x.primitive is equation.primitive and x.parameters == equation.parameters
    return x.arguments[0] if same else None


def _same(equation: Equation, x: Equation) -> Equation:
    """x, where it has the shape and the dtype already."""
    return x


def _reshape(equation: Equation, x: Equation) -> Equation | None:
    if x.primitive is not equation.primitive:
        return x
    inner = x.arguments[0]
    if inner.shape == equation.shape:
        return inner
    return Equation(equation.primitive, (inner,), equation.parameters, equation.shape, equation.dtype)


def _permute(equation: Equation, x: Equation) -> Equation | None:
    (axes,) = equation.parameters
    if axes == tuple(range(len(axes))):
        return x
    if x.primitive is not equation.primitive:
        return None
    together = tuple(x.parameters[0][k] for k in axes)
    inner = x.arguments[0]
    if together == tuple(range(len(axes))):
        return inner
    return Equation(equation.primitive, (inner,), (together,), equation.shape, equation.dtype)


def _where(equation: Equation, condition: Equation, x: Equation, y: Equation) -> Equation | None:
    known = value_everywhere(condition)
    return None if known is None else x if known else y


_WAYS: dict[str, Callable[..., Equation | None]] = {
    "multiply": _multiply,
    "divide": _divide,
    "subtract": _subtract,
    "add": _add,
    "negative": _twice,
    "matrix_transpose": _twice,
    "flip": _twice,
    "astype": _same,
    "broadcast_to": _same,
    "reshape": _reshape,
    "permute_dims": _permute,
    "where": _where,
}
