"""Derivatives that owe nothing to the engine: central differences, and the complex step where a function takes it.

The complex step is exact to rounding: f(x + ih) = f(x) + ih f'(x) + O(h²), and no difference is taken, so h may be tiny.
**Source** W. Squire and G. Trapp, "Using complex variables to estimate derivatives of real functions", SIAM Review 40 (1998).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Arrays = list[Any]
ArrayFunction = Callable[..., Arrays]
"""From arrays to a list of arrays."""


def is_real(array: Any) -> bool:
    """Whether an array, of any library, holds floating-point numbers."""
    return "float" in str(array.dtype)


def grain(arrays: Sequence[Any]) -> float:
    """The relative precision of the narrowest floating arrays among these."""
    return max((float(np.finfo(a.dtype).eps) for a in arrays if a is not None and is_real(a)), default=2.2e-16)


def directional(f: ArrayFunction, xs: Arrays, ts: Arrays) -> tuple[Arrays, float]:
    """The derivative of `f` along `ts` by central differences of fourth order, and how well it is known."""
    with np.errstate(all="ignore"):
        eps = grain([*f(*xs), *xs])
        step = 0.2 * eps**0.2  # where truncation (step⁴) and rounding (eps / step) are about equal

        def at(k: float) -> Arrays:
            outs = f(*[np.asarray(x + k * step * t) for x, t in zip(xs, ts, strict=True)])
            return [np.asarray(out, np.float64) for out in outs]

        steps = zip(at(-1), at(1), at(-2), at(2), strict=True)
        slopes = [(8.0 * (b - a) - (d - c)) / (12.0 * step) for a, b, c, d in steps]
    return slopes, 1e-8 if eps < 1e-15 else 300.0 * eps


def complex_step(f: ArrayFunction, xs: Arrays, ts: Arrays) -> Arrays | None:
    """The derivative along `ts`; None where `f` refuses complex numbers or loses their imaginary part."""
    tiny = 1e-30
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            outs = f(*[np.asarray(x + 1j * tiny * t) for x, t in zip(xs, ts, strict=True)])
    except (TypeError, ValueError, np.exceptions.ComplexWarning):
        return None
    return [out.imag / tiny for out in outs] if outs and all(out.dtype.kind == "c" for out in outs) else None


def slopes(f: ArrayFunction, xs: Arrays, ts: Arrays) -> tuple[Arrays, float]:
    """The derivative along `ts` by the better method, and how well it is known.

    The complex step counts only where differences confirm it: abs and maximum take complex numbers and are not
    analytic.
    """
    rough, tolerance = directional(f, xs, ts)
    sharp = complex_step(f, xs, ts) if tolerance == 1e-8 else None
    if sharp is not None and all(close(a, b, 1e-7) for a, b in zip(sharp, rough, strict=True)):
        return sharp, 1e-13
    return rough, tolerance


def basis(
    xs: Arrays, most: int | None = None, rng: np.random.Generator | None = None
) -> Iterator[tuple[int, Any, Arrays]]:
    """(argument, entry, direction) for every entry, or for `most` of each argument, drawn by `rng`."""
    for k, x in enumerate(xs):
        entries: list[tuple[int, ...]] = list(np.ndindex(x.shape))
        if most is not None and rng is not None and len(entries) > most:
            entries = [entries[i] for i in rng.choice(len(entries), most, replace=False)]
        for entry in entries:
            direction = [np.zeros(y.shape, y.dtype) for y in xs]
            direction[k][entry] = 1.0
            yield k, entry, direction


def inner(us: Sequence[Any], vs: Sequence[Any]) -> float:
    """The inner product of two lists of arrays; a missing one counts as zero."""
    pairs = [(u, v) for u, v in zip(us, vs, strict=True) if u is not None and v is not None]
    return float(sum(np.sum(np.multiply(u, v, dtype=np.float64)) for u, v in pairs))


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Equal in shape, and to `tolerance`, relative to the larger of 1 and the largest entry of `b`."""
    a, b = np.asarray(a), np.asarray(b)
    scale = max(1.0, float(np.max(np.abs(b), initial=0.0)))
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= tolerance * scale))
