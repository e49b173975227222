"""Functions of vectors in registers, as LLVM text: exp, log, tanh ... of 1 to 32 lanes of float32 or float64.

Every one is within 3 ulp of the truth for all finite numbers, subnormal ones included (`make ulp` tries them all), right
at NaN, infinities and signed zeros, and sets the processor's invalid flag only where a NaN comes into being.  What has no
formula here is computed by the C library, lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import log

import numpy as np

from chainrule.compiler.native.lanes import Lanes, Value
from chainrule.compiler.native.polynomials import POLYNOMIALS
from chainrule.compiler.native.writer import SCALARS


def name_of(name: str, dtype: str, width: int) -> str:
    """The symbol of a function, without the `@`."""
    return f"chainrule_{name}_w{width}_{SCALARS[dtype].suffix}"


def function(name: str, dtype: str, width: int) -> str:
    """The definition, `<width x dtype> @name_of(...)(<width x dtype> %x)`; those of two arguments take a `%y` too."""
    return _written(name, dtype, width)[0]


def declarations(name: str, dtype: str, width: int) -> frozenset[str]:
    """The whole `declare` lines of what the definition calls."""
    return _written(name, dtype, width)[1]


@lru_cache(maxsize=1024)
def _written(name: str, dtype: str, width: int) -> tuple[str, frozenset[str]]:
    lanes = Lanes(dtype, width)
    x, y = lanes.argument("%x"), lanes.argument("%y")
    kind, own = lanes.types["f"], name in FORMULAS
    parameters = f"{kind} %x, {kind} %y" if name in C_BINARY or name in DIVISIONS else f"{kind} %x"
    if own:
        result = FORMULAS[name](lanes, x)
    elif name in DIVISIONS:
        result = DIVISIONS[name](lanes, x, y)
    else:
        result = lanes.each(C_BINARY[name], x, y) if name in C_BINARY else lanes.each(C_UNARY[name], x)
    head = f"define internal {kind} @{name_of(name, dtype, width)}({parameters}) {'alwaysinline' if own else 'noinline'} nounwind"  # fmt: skip
    body = "\n".join(lanes.writer.lines)
    return f"{head} {{\nentry:\n{body}\n  ret {kind} {result.text}\n}}\n", frozenset(lanes.writer.declarations)


def _coefficients(lanes: Lanes, name: str) -> tuple[float, ...]:
    return lanes.pick(*POLYNOMIALS[name])


# ---------------------------------------------------------------- exponentials
LN2 = {  # log(2) in two parts; the first has few bits, so that its products with exponents are exact
    True: (0.693359375, -0.00021219444005469057),
    False: (0.6931471803691238, 1.9082149292705877e-10),
}


def _reduced(lanes: Lanes, x: Value) -> tuple[Value, Value]:
    """(n, r): x is `n * log(2) + r` with the smallest r; the bits of n stand where exponents do, sign included."""
    shifted = lanes.fuse(x, 1 / log(2), lanes.rounder)
    n = shifted - lanes.rounder
    high, low = LN2[lanes.single]
    r = lanes.fuse(n, -low, lanes.fuse(n, -high, x))
    return shifted.bits << lanes.mantissa, r


def _exp_less_one(lanes: Lanes, r: Value) -> Value:
    square = r * r
    return lanes.fuse(lanes.polynomial(r, _coefficients(lanes, "exp"), square), square, r)


def _exp(lanes: Lanes, x: Value) -> Value:
    # Beyond the bounds the product below overflows to infinity or rounds to 0 by itself.
    x = lanes.at_most(lanes.pick(89.0, 710.0), lanes.at_least(lanes.pick(-104.0, -746.0), x))
    n, r = _reduced(lanes, x)
    # 2**n itself may be no normal number: multiply by about half of its exponent, then by the rest.
    half = lanes.fuse(x, 0.5 / log(2), lanes.rounder).bits << lanes.mantissa
    first, second = (half + lanes.one).number, (n - half + lanes.one).number
    return (_exp_less_one(lanes, r) + 1.0) * first * second


def _expm1(lanes: Lanes, x: Value) -> Value:
    held = lanes.at_most(lanes.pick(89.0, 710.0), lanes.at_least(lanes.pick(-20.0, -40.0), x))
    n, r = _reduced(lanes, held)
    scale = (n + (lanes.one - (1 << lanes.mantissa))).number  # half of it: 2**n may be too large
    y = lanes.fuse(_exp_less_one(lanes, r), scale, scale - 0.5) * 2.0
    return lanes.where(abs(x) < lanes.pick(2.0**-26, 2.0**-55), x, y)  # halves of tiny numbers are not exact


def _tanh(lanes: Lanes, x: Value) -> Value:
    """With e = exp(2|x|) - 1, it is e / (e + 2)."""
    size = abs(x)
    n, r = _reduced(lanes, lanes.at_most(lanes.pick(20.0, 40.0), size + size))
    scale = (n + lanes.one).number
    e = lanes.fuse(_exp_less_one(lanes, r), scale, scale - 1.0)
    return lanes.copy_sign(e / (e + 2.0), x)


# ---------------------------------------------------------------- logarithms
def _split(lanes: Lanes, x: Value, scaled: Value | float = 0.0) -> tuple[Value, Value]:
    """(e, f) of normal x > 0: x is `2**(e + scaled) * (1 + f)`, sqrt(1/2) <= 1 + f < sqrt(2)."""
    root = lanes.pick(0x3F3504F3, 0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
    raised = x.bits + (lanes.one - root)
    f = ((raised & ((1 << lanes.mantissa) - 1)) + root).number - 1.0
    # An integer in the low bits of 2**mantissa becomes a float by one subtraction.
    whole = 2.0**lanes.mantissa
    stored = ((raised >> lanes.mantissa) | lanes.constant(whole, "f").bits).number - (whole + lanes.bias)
    return (stored - scaled if isinstance(scaled, Value) else stored), f


def _natural(lanes: Lanes, e: Value, f: Value) -> Value:
    """`e * log(2) + log(1 + f)`."""
    high, low = LN2[lanes.single]
    square = f * f
    tail = lanes.polynomial(f, _coefficients(lanes, "log"), square) * (square * f)
    tail = lanes.fuse(square, -0.5, lanes.fuse(e, low, tail))
    return lanes.fuse(e, high, f + tail)


def _of_positive(lanes: Lanes, x: Value, combined: Callable[[Lanes, Value, Value], Value]) -> Value:
    """A logarithm: -inf at 0, NaN below, with the invalid flag."""
    small = x < lanes.pick(2.0**-126, 2.0**-1022)
    digits = lanes.mantissa + 1.0
    e, f = _split(lanes, lanes.where(small, x * 2.0**digits, x), lanes.where(small, digits, 0.0))
    y = lanes.where(x < np.inf, combined(lanes, e, f), x)
    return lanes.where(x <= 0.0, -np.inf, y) + lanes.where(x < 0.0, np.inf, -0.0)


def _log(lanes: Lanes, x: Value) -> Value:
    return _of_positive(lanes, x, _natural)


FORMULAS: dict[str, Callable[[Lanes, Value], Value]] = {
    "exp": _exp, "expm1": _expm1, "tanh": _tanh, "log": _log,
}  # fmt: skip

# ---------------------------------------------------------------- by the C library
C_UNARY: dict[str, str] = {
    "erf": "erf", "sin": "sin", "cos": "cos", "exp2": "exp2", "log1p": "log1p", "log2": "log2", "log10": "log10",
    "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
}  # fmt: skip
C_BINARY: dict[str, str] = {"power": "pow", "atan2": "atan2", "hypot": "hypot"}


def _remainder(lanes: Lanes, x: Value, y: Value) -> Value:
    """With the sign of y, as Python's `%`."""
    rest = lanes.each("fmod", x, y)
    # A remainder of the other sign is moved by one y; none at all takes y's sign.
    other = (rest < 0.0) ^ (y < 0.0)
    moved = lanes.where(other, rest + y, rest)
    return lanes.where(rest.equals(0.0), lanes.copy_sign(abs(rest), y), moved)


def _floor_divide(lanes: Lanes, x: Value, y: Value) -> Value:
    """floor(x / y), from the exact remainder, as Python's `//` and NumPy's; `x / y` itself where y is zero."""
    rest = lanes.each("fmod", x, lanes.where(y.equals(0.0), 1.0, y))
    exact = (x - rest) / y
    other = (rest < 0.0) ^ (y < 0.0)
    exact = lanes.where(rest.equals(0.0), exact, lanes.where(other, exact - 1.0, exact))
    whole = lanes.intrinsic("floor", exact)
    whole = lanes.where(exact - whole > 0.5, whole + 1.0, whole)
    whole = lanes.where(exact.equals(0.0), lanes.copy_sign(abs(exact), x / y), whole)
    return lanes.where(y.equals(0.0), x / y, whole)


DIVISIONS: dict[str, Callable[[Lanes, Value, Value], Value]] = {"remainder": _remainder, "floor_divide": _floor_divide}
