"""Random expressions, shared subexpressions included: first derivatives against the complex step, second ones against
differences of it. The witness evaluates the same tree in complex arithmetic and knows nothing of derivatives."""

import cmath
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chainrule import scalar as s

# A program is a list of steps; each applies an operation to two earlier results (chosen by index), so results are shared.
REAL: list[Callable[[Any, Any], Any]] = [
    lambda u, v: u + v,
    lambda u, v: u - v,
    lambda u, v: u * v,
    lambda u, v: u / (v * v + 1),
    lambda u, v: 1.5 - u,
    lambda u, v: 2 / (u * u + 0.5),
    lambda u, v: (u * u + 0.5) ** 1.5,
    lambda u, v: (u * u + 0.5) ** s.sin(v),
    lambda u, v: 1.7 ** s.tanh(u),
    lambda u, v: s.exp(s.tanh(u)) - v,
    lambda u, v: s.log(u * u + 0.5) * v,
    lambda u, v: s.sin(u),
    lambda u, v: s.cos(u) * v,
    lambda u, v: s.tanh(u) + v,
    lambda u, v: s.sigmoid(u),
]
COMPLEX: list[Callable[[complex, complex], complex]] = [
    lambda u, v: u + v,
    lambda u, v: u - v,
    lambda u, v: u * v,
    lambda u, v: u / (v * v + 1),
    lambda u, v: 1.5 - u,
    lambda u, v: 2 / (u * u + 0.5),
    lambda u, v: cmath.exp(1.5 * cmath.log(u * u + 0.5)),
    lambda u, v: cmath.exp(cmath.sin(v) * cmath.log(u * u + 0.5)),
    lambda u, v: cmath.exp(cmath.log(1.7) * cmath.tanh(u)),
    lambda u, v: cmath.exp(cmath.tanh(u)) - v,
    lambda u, v: cmath.log(u * u + 0.5) * v,
    lambda u, v: cmath.sin(u),
    lambda u, v: cmath.cos(u) * v,
    lambda u, v: cmath.tanh(u) + v,
    lambda u, v: 1 / (1 + cmath.exp(-u)),
]
Steps = list[tuple[int, int, int]]
steps = st.lists(
    st.tuples(st.integers(0, len(REAL) - 1), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=9
)
inputs = st.floats(-2, 2, allow_subnormal=False)


def evaluate(program: Steps, operations: list[Callable[[Any, Any], Any]], *xs: Any) -> Any:
    results = list(xs)
    for operation, i, j in program:
        results.append(operations[operation](results[i % len(results)], results[j % len(results)]))
    return sum(results)


def complex_gradient(program: Steps, x: float, y: float) -> list[float]:
    h = 1e-30
    moved = (complex(x, h), complex(y, 0)), (complex(x, 0), complex(y, h))
    return [complex(evaluate(program, COMPLEX, *at)).imag / h for at in moved]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(steps, inputs, inputs)
def test_gradient_of_any_expression(program: Steps, x: float, y: float) -> None:
    a, b = s.Value(x), s.Value(y)
    result = evaluate(program, REAL, a, b)
    assume(abs(result.data) < 1e4)
    result.backward()
    expected = complex_gradient(program, x, y)
    assume(max(map(abs, expected)) < 1e6)
    assert result.data == pytest.approx(
        complex(evaluate(program, COMPLEX, complex(x), complex(y))).real, rel=1e-9, abs=1e-9
    )
    assert [a.grad, b.grad] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert s.gradient(lambda x, y: evaluate(program, REAL, x, y))(x, y) == [a.grad, b.grad]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(steps, inputs, inputs)
def test_hessian_of_any_expression(program: Steps, x: float, y: float) -> None:
    h = 1e-5
    right, left = complex_gradient(program, x + h, y), complex_gradient(program, x - h, y)
    above, below = complex_gradient(program, x, y + h), complex_gradient(program, x, y - h)
    expected = [[(p - q) / (2 * h) for p, q in zip(*pair, strict=True)] for pair in ((right, left), (above, below))]
    assume(max(abs(e) for row in expected for e in row) < 1e3)
    right, left = complex_gradient(program, x + 2 * h, y), complex_gradient(program, x - 2 * h, y)
    wide = [(p - q) / (4 * h) for p, q in zip(right, left, strict=True)]
    assume(max(abs(p - q) for p, q in zip(wide, expected[0], strict=True)) < 1e-5)  # where differences can be trusted
    matrix = s.hessian(lambda x, y: evaluate(program, REAL, x, y))(x, y)
    for row, expected_row in zip(matrix, expected, strict=True):
        assert row == pytest.approx(expected_row, rel=1e-4, abs=1e-4)
    assert matrix[0][1] == pytest.approx(matrix[1][0], rel=1e-9, abs=1e-9)
