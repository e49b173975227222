"""The formulas of vector functions, each for float32 and float64 alike unless it says otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import pi

import numpy as np

from chainrule.compiler.native.lanes import Lanes, Value
from chainrule.compiler.native.polynomials import POLYNOMIALS


def coefficients(lanes: Lanes, name: str) -> tuple[float, ...]:
    return lanes.pick(*POLYNOMIALS[name])


# ---------------------------------------------------------------- exponentials
LOG_2 = math.log(2)
LN2 = {  # log(2) in two parts; the first has few bits, so that its products with exponents are exact
    True: (0.693359375, -0.00021219444005469057),
    False: (0.6931471803691238, 1.9082149292705877e-10),
}


def reduced(lanes: Lanes, x: Value) -> tuple[Value, Value]:
    """(shifted, r): x is `n * log(2) + r` with the smallest r; the whole n stands in the low bits of `shifted`."""
    shifted = lanes.fuse(x, 1 / LOG_2, lanes.rounder)
    n = shifted - lanes.rounder
    high, low = LN2[lanes.single]
    return shifted, lanes.fuse(n, -low, lanes.fuse(n, -high, x))


def whole_power(lanes: Lanes, shifted: Value) -> Value:
    """2**n, a normal number, of the n in the low bits."""
    return ((shifted.bits << lanes.mantissa) + lanes.one).number


def exp_less_one(lanes: Lanes, r: Value) -> Value:
    square = r * r
    return lanes.fuse(lanes.polynomial(r, coefficients(lanes, "exp"), square), square, r)


def scaled(lanes: Lanes, y: Value, shifted: Value) -> Value:
    """`y * 2**n`, which may overflow or be subnormal."""
    n = shifted - lanes.rounder
    if lanes.registers:
        return lanes.scale(y, n)
    # 2**n itself may be no normal number: first by about half of its exponent, then by the rest.
    half = lanes.fuse(n, 0.5, lanes.rounder)
    rest = (shifted.bits << lanes.mantissa) - (half.bits << lanes.mantissa) + lanes.one
    return y * whole_power(lanes, half) * rest.number


def exp(lanes: Lanes, x: Value) -> Value:
    # Beyond the bounds the result overflows to infinity or is rounded to 0 by itself.
    x = lanes.at_most(lanes.pick(89.0, 710.0), lanes.at_least(lanes.pick(-104.0, -746.0), x))
    shifted, r = reduced(lanes, x)
    return scaled(lanes, exp_less_one(lanes, r) + 1.0, shifted)


def power_of_two(lanes: Lanes, x: Value) -> tuple[Value, Value]:
    """(shifted, y): 2**x is `2**n * y` of the n in the low bits of `shifted`."""
    shifted = x + lanes.rounder
    r = x - (shifted - lanes.rounder)
    return shifted, lanes.fuse(lanes.polynomial(r, coefficients(lanes, "exp2")), r, 1.0)


def exp2(lanes: Lanes, x: Value) -> Value:
    x = lanes.at_most(lanes.pick(129.0, 1025.0), lanes.at_least(lanes.pick(-151.0, -1076.0), x))
    shifted, y = power_of_two(lanes, x)
    return scaled(lanes, y, shifted)


def expm1(lanes: Lanes, x: Value) -> Value:
    held = lanes.at_most(lanes.pick(89.0, 710.0), lanes.at_least(lanes.pick(-20.0, -40.0), x))
    shifted, r = reduced(lanes, held)
    scale = whole_power(lanes, shifted - 1.0)  # half of it: 2**n may be too large
    y = lanes.fuse(exp_less_one(lanes, r), scale, scale - 0.5) * 2.0
    return lanes.where(abs(x) < lanes.pick(2.0**-26, 2.0**-55), x, y)  # halves of tiny numbers are not exact


def tanh(lanes: Lanes, x: Value) -> Value:
    """With e = exp(2|x|) - 1, it is e / (e + 2)."""
    size = abs(x)
    shifted, r = reduced(lanes, lanes.at_most(lanes.pick(20.0, 40.0), size + size))
    scale = whole_power(lanes, shifted)
    e = lanes.fuse(exp_less_one(lanes, r), scale, scale - 1.0)
    return lanes.copy_sign(e / (e + 2.0), x)


# ---------------------------------------------------------------- logarithms
def split(lanes: Lanes, x: Value) -> tuple[Value, Value, Value]:
    """(e, f) of normal x > 0: x is `2**e * (1 + f)`, sqrt(1/2) <= 1 + f < sqrt(2); and e as the bits of 2**e hold it."""
    root = lanes.pick(0x3F3504F3, 0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
    raised = x.bits + (lanes.one - root)
    f = ((raised & ((1 << lanes.mantissa) - 1)) + root).number - 1.0
    # An integer in the low bits of 2**mantissa becomes a float by one subtraction.
    whole = 2.0**lanes.mantissa
    e = ((raised >> lanes.mantissa) | lanes.constant(whole, "f").bits).number - (whole + lanes.bias)
    return e, f, raised & -(1 << lanes.mantissa)


def natural(lanes: Lanes, e: Value, f: Value) -> Value:
    """`e * log(2) + log(1 + f)`."""
    high, low = LN2[lanes.single]
    square = f * f
    tail = lanes.polynomial(f, coefficients(lanes, "log"), square) * (square * f)
    tail = lanes.fuse(square, -0.5, lanes.fuse(e, low, tail))
    return lanes.fuse(e, high, f + tail)


def binary(lanes: Lanes, e: Value, f: Value) -> Value:
    """`e + log2(1 + f)`."""
    return lanes.fuse(lanes.polynomial(f, coefficients(lanes, "log2")), f, f) + e


def ends(lanes: Lanes, x: Value, y: Value, end: float) -> Value:
    """y, a logarithm; but -inf where x is `end`, and below it a NaN that comes into being here, with the invalid flag."""
    return lanes.where(x <= end, -np.inf, y) + lanes.where(x < end, np.inf, -0.0)


def of_positive(lanes: Lanes, x: Value, combined: Callable[[Value, Value], Value]) -> Value:
    """A logarithm of x from its e and f."""
    e, f, _ = split(lanes, x)
    smallest = 1 << lanes.mantissa  # normal; by bits, negative numbers and NaN are beyond infinity
    special = x.bits - smallest > lanes.constant(np.inf, "f").bits - (smallest + 1)
    return lanes.unless(special, combined(e, f), lambda: of_any(lanes, x, combined))


def of_any(lanes: Lanes, x: Value, combined: Callable[[Value, Value], Value]) -> Value:
    small = x < lanes.pick(2.0**-126, 2.0**-1022)
    digits = lanes.mantissa + 1.0
    e, f, _ = split(lanes, lanes.where(small, x * 2.0**digits, x))
    y = combined(e - lanes.where(small, digits, 0.0), f)
    return ends(lanes, x, lanes.where(x < np.inf, y, x), 0.0)


def log(lanes: Lanes, x: Value) -> Value:
    return of_positive(lanes, x, lambda e, f: natural(lanes, e, f))


def log2(lanes: Lanes, x: Value) -> Value:
    return of_positive(lanes, x, lambda e, f: binary(lanes, e, f))


def log10(lanes: Lanes, x: Value) -> Value:
    high, low = lanes.pick((0.30078125, 2.4874566398119521e-04), (0.30102999566361177, 3.6942390771589308e-13))

    def combined(e: Value, f: Value) -> Value:
        tail = lanes.fuse(lanes.polynomial(f, coefficients(lanes, "log10")), f, f * 0.5)
        return lanes.fuse(e, high, lanes.fuse(e, low, tail))

    return of_positive(lanes, x, combined)


def log1p(lanes: Lanes, x: Value) -> Value:
    """1 + x is rounded to u; what that lost is added to f."""
    largest = float(np.finfo(lanes.dtype).max)
    held = lanes.at_most(largest, lanes.at_least(lanes.pick(-1 + 2.0**-24, -1 + 2.0**-53), x))
    u = held + 1.0
    back = u - 1.0
    lost = (1.0 - (u - back)) + (held - back)
    e, f, stored = split(lanes, u)
    # 2**-e, in two factors: it may be too small
    scale = (lanes.constant((2 * lanes.bias + 1) << lanes.mantissa, "i") - stored).number
    y = natural(lanes, e, lanes.fuse(lost * 0.5, scale, f))
    y = lanes.where(abs(x) < lanes.pick(2.0**-26, 2.0**-55), x, y)
    inside = (x > -1.0) & (x < np.inf)
    return lanes.unless(~inside, y, lambda: ends(lanes, x, lanes.where(x < np.inf, y, x), -1.0))


# ---------------------------------------------------------------- erf
def erf(lanes: Lanes, x: Value) -> Value:
    size = lanes.at_most(lanes.pick(3.82, 5.95), abs(x))
    square = size * size
    if lanes.single:  # one polynomial does for all
        t, powers = lanes.fuse(square, 0.16, -1.0), coefficients(lanes, "erf")
        y = lanes.horner(t, powers[:9], lanes.polynomial(t, powers[9:]))
        return lanes.copy_sign(lanes.at_most(1.0, lanes.fuse(y, size, size * 0.5)), x)
    inner = lanes.fuse(lanes.polynomial(square, coefficients(lanes, "erf")), size, size)
    exponent = lanes.fuse(square, 1 / LOG_2, lanes.polynomial(size - 3.375, coefficients(lanes, "erfc")))
    shifted, rest = power_of_two(lanes, -exponent)
    outer = lanes.fuse(-rest, whole_power(lanes, shifted), 1.0)
    return lanes.copy_sign(lanes.where(size < 1.0, inner, outer), x)


# ---------------------------------------------------------------- sin and cos
HALF_PI = {  # pi / 2 in parts; all but the last have so few bits that their products with whole numbers are exact
    True: (1.5703125, 0.0004837512969970703, 7.549533620476723e-08, 2.5632829192545614e-12, 6.123233601181349e-17),
    False: (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32),
}
FARTHEST = {True: 6000.0, False: 1.0e6}
"""Beyond it the parts of pi / 2 do not suffice."""


def quarter_turns(lanes: Lanes, size: Value) -> tuple[Value, Value, Value]:
    """(quarters, sine, cosine): the size is `quarters * pi / 2 + r`, quarters in the low bits; and sin(r), cos(r)."""
    shifted = lanes.fuse(size, 2 / pi, lanes.rounder)
    turns, r = shifted - lanes.rounder, size
    for part in HALF_PI[lanes.single]:
        r = lanes.fuse(turns, -part, r)
    square = r * r
    sine = lanes.fuse(lanes.polynomial(square, coefficients(lanes, "sin")), square * r, r)
    cosine = lanes.polynomial(square, coefficients(lanes, "cos"))
    cosine = lanes.fuse(cosine, square * square, lanes.fuse(square, -0.5, 1.0))
    return shifted.bits, sine, cosine


def _wave(lanes: Lanes, x: Value, name: str) -> Value:
    size = abs(x)
    far = size > FARTHEST[lanes.single]
    quarters, sine, cosine = quarter_turns(lanes, lanes.where(far, 0.0, size))
    quarters = quarters + (1 if name == "cos" else 0)
    y = lanes.where((quarters & 1).equals(0), sine, cosine)
    flipped = quarters << (lanes.sign.bit_length() - 2)
    flipped = flipped ^ x.bits if name == "sin" else flipped
    near = (y.bits ^ (flipped & lanes.sign)).number
    return lanes.unless(far, near, lambda: lanes.where(far, lanes.far(name, lanes.where(far, x, 0.0)), near))


def sin(lanes: Lanes, x: Value) -> Value:
    return _wave(lanes, x, "sin")


def cos(lanes: Lanes, x: Value) -> Value:
    return _wave(lanes, x, "cos")


FORMULAS: dict[str, Callable[[Lanes, Value], Value]] = {
    "exp": exp, "exp2": exp2, "expm1": expm1, "tanh": tanh, "log": log, "log2": log2, "log10": log10,
    "log1p": log1p, "erf": erf, "sin": sin, "cos": cos,
}  # fmt: skip
