"""Derivatives to any order: the reference figure of A9 to the last bit, closed forms, nesting, what comes out."""

import math
import random
from itertools import pairwise
from typing import Any

import pytest

from chainrule.scalar import (
    Value,
    cos,
    derivative,
    exp,
    grad,
    gradient,
    hessian,
    log,
    maximum,
    minimum,
    power,
    relu,
    sigmoid,
    sin,
    tanh,
)


def f(x: Any, y: Any) -> Any:
    return x**2 * y + sin(x) * y**3


RANDOM = random.Random(0)
POINTS = [(RANDOM.uniform(-3, 3), RANDOM.uniform(-3, 3)) for _ in range(50)]


def test_a9_is_exact() -> None:
    for x, y in POINTS:
        assert grad(f)(x, y) - (2 * x * y + math.cos(x) * y**3) == 0.0
        assert grad(grad(f))(x, y) - (2 * y - math.sin(x) * y**3) == 0.0


def test_a9_gradient_and_hessian_against_the_analytic_ones() -> None:
    for x, y in POINTS:
        mixed = 2 * x + 3 * math.cos(x) * y**2
        assert gradient(f)(x, y) == pytest.approx([2 * x * y + math.cos(x) * y**3, x**2 + 3 * math.sin(x) * y**2])
        matrix = hessian(f)(x, y)
        assert matrix[0] == pytest.approx([2 * y - math.sin(x) * y**3, mixed])
        assert matrix[1] == pytest.approx([mixed, 6 * math.sin(x) * y])


def test_hessian_of_rosenbrock() -> None:
    def rosenbrock(*x: Any) -> Any:
        return sum(100 * (b - a**2) ** 2 + (1 - a) ** 2 for a, b in pairwise(x))

    x = [0.5, -1.2, 2.0]
    expected = [
        [1200 * x[0] ** 2 - 400 * x[1] + 2, -400 * x[0], 0.0],
        [-400 * x[0], 202 + 1200 * x[1] ** 2 - 400 * x[2], -400 * x[1]],
        [0.0, -400 * x[1], 200.0],
    ]
    for row, expected_row in zip(hessian(rosenbrock)(*x), expected, strict=True):
        assert row == pytest.approx(expected_row, rel=1e-12)
    assert gradient(rosenbrock)(1.0, 1.0, 1.0) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("n", range(9))
def test_nth_derivatives_in_closed_form(n: int) -> None:
    x = 0.7
    assert derivative(exp, n)(x) == pytest.approx(math.exp(x), rel=1e-13)
    assert derivative(sin, n)(x) == pytest.approx(math.sin(x + n * math.pi / 2), rel=1e-13)
    assert derivative(cos, n)(x) == pytest.approx(math.cos(x + n * math.pi / 2), rel=1e-13)
    assert derivative(lambda x: 1 / x, n)(x) == pytest.approx((-1) ** n * math.factorial(n) / x ** (n + 1), rel=1e-13)
    assert derivative(lambda x: x**5, n)(x) == pytest.approx(math.perm(5, n) * x ** max(5 - n, 0), rel=1e-13)
    assert derivative(lambda x: 2**x, n)(x) == pytest.approx(math.log(2) ** n * 2**x, rel=1e-12)
    if n:
        assert derivative(log, n)(x) == pytest.approx((-1) ** (n - 1) * math.factorial(n - 1) / x**n, rel=1e-13)


def test_derivatives_of_tanh_and_sigmoid() -> None:
    t, p = math.tanh(0.3), 1 / (1 + math.exp(-0.3))
    assert derivative(tanh, 2)(0.3) == pytest.approx(-2 * t * (1 - t**2), rel=1e-14)
    assert derivative(tanh, 3)(0.3) == pytest.approx((1 - t**2) * (6 * t**2 - 2), rel=1e-14)
    assert derivative(sigmoid, 2)(0.3) == pytest.approx(p * (1 - p) * (1 - 2 * p), rel=1e-14)
    assert derivative(sigmoid, 3)(0.3) == pytest.approx(p * (1 - p) * (1 - 6 * p + 6 * p**2), rel=1e-13)
    assert derivative(tanh, 2)(1000.0) == 0.0


def test_hessian_of_a_power_with_two_variables() -> None:
    x, y = 1.4, 2.3
    matrix = hessian(power)(x, y)
    mixed = x ** (y - 1) * (1 + y * math.log(x))
    assert matrix[0] == pytest.approx([y * (y - 1) * x ** (y - 2), mixed], rel=1e-13)
    assert matrix[1] == pytest.approx([mixed, x**y * math.log(x) ** 2], rel=1e-13)


def test_powers_at_zero_keep_every_derivative() -> None:
    assert [derivative(lambda x: x**3, n)(0.0) for n in range(1, 6)] == [0.0, 0.0, 6.0, 0.0, 0.0]
    assert [derivative(lambda x: x**0, n)(0.0) for n in range(1, 4)] == [0.0, 0.0, 0.0]
    assert derivative(lambda x: 3 * x**1, 2)(0.0) == 0.0
    assert hessian(power)(2.0, 0.0)[0][1] == pytest.approx(0.5)  # d/dy d/dx x**y = 1 / x at y = 0


def test_kinks_have_second_derivative_zero() -> None:
    for kink in (relu, abs):
        assert derivative(kink, 2)(0.0) == derivative(kink, 2)(1.0) == 0.0
    assert hessian(maximum)(1.0, 1.0) == [[0.0, 0.0], [0.0, 0.0]]
    assert derivative(lambda x: maximum(x**2, x**3), 2)(2.0) == 12.0
    assert derivative(lambda x: minimum(x**2, x**3), 2)(2.0) == 2.0


def test_a_dead_branch_stays_dead_in_every_order() -> None:
    def g(a: Any) -> Any:
        return minimum(exp(a), 1 + a**2)

    assert [derivative(g, n)(800.0) for n in (1, 2, 3)] == [1600.0, 2.0, 0.0]
    assert [derivative(lambda x: 0.0 * log(x) + x**2, n)(0.0) for n in (1, 2)] == [0.0, 2.0]


def test_a_dead_branch_does_not_spoil_a_recorded_derivative() -> None:
    slope = grad(lambda x: 0.0 * log(x) + x**2 + 5 * x)(Value(0.0))
    assert slope == 5.0


# ---- Nesting ----


def test_nested_derivatives_do_not_meet() -> None:
    assert grad(lambda x: x * grad(lambda y: x * y)(2.0))(3.0) == 6.0  # d/dx x*x
    assert grad(lambda x: x * grad(lambda y: x * y * y)(x))(3.0) == 54.0  # d/dx x * 2x*x
    assert grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0) == 1.0  # the classical test of perturbation confusion
    assert grad(lambda x: grad(lambda y: grad(lambda z: x * y * z)(1.0))(1.0))(1.0) == 1.0


def test_argument_number() -> None:
    assert grad(f, 1)(0.5, 2.0) == grad(f, -1)(0.5, 2.0) == gradient(f)(0.5, 2.0)[1]
    assert grad(grad(f, 1), 0)(0.5, 2.0) == pytest.approx(hessian(f)(0.5, 2.0)[0][1])
    with pytest.raises(ValueError, match="grad: no argument 2 · called with 2"):
        grad(f, 2)(0.5, 2.0)


# ---- What goes in comes out ----


def test_numbers_give_numbers() -> None:
    assert type(grad(f)(1.0, 2.0)) is float
    assert grad(lambda x: x * x)(2) == 4.0  # H3
    assert grad(lambda x: Value(3.0))(2.0) == 0.0
    assert type(grad(lambda x: Value(3.0))(2.0)) is float
    assert derivative(sin, 0)(1.0) == math.sin(1.0)
    assert {type(h) for row in hessian(f)(1.0, 2.0) for h in row} == {float}


def test_a_value_gives_a_value_that_depends_on_it() -> None:
    x = Value(2.0)
    slope = grad(lambda x: x**3)(x)
    assert isinstance(slope, Value)
    assert (slope.data, x.grad) == (12.0, 0.0)  # transforms leave gradients alone
    slope.backward()
    assert x.grad == 12.0
    nothing = grad(lambda x: Value(3.0))(x)
    assert isinstance(nothing, Value)
    assert nothing.data == 0.0


def test_a_value_from_outside_makes_the_result_depend_on_it() -> None:
    w = Value(3.0)
    slope = grad(lambda x: w * x * x)(2.0)
    assert isinstance(slope, Value)
    slope.backward()
    assert w.grad == 4.0
    assert hessian(lambda x: w * x * x)(2.0)[0][0] == 6.0


def test_loss_of_the_graph_is_an_error_with_the_remedy() -> None:
    with pytest.raises(TypeError, match=r"grad: the function must return a Value · got float .*math.sin"):
        grad(lambda x: math.sin(x))(1.0)
    with pytest.raises(TypeError, match=r"hessian: .*NoneType None"):
        hessian(lambda x: None)(1.0)
    with pytest.raises(TypeError, match=r"gradient: expected a real number.*str 'a'"):
        gradient(f)("a", 1.0)
    for n in (-1, 1.5):
        with pytest.raises(ValueError, match="derivative: the order n is a whole number"):
            derivative(sin, n)
