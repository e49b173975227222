"""Running sums and products, recurrences, sorting."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError
from chainrule.ops.scans import recurrence
from tests.ops.derivatives import agrees, differences, gradient, hessian, second_differences
from tests.oracle.peers import peer

RNG = np.random.default_rng(5)
X = RNG.uniform(-1.5, 1.5, (2, 4, 3))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_scans_agree_with_numpy(name, axis, initial):
    agrees(
        lambda x: getattr(cr, name)(x, axis=axis, include_initial=initial),
        X[:, :, :2],
        lambda x: getattr(np, name)(x, axis=axis, include_initial=initial),
    )


def test_c10_running_product_with_a_zero():
    x = np.array([2.0, 0.0, 3.0, 4.0])
    assert gradient(cr.cumulative_prod, x).tolist() == [1.0, 32.0, 0.0, 0.0]
    np.testing.assert_allclose(hessian(cr.cumulative_prod, x), second_differences(np.cumprod, x), atol=1e-5)
    for zeros in ([0], [1, 2], [0, 3], [0, 1, 2, 3]):
        y = np.array([2.0, -1.5, 3.0, 0.5])
        y[zeros] = 0.0
        np.testing.assert_allclose(gradient(cr.cumulative_prod, y), differences(np.cumprod, y), atol=1e-8)
        np.testing.assert_allclose(hessian(cr.cumulative_prod, y), second_differences(np.cumprod, y), atol=1e-5)


def test_e3_empty_scans():
    for f in (cr.cumulative_sum, cr.cumulative_prod, cr.sort):
        for axis in (0, 1):
            g = gradient(lambda t, f=f, axis=axis: f(t, axis=axis), np.zeros((2, 0)))
            assert g.shape == (2, 0)
    assert cr.cumulative_prod(np.zeros((2, 0)), axis=1, include_initial=True).tolist() == [[1.0], [1.0]]
    assert cr.cumulative_sum(np.zeros((2, 0)), axis=1, include_initial=True).tolist() == [[0.0], [0.0]]


def test_running_product_agrees_with_pytorch_in_rows_with_zeros():
    torch = peer("torch")
    x = X.copy()
    x[0, 1, :] = x[1, 3, 1] = x[1, 0, 1] = 0.0
    t = torch.tensor(x, requires_grad=True)
    weights = RNG.normal(size=x.shape)
    (torch.cumprod(t, 1) * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(
        gradient(lambda u: cr.cumulative_prod(u, axis=1) * weights, x), t.grad.numpy(), rtol=1e-12
    )


def test_a_long_sequence_takes_linear_time_and_stays_exact():
    x = np.where(RNG.random(100_000) < 0.5, 1.0, -1.0)
    y = np.cumprod(x)
    expected = np.cumsum(y[::-1])[::-1] / x  # the textbook formula, exact for entries of absolute value 1
    assert np.array_equal(gradient(cr.cumulative_prod, x), expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence_step_by_step(reverse):
    a, b = RNG.normal(size=3), RNG.normal(size=4)
    states = [b[3 if reverse else 0]]
    for k in range(3):
        link, step = (a[2 - k], b[2 - k]) if reverse else (a[k], b[k + 1])
        states.append(step + link * states[-1])
    expected = np.array(states[::-1] if reverse else states)
    np.testing.assert_allclose(recurrence(a, b, 0, reverse), expected, rtol=1e-14)
    wide = recurrence(np.stack([a, a], 1), np.stack([b, b], 1), 0, reverse)  # the other way of computing
    np.testing.assert_allclose(wide, np.stack([expected, expected], 1), rtol=1e-14)


def test_dtypes_of_scans():
    half = cr.tensor(np.ones(3, np.float16), requires_grad=True)
    single = cr.tensor(np.ones(3, np.float32), requires_grad=True)
    for f in (cr.cumulative_sum, cr.cumulative_prod, cr.sort):
        for t in (half, single):
            assert f(t).dtype == t.dtype
            assert cr.gradients(cr.sum(f(t) * f(t)), t).dtype == t.dtype
    small = np.array([100, 100, 2], np.int8)
    assert cr.cumulative_sum(small).tolist() == [100, 200, 202]
    assert cr.cumulative_prod(small).tolist() == [100, 10_000, 20_000]
    assert cr.cumulative_sum(small, dtype=np.float32).dtype == np.float32
    assert cr.cumulative_prod(single, dtype=np.float64).dtype == np.float64


def test_axis_of_a_scan():
    with pytest.raises(ArgumentError, match="cumulative_sum: no axis given for 3 dimensions"):
        cr.cumulative_sum(X)
    with pytest.raises(ArgumentError, match="cumulative_prod: axis 3 is out of range"):
        cr.cumulative_prod(X, axis=3)
    with pytest.raises(ArgumentError, match="sort: axis -1 of a 0-d array"):
        cr.sort(1.0)


# ---------------------------------------------------------------- sorting
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_agrees_with_numpy(axis, descending):
    agrees(
        lambda x: cr.sort(x, axis=axis, descending=descending),
        X,
        lambda x: np.flip(np.sort(x, axis), axis) if descending else np.sort(x, axis),
    )


def test_x6_second_order_through_sort():
    x = np.array([3.0, 1.0, 2.0])
    np.testing.assert_allclose(hessian(lambda t: cr.sort(t) ** 3, x), np.diag([18.0, 6.0, 12.0]))
    assert gradient(lambda t: cr.sort(t) * np.array([1.0, 2.0, 3.0]), x).tolist() == [3.0, 1.0, 2.0]


def test_order_is_stable_both_ways():
    x = np.array([1.0, 0.0, 1.0, 0.0])
    assert cr.argsort(x).tolist() == [1, 3, 0, 2]
    assert cr.argsort(x, descending=True).tolist() == [0, 2, 1, 3]
    assert cr.argsort(np.stack([x, -x]), axis=1, descending=True).tolist() == [[0, 2, 1, 3], [1, 3, 0, 2]]
    assert gradient(lambda t: cr.sort(t) * np.arange(4.0), x).tolist() == [2.0, 0.0, 3.0, 1.0]
    assert not cr.argsort(cr.tensor(x, requires_grad=True)).requires_grad
    assert cr.sort([3, 1, 2]).tolist() == [1, 2, 3]


def test_memory_in_any_order():
    turned = X.transpose(2, 0, 1)[:, ::-1]
    for f in (cr.cumulative_sum, cr.cumulative_prod, cr.sort):
        g = gradient(lambda t, f=f: f(t, axis=2) ** 2, turned)
        np.testing.assert_allclose(g, gradient(lambda t, f=f: f(t, axis=2) ** 2, turned.copy()), rtol=1e-14)
