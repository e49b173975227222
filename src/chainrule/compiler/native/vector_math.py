"""Functions of vectors in registers, as LLVM text: exp, log, tanh ... of 1 to 32 lanes of float32 or float64.

Every formula of ours is within 3 ulp of the truth for all finite numbers, subnormal ones included (`make ulp` tries them
all; without fused multiply-add erf of float32 within 4), right at NaN, infinities and signed zeros, and sets the
processor's invalid flag where a NaN comes into being and nowhere else.  What has no formula is computed by the C library,
lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from chainrule.compiler.native import widened
from chainrule.compiler.native.formulas import FORMULAS
from chainrule.compiler.native.lanes import Lanes, Value
from chainrule.compiler.native.writer import SCALARS

C_LIBRARY: dict[str, tuple[str, int]] = {
    **{name: (name, 1) for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")},
    "power": ("pow", 2), "atan2": ("atan2", 2), "hypot": ("hypot", 2),
}  # fmt: skip
"""What float64 leaves to it: its name there, and how many arguments."""


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
    symbol = name_of(name, dtype, width)
    lanes = Lanes(symbol, dtype, width, avx512)
    x, y = lanes.argument("%x"), lanes.argument("%y")
    if name in FORMULAS:
        text = _definition(lanes, symbol, FORMULAS[name](lanes, x), 1, "alwaysinline")
    elif name in DIVISIONS:
        text = _definition(lanes, symbol, DIVISIONS[name](lanes, x, y), 2, "noinline")
    elif lanes.single and name in widened.UNARY:
        text = _definition(lanes, symbol, widened.UNARY[name](lanes, x), 1, "noinline")
    elif lanes.single and name in widened.BINARY:
        text = _definition(lanes, symbol, widened.BINARY[name](lanes, x, y), 2, "noinline")
    else:
        called, arity = C_LIBRARY[name]
        text = _definition(lanes, symbol, lanes.each(called, *(x, y)[:arity]), arity, "noinline")
    declared = frozenset(lanes.writer.declarations)
    if lanes.rare:
        called, arity = lanes.rare
        more = Lanes(symbol, dtype, width)
        result = more.each(called, *(x, y)[:arity])
        text += _definition(more, f"{symbol}_far", result, arity, "noinline cold")
        declared |= more.writer.declarations
    return text, declared


def _definition(lanes: Lanes, symbol: str, result: Value, arity: int, attributes: str) -> str:
    kind = lanes.types["f"]
    parameters = ", ".join(f"{kind} {name}" for name in ("%x", "%y")[:arity])
    body = "\n".join(lanes.writer.lines)
    head = f"define internal {kind} @{symbol}({parameters}) {attributes} nounwind"
    return f"{head} {{\nentry:\n{body}\n  ret {kind} {result.text}\n}}\n"


# ---------------------------------------------------------------- divisions
def _fmod(lanes: Lanes, x: Value, y: Value) -> Value:
    return widened.fmod(lanes, x, y) if lanes.single else lanes.each("fmod", x, y)


def _remainder(lanes: Lanes, x: Value, y: Value) -> Value:
    """With the sign of y, as Python's `%`."""
    rest = _fmod(lanes, x, y)
    # A remainder of the other sign is moved by one y; none at all takes y's sign.
    other = (rest < 0.0) ^ (y < 0.0)
    moved = lanes.where(other, rest + y, rest)
    return lanes.where(rest.equals(0.0), lanes.copy_sign(abs(rest), y), moved)


def _floor_divide(lanes: Lanes, x: Value, y: Value) -> Value:
    """floor(x / y), from the exact remainder, as Python's `//` and NumPy's; `x / y` itself where y is zero."""
    rest = _fmod(lanes, x, lanes.where(y.equals(0.0), 1.0, y))
    exact = (x - rest) / y
    other = (rest < 0.0) ^ (y < 0.0)
    exact = lanes.where(rest.equals(0.0), exact, lanes.where(other, exact - 1.0, exact))
    whole = lanes.intrinsic("floor", exact)
    whole = lanes.where(exact - whole > 0.5, whole + 1.0, whole)
    whole = lanes.where(exact.equals(0.0), lanes.copy_sign(abs(exact), x / y), whole)
    return lanes.where(y.equals(0.0), x / y, whole)


DIVISIONS: dict[str, Callable[[Lanes, Value, Value], Value]] = {"remainder": _remainder, "floor_divide": _floor_divide}
BINARY = {*DIVISIONS, *(name for name, (_, arity) in C_LIBRARY.items() if arity == 2)}
FUNCTIONS = {*FORMULAS, *C_LIBRARY, *DIVISIONS}
"""The names of all of them."""
