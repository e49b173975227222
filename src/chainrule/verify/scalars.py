"""Suite: gradients of the scalar engine against derivatives written by hand, with `math` alone."""

# Tables of formulas: lambdas of any number of parameters leave a type checker nothing to infer.
# pyright: basic
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from chainrule import scalar
from chainrule.scalar import Value
from chainrule.verify.suites import Check

Function = Callable[..., Any]


def _doubled(x: Any) -> Any:
    return x + x


# name, function of Values, its partial derivatives by hand, where
CASES: list[tuple[str, Function, list[Function], tuple[float, ...]]] = [
    ("x + y", lambda x, y: x + y, [lambda x, y: 1.0, lambda x, y: 1.0], (1.5, -0.5)),
    ("x - y", lambda x, y: x - y, [lambda x, y: 1.0, lambda x, y: -1.0], (1.5, -0.5)),
    ("x * y", lambda x, y: x * y, [lambda x, y: y, lambda x, y: x], (1.5, -0.5)),
    ("x / y", lambda x, y: x / y, [lambda x, y: 1 / y, lambda x, y: -x / y**2], (1.5, -0.5)),
    ("x ** y", lambda x, y: x**y, [lambda x, y: y * x ** (y - 1), lambda x, y: x**y * math.log(x)], (1.5, -0.5)),
    ("-x", lambda x: -x, [lambda x: -1.0], (0.7,)),
    ("2 - x", lambda x: 2.0 - x, [lambda x: -1.0], (0.7,)),
    ("2 / x", lambda x: 2.0 / x, [lambda x: -2.0 / x**2], (0.7,)),
    ("2 ** x", lambda x: 2.0**x, [lambda x: 2.0**x * math.log(2.0)], (0.7,)),
    ("x ** 3", lambda x: x**3, [lambda x: 3 * x**2], (-1.2,)),
    ("x ** -2", lambda x: x**-2, [lambda x: -2 * x**-3], (-1.2,)),
    ("x ** 0.5", lambda x: x**0.5, [lambda x: 0.5 / math.sqrt(x)], (2.3,)),
    ("exp", lambda x: x.exp(), [math.exp], (0.4,)),
    ("log", lambda x: x.log(), [lambda x: 1 / x], (0.4,)),
    ("sin", lambda x: x.sin(), [math.cos], (0.4,)),
    ("cos", lambda x: x.cos(), [lambda x: -math.sin(x)], (0.4,)),
    ("tanh", lambda x: x.tanh(), [lambda x: 1 / math.cosh(x) ** 2], (0.4,)),
    ("sigmoid", lambda x: x.sigmoid(), [lambda x: 1 / (2 + math.exp(x) + math.exp(-x))], (0.4,)),
    ("relu above 0", lambda x: x.relu(), [lambda x: 1.0], (0.4,)),
    ("relu below 0", lambda x: x.relu(), [lambda x: 0.0], (-0.4,)),
    ("relu at 0", lambda x: x.relu(), [lambda x: 0.0], (0.0,)),
    ("abs", abs, [lambda x: -1.0], (-0.4,)),
    ("maximum", scalar.maximum, [lambda x, y: 0.0, lambda x, y: 1.0], (0.4, 0.6)),
    ("minimum", scalar.minimum, [lambda x, y: 1.0, lambda x, y: 0.0], (0.4, 0.6)),
    ("maximum of a tie", scalar.maximum, [lambda x, y: 0.5, lambda x, y: 0.5], (0.4, 0.4)),
    ("x * x + x, one node used three times", lambda x: x * x + x, [lambda x: 2 * x + 1], (2.0,)),
    ("b + b of b = a + a", lambda a: _doubled(_doubled(a)), [lambda a: 4.0], (1.0,)),
    ("tanh at 1000", lambda x: x.tanh(), [lambda x: 0.0], (1000.0,)),
    ("sigmoid at -1000", lambda x: x.sigmoid(), [lambda x: 0.0], (-1000.0,)),
    (
        "x² y + sin(x) y³",
        lambda x, y: x**2 * y + x.sin() * y**3,
        [lambda x, y: 2 * x * y + math.cos(x) * y**3, lambda x, y: x**2 + 3 * math.sin(x) * y**2],
        (1.3, 0.7),
    ),
    (
        "log(exp(x) + exp(y))",
        lambda x, y: (x.exp() + y.exp()).log(),
        [lambda x, y: 1 / (1 + math.exp(y - x)), lambda x, y: 1 / (1 + math.exp(x - y))],
        (0.3, -0.8),
    ),
]


def _gradient(f: Function, xs: tuple[float, ...]) -> list[float]:
    values = [Value(x) for x in xs]
    f(*values).backward()
    return [value.grad for value in values]


def _worked_example() -> tuple[list[float], list[float]]:
    w, x, b, y = (Value(v) for v in (0.5, 2.0, 1.0, 3.0))
    loss = ((w * x + b) - y) ** 2
    loss.backward()
    return [loss.data, w.grad, x.grad, b.grad, y.grad], [1.0, -4.0, -1.0, -2.0, 2.0]


def _long_chain() -> tuple[float, float]:
    x = y = Value(0.5)
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    return x.grad, 1.0


def _twice() -> tuple[float, float]:
    x = Value(3.0)
    y = x * x
    y.backward()
    y.backward()
    return x.grad, 12.0


def _neuron() -> tuple[list[float], list[float]]:
    """A network of one hidden layer, differentiated by hand."""
    xs, ws, vs = [0.5, -1.2], [[0.3, -0.8], [0.9, 0.4]], [1.1, -0.6]
    weights = [[Value(w) for w in row] for row in ws]
    hidden = [sum((w * x for w, x in zip(row, xs, strict=True)), Value(0.1)).tanh() for row in weights]
    sum((v * h for v, h in zip(vs, hidden, strict=True)), Value(0.0)).backward()
    slopes = [1 / math.cosh(sum(w * x for w, x in zip(row, xs, strict=True)) + 0.1) ** 2 for row in ws]
    expected = [v * s * x for v, s in zip(vs, slopes, strict=True) for x in xs]
    return [w.grad for row in weights for w in row], expected


def _parameters() -> tuple[int, int]:
    return len(scalar.MLP(2, [16, 16, 1]).parameters()), 2 * 16 + 16 + 16 * 16 + 16 + 16 + 1


def checks() -> Iterator[Check]:
    """All checks of the suite."""
    for name, f, slopes, at in CASES:
        yield Check(
            f"{name} at {', '.join(map(str, at))}",
            lambda f=f, slopes=slopes, at=at: (_gradient(f, at), [slope(*at) for slope in slopes]),
            1e-14,
        )
    yield Check("worked example: ((w x + b) - y)²", _worked_example, 0.0)
    yield Check("a chain of 100,000 additions", _long_chain, 0.0)
    yield Check("backward twice adds up", _twice, 0.0)
    yield Check("two tanh neurons by hand", _neuron, 1e-14)
    yield Check("MLP(2, [16, 16, 1]) has 337 parameters", _parameters, 0.0)
