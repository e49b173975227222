"""`Value`: every rule against the complex step, closed forms at special points, accumulation, misuse."""

import cmath
import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from chainrule.scalar import Value, cos, exp, log, maximum, minimum, power, relu, sigmoid, sin, tanh

INF, NAN = math.inf, math.nan


def gradients(f: Callable[..., Value], *xs: float) -> list[float]:
    inputs = [Value(x) for x in xs]
    f(*inputs).backward()
    return [x.grad for x in inputs]


def complex_step(f: Callable[..., Any], *xs: float) -> list[float]:
    """Derivatives exact to rounding, from arithmetic that knows nothing of derivatives."""
    h = 1e-30
    return [complex(f(*(complex(x, h if i == j else 0.0) for j, x in enumerate(xs)))).imag / h for i in range(len(xs))]


def difference(f: Callable[..., Any], *xs: float) -> list[float]:
    h = 1e-6
    moved = [[[x + s * h * (i == j) for j, x in enumerate(xs)] for s in (1, -1)] for i in range(len(xs))]
    return [(float(f(*up)) - float(f(*down))) / (2 * h) for up, down in moved]


SMOOTH: dict[str, tuple[Callable[..., Value], Callable[..., Any], int]] = {
    "add": (lambda x, y: x + y, lambda x, y: x + y, 2),
    "add number": (lambda x: x + 2, lambda x: x + 2, 1),
    "number add": (lambda x: 2 + x, lambda x: 2 + x, 1),
    "subtract": (lambda x, y: x - y, lambda x, y: x - y, 2),
    "subtract number": (lambda x: x - 2, lambda x: x - 2, 1),
    "number subtract": (lambda x: 2 - x, lambda x: 2 - x, 1),
    "negate": (lambda x: -x, lambda x: -x, 1),
    "plus": (lambda x: +x, lambda x: +x, 1),
    "multiply": (lambda x, y: x * y, lambda x, y: x * y, 2),
    "multiply number": (lambda x: x * 3, lambda x: x * 3, 1),
    "number multiply": (lambda x: 3 * x, lambda x: 3 * x, 1),
    "divide": (lambda x, y: x / y, lambda x, y: x / y, 2),
    "divide number": (lambda x: x / 3, lambda x: x / 3, 1),
    "number divide": (lambda x: 3 / x, lambda x: 3 / x, 1),
    "square": (lambda x: x**2, lambda x: x * x, 1),
    "cube": (lambda x: x**3, lambda x: x * x * x, 1),
    "reciprocal square": (lambda x: x**-2, lambda x: 1 / (x * x), 1),
    "power": (lambda x, y: x**y, lambda x, y: cmath.exp(y * cmath.log(x)), 2),
    "power function": (power, lambda x, y: cmath.exp(y * cmath.log(x)), 2),
    "fractional power": (lambda x: x**0.7, lambda x: cmath.exp(0.7 * cmath.log(x)), 1),
    "number power": (lambda x: 2**x, lambda x: cmath.exp(x * math.log(2)), 1),
    "exp": (exp, cmath.exp, 1),
    "log": (log, cmath.log, 1),
    "sin": (sin, cmath.sin, 1),
    "cos": (cos, cmath.cos, 1),
    "tanh": (tanh, cmath.tanh, 1),
    "sigmoid": (sigmoid, lambda x: 1 / (1 + cmath.exp(-x)), 1),
    "relu": (relu, lambda x: x, 1),
    "abs": (abs, lambda x: x, 1),
    "maximum": (maximum, lambda x, y: x if x.real > y.real else y, 2),
    "minimum": (minimum, lambda x, y: x if x.real < y.real else y, 2),
    "maximum of number": (lambda x: maximum(1.0, x), lambda x: x if x.real > 1 else 1, 1),
    "one operand twice": (lambda x: x * x + x, lambda x: x * x + x, 1),
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("x", [0.3, 1.7, 2.9])
def test_rule_agrees_with_complex_step(name: str, x: float) -> None:
    f, reference, arity = SMOOTH[name]
    xs = [x, 1.3][:arity]
    assert f(*map(Value, xs)).data == pytest.approx(complex(reference(*xs)).real, rel=1e-15)
    assert gradients(f, *xs) == pytest.approx(complex_step(reference, *xs), rel=1e-14, abs=1e-15)


# The power rules take complex logarithms above, so for negative inputs only the other rules have that witness.
@pytest.mark.parametrize("name", [n for n in SMOOTH if "power" not in n and n not in ("log", "relu", "abs")])
def test_rule_agrees_with_complex_step_for_negative_input(name: str) -> None:
    f, reference, arity = SMOOTH[name]
    xs = [-0.8, 1.3][:arity]
    assert gradients(f, *xs) == pytest.approx(complex_step(reference, *xs), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("f", [relu, abs, sigmoid, lambda x: x**3, lambda x: x**-1])
def test_rule_agrees_with_differences_for_negative_input(f: Callable[[Any], Any]) -> None:
    assert gradients(f, -0.8) == pytest.approx(difference(lambda x: f(Value(x)), -0.8), rel=1e-8)


def test_worked_example_a3() -> None:
    w, x, b, y = Value(0.5), Value(2.0), Value(1.0), Value(3.0)
    loss = ((w * x + b) - y) ** 2
    loss.backward()
    assert (loss.data, w.grad, x.grad, b.grad, y.grad) == (1.0, -4.0, -1.0, -2.0, 2.0)


def test_reused_nodes_g1() -> None:
    a = Value(1.0)
    b = a + a
    c = b + b
    c.backward()
    assert (a.grad, b.grad, c.grad) == (4.0, 2.0, 1.0)
    assert gradients(lambda x: x * x + x, 2.0) == [5.0]


def test_consumers_come_first_whatever_the_shape() -> None:
    # x is used early and late; the late use is two nodes closer to the output than the early one.
    x = Value(1.5)
    long = sin(sin(sin(x)))
    y = long * x + long + x
    y.backward()
    [expected] = complex_step(lambda x: cmath.sin(cmath.sin(cmath.sin(x))) * (x + 1) + x, 1.5)
    assert x.grad == pytest.approx(expected, rel=1e-14)


def test_micrograd_style_expression_by_differences() -> None:
    def f(a: Any, b: Any) -> Any:
        c = a + b
        d = a * b + b**3
        c = c + c + 1
        c = c + 1 + c + (-a)
        d = d + d * 2 + relu(b + a)
        d = d + 3 * d + relu(b - a)
        e = c - d
        g = e**2
        return g / 2.0 + 10.0 / g

    assert gradients(f, -4.0, 2.0) == pytest.approx(difference(lambda a, b: f(Value(a), b), -4.0, 2.0), rel=1e-7)


# ---- Accumulation ----


def test_every_gradient_is_the_sum_over_calls() -> None:
    x = Value(3.0)
    h = x * x
    y = h * x
    y.backward()
    assert (x.grad, h.grad, y.grad) == (27.0, 3.0, 1.0)
    y.backward()
    assert (x.grad, h.grad, y.grad) == (54.0, 6.0, 2.0)
    h.backward()
    assert (x.grad, h.grad, y.grad) == (60.0, 7.0, 2.0)


def test_a_gradient_that_was_there_is_kept_and_not_passed_on() -> None:
    x = Value(3.0)
    h = x * 2
    y = h * 5
    h.grad = 100.0
    y.backward()
    assert (x.grad, h.grad) == (10.0, 105.0)


def test_gradient_of_a_lone_input_is_one() -> None:
    x = Value(2.0)
    assert x.grad == 0.0
    x.backward()
    assert x.grad == 1.0


def test_sum_and_augmented_assignment_record() -> None:
    xs = [Value(float(i)) for i in range(4)]
    total = sum(x * x for x in xs)
    assert isinstance(total, Value)
    total *= 2
    total.backward()
    assert [x.grad for x in xs] == [0.0, 4.0, 8.0, 12.0]


# ---- Recorded values do not change ----


def test_assignment_after_use_is_refused_not_used() -> None:
    w = Value(2.0, name="w")
    loss = w * w
    w.data = 5.0
    with pytest.raises(RuntimeError, match=r"backward: .*'\*'.*name='w'.*compute the result again"):
        loss.backward()
    assert (w.grad, loss.grad) == (0.0, 0.0)
    (w * w).backward()
    assert w.grad == 10.0


def test_result_of_an_operation_cannot_be_assigned() -> None:
    y = Value(2.0) * 3
    with pytest.raises(RuntimeError, match=r"data: cannot be assigned on the result .* made by '\*'"):
        y.data = 1.0
    assert y.data == 6.0


# ---- Kinks, overflow, special points ----


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_kinks_at_zero(zero: float) -> None:
    assert gradients(relu, zero) == [0.0]
    assert gradients(abs, zero) == [0.0]


@pytest.mark.parametrize("f", [maximum, minimum])
def test_ties_are_shared_evenly(f: Callable[..., Value]) -> None:
    assert gradients(f, 2.0, 2.0) == [0.5, 0.5]
    assert gradients(lambda x: f(x, x), 2.0) == [1.0]
    assert gradients(lambda x: f(x, 0.0), 0.0) == [0.5]


@pytest.mark.parametrize(
    ("f", "x", "value", "slope"),
    [
        (tanh, 1000.0, 1.0, 0.0),  # S5
        (tanh, -1000.0, -1.0, 0.0),
        (tanh, INF, 1.0, 0.0),
        (sigmoid, 1000.0, 1.0, 0.0),
        (sigmoid, -1000.0, 0.0, 0.0),
        (sigmoid, -700.0, math.exp(-700.0), math.exp(-700.0)),
        (exp, 1000.0, INF, INF),
        (exp, -1000.0, 0.0, 0.0),
        (log, 0.0, -INF, INF),
        (log, -1.0, NAN, -1.0),
        (sin, INF, NAN, NAN),
        (cos, -INF, NAN, NAN),
        (relu, NAN, NAN, 0.0),
        (lambda x: x**0, 0.0, 1.0, 0.0),
        (lambda x: x**0, 5.0, 1.0, 0.0),
        (lambda x: x**0, 1e-320, 1.0, 0.0),
        (lambda x: x**1, 0.0, 0.0, 1.0),
        (lambda x: x**2, 0.0, 0.0, 0.0),
        (lambda x: x**0.5, 0.0, 0.0, INF),
        (lambda x: x**0.5, -1.0, NAN, NAN),
        (lambda x: x**-1, 0.0, INF, -INF),
        (lambda x: x**-1, -0.0, -INF, -INF),
        (lambda x: x**-2, 0.0, INF, -INF),
        (lambda x: x**3, -1e200, -INF, INF),
        (lambda x: x**2, -1e200, INF, -2e200),
        (lambda x: 0.0**x, 2.0, 0.0, 0.0),
        (lambda x: 0.0**x, 0.0, 1.0, 0.0),
        (lambda x: 0.0**x, -1.0, INF, -INF),
    ],
)
def test_special_points(f: Callable[[Any], Value], x: float, value: float, slope: float) -> None:
    assert f(Value(x)).data == pytest.approx(value, nan_ok=True)
    assert gradients(f, x) == pytest.approx([slope], nan_ok=True)


def test_division_by_zero_is_infinite_and_undefined_as_in_numpy() -> None:
    assert (Value(1.0) / 0).data == INF
    assert (1 / Value(0.0)).data == INF
    assert math.isnan((Value(0.0) / Value(0.0)).data)


def test_negative_base_with_integral_exponent_k6() -> None:
    assert gradients(lambda x: x**2 * 0.5, -1.1) == pytest.approx([-1.1], rel=1e-15)
    assert gradients(lambda x: x**2.0 * 0.5, -1.1) == pytest.approx([-1.1], rel=1e-15)
    assert gradients(lambda x: x**3 * 0.5, -1.1) == pytest.approx([1.815], rel=1e-15)
    x, n = Value(-1.1), Value(2.0)
    (x**n * 0.5).backward()
    assert x.grad == pytest.approx(-1.1, rel=1e-15)
    assert math.isnan(n.grad)  # the power of a negative number is not real for the exponents around 2


def test_exponent_at_base_zero_k4() -> None:
    a, b = [Value(0.0), Value(2.0)], [Value(1.0), Value(1.0)]
    sum((x**y for x, y in zip(a, b, strict=True)), Value(0.0)).backward()
    assert [y.grad for y in b] == pytest.approx([0.0, 1.3862943611198906])
    assert [x.grad for x in a] == [1.0, 1.0]


def test_zero_to_the_zero() -> None:
    assert gradients(power, 0.0, 0.0) == [0.0, 0.0]


@pytest.mark.parametrize("dead", [log, lambda x: x**-1, lambda x: x**0.5, lambda x: log(x) * x**-2])
def test_a_zero_cotangent_stays_zero(dead: Callable[[Any], Value]) -> None:
    assert gradients(lambda x: dead(x) * 0.0 + x, 0.0) == [1.0]


def test_branch_not_taken_does_not_leak_w1() -> None:
    assert gradients(lambda a: minimum(exp(a), 1 + a), 1000.0) == [1.0]
    assert gradients(lambda a: minimum(exp(a), 1.0), 1000.0) == [0.0]


def test_nan_is_not_hidden() -> None:
    assert math.isnan(maximum(Value(NAN), 1.0).data)
    assert math.isnan(minimum(1.0, Value(NAN)).data)
    [slope] = gradients(lambda x: x * NAN, 1.0)
    assert math.isnan(slope)


# ---- The number in Python ----


def test_functions_and_methods_agree_and_plain_numbers_stay_plain() -> None:
    for f in (exp, log, sin, cos, tanh, sigmoid, relu):
        assert getattr(Value(0.7), f.__name__)().data == f(Value(0.7)).data == f(0.7)
        assert type(f(0.7)) is type(f(1)) is float
    assert (power(2, 3), maximum(2, 3), minimum(2, 3)) == (8.0, 3.0, 2.0)
    assert type(maximum(2, 3)) is float


def test_data_is_always_a_float() -> None:
    assert [type(v.data) for v in (Value(2), Value(True), Value(2) * 3, relu(Value(-1)), abs(Value(-1)))] == [float] * 5


def test_comparisons_compare_numbers_and_hash_goes_by_identity() -> None:
    a, b = Value(1.0), Value(1.0)
    assert a == b
    assert a == 1
    assert a != 2
    assert a <= b
    assert a >= 1
    assert a < 2
    assert 2 > a  # noqa: SIM300 (the reflected comparison)
    assert not a > b
    assert a != "text"
    assert len({a, b}) == 2
    assert {a: "a", b: "b"}[b] == "b"
    assert max(a, Value(3.0)).data == 3.0
    assert Value(2.0)
    assert not Value(0.0)


def test_printing_and_conversion() -> None:
    x = Value(2.5, name="x")
    (x * 2).backward()
    assert repr(x) == str(x) == f"{x}" == "Value(2.5, grad=2.0, name='x')"
    assert repr(Value(1)) == "Value(1.0, grad=0.0)"
    assert f"{x:.2f}" == "2.50"
    assert float(x) == 2.5
    assert (x.name, x.op, x.parents) == ("x", "", ())
    assert [(v.op, v.parents[0] is x) for v in (x + 1, x * 1, x**x, exp(x))] == [
        ("+", True),
        ("*", True),
        ("**", True),
        ("exp", True),
    ]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_copies_keep_number_name_and_gradient_and_leave_the_graph(duplicate: Callable[[Value], Value]) -> None:
    x = Value(2.0, name="x")
    (x * x).backward()
    twin = duplicate(x)
    assert (twin.data, twin.name, twin.grad) == (2.0, "x", 4.0)
    result = duplicate(x * x)
    assert (result.data, result.parents) == (4.0, ())
    result.backward()
    assert x.grad == 4.0


# ---- Misuse ----

MISUSE: dict[str, tuple[Callable[[], object], str]] = {
    "multiply by text": (lambda: Value(3.0) * "a", r"\*: expected a real number.*Value\(3.0, grad=0.0\) and str 'a'"),
    "list first": (lambda: [1] * Value(3.0), r"\*: .*list \[1\]"),
    "subtract nothing": (lambda: Value(3.0) - None, r"-: .*NoneType"),
    "from nothing": (lambda: None - Value(3.0), r"-: .*NoneType"),
    "divide": (lambda: Value(3.0) / "a", r"/: .*str 'a'"),
    "divide text": (lambda: "a" / Value(3.0), r"/: .*str 'a'"),
    "complex exponent": (lambda: Value(3.0) ** 1j, r"\*\*: .*complex 1j"),
    "complex base": (lambda: 1j ** Value(3.0), r"\*\*: .*complex 1j"),
    "value of text": (lambda: Value("a"), r"Value: expected a real number.*str 'a'.*float\(\)"),
    "value of value": (lambda: Value(Value(1.0)), r"Value: .*Value\(1.0"),
    "function": (lambda: exp("a"), r"exp: .*str 'a'"),
    "maximum": (lambda: maximum(Value(1.0), None), r"maximum: .*NoneType"),
    "assignment": (lambda: setattr(Value(1.0), "data", "a"), r"data: .*str 'a'"),
    "order": (lambda: Value(1.0) < "a", r"'<' not supported"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_names_operation_operands_and_remedy(name: str) -> None:
    call, message = MISUSE[name]
    with pytest.raises(TypeError, match=message):
        call()


def test_numpy_scalars_and_arrays_on_either_side_h1() -> None:
    np = pytest.importorskip("numpy")
    for two in (np.float64(2), np.float32(2), np.int64(2)):
        for f in (lambda x, n=two: n * x, lambda x, n=two: x * n):
            x = Value(3.0)
            y = f(x)
            assert type(y) is Value
            assert type(y.data) is float
            y.backward()
            assert (y.data, x.grad) == (6.0, 2.0)
    for call in (lambda: np.ones(2) * Value(1.0), lambda: Value(1.0) * np.ones(2)):
        with pytest.raises(TypeError, match=r"\*: .*ndarray"):
            call()
    with pytest.raises(TypeError, match="ufunc"):
        np.sin(Value(1.0))
