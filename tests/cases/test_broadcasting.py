"""C: broadcasting, and extremes of things with themselves."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from tests.cases.ways import (
    derivatives_are,
    leaf,
    reverse_over_reverse,
)

RNG = np.random.default_rng(11)
INF = float("inf")


# ---------------------------------------------------------------- C1
def test_c1_size_1_operand():
    a, b = np.array([2.0]), np.arange(20.0).reshape(5, 4)
    derivatives_are(lambda a: (a * b).sum(), a, [190.0], [[0.0]])
    derivatives_are(lambda b: (a * b).sum(), b, 2.0, 0.0)
    derivatives_are(lambda a: (a * a * b).sum(), a, [760.0], [[380.0]])


def test_c1_row_and_column_keep_their_shapes():
    column, row = RNG.normal(size=(4, 1)), RNG.normal(size=(1, 4))
    derivatives_are(lambda x: (x * row).sum(), column, row.sum(), 0.0)
    derivatives_are(lambda x: (column * x).sum(), row, column.sum(), 0.0)
    u, v = leaf(column), leaf(row)
    ((u * v) ** 2).sum().backward()
    np.testing.assert_allclose(u.grad, 2 * column * (row**2).sum(), rtol=1e-12)
    np.testing.assert_allclose(v.grad, 2 * row * (column**2).sum(), rtol=1e-12)


def loops(f, a, b):
    """The sum over a broadcast pair, written out: the witness knows nothing of broadcasting backwards."""
    total = 0.0
    shape = np.broadcast_shapes(a.shape, b.shape)
    for place in np.ndindex(shape):
        i = tuple(0 if n == 1 else k for k, n in zip(place[len(shape) - a.ndim :], a.shape, strict=True))
        j = tuple(0 if n == 1 else k for k, n in zip(place[len(shape) - b.ndim :], b.shape, strict=True))
        total = total + f(a[i], b[j])
    return total


PAIRS = [
    (cr.add, lambda x, y: x + y, lambda x, y: (1, 1), lambda x, y: (0, 0, 0)),
    (cr.subtract, lambda x, y: x - y, lambda x, y: (1, -1), lambda x, y: (0, 0, 0)),
    (cr.multiply, lambda x, y: x * y, lambda x, y: (y, x), lambda x, y: (0, 1, 0)),
    (cr.divide, lambda x, y: x / y, lambda x, y: (1 / y, -x / y**2), lambda x, y: (0, -1 / y**2, 2 * x / y**3)),
    (
        cr.hypot,
        np.hypot,
        lambda x, y: (x / np.hypot(x, y), y / np.hypot(x, y)),
        lambda x, y: (y * y / np.hypot(x, y) ** 3, -x * y / np.hypot(x, y) ** 3, x * x / np.hypot(x, y) ** 3),
    ),
]


@settings(max_examples=60, deadline=None)
@given(
    arrays.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3, min_side=0),
    st.sampled_from(PAIRS),
    st.integers(0, 2**32 - 1),
)
def test_c1_every_pattern_keeps_the_operands_shapes_and_dtypes(shapes, pair, seed):
    operation, _, slopes, _ = pair
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(0.5, 2.0, shape) for shape in shapes.input_shapes)
    x, y = leaf(a), leaf(b)
    operation(x, y).sum().backward()
    assert x.grad.shape == a.shape
    assert y.grad.shape == b.shape
    # every entry of the result feeds one entry of each operand: counted by place, not by our own sums
    want_a, want_b = np.zeros(a.shape), np.zeros(b.shape)
    for i, j in zip(
        np.broadcast_to(np.arange(a.size).reshape(a.shape), shapes.result_shape).ravel(),
        np.broadcast_to(np.arange(b.size).reshape(b.shape), shapes.result_shape).ravel(),
        strict=True,
    ):
        s, t = slopes(a.flat[i], b.flat[j])
        want_a.flat[i] += s
        want_b.flat[j] += t
    np.testing.assert_allclose(x.grad, want_a, rtol=1e-12)
    np.testing.assert_allclose(y.grad, want_b, rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    arrays.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=2),
    st.sampled_from(PAIRS),
    st.integers(0, 2**32 - 1),
)
def test_c1_every_pattern_to_second_order(shapes, pair, seed):
    operation, formula, _, curvatures = pair
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(0.5, 2.0, shape) for shape in shapes.input_shapes)
    n, m = a.size, b.size
    z = np.concatenate([a.ravel(), b.ravel()])

    def ours(z):
        x = cr.concat([z[:n], z[n:]])  # two ways to the same entries: joined, and cut apart again
        return operation(x[:n].reshape(a.shape), x[n:].reshape(b.shape)).sum()

    expected = np.zeros((n + m, n + m))
    for i, j in zip(
        np.broadcast_to(np.arange(n).reshape(a.shape), shapes.result_shape).ravel(),
        np.broadcast_to(np.arange(m).reshape(b.shape), shapes.result_shape).ravel(),
        strict=True,
    ):
        xx, xy, yy = curvatures(a.flat[i], b.flat[j])
        expected[i, i] += xx
        expected[n + j, n + j] += yy
        expected[i, n + j] += xy
        expected[n + j, i] += xy
    np.testing.assert_allclose(reverse_over_reverse(ours, z), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(cr.hessian(ours)(z), expected, rtol=1e-11, atol=1e-12)
    assert ours(cr.tensor(z)).item() == pytest.approx(loops(formula, a, b), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_c1_mixed_dtypes_come_back_in_their_own(dtype):
    a, b = leaf(np.ones((1, 3), dtype)), leaf(np.full((4, 1), 2.0))
    (a * b).sum().backward()
    assert a.grad.dtype == dtype
    assert a.grad.tolist() == [[8.0, 8.0, 8.0]]
    assert b.grad.dtype == np.float64
    assert b.grad.tolist() == [[3.0]] * 4


@pytest.mark.parametrize("condition", [(1,), (3, 1), (1, 4), (3, 4), ()])
@pytest.mark.parametrize(("x_shape", "y_shape"), [((), (3, 4)), ((1, 4), (3, 1)), ((4,), (1,)), ((3, 1), ())])
def test_c1_where_broadcasts_three_ways(condition, x_shape, y_shape):
    mask = RNG.random(condition) < 0.5
    x, y = leaf(np.ones(x_shape)), leaf(np.ones(y_shape))
    shape = np.broadcast_shapes(condition, x_shape, y_shape)
    cr.where(mask, x, y).sum().backward()
    taken = np.broadcast_to(mask, shape)
    assert x.grad.shape == x_shape
    assert y.grad.shape == y_shape
    assert x.grad.sum() == taken.sum()
    assert y.grad.sum() == (~taken).sum()


def test_c1_clip_bounds_broadcast_and_keep_their_shapes():
    x, low, high = leaf([[0.0, 5.0, 1.0]]), leaf([[1.0], [2.0]]), leaf(3.0)
    cr.clip(x, low, high).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0, 1.0]]
    assert low.grad.tolist() == [[1.0], [2.0]]  # row 0 takes the bound at 0 alone: 1 lies on it; row 1 at 0 and at 1
    assert high.grad == 2.0


# ---------------------------------------------------------------- C4
def stacked_maxima(x):
    for _ in range(2):
        x = cr.concat([cr.max(x, axis=0, keepdims=True), x])
    return x


def test_c4_max_of_something_with_itself():
    derivatives_are(lambda x: stacked_maxima(x).sum(), [[1.0]], [[3.0]], [[0.0]])
    derivatives_are(lambda x: (stacked_maxima(x) ** 2).sum(), [[2.0]], [[12.0]], [[6.0]])


@pytest.mark.parametrize("of", [cr.maximum, cr.minimum])
def test_c4_two_operands_that_are_one(of):
    derivatives_are(lambda x: of(x, x).sum(), [1.0, -2.0], [1.0, 1.0], 0.0)
    derivatives_are(lambda x: of(x * x, x * x).sum(), [1.0, -2.0], [2.0, -4.0], np.diag([2.0, 2.0]))
    derivatives_are(lambda x: of(of(x, x), x).sum(), [1.0, -2.0], [1.0, 1.0], 0.0)


@pytest.mark.parametrize("name", ["max", "min"])
def test_c4_extreme_of_copies(name):
    fold = getattr(cr, name)
    derivatives_are(lambda x: fold(cr.concat([x, x, x])), [3.0], [1.0], [[0.0]])
    derivatives_are(lambda x: fold(cr.stack([x * x, x * x])), [3.0], [6.0], [[2.0]])
    derivatives_are(lambda x: fold(cr.broadcast_to(x, (5,))), 3.0, 1.0, 0.0)
