"""How exact the vector functions of native code are: `make ulp` prints this.

float32: every number there is, against float64.  float64: millions of numbers of every size and where functions are
hard, against `np.longdouble`, which must be wider than float64 for that (on x86 it is).  A function that gives NaN, an
infinity or a sign where the truth has none counts as infinitely wrong.
"""

import argparse
import ctypes
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf

from chainrule.compiler.native import widened
from chainrule.compiler.native.formulas import FORMULAS
from chainrule.compiler.native.machine import Code, compile_text, machine
from chainrule.compiler.native.vector_math import declarations, function, name_of
from chainrule.compiler.native.writer import SCALARS, typed

Array = np.ndarray[Any, Any]
AT_MOST = 3.0  # ulp, of every function
CHUNK = 1 << 14  # so many numbers stay in the cache from one operation to the next
THREADS = os.cpu_count() or 1


class Worst(NamedTuple):
    """The largest error of a function, in ulp, and where."""

    ulp: float
    at: float
    tried: int


# ---------------------------------------------------------------- what is measured
class Compiled:
    """A vector function on whole arrays, in steps of `width` (0: the machine's); `fused=False`: without fused products,
    `avx512=False`: without what is only for AVX-512.
    """

    def __init__(self, name: str, dtype: str, width: int = 0, fused: bool = True, avx512: bool = True) -> None:
        self.dtype = np.dtype(dtype)
        self.width = width or machine().vector_bytes // self.dtype.itemsize
        one, kind = SCALARS[dtype].llvm, typed(SCALARS[dtype].llvm, self.width)
        attribute = "" if fused else ' "target-features"="-fma"'
        text = f"""
define void @run(ptr %x, ptr %y, i64 %n){attribute} {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %from = getelementptr {one}, ptr %x, i64 %i
  %to = getelementptr {one}, ptr %y, i64 %i
  %value = load {kind}, ptr %from, align 4
  %result = call {kind} @{name_of(name, dtype, self.width)}({kind} %value)
  store {kind} %result, ptr %to, align 4
  %next = add i64 %i, {self.width}
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
        key = name, dtype, self.width, fused and avx512 and machine().vector_bytes == 64
        whole = function(*key).replace(" nounwind {", f" nounwind{attribute} {{")
        self._code = Code(compile_text("\n".join([*sorted(declarations(*key)), whole, text])))
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self._run = ctypes.CFUNCTYPE(None, *kinds)(self._code.address("run"))

    def into(self, y: Array, x: Array) -> None:
        """Contiguous arrays whose size is a multiple of the width."""
        self._run(x.ctypes.data, y.ctypes.data, x.size)

    def __call__(self, x: Array) -> Array:
        padded = np.zeros(-(-x.size // self.width) * self.width, self.dtype)
        padded[: x.size] = x
        y = np.empty_like(padded)
        self.into(y, padded)
        return y[: x.size]


# ---------------------------------------------------------------- the truth
def erf_of_longdouble(x: Array) -> Array:
    """By the series of positive terms 2/sqrt(pi) exp(-x^2) sum 2^k x^(2k+1) / (2k+1)!!."""
    near = np.where(abs(x) < 7, x, 0)
    square, term, total = near * near, near.copy(), near.copy()
    for k in range(1, 300):
        term = term * square * 2 / (2 * k + 1)
        total = total + term
        if not (abs(term) > abs(total) * 1e-22).any():
            break
    factor = 2 / np.sqrt(np.arccos(np.longdouble(-1)))
    return np.where(np.isnan(x), x, np.where(abs(x) < 7, factor * np.exp(-square) * total, np.sign(x)))


def witness(name: str) -> Any:
    """The function of NumPy, or SciPy's erf."""
    long = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2"}  # fmt: skip
    return erf if name == "erf" else getattr(np, long.get(name, name))


def truth(name: str, x: Array) -> Array:
    """In the dtype of x, which is wider than what is measured."""
    return erf_of_longdouble(x) if name == "erf" and x.dtype == np.longdouble else witness(name)(x)


def errors(y: Array, true: Array) -> Array:
    """The error of every result in units in the last place of the dtype of y, an infinity counting as the number after
    the largest; infinite for a result of the wrong kind.
    """
    limits = np.finfo(y.dtype)
    after = true.dtype.type(2) ** limits.maxexp
    nearest = np.minimum(abs(true).astype(y.dtype), after / 2)  # beyond the largest number there is no spacing
    unit = np.spacing(np.fmax(nearest, limits.tiny).astype(y.dtype)).astype(true.dtype)
    distance = abs(np.clip(y.astype(true.dtype), -after, after) - np.clip(true, -after, after)) / unit
    wrong = (np.isnan(y) != np.isnan(true)) | (np.signbit(y) != np.signbit(true)) & ~np.isnan(true)
    return np.where(wrong, np.inf, np.where(np.isnan(true), 0, distance)).astype(np.float64)


# ---------------------------------------------------------------- what is tried
def many_float64(count: int, seed: int = 0) -> Iterator[Array]:
    """About `count` numbers: all exponents alike, the usual ones, ranges of exp, around 1, around multiples of pi / 2."""
    rng = np.random.default_rng(seed)
    bits = {"every": (0, 2047), "usual": (1023 - 30, 1023 + 12), "common": (1023 - 4, 1023 + 7), "tiny": (0, 2)}
    for _ in range(max(1, count // (8 * CHUNK))):
        for low, high in bits.values():
            pattern = rng.integers(low, high, CHUNK, np.uint64) << np.uint64(52)
            pattern |= rng.integers(0, 1 << 52, CHUNK, np.uint64) | rng.integers(0, 2, CHUNK, np.uint64) << np.uint64(
                63
            )
            yield pattern.view(np.float64)
        yield rng.uniform(-746, 711, CHUNK)
        yield 1 + rng.uniform(-1, 1, CHUNK) * 10.0 ** rng.uniform(-16, 0, CHUNK)
        yield rng.uniform(-7, 7, CHUNK)
        quarters = rng.integers(1, 640_000, CHUNK) * (np.arccos(np.longdouble(-1)) / 2)
        yield quarters.astype(np.float64)


def worst_of(call: Compiled, name: str, inputs: Iterable[Array]) -> Worst:
    """The largest error over all inputs, which are float64."""

    def one(x: Array) -> Worst:
        with np.errstate(all="ignore"):
            off = errors(call(x), truth(name, x.astype(np.longdouble)))
        k = int(off.argmax())
        return Worst(float(off[k]), float(x[k]), x.size)

    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(one, inputs))
    return Worst(*max(found)[:2], sum(w.tried for w in found))


def worst_float32(call: Compiled, name: str, step: int = 1) -> Worst:
    """The largest error over all bit patterns, or over one chunk of neighbours in `step`; threads share the chunks."""
    starts = range(0, 1 << 32, CHUNK * step)

    def some(first: int) -> Worst:
        found, y = Worst(0.0, 0.0, 0), np.empty(CHUNK, np.float32)
        true, distance, allowed = (np.empty(CHUNK) for _ in range(3))
        steps, function_ = np.arange(CHUNK, dtype=np.uint32), witness(name)
        with np.errstate(all="ignore"):
            for start in starts[first::THREADS]:
                x = (steps + np.uint32(start)).view(np.float32)
                call.into(y, x)
                np.copyto(distance, x)
                function_(distance, out=true)
                # Most are told to be no worse at little cost: |true| * 2**-24 is at most a unit.
                np.abs(np.subtract(y, true, out=distance, dtype=np.float64), out=distance)
                np.abs(np.multiply(true, found.ulp * 2.0**-24, out=allowed), out=allowed)
                if not (distance < allowed).all():
                    off = errors(y, true)
                    k = int(off.argmax())
                    found = Worst(*max((found.ulp, found.at), (float(off[k]), float(x[k]))), found.tried)
                found = found._replace(tried=found.tried + CHUNK)
        return found

    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(some, range(THREADS)))
    return Worst(*max(found)[:2], sum(w.tried for w in found))


def main() -> None:
    """Print the table; fail where a function is farther off than it may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="functions (default: all)")
    parser.add_argument("--step", type=int, default=1, help="try only one in so many float32 numbers")
    parser.add_argument("--count", type=int, default=8_000_000, help="how many float64 numbers")
    parser.add_argument("--unfused", action="store_true", help="as on a processor without fused multiply-add")
    given = parser.parse_args()
    wider = np.finfo(np.longdouble).nmant >= 63
    if not wider:
        print("float64 is left out: np.longdouble is no wider here", file=sys.stderr)
    print(f"{'function':9} {'dtype':8} {'tried':>13}  {'max ulp':>7}  {'at':24} {'seconds':>7}")
    high = 0.0
    for name in given.names or [*FORMULAS, *widened.UNARY]:
        for dtype in ("float32", "float64") if wider and name in FORMULAS else ("float32",):
            start = time.perf_counter()
            call = Compiled(name, dtype, fused=not given.unfused)
            single = dtype == "float32"
            found = worst_float32(call, name, given.step) if single else worst_of(call, name, many_float64(given.count))
            seconds = time.perf_counter() - start
            print(f"{name:9} {dtype:8} {found.tried:13,}  {found.ulp:7.3f}  {found.at!r:24} {seconds:7.1f}", flush=True)
            high = max(high, found.ulp)
    if high > AT_MOST:
        sys.exit(f"ulp: {high:.3f} is more than {AT_MOST}")


if __name__ == "__main__":
    main()
