"""W: NaN and overflow in the branch that is not taken, behind every selection, in every mode and order.

The witness evaluates the branch that was taken, alone, entry by entry: `taken` gives its value, slope and curvature.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from tests.cases.ways import (
    by_backward,
    by_grad,
    by_hvp,
    by_jvp,
    derivatives_are,
    differences,
    leaf,
    reverse_over_reverse,
    second_differences,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the branches not taken overflow on purpose
INF, NAN = float("inf"), float("nan")


# ---------------------------------------------------------------- W1
def test_w1_overflow_in_the_branch_not_taken():
    f = lambda a: cr.where(a <= 0, cr.exp(a), 1 + a)
    derivatives_are(f, 1000.0, 1.0, [[0.0]], value=1001.0)
    derivatives_are(
        lambda a: f(a).sum(), [1000.0, -1.0, 0.0], [1.0, math.exp(-1), 1.0], np.diag([0, math.exp(-1), 1.0])
    )
    assert cr.grad(f)(1000.0) == 1.0
    assert cr.grad(cr.grad(cr.grad(f)))(1000.0) == 0.0


# Functions that are undefined, infinite or overflow at 0, 2000 or -2000, with the taken branch at hand.
BAD = {
    "log": (cr.log, 0.0),
    "log_negative": (cr.log, -2000.0),
    "log1p": (lambda x: cr.log1p(x - 1.0), 0.0),
    "log2": (cr.log2, 0.0),
    "log10": (cr.log10, -2000.0),
    "sqrt": (cr.sqrt, 0.0),
    "sqrt_negative": (cr.sqrt, -2000.0),
    "exp": (cr.exp, 2000.0),
    "exp2": (cr.exp2, 2000.0),
    "expm1": (cr.expm1, 2000.0),
    "sinh": (cr.sinh, 2000.0),
    "cosh": (cr.cosh, -2000.0),
    "reciprocal": (lambda x: 1.0 / x, 0.0),
    "reciprocal_primitive": (cr.reciprocal, 0.0),
    "zero_over_zero": (lambda x: x / x, 0.0),
    "root_over_itself": (lambda x: cr.sqrt(x) / cr.sqrt(x), 0.0),
    "divide_by_square": (lambda x: cr.sin(x) / (x * x), 0.0),
    "power_negative": (lambda x: x**-2, 0.0),
    "power_fraction": (lambda x: x**0.5, 0.0),
    "power_of_negative": (lambda x: x**1.5, -2000.0),
    "power_arrays": (lambda x: cr.pow(x, x), -2000.5),
    "power_overflow": (lambda x: cr.pow(x, x), 2000.0),
    "asin": (cr.asin, 2000.0),
    "acos": (cr.acos, -2000.0),
    "atanh": (cr.atanh, 2000.0),
    "atanh_edge": (lambda x: cr.atanh(x + 1.0), 0.0),
    "asin_edge": (lambda x: cr.asin(x + 1.0), 0.0),
    "acosh": (cr.acosh, 0.0),
    "atan2": (lambda x: cr.atan2(x, x), 0.0),
    "exp_squared": (lambda x: cr.exp(x) * cr.exp(x), 2000.0),
    "inf_minus_inf": (lambda x: cr.exp(x) - cr.exp(x), 2000.0),
    "inf_over_inf": (lambda x: cr.exp(x) / cr.exp(x), 2000.0),
    "exp_of_exp": (lambda x: cr.exp(cr.exp(x)), 2000.0),
    "log_of_log": (lambda x: cr.log(cr.log(x)), 0.0),
    "tan_of_infinity": (lambda x: cr.tan(1.0 / x), 0.0),
    "sin_of_infinity": (lambda x: cr.sin(1.0 / x), 0.0),
    "x_log_x": (lambda x: x * cr.log(x), 0.0),
    "remainder": (lambda x: x % x, 0.0),
    "tanh_of_infinity": (lambda x: x * cr.tanh(1.0 / x), 0.0),
    "sigmoid_of_overflow": (lambda x: cr.sigmoid(cr.exp(x)) * cr.exp(x), 2000.0),
    "sinc_of_infinity": (lambda x: cr.sinc(1.0 / x), 0.0),
    "logaddexp_of_infinities": (lambda x: cr.logaddexp(cr.exp(x), cr.exp(x)), 2000.0),
}
# what is taken instead: the function, its slope and its curvature
GOOD = {
    "affine": (lambda xp, x: 3.0 * x + 1.0, lambda x: 3.0, lambda x: 0.0),
    "cube": (lambda xp, x: x * x * x, lambda x: 3 * x * x, lambda x: 6 * x),
    "sin": (lambda xp, x: xp.sin(x), math.cos, lambda x: -math.sin(x)),
    "nothing": (lambda xp, x: 0.0, lambda x: 0.0, lambda x: 0.0),
}


@pytest.mark.parametrize("good", GOOD)
@pytest.mark.parametrize("bad", BAD)
def test_w1_every_function_in_the_branch_not_taken(bad, good):
    """To second order by every way: one entry where the bad branch would be taken is masked, another never is."""
    function, at = BAD[bad]
    other, slope, curvature = GOOD[good]
    x = np.array([at, 1.25, at])
    taken = np.array([False, True, False])

    def f(x):
        # at 1.25 the bad function's own argument is moved into its domain by a constant, and it counts for nothing
        safe = other(cr, x)
        return (cr.where(taken, safe, cr.where(~taken, safe, function(x)))).sum()

    slopes = np.array([slope(v) for v in x])
    derivatives_are(f, x, slopes, np.diag([curvature(v) for v in x]), rtol=1e-11)


@pytest.mark.parametrize("bad", BAD)
def test_w1_the_two_branches_side_by_side(bad):
    """The condition is computed from x, the bad entry takes the good branch, the others take the bad function's."""
    function, at = BAD[bad]
    x = np.array([at])
    derivatives_are(lambda x: cr.where(x != at, function(x), x * x * x).sum(), x, 3 * x * x, [[6 * at]])
    derivatives_are(lambda x: cr.where(x == at, x * x * x, function(x)).sum(), x, 3 * x * x, [[6 * at]])


@pytest.mark.parametrize("bad", BAD)
def test_w1_third_order_and_mixed_with_a_tensor_closed_over(bad):
    function, at = BAD[bad]
    w = leaf(2.0)
    f = lambda x: cr.where(x == at, w * x * x * x, function(w * x))
    assert cr.grad(cr.grad(cr.grad(f)))(at).item() == 12.0
    slope = cr.grad(f)(at)
    assert cr.gradients(slope, w).item() == 3 * at * at
    curvature = cr.grad(cr.grad(f))(at)
    assert cr.gradients(curvature, w).item() == 6 * at


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("bad_again", ["log", "exp", "reciprocal", "sqrt", "zero_over_zero"])
def test_w1_compositions_of_two(bad, bad_again):
    """A bad function of a selected one of a bad one: where inside where."""
    function, at = BAD[bad]
    outer, at_outer = BAD[bad_again]

    def f(x):
        inner = cr.where(x == at, x - x + at_outer, function(x))  # exactly where the outer one fails
        return cr.where(inner == at_outer, x * x, outer(inner)).sum()

    x = np.array([at])
    derivatives_are(f, x, 2 * x, [[2.0]])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(BAD)), min_size=1, max_size=3),
    st.sampled_from(["cube", "sin"]),
    st.sampled_from(
        ["sum", "mean", "product_with", "square_of_sum", "norm", "logsumexp", "max", "matmul", "cumsum", "stack"]
    ),
    st.integers(0, 2**32 - 1),
)
def test_w1_any_chain_of_bad_functions_before_the_selection_any_reduction_after(names, good, fold, seed):
    rng = np.random.default_rng(seed)
    functions = [BAD[name][0] for name in names]
    at = BAD[names[0]][1]
    other = GOOD[good][0]
    x = np.where(rng.random(4) < 0.5, at, rng.uniform(0.3, 0.9, 4))
    masked = x == at
    weights = rng.normal(size=4)
    folds = {
        "sum": lambda xp, y: y.sum(),
        "mean": lambda xp, y: xp.mean(y * weights),
        "product_with": lambda xp, y: (y * weights * y).sum(),
        "square_of_sum": lambda xp, y: y.sum() ** 2,
        "norm": lambda xp, y: ((y * y).sum() + 1.0) ** 0.5,
        "logsumexp": lambda xp, y: xp.log(xp.sum(xp.exp(y * 1e-3 * weights))),
        "max": lambda xp, y: xp.max(y + weights),
        "matmul": lambda xp, y: y @ np.diag(weights) @ y,
        "cumsum": lambda xp, y: (xp.cumulative_sum(y) * weights).sum(),
        "stack": lambda xp, y: (xp.stack([y, weights * y]) ** 2).sum(),
    }
    scale = 1.0 if abs(at) < 10 else 1e-3

    def f(xp, x):
        z = x
        for function in functions:
            z = function(z) if xp is cr else z
        good = other(xp, x * scale)
        # NumPy's witness never sees the bad functions: they are taken nowhere
        return folds[fold](xp, cr.where(masked, good, cr.where(masked | True, good, z)) if xp is cr else good)

    with np.errstate(all="ignore"):
        want = differences(lambda x: f(np, x), x, 1e-5 * max(1.0, abs(at)))
        for way in (by_backward, by_grad, by_jvp):
            got = way(lambda x: f(cr, x), x)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=way.__name__)
        if fold != "max":
            want = second_differences(lambda x: f(np, x), x, 1e-3 * max(1.0, abs(at)))
            for way in (reverse_over_reverse, by_hvp):
                got = way(lambda x: f(cr, x), x)
                np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4, err_msg=way.__name__)


# ---------------------------------------------------------------- other selections than where
SELECTIONS = {
    "where": lambda mask, x, y: cr.where(mask, x, y),
    "where_twisted": lambda mask, x, y: cr.where(~mask, y, x),
    "setitem": lambda mask, x, y: _written(mask, x, y),
    "stack_and_take": lambda mask, x, y: cr.stack([y, x])[mask.astype(int), np.arange(len(mask))],
    "slices": lambda mask, x, y: cr.stack([(x if m else y)[k] for k, m in enumerate(mask)]),
    "boolean_index": lambda mask, x, y: cr.concat([x[mask], y[~mask]])[np.argsort(np.argsort(~mask, kind="stable"))],
    "np.where": lambda mask, x, y: np.where(mask, x, y),
}


def _written(mask, x, y):
    t = y * 1.0
    t[mask] = x[mask]
    return t


@pytest.mark.parametrize("bad", ["log", "exp", "sqrt", "zero_over_zero", "inf_minus_inf", "power_fraction", "asin"])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_w1_every_selection_leaves_the_other_branch_out(selection, bad):
    function, at = BAD[bad]
    x = np.array([at, at, 0.5])
    mask = np.array([True, True, False])
    select = SELECTIONS[selection]
    derivatives_are(
        lambda x: (select(mask, x * x * x, cr.where(mask, function(x), cr.sin(x)))).sum(),
        x,
        [3 * at * at, 3 * at * at, math.cos(0.5)],
        np.diag([6 * at, 6 * at, -math.sin(0.5)]),
    )


def test_w1_a_nan_that_was_there_before():
    """NaN in the input itself: it is left out, and its gradient is zero."""
    x = np.array([1.0, NAN, 3.0])
    for f in (
        lambda x: cr.where(cr.isnan(x), 0.0, x * x).sum(),
        lambda x: (x * x)[~np.isnan(np.array([1.0, NAN, 3.0]))].sum(),
        lambda x: (x * x)[[0, 2]].sum(),
        lambda x: (x * x)[::2].sum(),
        lambda x: cr.stack([(x * x)[0], (x * x)[2]]).sum(),
        lambda x: (x * x).take(np.array([0, 2])).sum(),
    ):
        derivatives_are(f, x, [2.0, 0.0, 6.0], np.diag([2.0, 0.0, 2.0]))


def test_w1_triangles_and_pads_leave_a_nan_out():
    x = np.array([[1.0, NAN], [2.0, 3.0]])
    derivatives_are(lambda x: cr.tril(x * x).sum(), x, [[2.0, 0.0], [4.0, 6.0]], np.diag([2.0, 0, 2, 2]))
    derivatives_are(lambda x: cr.triu((x * x).T).sum(), x, [[2.0, 0.0], [4.0, 6.0]], np.diag([2.0, 0, 2, 2]))
    derivatives_are(lambda x: cr.diagonal(x * x).sum(), x, [[2.0, 0.0], [0.0, 6.0]], np.diag([2.0, 0, 0, 2]))
    derivatives_are(lambda x: cr.split(x * x, 2)[1].sum(), x, [[0.0, 0.0], [4.0, 6.0]], np.diag([0.0, 0, 2, 2]))
    derivatives_are(lambda x: cr.unstack(x * x)[1].sum(), x, [[0.0, 0.0], [4.0, 6.0]], np.diag([0.0, 0, 2, 2]))


def test_w1_a_branch_taken_that_is_nan_stays_nan():
    """The mask must not hide what is really wrong."""
    x = np.array([-1.0, 4.0])
    g = by_backward(lambda x: cr.sqrt(x).sum(), x)
    assert np.isnan(g[0])
    assert g[1] == 0.25
    assert np.isinf(by_backward(lambda x: cr.sqrt(x).sum(), np.array([0.0])))
    assert np.isinf(by_backward(lambda x: cr.log(x).sum(), np.array([0.0])))


def test_w1_a_zero_cotangent_by_hand():
    """Whatever puts the zero there: a cotangent given by the user, a factor, an unused row."""
    x = leaf([0.0, 1.0])
    cr.log(x).backward(np.array([0.0, 1.0]))
    assert x.grad.tolist() == [0.0, 1.0]
    mask = np.array([0.0, 1.0])
    derivatives_are(lambda x: (cr.sqrt(x)[1:] * 2.0).sum(), [0.0, 4.0], [0.0, 0.5], np.diag([0.0, -1 / 16]))
    g = by_backward(lambda x: (cr.sqrt(x) * mask).sum(), np.array([0.0, 4.0]))
    assert g.tolist() == [0.0, 0.25]


def test_w1_the_derivative_with_respect_to_the_cotangent_is_not_lost():
    """k * log(x) at k = 0: the zero cotangent hangs on k, and d/dk d/dx = 1/x."""
    k, x = leaf(0.0), leaf(2.0)
    slope = cr.gradients(k * cr.log(x), x, create_graph=True)
    assert slope.item() == 0.0
    assert cr.gradients(slope, k).item() == 0.5
    derivatives_are(lambda z: z[0] * cr.log(z[1]), [0.0, 2.0], [math.log(2.0), 0.0], [[0.0, 0.5], [0.5, 0.0]])
    derivatives_are(lambda z: z[0] ** 2 / z[1], [0.0, 2.0], [0.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])


# ---------------------------------------------------------------- W3
def test_w3_sqrt_then_where():
    x = np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]])
    norm = lambda x: cr.sqrt((x * x).sum(axis=1))
    n = np.array([np.sqrt(5.0), 5.0])
    first = np.zeros((3, 2))
    first[:2] = x[:2] / n[:, None]
    second = np.zeros((6, 6))
    for k in range(2):
        u = first[k]
        second[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = (np.eye(2) - np.outer(u, u)) / n[k]
    derivatives_are(lambda x: cr.where(norm(x) > 0.5, norm(x), 1.0).sum(), x, first, second)

    def once(x):
        length = norm(x)
        return cr.where(length > 0.5, length, 1.0).sum()

    derivatives_are(once, x, first, second)
    derivatives_are(lambda x: cr.where(norm(x) > 0.5, x.norm(axis=1), 1.0).sum(), x, first, second)
    derivatives_are(lambda x: cr.where(norm(x) > 0.5, ((x**2).sum(axis=1)) ** 0.5, 1.0).sum(), x, first, second)


def test_w3_normalising_rows_of_which_some_vanish():
    """x / |x| where |x| > 0, else 0: the safe division written with one where only."""
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])

    def f(x):
        n = cr.sqrt((x * x).sum(axis=1, keepdims=True))
        return (cr.where(n > 0, x / n, 0.0) * weights).sum()

    first, second = np.zeros((2, 2)), np.zeros((4, 4))
    row = lambda r: (r / np.sqrt((r * r).sum()) * weights[0]).sum()
    first[0] = differences(row, x[0])
    second[:2, :2] = second_differences(row, x[0])
    derivatives_are(f, x, first, second, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("power", [0.5, 0.25, -1.0, 1.5])
def test_w3_powers_of_sums_that_vanish(power):
    x = np.array([[1.0, 2.0], [0.0, 0.0]])

    def f(xp, x):
        s = (x * x).sum(axis=1)
        return xp.where(s > 0, s**power, 0.0).sum()

    first, second = np.zeros((2, 2)), np.zeros((4, 4))
    row = lambda r: (r * r).sum() ** power
    first[0] = differences(row, x[0])
    second[:2, :2] = second_differences(row, x[0])
    derivatives_are(lambda x: f(cr, x), x, first, second, rtol=1e-5, atol=1e-6)
