"""Random programs, with their gradients and writes, compiled against eager: bit for bit by NumPy, closely natively."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule.compiler.executors import compiler, name_of_executor
from tests.compiler.traced import run

SHAPES = [(), (3,), (1, 3), (2, 1), (2, 3)]
UNARY = {
    "exp": cr.exp, "tanh": cr.tanh, "sin": cr.sin, "square": cr.square, "sqrt": lambda x: cr.sqrt(x * x + 0.5),
    "log": lambda x: cr.log(x * x + 1.0), "relu": cr.relu, "negative": lambda x: -x, "sigmoid": cr.sigmoid,
    "sum": lambda x: x.sum(), "mean": lambda x: cr.mean(x, axis=-1, keepdims=True) if x.ndim else x, "abs": cr.abs,
    "max": lambda x: cr.max(x, axis=0) if x.ndim else x, "turn": lambda x: x.T, "flat": lambda x: x.reshape(-1),
    "first": lambda x: x[0] if x.ndim else x, "back": lambda x: x[..., ::-1] if x.ndim else x, "twice": lambda x: x + x,
    "soft": lambda x: cr.softmax(x) if x.ndim else x, "cumulate": lambda x: cr.cumulative_sum(x, axis=0) if x.ndim else x,
    "half": lambda x: x.astype(np.float32).astype(np.float64), "pick": lambda x: x[[0, -1, 0]] if x.ndim else x,
    "norm": lambda x: cr.std(x + 0.1 * cr.arange(float(x.size)).reshape(x.shape)), "clip": lambda x: cr.clip(x, -0.5, 0.5),
}  # fmt: skip
BINARY = {
    "add": cr.add, "subtract": cr.subtract, "multiply": cr.multiply, "divide": lambda x, y: x / (y * y + 1.0),
    "maximum": cr.maximum, "minimum": cr.minimum, "where": lambda x, y: cr.where(x > y, x, y * 2.0),
    "matmul": lambda x, y: x @ y.T if x.ndim == 2 == y.ndim and x.shape[1] == y.shape[1] else x * 0.5,
    "concat": lambda x, y: cr.concat([x, y]) if x.ndim == 1 == y.ndim else x,
    "hide": lambda x, y: cr.where(x > 0.0, cr.sqrt(cr.where(x > 0.0, x, 1.0)) * y, y), "atan2": lambda x, y: cr.atan2(x, y + 3.0),
}  # fmt: skip
STEP = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 30)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 30), st.integers(0, 30)),
)
PROGRAM = st.tuples(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3), st.lists(STEP, min_size=1, max_size=14))


def fits(x: Any, y: Any) -> bool:
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return x.size * y.size < 2000


def computed(inputs: list[Any], steps: list[Any]) -> list[Any]:
    """All values of a program; operands that do not fit are left alone."""
    values = list(inputs)
    for name, *of in steps:
        operands = [values[k % len(values)] for k in of]
        if len(operands) == 1:
            values.append(UNARY[name](operands[0]))
        elif fits(*operands) or name in ("matmul", "concat"):
            values.append(BINARY[name](*operands))
    return values


def whole(steps: list[Any]) -> Any:
    """The last values, the gradients of a sum of all, and a step against these that is written in place."""

    def f(*arrays: Any) -> list[Any]:
        leaves = [cr.Tensor(a, requires_grad=True) for a in arrays]
        values = computed(leaves, steps)
        total = sum((cr.sum(cr.sin(v)) for v in values[1:]), cr.sum(values[0]))
        total.backward()
        for array, t in zip(arrays, leaves, strict=True):
            if array.ndim:
                array -= 0.1 * t.grad  # noqa: PLW2901 - in place
        return [*values[-2:], total, *(t.grad for t in leaves)]

    return f


def arrays_for(shapes: list[Any]) -> list[Any]:
    rng = np.random.default_rng(len(shapes))
    return [rng.normal(size=shape) for shape in shapes]


@given(PROGRAM)
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_by_numpy(program):
    shapes, steps = program
    eager, mine = arrays_for(shapes), arrays_for(shapes)
    expected = [np.asarray(getattr(r, "data", r)) for r in whole(steps)(*eager)]
    found = run(whole(steps), *mine, twice=False)
    for one, other in zip([*found, *mine], [*expected, *eager], strict=True):
        assert (np.shape(one), np.asarray(one).dtype) == (other.shape, other.dtype)
        # softmax's rule takes a shorter way on NumPy's arrays than on those of a trace
        np.testing.assert_allclose(one, other, *((1e-12, 1e-13) if any(s[0] == "soft" for s in steps) else (0, 0)))


@given(PROGRAM)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_natively(program):
    if name_of_executor(None) != "native":
        pytest.skip("llvmlite is not installed")
    shapes, steps = program
    eager, mine = arrays_for(shapes), arrays_for(shapes)
    expected = [np.asarray(getattr(r, "data", r)) for r in whole(steps)(*eager)]
    found = run(whole(steps), *mine, compile=compiler("native"), twice=False)
    for one, other in zip([*found, *mine], [*expected, *eager], strict=True):
        assert (np.shape(one), np.asarray(one).dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, 1e-9, 1e-9 * max(1.0, float(np.max(np.abs(other), initial=0.0))))
