"""Suite: second and higher derivatives of both engines against those written by hand."""

# Tables of formulas: lambdas of any number of parameters leave a type checker nothing to infer.
# pyright: basic
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import scalar
from chainrule.verify.suites import Check

Function = Callable[..., Any]
_A = np.array([[2.0, -1.0, 0.5], [0.3, 1.0, -2.0], [1.5, 0.7, 0.2]])
_X = np.array([0.4, -0.7, 1.1])


def _p(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


def _rosenbrock(x: Any) -> Any:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def _rosenbrock_hessian(x: Any) -> Any:
    h = np.diag(-400.0 * x[:-1], 1) + np.diag(-400.0 * x[:-1], -1)
    diagonal = np.zeros(len(x))
    diagonal[:-1] = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    diagonal[1:] += 200.0
    return h + np.diag(diagonal)


def _s(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


# name, function of a tensor of 3 entries, its Hessian by hand
HESSIANS: list[tuple[str, Function, Function]] = [
    ("xᵀ A x", lambda x: x @ _A @ x, lambda x: _A + _A.T),
    ("sum x³", lambda x: (x**3).sum(), lambda x: np.diag(6 * x)),
    ("sum exp", lambda x: cr.exp(x).sum(), lambda x: np.diag(np.exp(x))),
    ("sum sin", lambda x: cr.sin(x).sum(), lambda x: np.diag(-np.sin(x))),
    ("sum tanh", lambda x: cr.tanh(x).sum(), lambda x: np.diag(-2 * np.tanh(x) / np.cosh(x) ** 2)),
    ("sum softplus", lambda x: cr.softplus(x).sum(), lambda x: np.diag(_s(x) * (1 - _s(x)))),
    ("sum sigmoid", lambda x: cr.sigmoid(x).sum(), lambda x: np.diag(_s(x) * (1 - _s(x)) * (1 - 2 * _s(x)))),
    ("sum log(1 + x²)", lambda x: cr.log(1.0 + x * x).sum(), lambda x: np.diag(2 * (1 - x * x) / (1 + x * x) ** 2)),
    ("(sum x)³", lambda x: x.sum() ** 3, lambda x: np.full((3, 3), 6 * x.sum())),
    ("logsumexp", lambda x: cr.logsumexp(x), lambda x: np.diag(_p(x)) - np.outer(_p(x), _p(x))),
    (
        "norm",
        lambda x: cr.linalg.vector_norm(x),
        lambda x: np.eye(3) / np.linalg.norm(x) - np.outer(x, x) / np.linalg.norm(x) ** 3,
    ),
    ("prod", lambda x: x.prod(), lambda x: np.array([[0, x[2], x[1]], [x[2], 0, x[0]], [x[1], x[0], 0]])),
    ("x0 exp(x1) / (2 + x2)", lambda x: x[0] * cr.exp(x[1]) / (2.0 + x[2]), lambda x: _quotient_hessian(x)),
    ("Rosenbrock", _rosenbrock, _rosenbrock_hessian),
    ("|A x - 1|²", lambda x: ((_A @ x - 1.0) ** 2).sum(), lambda x: 2 * _A.T @ _A),
]
# name, function on either engine, its first derivatives of order 1 to 4 by hand, where
LADDERS: list[tuple[str, Function, list[Function], float]] = [
    ("exp", lambda e, x: e.exp(x), [math.exp] * 4, 0.7),
    (
        "sin",
        lambda e, x: e.sin(x),
        [math.cos, lambda x: -math.sin(x), lambda x: -math.cos(x), math.sin],
        0.7,
    ),
    (
        "1 / x",
        lambda e, x: 1.0 / x,
        [lambda x, n=n: (-1) ** n * math.factorial(n) / x ** (n + 1) for n in range(1, 5)],
        1.3,
    ),
    (
        "log",
        lambda e, x: e.log(x),
        [lambda x, n=n: (-1) ** (n - 1) * math.factorial(n - 1) / x**n for n in range(1, 5)],
        1.3,
    ),
    (
        "x⁵",
        lambda e, x: x**5,
        [lambda x: 5 * x**4, lambda x: 20 * x**3, lambda x: 60 * x**2, lambda x: 120 * x],
        -0.8,
    ),
    (
        "tanh",
        lambda e, x: e.tanh(x),
        [
            lambda x: 1 - math.tanh(x) ** 2,
            lambda x: -2 * math.tanh(x) * (1 - math.tanh(x) ** 2),
            lambda x: (6 * math.tanh(x) ** 2 - 2) * (1 - math.tanh(x) ** 2),
            lambda x: (16 * math.tanh(x) - 24 * math.tanh(x) ** 3) * (1 - math.tanh(x) ** 2),
        ],
        0.6,
    ),
]


def _quotient_hessian(x: Any) -> Any:
    e, d = math.exp(x[1]), 2.0 + x[2]
    xy, xz, yz = e / d, -e / d**2, -x[0] * e / d**2
    return np.array([[0.0, xy, xz], [xy, x[0] * e / d, yz], [xz, yz, 2 * x[0] * e / d**3]])


def _nth(f: Function, n: int) -> Function:
    for _ in range(n):
        f = cr.grad(f)
    return f


def _mixed(engine: Any, x: float, y: float) -> tuple[list[float], list[float]]:
    """F = x² y + sin(x) y³: df/dx and d²f/dx², exact to 0.0."""

    def f(a: Any, b: Any) -> Any:
        return a**2 * b + engine.sin(a) * b**3

    grad: Any = engine.grad
    given = [float(grad(f)(x, y)), float(grad(grad(f))(x, y))]
    return given, [2 * x * y + math.cos(x) * y**3, 2 * y - math.sin(x) * y**3]


def _scalar_hessian() -> tuple[Any, Any]:
    def f(x: Any, y: Any, z: Any) -> Any:
        return x**2 * y + scalar.exp(y * z) + scalar.sin(x) * z

    x, y, z = 0.4, -0.7, 1.1
    e = math.exp(y * z)
    expected = [
        [2 * y - math.sin(x) * z, 2 * x, math.cos(x)],
        [2 * x, z * z * e, (1 + y * z) * e],
        [math.cos(x), (1 + y * z) * e, y * y * e],
    ]
    return np.array(scalar.hessian(f)(x, y, z)), np.array(expected)


def _recorded_gradient() -> tuple[Any, Any]:
    """A gradient penalty: the gradient of |f'(w)|² by `create_graph`, where f = sum exp(w) w."""
    w = cr.tensor(_X, requires_grad=True)
    (slope,) = cr.gradients((cr.exp(w) * w).sum(), [w], create_graph=True)
    (slope * slope).sum().backward()
    return w.grad, 2 * np.exp(_X) * (1 + _X) * np.exp(_X) * (2 + _X)


def checks() -> Iterator[Check]:
    """All checks of the suite."""
    v = np.array([0.3, 1.0, -0.6])
    for name, f, hessian in HESSIANS:
        yield Check(f"Hessian of {name}", lambda f=f, h=hessian: (cr.hessian(f)(_X), h(_X)), 1e-13)
        yield Check(f"Hessian of {name} times a vector", lambda f=f, h=hessian: (cr.hvp(f, _X, v), h(_X) @ v), 1e-13)
    for name, f, slopes, x in LADDERS:
        for n, slope in enumerate(slopes, 1):
            yield Check(
                f"derivative {n} of {name}, tensor engine",
                lambda f=f, n=n, slope=slope, x=x: (_nth(lambda t: f(cr, t), n)(x), slope(x)),
                1e-13,
            )
            yield Check(
                f"derivative {n} of {name}, scalar engine",
                lambda f=f, n=n, slope=slope, x=x: (scalar.derivative(lambda t: f(scalar, t), n)(x), slope(x)),
                1e-13,
            )
    yield Check("x² y + sin(x) y³, scalar engine", lambda: _mixed(scalar, 1.3, 0.7), 1e-15)
    yield Check("x² y + sin(x) y³, tensor engine", lambda: _mixed(cr, 1.3, 0.7), 1e-15)
    yield Check("Hessian of three variables, scalar engine", _scalar_hessian, 1e-14)
    yield Check("gradient penalty", _recorded_gradient, 1e-13)
