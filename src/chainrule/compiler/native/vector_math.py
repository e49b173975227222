"""Functions of vectors in registers, as LLVM text: exp, log, tanh ... of 1 to 32 lanes of float32 or float64.

Every one is within 3 ulp of the truth for all finite numbers, subnormal ones included (`make ulp` tries them all), right
at NaN, infinities and signed zeros, and sets the processor's invalid flag only where a NaN comes into being.  What has no
formula here is computed by the C library, lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import log, pi

import numpy as np

from chainrule.compiler.native.lanes import Lanes, Value
from chainrule.compiler.native.polynomials import POLYNOMIALS
from chainrule.compiler.native.writer import SCALARS


def name_of(name: str, dtype: str, width: int) -> str:
    """The symbol of a function, without the `@`."""
    return f"chainrule_{name}_w{width}_{SCALARS[dtype].suffix}"


def function(name: str, dtype: str, width: int, avx512: bool = False) -> str:
    """The definition, `<width x dtype> @name_of(...)(<width x dtype> %x)`; those of two arguments take a `%y` too.

    `avx512`: instructions of x86 with AVX-512 may be used; the results are the same.
    """
    return _written(name, dtype, width, avx512)[0]


def declarations(name: str, dtype: str, width: int, avx512: bool = False) -> frozenset[str]:
    """The whole `declare` lines of what the definition calls."""
    return _written(name, dtype, width, avx512)[1]


@lru_cache(maxsize=1024)
def _written(name: str, dtype: str, width: int, avx512: bool) -> tuple[str, frozenset[str]]:
    lanes = Lanes(dtype, width, avx512)
    x, y = lanes.argument("%x"), lanes.argument("%y")
    if name in FORMULAS:
        result = FORMULAS[name](lanes, x)
    elif name in DIVISIONS:
        result = DIVISIONS[name](lanes, x, y)
    else:
        result = lanes.each(C_BINARY[name], x, y) if name in C_BINARY else lanes.each(UNARY[name], x)
    kind, own = lanes.types["f"], name in FORMULAS
    parameters = f"{kind} %x, {kind} %y" if name in BINARY else f"{kind} %x"
    head = f"define internal {kind} @{name_of(name, dtype, width)}({parameters}) "
    attributes = "alwaysinline nounwind" if own else "noinline cold nounwind" if name in FAR else "noinline nounwind"
    text = f"{head}{attributes} {{\nentry:\n" + "\n".join(lanes.writer.lines) + f"\n  ret {kind} {result.text}\n}}\n"
    declared = frozenset(lanes.writer.declarations)
    if f"{name}_far" in FAR:
        more, too = _written(f"{name}_far", dtype, width, avx512)
        return text + more, declared | too
    return text, declared


def _coefficients(lanes: Lanes, name: str) -> tuple[float, ...]:
    return lanes.pick(*POLYNOMIALS[name])


# ---------------------------------------------------------------- exponentials
LN2 = {  # log(2) in two parts; the first has few bits, so that its products with exponents are exact
    True: (0.693359375, -0.00021219444005469057),
    False: (0.6931471803691238, 1.9082149292705877e-10),
}


def _reduced(lanes: Lanes, x: Value) -> tuple[Value, Value]:
    """(shifted, r): x is `n * log(2) + r` with the smallest r; the whole n stands in the low bits of `shifted`."""
    shifted = lanes.fuse(x, 1 / log(2), lanes.rounder)
    n = shifted - lanes.rounder
    high, low = LN2[lanes.single]
    return shifted, lanes.fuse(n, -low, lanes.fuse(n, -high, x))


def _power(lanes: Lanes, shifted: Value) -> Value:
    """2**n, a normal number, of the n in the low bits."""
    return ((shifted.bits << lanes.mantissa) + lanes.one).number


def _exp_less_one(lanes: Lanes, r: Value) -> Value:
    square = r * r
    return lanes.fuse(lanes.polynomial(r, _coefficients(lanes, "exp"), square), square, r)


def _scaled(lanes: Lanes, y: Value, shifted: Value) -> Value:
    """`y * 2**n`, which may overflow or be subnormal."""
    n = shifted - lanes.rounder
    if lanes.registers:
        return lanes.scale(y, n)
    # 2**n itself may be no normal number: first by about half of its exponent, then by the rest.
    half = lanes.fuse(n, 0.5, lanes.rounder)
    rest = (shifted.bits << lanes.mantissa) - (half.bits << lanes.mantissa) + lanes.one
    return y * _power(lanes, half) * rest.number


def _exp(lanes: Lanes, x: Value) -> Value:
    # Beyond the bounds the result overflows to infinity or is rounded to 0 by itself.
    x = lanes.at_most(lanes.pick(89.0, 710.0), lanes.at_least(lanes.pick(-104.0, -746.0), x))
    shifted, r = _reduced(lanes, x)
    return _scaled(lanes, _exp_less_one(lanes, r) + 1.0, shifted)


def _power_of_two(lanes: Lanes, x: Value) -> tuple[Value, Value]:
    """(shifted, y): 2**x is `2**n * y` of the n in the low bits of `shifted`."""
    shifted = x + lanes.rounder
    r = x - (shifted - lanes.rounder)
    return shifted, lanes.fuse(lanes.polynomial(r, _coefficients(lanes, "exp2")), r, 1.0)


def _exp2(lanes: Lanes, x: Value) -> Value:
    x = lanes.at_most(lanes.pick(129.0, 1025.0), lanes.at_least(lanes.pick(-151.0, -1076.0), x))
    shifted, y = _power_of_two(lanes, x)
    return _scaled(lanes, y, shifted)


def _expm1(lanes: Lanes, x: Value) -> Value:
    held = lanes.at_most(lanes.pick(89.0, 710.0), lanes.at_least(lanes.pick(-20.0, -40.0), x))
    shifted, r = _reduced(lanes, held)
    scale = _power(lanes, shifted - 1.0)  # half of it: 2**n may be too large
    y = lanes.fuse(_exp_less_one(lanes, r), scale, scale - 0.5) * 2.0
    return lanes.where(abs(x) < lanes.pick(2.0**-26, 2.0**-55), x, y)  # halves of tiny numbers are not exact


def _tanh(lanes: Lanes, x: Value) -> Value:
    """With e = exp(2|x|) - 1, it is e / (e + 2)."""
    size = abs(x)
    shifted, r = _reduced(lanes, lanes.at_most(lanes.pick(20.0, 40.0), size + size))
    scale = _power(lanes, shifted)
    e = lanes.fuse(_exp_less_one(lanes, r), scale, scale - 1.0)
    return lanes.copy_sign(e / (e + 2.0), x)


# ---------------------------------------------------------------- logarithms
def _split(lanes: Lanes, x: Value) -> tuple[Value, Value, Value]:
    """(e, f) of normal x > 0: x is `2**e * (1 + f)`, sqrt(1/2) <= 1 + f < sqrt(2); and e as the bits of 2**e hold it."""
    root = lanes.pick(0x3F3504F3, 0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
    raised = x.bits + (lanes.one - root)
    f = ((raised & ((1 << lanes.mantissa) - 1)) + root).number - 1.0
    # An integer in the low bits of 2**mantissa becomes a float by one subtraction.
    whole = 2.0**lanes.mantissa
    e = ((raised >> lanes.mantissa) | lanes.constant(whole, "f").bits).number - (whole + lanes.bias)
    return e, f, raised & -(1 << lanes.mantissa)


def _natural(lanes: Lanes, e: Value, f: Value) -> Value:
    """`e * log(2) + log(1 + f)`."""
    high, low = LN2[lanes.single]
    square = f * f
    tail = lanes.polynomial(f, _coefficients(lanes, "log"), square) * (square * f)
    tail = lanes.fuse(square, -0.5, lanes.fuse(e, low, tail))
    return lanes.fuse(e, high, f + tail)


def _ends(lanes: Lanes, x: Value, y: Value, end: float) -> Value:
    """y, a logarithm; but -inf where x is `end`, and below it a NaN that comes into being here, with the invalid flag."""
    return lanes.where(x <= end, -np.inf, y) + lanes.where(x < end, np.inf, -0.0)


def _of_positive(lanes: Lanes, x: Value, combined: Callable[[Value, Value], Value]) -> Value:
    """A logarithm of x from its e and f."""
    e, f, _ = _split(lanes, x)
    smallest = 1 << lanes.mantissa  # normal; by bits, negative numbers and NaN are beyond infinity
    special = x.bits - smallest > lanes.constant(np.inf, "f").bits - (smallest + 1)
    return lanes.unless(special, combined(e, f), lambda: _of_any(lanes, x, combined))


def _of_any(lanes: Lanes, x: Value, combined: Callable[[Value, Value], Value]) -> Value:
    small = x < lanes.pick(2.0**-126, 2.0**-1022)
    digits = lanes.mantissa + 1.0
    e, f, _ = _split(lanes, lanes.where(small, x * 2.0**digits, x))
    y = combined(e - lanes.where(small, digits, 0.0), f)
    return _ends(lanes, x, lanes.where(x < np.inf, y, x), 0.0)


def _log(lanes: Lanes, x: Value) -> Value:
    return _of_positive(lanes, x, lambda e, f: _natural(lanes, e, f))


def _log2(lanes: Lanes, x: Value) -> Value:
    return _of_positive(lanes, x, lambda e, f: lanes.fuse(lanes.polynomial(f, _coefficients(lanes, "log2")), f, f) + e)


def _log10(lanes: Lanes, x: Value) -> Value:
    high, low = lanes.pick((0.30078125, 2.4874566398119521e-04), (0.30102999566361177, 3.6942390771589308e-13))

    def combined(e: Value, f: Value) -> Value:
        tail = lanes.fuse(lanes.polynomial(f, _coefficients(lanes, "log10")), f, f * 0.5)
        return lanes.fuse(e, high, lanes.fuse(e, low, tail))

    return _of_positive(lanes, x, combined)


def _log1p(lanes: Lanes, x: Value) -> Value:
    """1 + x is rounded to u; what that lost is added to f."""
    largest = float(np.finfo(lanes.dtype).max)
    held = lanes.at_most(largest, lanes.at_least(lanes.pick(-1 + 2.0**-24, -1 + 2.0**-53), x))
    u = held + 1.0
    back = u - 1.0
    lost = (1.0 - (u - back)) + (held - back)
    e, f, stored = _split(lanes, u)
    # 2**-e, in two factors: it may be too small
    scale = (lanes.constant((2 * lanes.bias + 1) << lanes.mantissa, "i") - stored).number
    y = _natural(lanes, e, lanes.fuse(lost * 0.5, scale, f))
    y = lanes.where(abs(x) < lanes.pick(2.0**-26, 2.0**-55), x, y)
    inside = (x > -1.0) & (x < np.inf)
    return lanes.unless(~inside, y, lambda: _ends(lanes, x, lanes.where(x < np.inf, y, x), -1.0))


# ---------------------------------------------------------------- erf
def _erf(lanes: Lanes, x: Value) -> Value:
    size = lanes.at_most(lanes.pick(3.82, 5.95), abs(x))
    square = size * size
    if lanes.single:  # one polynomial does for all
        t, coefficients = lanes.fuse(square, 0.16, -1.0), _coefficients(lanes, "erf")
        y = lanes.horner(t, coefficients[:9], lanes.polynomial(t, coefficients[9:]))
        return lanes.copy_sign(lanes.at_most(1.0, lanes.fuse(y, size, size * 0.5)), x)
    inner = lanes.fuse(lanes.polynomial(square, _coefficients(lanes, "erf")), size, size)
    exponent = lanes.fuse(square, 1 / log(2), lanes.polynomial(size - 3.375, _coefficients(lanes, "erfc")))
    shifted, rest = _power_of_two(lanes, -exponent)
    outer = lanes.fuse(-rest, _power(lanes, shifted), 1.0)
    return lanes.copy_sign(lanes.where(size < 1.0, inner, outer), x)


# ---------------------------------------------------------------- sin and cos
HALF_PI = {  # pi / 2 in parts; all but the last have so few bits that their products with whole numbers are exact
    True: (1.5703125, 0.0004837512969970703, 7.549533620476723e-08, 2.5632829192545614e-12, 6.123233601181349e-17),
    False: (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32),
}
FARTHEST = {True: 6000.0, False: 1.0e6}
"""Beyond it the parts of pi / 2 do not suffice."""


def _wave(lanes: Lanes, x: Value, name: str) -> Value:
    size = abs(x)
    far = size > FARTHEST[lanes.single]
    r = lanes.where(far, 0.0, size)
    shifted = lanes.fuse(r, 2 / pi, lanes.rounder)
    turns = shifted - lanes.rounder
    for part in HALF_PI[lanes.single]:
        r = lanes.fuse(turns, -part, r)
    square = r * r
    sine = lanes.fuse(lanes.polynomial(square, _coefficients(lanes, "sin")), square * r, r)
    cosine = lanes.polynomial(square, _coefficients(lanes, "cos"))
    cosine = lanes.fuse(cosine, square * square, lanes.fuse(square, -0.5, 1.0))
    quarter = shifted.bits + (1 if name == "cos" else 0)
    y = lanes.where((quarter & 1).equals(0), sine, cosine)
    flipped = quarter << (lanes.sign.bit_length() - 2)
    flipped = flipped ^ x.bits if name == "sin" else flipped
    near = (y.bits ^ (flipped & lanes.sign)).number
    return lanes.unless(far, near, lambda: lanes.where(far, _far(lanes, lanes.where(far, x, 0.0), name), near))


def _far(lanes: Lanes, x: Value, name: str) -> Value:
    """By the C library, in a function of its own."""
    kind = lanes.types["f"]
    return lanes.write(f"call {kind} @{name_of(f'{name}_far', lanes.dtype, lanes.width)}({kind} {x.text})", "f")


def _sin(lanes: Lanes, x: Value) -> Value:
    return _wave(lanes, x, "sin")


def _cos(lanes: Lanes, x: Value) -> Value:
    return _wave(lanes, x, "cos")


FORMULAS: dict[str, Callable[[Lanes, Value], Value]] = {
    "exp": _exp, "exp2": _exp2, "expm1": _expm1, "tanh": _tanh, "log": _log, "log2": _log2, "log10": _log10,
    "log1p": _log1p, "erf": _erf, "sin": _sin, "cos": _cos,
}  # fmt: skip

# ---------------------------------------------------------------- by the C library
FAR: dict[str, str] = {"sin_far": "sin", "cos_far": "cos"}
"""What `sin` and `cos` call for numbers beyond FARTHEST."""
UNARY: dict[str, str] = {
    **FAR,
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
BINARY = {*C_BINARY, *DIVISIONS}
FUNCTIONS = {*FORMULAS, *UNARY, *BINARY} - {*FAR}
"""The names of all of them."""
