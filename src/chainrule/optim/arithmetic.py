"""The arithmetic of a step under NumPy's names, for arrays of any kind.

An optimiser's formula is written once, in calls `x.add(a, b, out)`.  On NumPy arrays `x` is NumPy, and `out` a buffer
that is used again.  On abstract arrays and those of other libraries it is `PLAIN`: without `out` a call gives a new
array; with it, which then is a parameter or a state, the value goes into that array's own memory (of an abstract
array, its box).  So a trace of a step sees whole arrays, each written once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chainrule import boxes
from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_numpy
from chainrule.core.calls import is_tensor, is_weak
from chainrule.errors import DTypeError, explain
from chainrule.ops import elementwise, views
from chainrule.types import Array

Arithmetic = Any
"""NumPy, or `PLAIN`."""


def write(target: Array, value: Array) -> Array:
    """`value` in the own memory of `target`, in its dtype."""
    value = value if value.dtype == target.dtype else views.astype(value, target.dtype)
    if isinstance(target, Abstract):
        return boxes.write(target, value)
    target[...] = value
    return target


def _into(operation: Callable[..., Array]) -> Callable[..., Array]:
    def call(*arguments: Any, **named: Any) -> Array:
        *operands, out = (*arguments, *named.values())
        value = operation(*operands)
        return value if out is None else write(out, value)

    return call


class Plain:
    """NumPy's names for any arrays, `out` always given last, or None."""

    def __init__(self) -> None:
        self.add = _into(elementwise.add)
        self.subtract = _into(elementwise.subtract)
        self.multiply = _into(elementwise.multiply)
        self.divide = _into(elementwise.divide)
        self.maximum = _into(elementwise.maximum)
        self.minimum = _into(elementwise.minimum)
        self.negative = _into(elementwise.negative)
        self.sign = _into(elementwise.sign)
        self.sqrt = _into(elementwise.sqrt)


PLAIN = Plain()


def is_off(value: Any) -> bool:
    """Whether a hyper-parameter is zero, which switches its term off; one that a trace leaves open is not.

    The only question about the value of one that a step asks; what it switches is read nowhere else.
    """
    return not isinstance(value, Abstract) and not value


def in_dtype(number: Any, dtype: Any) -> Any:
    """A factor of a formula: a Python number as it is, since it takes the dtype of its partner; an array cast."""
    return number if number is None or is_weak(number) else views.astype(number, dtype)


def number(value: Any) -> Any:
    """A hyper-parameter as a user may have set it: one of NumPy's scalars would promote float32.

    **Raises** DTypeError for what is no number, before anything is changed.
    """
    if value is None or isinstance(value, str) or is_tensor(value):
        kind = type(value).__name__
        raise DTypeError(explain("step", f"a hyper-parameter of a group is {kind}", expected="a number"))
    if isinstance(value, Abstract) and not value.shape:
        return Abstract((), value.dtype, value.equation, weak=True)
    return value.item() if is_numpy(value) else value


def gradient(x: Arithmetic, g: Array, p: Array, decay: Any, maximize: bool, spare: Any) -> Array:
    """The gradient that a step uses: turned round to maximise, with weight_decay p added; in `spare` where it differs."""
    if is_off(decay):
        return x.negative(g, spare) if maximize else g
    decayed = x.multiply(p, decay, spare)
    return x.subtract(decayed, g, spare) if maximize else x.add(decayed, g, spare)
