"""C: reductions with ties, huge counts, zeros, and where they vanish."""

import itertools

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from tests.cases.ways import (
    by_backward,
    complex_step,
    complex_step_of_differences,
    derivatives_are,
    differences,
    leaf,
    reverse_first,
    reverse_over_reverse,
    second_differences,
)

RNG = np.random.default_rng(12)
INF = float("inf")


# ---------------------------------------------------------------- C6
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("n", [70_000, 2_100_000])
def test_c6_extreme_of_many_ties_in_float16(name, n):
    x = leaf(np.full(n, 0.5, np.float16))
    getattr(cr, name)(x).backward()
    assert x.grad.dtype == np.float16
    assert x.grad.astype(np.float64).sum() == pytest.approx(1.0, abs=1e-2 if n < 100_000 else 0.1)


def test_c6_many_ties_in_float16_to_second_order():
    """Half (max(x))^2 of n ties: a gradient of max / n each, and a Hessian whose product with ones is 1 / n each."""
    x, ones = np.full(70_000, 0.5, np.float16), np.ones(70_000, np.float16)
    value = lambda x: 0.5 * cr.max(x) ** 2
    assert cr.grad(value)(x).astype(np.float64).sum() == pytest.approx(0.5, abs=1e-2)
    with np.errstate(over="ignore"):
        product = cr.hvp(value, x, ones)
    assert product.dtype == np.float16


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "max", "min", "prod", "logsumexp", "norm"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_c6_reductions_of_huge_counts_in_narrow_dtypes(name, dtype):
    """The gradient stays finite and right where a count, or a sum of squares, does not fit the dtype."""
    n = 100_000
    fold = {"norm": cr.Tensor.norm}.get(name) or getattr(cr, name)
    data = np.where(np.arange(n) % 2, 1.0, -1.0).astype(dtype)
    x = leaf(data)
    with np.errstate(over="ignore"):
        y = fold(x)
        y.backward()
    assert y.dtype == dtype
    assert x.grad.dtype == dtype
    signs = data.astype(np.float64)
    expected = {
        "sum": np.ones(n),
        "mean": np.full(n, 1 / n),
        "var": 2 * signs / n,
        "std": signs / n,
        "max": (signs > 0) * 2 / n,
        "min": (signs < 0) * 2 / n,
        "prod": signs * np.prod(signs),
        "logsumexp": np.exp(signs) / np.exp(signs).sum(),
        "norm": signs / np.sqrt(n),
    }[name]
    # float16 has steps of 6e-8 down there
    np.testing.assert_allclose(
        x.grad.astype(np.float64), expected, rtol=2e-3 if dtype == np.float16 else 1e-5, atol=1e-7
    )


def test_c6_mean_of_many_in_float16_with_a_small_cotangent():
    x = leaf(np.ones((100_000, 2), np.float16))
    cr.mean(x, axis=0).sum().backward()
    np.testing.assert_allclose(x.grad.astype(np.float64), 1e-5, rtol=1e-2)


def test_c6_softmax_over_many_in_float16():
    x = leaf(np.zeros(100_000, np.float16))
    y = cr.log_softmax(x)[0]
    y.backward()
    assert y.item() == pytest.approx(-np.log(100_000), rel=1e-3)
    assert x.grad[0] == 1.0
    np.testing.assert_allclose(x.grad[1:].astype(np.float64), -1e-5, rtol=1e-2)


# ---------------------------------------------------------------- C7
def times_others(x):
    return [np.prod(np.delete(x, k)) for k in range(len(x))]


def times_others_twice(x):
    n = len(x)
    return [[0.0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(n)] for i in range(n)]


@pytest.mark.parametrize("x", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [-0.0, 2.0], [0.0], [2.0, 3.0, 4.0]])
def test_c7_prod_with_zeros(x):
    derivatives_are(cr.prod, x, times_others(x), times_others_twice(x))


def test_c7_the_reported_values():
    assert by_backward(cr.prod, np.array([0.0, 2.0, 3.0])).tolist() == [6.0, 0.0, 0.0]
    assert by_backward(cr.prod, np.array([0.0, 0.0, 3.0])).tolist() == [0.0, 0.0, 0.0]


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 2)),
    st.sampled_from([None, 0, 1, -1, (0, 2), (1, 2), ()]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_c7_prod_over_any_axes_with_zeros_anywhere(shape, axis, keepdims, seed):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(shape) < 0.4, 0.0, rng.uniform(-2, 2, shape))
    weights = rng.normal(size=np.prod(x, axis=axis, keepdims=keepdims).shape)
    # NumPy's own product, in complex numbers
    raw = lambda x: np.sum(np.prod(x, axis=axis, keepdims=keepdims) * weights)
    ours = lambda x: (cr.prod(x, axis=axis, keepdims=keepdims) * weights).sum()
    np.testing.assert_allclose(by_backward(ours, x), complex_step(raw, x), rtol=1e-12, atol=1e-13)
    if x.size <= 6:
        np.testing.assert_allclose(
            reverse_over_reverse(ours, x), complex_step_of_differences(raw, x), rtol=1e-7, atol=1e-8
        )


def test_c7_entries_that_overflow_only_beside_a_zero():
    derivatives_are(cr.prod, [0.0, 1e200, 1e200, 0.0], 0.0)
    derivatives_are(lambda x: cr.prod(x), [0.0, 1e-200, 1e-200], 0.0)


# ---------------------------------------------------------------- C10
@pytest.mark.parametrize("x", [[2.0, 0.0, 3.0, 4.0], [0.0, 0.0, 3.0, 1.0], [0.0] * 3, [1.0, 2.0, 0.0], [0.0], [5.0]])
def test_c10_cumprod_with_zeros(x):
    n = len(x)
    first = [sum(np.prod(np.delete(x[: k + 1], i)) for k in range(i, n)) for i in range(n)]
    second = np.zeros((n, n))
    for i, j in itertools.permutations(range(n), 2):
        second[i, j] = sum(np.prod(np.delete(x[: k + 1], [i, j])) for k in range(max(i, j), n))
    derivatives_are(lambda x: cr.cumulative_prod(x).sum(), x, first, second)


def test_c10_the_reported_values():
    assert by_backward(lambda x: cr.cumulative_prod(x).sum(), np.array([2.0, 0.0, 3.0, 4.0])).tolist() == [1, 32, 0, 0]
    assert by_backward(lambda x: np.cumprod(x).sum(), np.array([2.0, 0.0, 3.0, 4.0])).tolist() == [1, 32, 0, 0]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("name", ["cumulative_prod", "cumulative_sum"])
def test_c10_scans_along_any_axis(name, axis, initial):
    x = np.array([[2.0, 0.0, -1.5], [0.5, 3.0, 0.0]])
    ours = getattr(cr, name)
    raw = {"cumulative_prod": np.cumprod, "cumulative_sum": np.cumsum}[name]
    weights = RNG.normal(size=x.shape)
    tail = {0: np.s_[1:], 1: np.s_[:, 1:], -1: np.s_[:, 1:]}[axis] if initial else np.s_[:]
    derivatives_are(
        lambda x: (ours(x, axis=axis, include_initial=initial)[tail] * weights).sum(),
        x,
        complex_step(lambda x: np.sum(raw(x, axis=axis) * weights), x),
        complex_step_of_differences(lambda x: np.sum(raw(x, axis=axis) * weights), x),
        rtol=1e-8,
        atol=1e-9,
    )


# ---------------------------------------------------------------- C12
@pytest.mark.parametrize("x", [[1.0, 1.0], [0.1, 0.1, 0.1], [3.7], [-0.0, 0.0], [1e200, 1e200]])
@pytest.mark.parametrize("correction", [0, 1])
def test_c12_std_and_var_at_constant_input(x, correction):
    n = len(x)
    if n == correction:
        pytest.skip("no degree of freedom is left: NaN, as in NumPy")
    hessian_of_var = 2.0 / (n - correction) * (np.eye(n) - 1.0 / n)
    derivatives_are(lambda x: cr.var(x, correction=correction), x, 0.0, hessian_of_var, value=0.0)
    derivatives_are(lambda x: cr.std(x, correction=correction), x, 0.0, value=0.0)
    assert by_backward(lambda x: cr.var(x, correction=correction), np.array(x)).tolist() == [0.0] * n


def test_c12_std_at_constant_input_has_a_finite_second_derivative():
    for way in (reverse_over_reverse, lambda f, x: cr.hessian(f)(x)):
        assert np.isfinite(way(cr.std, np.array([1.0, 1.0, 1.0]))).all()


def test_c12_a_length_1_axis_and_constant_rows_among_others():
    x = np.array([[2.0], [3.0]])
    derivatives_are(lambda x: cr.std(x, axis=1).sum(), x, 0.0)
    derivatives_are(lambda x: cr.var(x, axis=1).sum(), x, 0.0, 0.0)
    mixed = np.array([[1.0, 1.0], [1.0, 3.0]])
    derivatives_are(lambda x: cr.std(x, axis=1).sum(), mixed, [[0.0, 0.0], [-0.5, 0.5]])
    derivatives_are(lambda x: np.std(x, axis=1).sum(), mixed, [[0.0, 0.0], [-0.5, 0.5]])


def test_c12_smooth_functions_of_std_are_right_where_it_vanishes():
    """std^2 is var, whose Hessian is 2/n (1 - 1/n)."""
    hessian = 2.0 / 3 * (np.eye(3) - 1.0 / 3)
    reverse_first(lambda x: cr.std(x) ** 2, [0.1, 0.1, 0.1], 0.0, hessian)


def test_c12_normalising_a_constant_row():
    """Layer normalisation: (x - mean) / sqrt(var + eps)."""
    x = np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]])
    weights = RNG.normal(size=x.shape)

    def norm(xp, x, **how):
        centred = x - xp.mean(x, axis=1, keepdims=True)
        return ((centred / xp.sqrt(xp.var(x, axis=1, keepdims=True) + 1e-2)) * weights).sum()

    derivatives_are(
        lambda x: norm(cr, x),
        x,
        differences(lambda x: norm(np, x), x, 1e-5),
        second_differences(lambda x: norm(np, x), x, 1e-3),
        rtol=1e-3,
        atol=1e-3,
    )


# ---------------------------------------------------------------- ties, the kind
def ties(values):
    return values == values.max()


@settings(max_examples=40, deadline=None)
@given(
    arrays.arrays(
        np.float64, arrays.array_shapes(min_dims=1, max_dims=3, max_side=3), elements=st.sampled_from([-1.0, 0.0, 2.0])
    ),
    st.data(),
)
def test_c6_ties_share_evenly_along_any_axes(x, data):
    axes = data.draw(st.one_of(st.none(), st.sets(st.integers(0, x.ndim - 1)).map(lambda s: tuple(sorted(s)))))
    keepdims = data.draw(st.booleans())
    for name, sign in (("max", 1.0), ("min", -1.0)):
        fold = getattr(cr, name)
        got = by_backward(lambda x, fold=fold: fold(x, axis=axes, keepdims=keepdims).sum(), x)
        y = sign * x
        won = y == np.max(y, axis=axes, keepdims=True)
        np.testing.assert_allclose(got, won / won.sum(axis=axes, keepdims=True), rtol=1e-12)
        # and the tie is even in second order: half (max x)^2 has the Hessian w w' for the shares w
    if x.size <= 4:
        w = ties(x).ravel() / ties(x).sum()
        derivatives_are(lambda x: 0.5 * cr.max(x) ** 2, x, (w * x.max()).reshape(x.shape), np.outer(w, w))


@pytest.mark.parametrize("name", ["max", "min", "maximum", "minimum"])
def test_nan_is_passed_on_by_extremes(name):
    f = getattr(cr, name)
    x = cr.tensor([1.0, np.nan, 3.0])
    y = f(x) if name in ("max", "min") else f(x, 0.0)[1]
    assert np.isnan(y.item())
    assert cr.max(cr.tensor([1.0, INF])).item() == INF
