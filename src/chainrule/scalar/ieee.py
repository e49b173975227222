"""Elementary functions on floats that answer as IEEE 754 and NumPy do, where Python's `math` raises.

`math.exp(1000)` is an OverflowError, `0.0 ** -1` a ZeroDivisionError, `(-8) ** 0.5` a complex number. A derivative
program meets such points in branches that do not matter in the end, so here they are inf, inf and nan.
"""

import math

INF, NAN = math.inf, math.nan

tanh = math.tanh


def exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return INF


def log(x: float) -> float:
    if x > 0:
        return math.log(x)
    return -INF if x == 0 else NAN


def sin(x: float) -> float:
    return math.sin(x) if math.isfinite(x) else NAN


def cos(x: float) -> float:
    return math.cos(x) if math.isfinite(x) else NAN


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + exp(-x))  # an overflow of exp ends as 1 / inf, which is the right 0


def power(x: float, y: float) -> float:
    """x ** y; `math.pow` is right everywhere except that it raises where the result is infinite or not real."""
    try:
        return math.pow(x, y)
    except (OverflowError, ValueError):
        if x < 0 and y % 1 != 0:
            return NAN
        odd = y % 2 == 1
        return math.copysign(INF, x) if odd else INF


def maximum(x: float, y: float) -> float:
    """The larger number; nan if either is nan."""
    return x if x > y or x != x else y


def relu(x: float) -> float:
    """x where positive, else 0; nan stays nan."""
    return 0.0 if x <= 0 else x
