import ctypes
import ctypes.util
import sys

import numpy as np
import pytest

from chainrule.compiler.expressions import BINARY, UNARY
from chainrule.compiler.native import vector_math, widened
from chainrule.compiler.native.formulas import FORMULAS
from chainrule.compiler.native.machine import Code, compile_text
from chainrule.compiler.native.writer import SCALARS, typed
from scripts.ulp import AT_MOST, Compiled, errors, many_float64, witness, worst_float32, worst_of

DTYPES = ("float32", "float64")
OWN = sorted(FORMULAS)
OF_ONE = sorted(vector_math.FUNCTIONS - vector_math.BINARY)
INVALID = 1  # FE_INVALID of <fenv.h>, on x86 and aarch64


@pytest.fixture(autouse=True)
def _quiet():
    """What NumPy's own functions, the witnesses, say of infinities is of no interest."""
    with np.errstate(all="ignore"):
        yield


def of_two(name, dtype, width):
    """A function of two arguments on arrays whose size is `width`."""
    kind = typed(SCALARS[dtype].llvm, width)
    text = f"""
define void @run(ptr %a, ptr %b, ptr %c) {{
  %x = load {kind}, ptr %a, align 4
  %y = load {kind}, ptr %b, align 4
  %z = call {kind} @{vector_math.name_of(name, dtype, width)}({kind} %x, {kind} %y)
  store {kind} %z, ptr %c, align 4
  ret void
}}
"""
    declared = "\n".join(sorted(vector_math.declarations(name, dtype, width)))
    code = Code(compile_text(f"{declared}\n{vector_math.function(name, dtype, width)}{text}"))
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address("run"))

    def call(x, y):
        out = np.empty(x.size, dtype)
        for k in range(0, x.size, width):
            a, b = np.array(x[k : k + width], dtype), np.array(y[k : k + width], dtype)
            c = np.empty(width, dtype)
            run(a.ctypes.data, b.ctypes.data, c.ctypes.data)
            out[k : k + width] = c
        return out

    call.code = code
    return call


def ends(dtype):
    """Numbers at which functions are special."""
    limits = np.finfo(dtype)
    sizes = [0, 0.25, 0.5, 1, 2, 3, 1e4, np.inf, limits.max, limits.tiny, limits.smallest_subnormal]
    return np.array([s * v for v in sizes for s in (1, -1)] + [np.nan, -np.nan], dtype)


class TestHowExact:
    @pytest.mark.parametrize("name", [*OWN, *widened.UNARY])
    def test_float32_where_chunks_of_neighbours_were_drawn(self, name):  # `make ulp` tries every number
        found = worst_float32(Compiled(name, "float32"), name, step=251)
        assert found.tried > 17_000_000
        assert found.ulp <= AT_MOST, found

    @pytest.mark.parametrize("name", OWN)
    def test_float64(self, name):
        if np.finfo(np.longdouble).nmant < 63:
            pytest.skip("np.longdouble is no wider than float64 here")
        found = worst_of(Compiled(name, "float64"), name, many_float64(200_000))
        assert found.ulp <= AT_MOST, found

    @pytest.mark.parametrize("name", OWN)
    def test_without_fused_products(self, name):
        """Nobody promises 3 ulp there, but the formulas do not depend on the fused ones."""
        if sys.platform != "linux":
            pytest.skip("asked for by a feature of x86")
        assert worst_float32(Compiled(name, "float32", fused=False), name, step=2039).ulp <= 4

    def test_errors_are_counted_in_units_of_the_last_place(self):
        one = np.float32(1)
        true = np.array([1, 1, 1, np.inf, np.inf, 0, np.nan, 0, -0.0, 2.0**-149])
        y = np.array([one, np.nextafter(one, 2), np.nextafter(one, 0), np.inf, np.finfo("f4").max, 0, np.nan, 1e-45, 0, 0], "f4")  # fmt: skip
        assert errors(y, true).tolist() == [0, 1, 0.5, 0, 1, 0, 0, 1, np.inf, 1]
        assert errors(np.array([np.nan, 1, np.inf, -1], "f4"), np.array([1, np.nan, 1, 1.0])).min() > 1e6

    @pytest.mark.parametrize("name", sorted(widened.UNARY))
    def test_float64_of_the_c_library(self, name):
        x = np.linspace(-0.99, 0.99, 64)
        x = x + 2 if name == "acosh" else x
        np.testing.assert_allclose(Compiled(name, "float64")(x), witness(name)(x), rtol=4 * np.finfo(np.float64).eps)

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", sorted(vector_math.BINARY))
    def test_of_two_arguments(self, name, dtype):
        rng = np.random.default_rng(7)
        x, y = (rng.normal(size=4096) * 10.0 ** rng.integers(-6, 7, 4096) for _ in range(2))
        x, y = (abs(x) if name == "power" else x).astype(dtype), np.where(rng.random(4096) < 0.1, x, y).astype(dtype)
        wide = dtype if name in vector_math.DIVISIONS else np.longdouble
        true = witness(name)(x.astype(wide), y.astype(wide)).astype(np.longdouble)
        off = errors(of_two(name, dtype, 16)(x, y), true)
        assert off.max() <= (0 if name in vector_math.DIVISIONS else 1), (x[off.argmax()], y[off.argmax()])


class TestSpecialValues:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", OF_ONE)
    def test_as_in_numpy(self, name, dtype):
        x = ends(dtype)
        true = witness(name)(x.astype(np.longdouble if name != "erf" else np.float64))
        off = errors(Compiled(name, dtype)(x), true)
        assert off.max() <= AT_MOST, x[off > AT_MOST]

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", sorted(vector_math.BINARY))
    @pytest.mark.parametrize("width", [1, 4])
    def test_of_two_arguments(self, name, dtype, width):
        values = np.append(ends(dtype), np.array([7.5, -7.5], dtype))
        x, y = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(values, values))
        exact = name in vector_math.DIVISIONS
        wide = dtype if exact else np.longdouble
        true = witness(name)(x.astype(wide), y.astype(wide)).astype(np.longdouble)
        off = errors(of_two(name, dtype, width)(x, y), true)
        assert off.max() <= (0 if exact else AT_MOST), (x[off.argmax()], y[off.argmax()])

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_powers_of_two_and_zeros_are_exact(self, dtype):
        whole = np.arange(-100, 101, dtype=dtype)
        np.testing.assert_array_equal(Compiled("exp2", dtype)(whole), 2.0**whole)
        np.testing.assert_array_equal(Compiled("log2", dtype)(2.0**whole), whole)
        for name in ("exp", "exp2", "cos"):
            assert Compiled(name, dtype)(np.array([0.0, -0.0])).tolist() == [1.0, 1.0]
        assert Compiled("erf", dtype)(np.array([6.0, -6.0])).tolist() == [1.0, -1.0]
        assert Compiled("tanh", dtype)(np.array([20.0, -20.0])).tolist() == [1.0, -1.0]


class TestLanes:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", OF_ONE)
    def test_every_width_gives_the_same_bits(self, name, dtype):
        x = np.concatenate([ends(dtype), np.linspace(-9, 9, 40), np.linspace(-760, 0, 99)]).astype(dtype)
        first = Compiled(name, dtype, 1)(x)
        for width in (2, 4, 8, 16, 32):
            np.testing.assert_array_equal(Compiled(name, dtype, width)(x), first)
        np.testing.assert_array_equal(Compiled(name, dtype, 16, avx512=False)(x), first)

    def test_a_far_angle_leaves_the_other_lanes_alone(self):
        x = np.linspace(0, 3, 16, dtype="float32")
        alone = Compiled("sin", "float32", 16)(x)
        x[5] = 1e30
        both = Compiled("sin", "float32", 16)(x)
        assert both[5] == np.float32(np.sin(np.float64(x[5])))
        np.testing.assert_array_equal(np.delete(both, 5), np.delete(alone, 5))


class TestFlags:
    @staticmethod
    def invalid(call, x):
        libm = ctypes.CDLL(ctypes.util.find_library("m"))
        y = np.empty_like(x)
        libm.feclearexcept(INVALID)
        call.into(y, x)
        return bool(libm.fetestexcept(INVALID)), y

    @pytest.mark.skipif(sys.platform != "linux", reason="reads the flags by <fenv.h>")
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", OF_ONE)
    def test_invalid_is_raised_where_a_nan_comes_into_being_and_nowhere_else(self, name, dtype):
        call = Compiled(name, dtype)
        seen = set()
        for value in [*ends(dtype)[:-2], *next(many_float64(1))[:60].astype(dtype)]:
            raised, y = self.invalid(call, np.full(call.width, value, dtype))
            seen.add(raised)
            assert raised == bool(np.isnan(y).any()), value
        everywhere = {"exp", "exp2", "expm1", "tanh", "erf", "sinh", "cosh", "asinh", "atan"}
        assert seen == ({False} if name in everywhere else {False, True})

    def test_rare_values_beside_usual_ones(self):
        if sys.platform != "linux":
            pytest.skip("reads the flags by <fenv.h>")
        x = np.resize(np.array([1e30, 1.0, 0.5, -3e38, 0.0], "float32"), 32)
        for name in OWN:
            x_ = abs(x) if "log" in name else x
            raised, y = self.invalid(Compiled(name, "float32"), np.ascontiguousarray(x_))
            assert not raised, name
            assert not np.isnan(y).any()


class TestNames:
    def test_every_elementwise_operation_is_a_function_or_an_instruction(self):
        instructions = {
            "negative", "absolute", "sign", "sqrt", "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite",
            "signbit", "not", "add", "subtract", "multiply", "divide", "maximum", "minimum", "copysign", "less",
            "less_equal", "greater", "greater_equal", "equal", "not_equal", "and", "or", "xor", "shift_left",
            "shift_right",
        }  # fmt: skip
        assert {*UNARY, *BINARY, "erf"} - vector_math.FUNCTIONS == instructions
        assert {*UNARY, *BINARY, "erf"} >= vector_math.FUNCTIONS

    def test_text_defines_the_name_and_the_declarations_are_apart(self):
        for name in sorted(vector_math.FUNCTIONS):
            text = vector_math.function(name, "float32", 8)
            assert f"<8 x float> @{vector_math.name_of(name, 'float32', 8)}(" in text
            assert "declare" not in text
            assert all(line.startswith("declare ") for line in vector_math.declarations(name, "float32", 8))
