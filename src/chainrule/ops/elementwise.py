"""Elementwise operations: one statement each, `name`, then a rule per input.

At kinks: abs, sign and relu have slope 0 at 0; maximum and minimum share evenly among ties; clip has slope 1 at its
bounds.  `None` says on purpose that an input gets no gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_numpy_dtype
from chainrule.core.calls import PYTHON_NUMBERS, is_tensor, is_weak, raw
from chainrule.core.primitive import PASS, primitive
from chainrule.core.template import late
from chainrule.ops.families import ABOVE_ONE, ELEMENTWISE, NONZERO, POSITIVE, REAL, UNIT, binary, unary


def _bits(_: np.random.Generator) -> list[Any]:
    return [((np.array([True, False, True, False]), np.array([True, True, False, False])), ())]


def _bit(_: np.random.Generator) -> list[Any]:
    return [((np.array([True, False, True, False]),), ())]


_zeros: dict[Any, Any] = {}


def _zero(x: Any) -> Any:
    """A 0-d zero of x's dtype, made once: half the time of a Python number as an operand."""
    zero = _zeros.get(x.dtype)
    if zero is None:
        zero = _zeros[x.dtype] = np.zeros((), x.dtype)
    return zero


def _relu(x: Any) -> Any:
    """max(x, 0).  NumPy's loop is vectorised for two arrays, not for a number and an array: 0.4 against 2.7 us for
    3,200 entries; so small arrays meet zeros of their own shape, made once, and large ones are clipped.
    """
    if x.size > 1 << 15:
        return np.clip(x, _zero(x), _INF) if x.dtype.kind == "f" else np.maximum(x, _zero(x))
    key = (x.shape, x.dtype)
    zeros = _zeros.get(key)
    if zeros is None:
        if len(_zeros) > 64:
            _zeros.clear()
        zeros = _zeros[key] = np.zeros(x.shape, x.dtype)
    return np.maximum(x, zeros)


def _gate(x: Any, y: Any) -> Any:
    """x times 1 or 0, written over the ones and zeros: a selection takes five times as long where signs are mixed."""
    out = np.greater(y, _zero(y)).astype(x.dtype)
    return np.multiply(out, x, out) if x.ndim and out.shape == x.shape else out * x


# fmt: off
# ---------------------------------------------------------------- arithmetic
square = unary("square", lambda ct, x: (ct + ct) * x, flat=True, doc="x² · 2x")
add = binary("add", PASS, PASS, doc="x + y · 1 and 1")
subtract = binary("subtract", PASS, lambda ct: -ct, doc="x - y · 1 and -1")
multiply = binary("multiply", lambda ct, y: ct * y, lambda ct, x: ct * x, same=square, doc="x * y · y and x")
divide = binary("divide", lambda ct, y: ct / y, lambda ct, out, y: -(ct * out / y), domain=(REAL, NONZERO),
                doc="x / y · 1/y and -x/y²")
remainder = binary("remainder", PASS, lambda ct, x, y: -(ct * floor(x / y)), domain=(REAL, NONZERO),
                   doc="x modulo y, with the sign of y · 1 and -floor(x/y)")
floor_divide = binary("floor_divide", None, None, domain=(REAL, NONZERO), doc="The floor of x / y · none")
negative = unary("negative", lambda ct: -ct, doc="-x · -1")
positive = unary("positive", PASS, doc="+x, a copy · 1")
reciprocal = unary("reciprocal", lambda ct, out: -(ct * out * out), domain=NONZERO, doc="1 / x · -1/x²")
sqrt = unary("sqrt", lambda ct, out: ct / (out + out), domain=POSITIVE, doc="The square root · 1/(2√x)")
abs = unary("abs", lambda ct, x: ct * sign(x), domain=NONZERO, flat=True, doc="|x| · sign(x), so 0 at 0")
sign = unary("sign", None, domain=NONZERO, doc="-1, 0 or 1 · none")
hypot = binary("hypot", lambda ct, x, out: x * quotient_by_norm(ct, out),
               lambda ct, y, out: y * quotient_by_norm(ct, out), domain=(NONZERO, NONZERO),
               doc="√(x² + y²), without overflow · x/out and y/out, 0 at the origin")
power_by = primitive("power_by", ELEMENTWISE, [lambda ct, x, exponent: _power_slope(ct, x, exponent)], doc="x to a constant power; `pow` comes here for Python numbers · n x^(n-1)",
                     parameters="exponent",
                     forward=lambda x, exponent: x ** exponent, standard=lambda xp, x, exponent: x ** exponent, domain=(POSITIVE,),
                     samples=lambda rng: [((rng.uniform(0.4, 2.0, (2, 3)),), (n,)) for n in (3, -1.0, 2.5, 1, 0)])
pow_arrays = binary("pow", lambda ct, x, y: ct * _power_by_base(x, y),
                    lambda ct, x, y, out: ct * (out * log(where(logical_and(x == 0, y >= 0), 1.0, x))),
                    forward=np.power, domain=(POSITIVE, REAL),
                    doc="x to the power y, for arrays; see `pow` · y x^(y-1) and x^y log x")
power_of_numbers = binary("power_of_numbers", lambda ct, x, y: ct * _power_by_base(x, y), lambda ct, x, out: ct * (out * log(x)), forward=lambda x, y: x[()] ** y[()], standard=lambda xp, x, y: xp.pow(x, y),
                          domain=(POSITIVE, REAL), doc="x to the power y of what stands for Python's numbers, to the bit as Python has it · y x^(y-1) and x^y log x")

# ---------------------------------------------------------------- exponentials and logarithms
exp = unary("exp", lambda ct, out: ct * out, doc="e to the power x · out")
exp2 = unary("exp2", lambda ct, out: ct * (out * _LN2), standard=lambda xp, x: xp.exp(x * _LN2),
             doc="2 to the power x · out log 2")
expm1 = unary("expm1", lambda ct, out: ct * (out + 1.0), doc="e^x - 1, exact for small x · out + 1")
log = unary("log", lambda ct, x: ct / x, domain=POSITIVE, doc="The natural logarithm · 1/x")
log1p = unary("log1p", lambda ct, x: ct / (x + 1.0), domain=POSITIVE, doc="log(1 + x), exact for small x · 1/(1+x)")
log2 = unary("log2", lambda ct, x: ct / (x * _LN2), domain=POSITIVE, doc="The logarithm to base 2 · 1/(x log 2)")
log10 = unary("log10", lambda ct, x: ct / (x * _LN10), domain=POSITIVE, doc="The logarithm to base 10 · 1/(x log 10)")
logaddexp = binary("logaddexp", lambda ct, x, out: ct * exp(x - out), lambda ct, y, out: ct * exp(y - out),
                   doc="log(e^x + e^y), without overflow · e^(x-out) and e^(y-out)")

# ---------------------------------------------------------------- trigonometry
sin = unary("sin", lambda ct, x: ct * cos(x), doc="The sine of x radians · cos x")
cos = unary("cos", lambda ct, x: -(ct * sin(x)), doc="The cosine of x radians · -sin x")
tan = unary("tan", lambda ct, out: ct + ct * out * out, domain=UNIT, doc="The tangent of x radians · 1 + out²")
asin = unary("asin", lambda ct, x: ct / sqrt(1.0 - x * x), forward=np.arcsin, domain=UNIT,
             doc="The inverse sine, in radians · 1/√(1-x²)")
acos = unary("acos", lambda ct, x: -(ct / sqrt(1.0 - x * x)), forward=np.arccos, domain=UNIT,
             doc="The inverse cosine, in radians · -1/√(1-x²)")
atan = unary("atan", lambda ct, x: ct / (x * x + 1.0), forward=np.arctan, doc="The inverse tangent, in radians · 1/(1+x²)")
atan2 = binary("atan2", lambda ct, x, y: ct * _part_of_circle(y, x), lambda ct, x, y: -(ct * _part_of_circle(x, y)),
               forward=np.arctan2, domain=(NONZERO, NONZERO),
               doc="The angle of the point (y, x), in radians; the first argument is the ordinate · y/(x²+y²) and -x/(x²+y²)")
sinh = unary("sinh", lambda ct, x: ct * cosh(x), doc="The hyperbolic sine · cosh x")
cosh = unary("cosh", lambda ct, x: ct * sinh(x), doc="The hyperbolic cosine · sinh x")
tanh = unary("tanh", lambda ct, out: ct - ct * out * out, doc="The hyperbolic tangent · 1 - out²")
asinh = unary("asinh", lambda ct, x: ct / hypot(x, 1.0), forward=np.arcsinh, doc="The inverse hyperbolic sine · 1/√(x²+1)")
acosh = unary("acosh", lambda ct, x: ct / (sqrt(x - 1.0) * sqrt(x + 1.0)), forward=np.arccosh, domain=ABOVE_ONE,
              doc="The inverse hyperbolic cosine · 1/√(x²-1)")
atanh = unary("atanh", lambda ct, x: ct / (1.0 - x * x), forward=np.arctanh, domain=UNIT,
              doc="The inverse hyperbolic tangent · 1/(1-x²)")

# ---------------------------------------------------------------- of machine learning: primitives, because stable only as a whole
sigmoid = unary("sigmoid", lambda ct, out: ct * (out - out * out), forward=lambda x: _sigmoid(np, x), standard=lambda xp, x: _sigmoid(xp, x),
                doc="1 / (1 + e^-x), without overflow · out (1 - out)")
log_sigmoid = unary("log_sigmoid", lambda ct, x: ct * sigmoid(-x), forward=lambda x: -np.logaddexp(-x, _zero(x)),
                    standard=lambda xp, x: -_softplus(xp, -x), doc="log(sigmoid(x)), without overflow · sigmoid(-x)")
softplus = unary("softplus", lambda ct, x: ct * sigmoid(x), forward=lambda x: np.logaddexp(x, _zero(x)), standard=lambda xp, x: _softplus(xp, x),
                 doc="log(1 + e^x), without overflow · sigmoid(x)")
relu = unary("relu", lambda ct, out: gate(ct, out), forward=_relu, domain=NONZERO, flat=True,
             standard=lambda xp, x: xp.maximum(x, xp.zeros_like(x)), doc="max(x, 0) · 1 for x > 0, otherwise 0, at 0 too")
gate = binary("gate", lambda ct, y: gate(ct, y), None, forward=_gate, standard=lambda xp, x, y: x * xp.astype(y > 0, x.dtype),
              domain=(REAL, NONZERO), doc="x where y > 0, otherwise 0 times x · 1 for y > 0, otherwise 0; none")
sinc_slope = primitive("sinc_slope", ELEMENTWISE, [lambda ct, x, order: ct * sinc_slope(x, order + 1)], doc="The derivative of `sinc` of a given order · the next order",
                     parameters="order",
                       forward=lambda x, order: _sinc(np, x, order), standard=lambda xp, x, order: _sinc(xp, x, order),
                       samples=lambda rng: [((rng.uniform(-2.0, 2.0, (2, 3)),), (n,)) for n in (0, 1, 2)])

# ---------------------------------------------------------------- selections
where = primitive("where", ELEMENTWISE, [None, lambda ct, condition: where(condition, ct, 0.0), lambda ct, condition: where(condition, 0.0, ct)], doc="x where `condition` holds, otherwise y · 1 where it is chosen, 0 elsewhere, whatever the other branch holds, NaN included",
                     inputs="condition x y", hides=True,
                  samples=lambda rng: [((rng.random((2, 3)) > 0.5, rng.normal(size=(2, 3)), rng.normal(size=3)), ())])
maximum = binary("maximum", lambda ct, x, y: ct * share_of_win(x, y), lambda ct, x, y: ct * share_of_win(y, x),
                 doc="The larger of x and y; NaN if either is · 1 for the larger; ties share evenly")
minimum = binary("minimum", lambda ct, x, y: ct * share_of_win(y, x), lambda ct, x, y: ct * share_of_win(x, y),
                 doc="The smaller of x and y; NaN if either is · 1 for the smaller; ties share evenly")
share_of_win = binary("share_of_win", None, None, forward=lambda x, y: ((x > y) + 0.5 * (x == y)).astype(np.result_type(x, y)),
                      standard=lambda xp, x, y: xp.astype(x > y, x.dtype) + 0.5 * xp.astype(x == y, x.dtype),
                      doc="1 where x > y, 1/2 at ties, otherwise 0 · none")
at_least = binary("at_least", lambda ct, x, y: where(x >= y, ct, 0.0), lambda ct, x, y: where(x < y, ct, 0.0), forward=np.maximum, standard=lambda xp, x, y: xp.maximum(x, y),
                  doc="max(x, y), with the whole slope on x at ties · 1 where x ≥ y, and 1 where x < y")
at_most = binary("at_most", lambda ct, x, y: where(x <= y, ct, 0.0), lambda ct, x, y: where(x > y, ct, 0.0), forward=np.minimum, standard=lambda xp, x, y: xp.minimum(x, y),
                 doc="min(x, y), with the whole slope on x at ties · 1 where x ≤ y, and 1 where x > y")
copysign = binary("copysign", lambda ct, x, y: ct * (sign(x) * copysign(1.0, y)), None, domain=(NONZERO, NONZERO),
                  doc="|x| with the sign of y · sign(x) sign(y), and none")

# ---------------------------------------------------------------- no gradient, on purpose
floor = unary("floor", None, doc="The largest integer not above x · none")
ceil = unary("ceil", None, doc="The smallest integer not below x · none")
trunc = unary("trunc", None, doc="The integer next to x towards 0 · none")
round = unary("round", None, forward=np.rint, doc="The integer nearest to x; halves go to the even one · none")
signbit = unary("signbit", None, doc="Whether the sign bit is set, also of -0.0 · none")
isnan = unary("isnan", None, doc="Whether x is NaN · none")
isinf = unary("isinf", None, doc="Whether x is infinite · none")
isfinite = unary("isfinite", None, doc="Whether x is finite · none")
equal = binary("equal", None, None, doc="x == y · none")
not_equal = binary("not_equal", None, None, doc="x != y · none")
less = binary("less", None, None, doc="x < y · none")
less_equal = binary("less_equal", None, None, doc="x <= y · none")
greater = binary("greater", None, None, doc="x > y · none")
greater_equal = binary("greater_equal", None, None, doc="x >= y · none")
logical_and = binary("logical_and", None, None, samples=_bits, doc="x and y, as truth values · none")
logical_or = binary("logical_or", None, None, samples=_bits, doc="x or y, as truth values · none")
logical_xor = binary("logical_xor", None, None, samples=_bits, doc="Either x or y, as truth values · none")
logical_not = unary("logical_not", None, samples=_bit, doc="not x, as a truth value · none")
bitwise_and = binary("bitwise_and", None, None, samples=_bits, doc="x & y · none")
bitwise_or = binary("bitwise_or", None, None, samples=_bits, doc="x | y · none")
bitwise_xor = binary("bitwise_xor", None, None, samples=_bits, doc="x ^ y · none")
bitwise_invert = unary("bitwise_invert", None, forward=np.invert, samples=_bit, doc="~x · none")
# fmt: on

_INF = np.inf
_LN2 = 0.6931471805599453  # the double nearest to log(2)
_LN10 = 2.302585092994046  # the double nearest to log(10)


def _sigmoid(xp: Any, x: Any) -> Any:
    """e^min(x, 0) / (1 + e^-|x|), without overflow and with small values to full relative accuracy.

    NumPy takes less time for two exponentials than for choosing between two quotients.
    """
    if xp is np and x.dtype.kind == "u":  # of which nothing is negative
        x = x.astype(np.result_type(x.dtype, np.float16))
    below = xp.minimum(x, xp.zeros_like(x)) if x.size < 1 << 14 or xp is not np else np.clip(x, -_INF, _zero(x))
    return xp.exp(below) / (xp.exp(-xp.abs(x)) + 1.0)


def _softplus(xp: Any, x: Any) -> Any:
    return xp.logaddexp(x, xp.zeros_like(x))


def _sinc(xp: Any, x: Any, order: int) -> Any:
    """The derivative of sin(pi x) / (pi x) of any order.

    Around 0 by its power series; elsewhere from x f = sin(pi x) / pi, differentiated n times:
    x f_n + n f_(n-1) = h_n.
    """
    near = xp.abs(x) < 1.0
    inside, outside = xp.where(near, x, xp.zeros_like(x)), xp.where(near, xp.ones_like(x), x)
    series = xp.zeros_like(x)
    for k in range(18 + order // 2, (order + 1) // 2 - 1, -1):  # sum of (-1)^k pi^2k x^(2k-n) (2k)!/((2k-n)!(2k+1)!)
        factor = (-1.0) ** k * np.pi ** (2 * k) / (2 * k + 1)
        for j in range(1, 2 * k - order + 1):
            factor /= j
        series = series + factor * inside ** (2 * k - order)
    f = xp.sin(np.pi * outside) / (np.pi * outside)
    for n in range(1, order + 1):
        slope = (xp.sin, xp.cos, xp.sin, xp.cos)[n % 4](np.pi * outside) * (1, 1, -1, -1)[n % 4]
        f = (slope * np.pi ** (n - 1) - n * f) / outside
    return xp.where(near, series, f)


def quotient_by_norm(ct: Any, out: Any) -> Any:
    """ct / out for a norm `out`; where both vanish the limit, where only `out` does 0.  See `norms`."""
    vanishes = equal(raw(out), 0.0)
    quotient = where(vanishes, 0.0, ct / where(vanishes, 1.0, out))
    limit = late("slope_of")(ct, out) if is_tensor(ct) and is_tensor(out) else None
    return quotient if limit is None else where(logical_and(vanishes, equal(raw(ct), 0.0)), limit, quotient)


def _part_of_circle(x: Any, y: Any) -> Any:
    """x / (x² + y²), where the squares may overflow or vanish."""
    r = hypot(x, y)
    return x / r / r


def _power_slope(ct: Any, x: Any, exponent: float) -> Any:
    if exponent == 0:
        return ct * 0.0
    return ct if exponent == 1 else ct * (pow(x, exponent - 1) * exponent)


def _power_by_base(x: Any, y: Any) -> Any:
    """y x^(y-1), and 0 for 0^0 alone: at x != 0 the product must keep its slope in y, which is 1/x at y = 0."""
    both = logical_and(x == 0, y == 0)
    return y * pow_arrays(where(both, 1.0, x), y - 1.0)


def pow(x: Any, y: Any) -> Any:
    """x to the power y.

    **Shapes** `x f[...], y f[...] -> f[...]`, broadcast.  **Derivative** y x^(y-1) and x^y log x, the latter 0 at
    x = 0 for y >= 0.  A Python number as exponent takes the short way, where a negative base is no trouble.

    >>> import chainrule as cr
    >>> cr.grad(lambda x: cr.pow(x, 3))(-2.0)
    12.0
    """
    if (
        type(y) in PYTHON_NUMBERS and type(x) not in PYTHON_NUMBERS
    ):  # of two Python numbers NumPy's scalar, as elsewhere
        if modes.unusual and is_weak(x):
            return power_of_numbers(x, y)
        return square(x) if y == 2 else power_by(x, y)
    if modes.unusual and isinstance(y, Abstract) and is_weak(x) and is_weak(y):
        return power_of_numbers(x, y)
    return pow_arrays(*_of_one_dtype(x, y))


def _of_one_dtype(x: Any, y: Any) -> tuple[Any, Any]:
    """Both in their common dtype: log x of an int8 would be a float16, and y - 1 of one a float64."""
    a: Any = getattr(x, "dtype", None)
    b: Any = getattr(y, "dtype", None)
    if a is b or is_weak(x) or is_weak(y) or not (is_numpy_dtype(a) and is_numpy_dtype(b)):
        return x, y
    from chainrule.ops.views import cast

    common: Any = np.result_type(a, b)
    return x if a == common else cast(x, common), y if b == common else cast(y, common)


def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """x, not below `min` and not above `max`; either may be None.

    **Shapes** all broadcast.  **Derivative** 1 within the bounds, the bounds included, and 0 outside.

    >>> import chainrule as cr
    >>> cr.grad(lambda x: cr.clip(x, 0.0, 1.0))(1.0)
    1.0
    """
    if min is None and max is None:
        return positive(x)
    if min is not None:
        x = at_least(x, min)
    return x if max is None else at_most(x, max)


def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), and 1 at 0, where every derivative is right as well.

    **Shapes** `x f[...] -> f[...]`.

    >>> import chainrule as cr
    >>> cr.grad(cr.sinc)(0.0)
    0.0
    """
    return sinc_slope(x, 0)
