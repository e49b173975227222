"""The error function, and the activations that are made of it and its kin: GELU and SiLU.

NumPy has no erf.  Ours is a rational function of x², worked out in tiles that stay in the cache: NumPy's passes over an
array cost more than the arithmetic.  In float64 it is right to 1.1 units in the last place, in float32 to 3.2.
GELU and SiLU are primitives for measured speed and memory: they keep x, and what the next layer keeps anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

import numpy as np

from chainrule.backends.registry import is_numpy
from chainrule.core.primitive import primitive
from chainrule.errors import ArgumentError, explain
from chainrule.ops.arguments import as_floating
from chainrule.ops.elementwise import exp, sigmoid, tanh
from chainrule.ops.families import ELEMENTWISE, unary

_TILE = 1 << 18  # bytes; a fourth of it costs half as much again, twice as much gains nothing
_SLOPE = 2.0 / sqrt(pi)  # of erf at 0
_DENSITY = 1.0 / sqrt(2.0 * pi)  # of the normal distribution at 0
_BEND, _SCALE = 0.044715, sqrt(2.0 / pi)  # Hendrycks and Gimpel, 2016, section 2
_TINY = 1e-30

# Rational functions, the highest power first; the leading 1 of a denominator is left out.  Fitted to 50 digits by least
# squares with weights that Lawson's iteration (1961) drives towards the smallest largest error.  tests/ops/test_erf.py
# holds them against the C library's erf.
# erf(x) = x + x N(x²)/D(x²) for |x| <= 1, to 7e-19
_NEAR = (
    (-0.9962660029281407, -23.815853784053846, -423.6226183183745, -2322.393318002063, -15233.234094277392, 6169.059556082232),
    (33.27682421720686, 513.8382749857817, 4508.035571225977, 22129.21122392899, 48053.43184297593),
)  # fmt: skip
# erf(x) = 1 - exp(-x²) N(x)/D(x) for 1 <= x <= 6, to 1.3e-18; beyond, it is 1 in float64
_FAR = (
    (0.5641852060869713, 5.330079719968818, 23.61167216503946, 60.017644598587175, 87.90542275135684, 63.22295642246136),
    (9.447072955290185, 42.354364493502985, 111.06571157012974, 176.4835969599911, 159.24482304876085, 63.22296349661825),
)  # fmt: skip
# erf(x) = tanh(x (2/sqrt(pi) + x² N(x²)/D(x²))) for |x| <= 4.3, to 3.4e-9; beyond, it is 1 in float32
_SINGLE = (
    (5.573350191781557, 48.92576880344746, 315.92288927691106),
    (72.86312991286519, 482.309725394294, 3074.000826124167),
)


# ---------------------------------------------------------------- in tiles
def _quotient(fit: tuple[Any, Any], x: Any, out: Any, below: Any) -> None:
    """out = N(x)/D(x), by Horner's rule in place."""
    (first, *rest), (second, *others) = fit
    np.multiply(x, first, out)
    out += rest[0]
    for c in rest[1:]:
        out *= x
        out += c
    np.add(x, second, below)
    for c in others:
        below *= x
        below += c
    out /= below


def _erf_single(x: Any, out: Any, work: list[Any]) -> None:
    y, square, q = work[:3]
    np.clip(x, -4.3, 4.3, out=y)
    np.multiply(y, y, square)
    _quotient(_SINGLE, square, out, q)
    out *= square
    out += _SLOPE
    out *= y
    np.tanh(out, out)


def _erf_double(x: Any, out: Any, work: list[Any]) -> None:
    """Both formulas for every entry, and a sum of which one term is 0: choosing takes NumPy thirty times as long."""
    y, square, q, far = work[:4]
    np.clip(x, -6.0, 6.0, out=y)
    np.multiply(y, y, square)
    _quotient(_NEAR, square, out, q)
    out *= y
    out += y
    np.abs(y, y)
    _quotient(_FAR, y, far, q)
    np.exp(np.negative(square, square), square)
    far *= square
    np.subtract(1.0, far, far)
    far *= np.clip(x, -1.0, 1.0, out=q)  # the sign, where it matters
    is_near = np.less_equal(y, 1.0).astype(out.dtype)
    out *= is_near
    far *= np.subtract(1.0, is_near, q)
    out += far


def _in_tiles(kernel: Callable[..., None], first: Any, *more: Any) -> Any:
    """kernel(*pieces, out, work) over pieces of the arrays, which have one shape; work: arrays to write into."""
    dtype: Any = np.result_type(first, np.float32)
    dtype = np.dtype(np.float64) if dtype.char != "f" else dtype
    result: Any = first.dtype if first.dtype.kind == "f" else dtype
    flat = [np.ascontiguousarray(a, dtype).reshape(-1) for a in (first, *more)]
    size, length = flat[0].size, _TILE // dtype.itemsize
    out: Any = np.empty(size, dtype)
    work: Any = np.empty((5, min(size, length)), dtype)
    for start in range(0, size, length):
        part = slice(start, start + length)
        piece = out[part]
        kernel(*[a[part] for a in flat], piece, list(work[:, : piece.size]))
    return out.astype(result, copy=False).reshape(np.shape(first))[()]


def _erf(x: Any, out: Any, work: list[Any]) -> None:
    (_erf_single if out.dtype.char == "f" else _erf_double)(x, out, work)


def _erf_standard(xp: Any, x: Any) -> Any:
    """The same for any library."""
    y = xp.minimum(xp.abs(x), xp.full_like(x, 6.0))
    square = y * y

    def ratio(fit: tuple[Any, Any], x: Any) -> Any:
        over, under = x * 0.0, x * 0.0 + 1.0
        for c in fit[0]:
            over = over * x + c
        for c in fit[1]:
            under = under * x + c
        return over / under

    near, far = y + y * ratio(_NEAR, square), 1.0 - xp.exp(-square) * ratio(_FAR, y)
    size = xp.where(y > 1.0, far, near)
    return xp.where(x < 0, -size, size)


def _half(out: Any, x: Any) -> None:
    """out = x (1 + out) / 2."""
    out *= 0.5
    out += 0.5
    out *= x


def _gelu(x: Any, out: Any, work: list[Any]) -> None:
    _erf(np.multiply(x, sqrt(0.5), work[4]), out, work)
    _half(out, x)


def _gelu_by_tanh(x: Any, out: Any, work: list[Any]) -> None:
    np.multiply(x, x, out)
    out *= _SCALE * _BEND
    out += _SCALE
    out *= x
    np.tanh(out, out)
    _half(out, x)


def _shares(x: Any, y: Any, work: list[Any]) -> Any:
    """y / x for y = x F(x), and F(0) = 1/2 at 0: neither erf nor tanh need be worked out again."""
    share, size = work[:2]
    np.abs(y, share)
    share += 0.5 * _TINY
    np.abs(x, size)
    size += _TINY
    share /= size
    return share


def _gelu_slope(ct: Any, x: Any, y: Any, out: Any, work: list[Any]) -> None:
    """ct (F + x F'), F' the normal density."""
    share = _shares(x, y, work)
    np.multiply(x, x, out)
    out *= -0.5
    np.exp(out, out)
    out *= _DENSITY
    out *= x
    out += share
    out *= ct


def _gelu_by_tanh_slope(ct: Any, x: Any, y: Any, out: Any, work: list[Any]) -> None:
    """ct (F + x F'), F' = 2 F (1 - F) u' for F = (1 + tanh u) / 2."""
    share, rest = _shares(x, y, work), work[2]
    np.multiply(x, x, out)
    out *= 6.0 * _SCALE * _BEND
    out += 2.0 * _SCALE
    out *= x
    out *= share
    out *= np.subtract(1.0, share, rest)
    out += share
    out *= ct


_KERNELS = {"none": (_gelu, _gelu_slope), "tanh": (_gelu_by_tanh, _gelu_by_tanh_slope)}


# ---------------------------------------------------------------- records
def _gelu_rule(ct: Any, x: Any, out: Any, approximate: str) -> Any:
    if is_numpy(ct) and is_numpy(x):
        return _in_tiles(_KERNELS[approximate][1], ct, x, out)
    if approximate == "none":
        return ct * (0.5 * (1.0 + erf(x * sqrt(0.5))) + x * (exp(-0.5 * x * x) * _DENSITY))
    bent = tanh(x * (_SCALE + _SCALE * _BEND * x * x))
    slope = _SCALE + 3.0 * _SCALE * _BEND * x * x
    return ct * (0.5 * (1.0 + bent) + 0.5 * x * (1.0 - bent * bent) * slope)


def _gelu_standard(xp: Any, x: Any, approximate: str) -> Any:
    if approximate == "none":
        return x * (0.5 + 0.5 * _erf_standard(xp, x * sqrt(0.5)))
    return x * (0.5 + 0.5 * xp.tanh(x * (_SCALE + _SCALE * _BEND * x * x)))


def _silu_standard(xp: Any, x: Any) -> Any:
    share: Any = sigmoid
    return x * share.primitive.standard(xp, x)


def _silu_rule(ct: Any, x: Any) -> Any:
    share = sigmoid(x)
    return ct * (share + x * share * (1.0 - share))


erf = unary(
    "erf",
    lambda ct, x: ct * (exp(-(x * x)) * _SLOPE),
    forward=lambda x: _in_tiles(_erf, x),
    standard=_erf_standard,
    doc="The error function · 2/√π e^(-x²)",
)
gelu_of = primitive(
    "gelu",
    ELEMENTWISE,
    [_gelu_rule],
    parameters="approximate",
    forward=lambda x, approximate: _in_tiles(_KERNELS[approximate][0], x),
    standard=_gelu_standard,
    samples=lambda rng: [((rng.normal(size=(2, 3)) * 2.0,), (approximate,)) for approximate in _KERNELS],
)
silu_of = unary("silu", _silu_rule, forward=lambda x: x * sigmoid(x), standard=_silu_standard)


def gelu(input: Any, approximate: str = "none") -> Any:
    """x F(x), F the normal distribution; with `approximate` "tanh" the older formula that avoids erf.

    **Shapes** `input f[...] -> f[...]`.  **Derivative** F(x) + x F'(x).  **Raises** ArgumentError.
    **Source** Hendrycks and Gimpel, 2016.

    >>> import chainrule as cr
    >>> [round(y, 6) for y in cr.nn.gelu(cr.tensor([-1.0, 0.0, 1.0])).tolist()]
    [-0.158655, 0.0, 0.841345]
    """
    if approximate not in _KERNELS:
        raise ArgumentError(explain("gelu", f"no approximation {approximate!r}", expected="'none' or 'tanh'"))
    return gelu_of(as_floating(input), approximate)


def silu(input: Any) -> Any:
    """x sigmoid(x), also called swish.

    **Shapes** `input f[...] -> f[...]`.  **Derivative** s (1 + x (1 - s)), s = sigmoid(x).
    **Source** Elfwing, Uchibe and Doya, 2017.

    >>> import chainrule as cr
    >>> cr.nn.silu(cr.tensor([0.0, 100.0])).tolist()
    [0.0, 100.0]
    """
    return silu_of(as_floating(input))
