"""What hyper-parameters may be: a sentence for the message, and the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from chainrule.backends.registry import is_numpy, type_of


class Limit(NamedTuple):
    """The values that an option may have."""

    text: str
    holds: Callable[[Any], bool]


def options(**limits: Limit) -> Mapping[str, Limit]:
    """The options of an optimiser, each with its limit."""
    return limits


def is_a(value: Any, *kinds: type) -> bool:
    """isinstance of what a user gave, which tells the type checker nothing, so that it does not ask on."""
    return issubclass(type_of(value), kinds)  # an abstract number says that it is one of Python's


def plain(value: Any) -> Any:
    """A value as Python's own: NumPy's scalars as numbers, and lists, as JSON has them, as tuples."""
    if is_a(value, list, tuple):
        return tuple(map(plain, value))
    return value.item() if is_numpy(value) else value


def is_number(value: Any) -> bool:
    """Whether this is a finite Python number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _not_negative(value: Any) -> bool:
    return is_number(value) and value >= 0


def _fraction(value: Any) -> bool:
    return is_number(value) and 0 <= value < 1


def _fractions(value: Any) -> bool:
    return is_a(value, tuple) and len(value) == 2 and all(map(_fraction, value))


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def _unit(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def _positive_unit(value: Any) -> bool:
    return is_number(value) and 0 < value <= 1


def _positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _count(value: Any) -> bool:
    return type(value) is int and value >= 1


FINITE = Limit("a finite number", is_number)
NOT_NEGATIVE = Limit("a finite number, 0 or more", _not_negative)
FRACTION = Limit("a number from 0 to below 1", _fraction)
BETAS = Limit("two numbers from 0 to below 1", _fractions)
FLAG = Limit("True or False", _flag)
COUNT = Limit("a whole number, 1 or more", _count)
NATURAL = Limit("a whole number, 0 or more", _natural)
POSITIVE = Limit("a finite number above 0", _positive)
UNIT = Limit("a number from 0 to 1", _unit)
POSITIVE_UNIT = Limit("a number above 0, up to 1", _positive_unit)
