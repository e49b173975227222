"""The scalar engine and the tensor engine share no code and must agree: values, gradients and Hessians of random expressions.

The expression is one Python function for both; plain floats are a third witness of the value.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule import scalar

VARIABLES = 3
UNARY: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda e, x: e.sin(x),
    "cos": lambda e, x: e.cos(x),
    "tanh": lambda e, x: e.tanh(x),
    "sigmoid": lambda e, x: e.sigmoid(x),
    "relu": lambda e, x: e.relu(x),
    "abs": lambda e, x: abs(x),
    "neg": lambda e, x: -x,
    "square": lambda e, x: x**2,
    "cube": lambda e, x: x**3,
    "half": lambda e, x: (x * x + 0.5) ** 0.5,
    "log": lambda e, x: e.log(x * x + 1.0),
    "exp": lambda e, x: e.exp(e.sin(x)),
    "inverse": lambda e, x: 1.0 / (x * x + 2.0),
    "shift": lambda e, x: 3.0 - x,
    "scale": lambda e, x: 0.5 * x,
}
BINARY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda e, x, y: x + y,
    "sub": lambda e, x, y: x - y,
    "mul": lambda e, x, y: x * y,
    "div": lambda e, x, y: x / (y * y + 1.0),
    "max": lambda e, x, y: e.maximum(x, y),
    "min": lambda e, x, y: e.minimum(x, y),
    "power": lambda e, x, y: (x * x + 0.5) ** e.tanh(y),
}

Tree = Any
leaves = st.integers(0, VARIABLES - 1)
trees = st.recursive(
    leaves,
    lambda below: st.one_of(
        st.tuples(st.sampled_from(sorted(UNARY)), below), st.tuples(st.sampled_from(sorted(BINARY)), below, below)
    ),
    max_leaves=12,
)
points = st.lists(st.floats(-2.0, 2.0).map(lambda x: round(x, 3) + 0.0), min_size=VARIABLES, max_size=VARIABLES)


def build(tree: Tree, engine: Any) -> Callable[..., Any]:
    def f(*xs: Any) -> Any:
        def value(node: Tree) -> Any:
            if isinstance(node, int):
                return xs[node]
            operation, *below = node
            table = UNARY if len(below) == 1 else BINARY
            return table[operation](engine, *map(value, below))

        return value(tree) + 0.0 * xs[0]

    return f


@settings(max_examples=150, deadline=None, derandomize=True)
@given(trees, points)
def test_values_gradients_and_hessians(tree, point):
    of_values, of_tensors = build(tree, scalar), build(tree, cr)
    xs = [scalar.Value(x) for x in point]
    y = of_values(*xs)
    y.backward()
    ts = [cr.tensor(x, requires_grad=True) for x in point]
    z = of_tensors(*ts)
    z.backward()
    plain = build(tree, scalar)(*point)
    assert z.item() == pytest.approx(y.data, rel=1e-12, abs=1e-12)
    assert plain == pytest.approx(y.data, rel=1e-13, abs=1e-15)
    for x, t in zip(xs, ts, strict=True):
        gradient = 0.0 if t.grad is None else float(t.grad)
        assert gradient == pytest.approx(x.grad, rel=1e-10, abs=1e-10)
    ours = cr.hessian(lambda v: of_tensors(*[v[k] for k in range(VARIABLES)]))(np.array(point))
    theirs = np.array(scalar.hessian(of_values)(*point))
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(trees, points)
def test_forward_agrees_with_reverse(tree, point):
    f = build(tree, cr)
    tangents = tuple(math.cos(k + 1.0) for k in range(VARIABLES))
    y, t = cr.jvp(f, tuple(point), tangents)
    gradients = cr.grad(f, argnums=tuple(range(VARIABLES)))(*point)
    assert float(t) == pytest.approx(float(np.dot(gradients, tangents)), rel=1e-10, abs=1e-10)
    assert float(y) == pytest.approx(float(f(*point)), rel=1e-13, abs=1e-15)
