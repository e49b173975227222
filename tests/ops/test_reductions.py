"""Reductions, norms, softmax: cases that went wrong elsewhere, edges, other dtypes."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.backends.abstract import Abstract, reach_equations
from chainrule.core.equations import tracing
from chainrule.errors import ArgumentError, ShapeError
from chainrule.ops.norms import vector_norm
from tests.ops.derivatives import agrees, differences, gradient, hessian, second_differences
from tests.oracle.peers import peer

RNG = np.random.default_rng(3)
X = RNG.uniform(0.3, 2.0, (2, 3, 2))
INF = float("inf")


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (-1, 1), ()])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "var", "std"])
def test_agrees_with_numpy(name, axis, keepdims):
    if name == "std" and axis == ():
        pytest.skip("vanishes: see the cases")
    agrees(
        lambda x: getattr(cr, name)(x, axis=axis, keepdims=keepdims),
        X,
        lambda x: getattr(np, name)(x, axis=axis, keepdims=keepdims),
    )


@pytest.mark.parametrize("ord", [1, 2, 3, 1.5, -1.0, INF, -INF])
@pytest.mark.parametrize("axis", [None, 1, -1])
def test_norm_agrees_with_numpy(ord, axis):
    signs = RNG.choice([-1.0, 1.0], X.shape)
    agrees(
        lambda x: vector_norm(x, axis=axis, ord=ord),
        X * signs,
        lambda x: np.linalg.vector_norm(x, axis=axis, ord=ord),
    )


def plain_logsumexp(x, axis, keepdims):
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_logsumexp_agrees_with_the_plain_formula(axis):
    agrees(lambda x: cr.logsumexp(x, axis=axis), X, lambda x: plain_logsumexp(x, axis, False))
    agrees(lambda x: cr.logsumexp(x, axis=axis, keepdims=True), X, lambda x: plain_logsumexp(x, axis, True))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_agrees_with_the_plain_formula(axis):
    agrees(lambda x: cr.softmax(x, axis=axis), X, lambda x: np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True))
    agrees(lambda x: cr.log_softmax(x, axis=axis), X, lambda x: x - plain_logsumexp(x, axis, True))


def test_complex_step_of_smooth_reductions():
    """Exact to rounding where NumPy's own function takes complex numbers."""
    for name in ("sum", "mean", "prod"):
        tiny = 1e-30
        for place in np.ndindex(X.shape):
            z = X.astype(complex)
            z[place] += 1j * tiny
            slope = getattr(np, name)(z).imag / tiny
            assert gradient(getattr(cr, name), X)[place] == pytest.approx(slope, rel=1e-14)


# ---------------------------------------------------------------- ties
def test_c4_max_of_something_with_itself():
    x = cr.tensor([[1.0]], requires_grad=True)
    y = x
    for _ in range(2):
        y = cr.concat([cr.max(y, axis=0, keepdims=True), y])
    assert y.shape == (3, 1)
    assert cr.gradients(cr.sum(y), x).tolist() == [[3.0]]


@pytest.mark.parametrize("name", ["max", "min"])
def test_c6_many_ties_in_float16(name):
    x = np.full(70_000, 0.5, np.float16)
    g = gradient(getattr(cr, name), x)
    assert g.dtype == np.float16
    assert g.astype(np.float64).sum() == pytest.approx(1.0, abs=1e-2)


def test_ties_share_evenly_also_along_axes_and_with_weights():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    assert gradient(lambda t: cr.max(t, axis=1) * np.array([1.0, 3.0]), x).tolist() == [[0, 0.5, 0.5], [1, 1, 1]]
    assert gradient(lambda t: cr.min(t, axis=1), x)[1].tolist() == pytest.approx([1 / 3] * 3)
    assert gradient(lambda t: vector_norm(t, ord=INF), [3.0, -3.0, 1.0]).tolist() == [0.5, -0.5, 0.0]
    assert not hessian(cr.max, x).any()


def test_second_order_through_max():
    agrees(lambda t: cr.max(t * t, axis=1), X[:, :, 0], lambda t: np.max(t * t, axis=1))


# ---------------------------------------------------------------- products
@pytest.mark.parametrize("x", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [2.0, 3.0, 4.0, 5.0], [-0.0, 1.5]])
def test_c7_product_with_zeros_to_third_order(x):
    x = np.array(x)
    n = len(x)
    first = [np.prod(np.delete(x, i)) for i in range(n)]
    second = [[0.0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(n)] for i in range(n)]
    assert gradient(cr.prod, x) == pytest.approx(first, abs=1e-14)
    np.testing.assert_allclose(hessian(cr.prod, x), second, atol=1e-13)
    t = cr.tensor(x, requires_grad=True)
    g = cr.gradients(cr.prod(t), t, create_graph=True)
    h = cr.gradients(cr.sum(g), t, create_graph=True)
    third = cr.gradients(cr.sum(h), t)
    expected = [
        sum(np.prod(np.delete(x, [i, j, k])) for i in range(n) for j in range(n) if len({i, j, k}) == 3)
        for k in range(n)
    ]
    np.testing.assert_allclose(third, expected, atol=1e-13)


def test_product_over_some_axes_with_zeros():
    x = X.copy()
    x[0, 1, 0] = x[1, 2, 1] = x[1, 0, 1] = 0.0
    f = lambda t: cr.prod(t, axis=(0, 2))
    np.testing.assert_allclose(gradient(f, x), differences(f, x), atol=1e-9)
    np.testing.assert_allclose(hessian(f, x), second_differences(f, x), atol=1e-6)


def test_product_whose_entries_overflow_only_beside_zeros():
    assert gradient(cr.prod, [0.0, 1e200, 1e200, 0.0]).tolist() == [0.0] * 4


# ---------------------------------------------------------------- variance and norms where they vanish
def test_c12_std_and_var_of_equal_entries():
    for x in ([1.0, 1.0], [0.1, 0.1, 0.1], [3.7]):
        assert cr.var(np.array(x)) == 0.0
        assert not gradient(cr.var, x).any()
        assert not gradient(cr.std, x).any()
    g = gradient(lambda t: cr.std(t, axis=1), [[1.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(g, [[0.0, 0.0], [-0.5, 0.5]], rtol=1e-14)
    assert not gradient(lambda t: cr.std(t, axis=1), [[2.0], [3.0]]).any()
    np.testing.assert_allclose(hessian(cr.var, [1.0, 1.0]), [[0.5, -0.5], [-0.5, 0.5]], atol=1e-15)


def test_std_squared_has_the_hessian_of_var_where_it_vanishes():
    x = [0.1, 0.1, 0.1]
    np.testing.assert_allclose(hessian(lambda t: cr.std(t) ** 2, x), hessian(cr.var, x), atol=1e-15)
    assert np.isfinite(hessian(cr.std, x)).all()


@pytest.mark.parametrize("ord", [1, 2, 3, 1.5, 0.5, INF])
def test_k1_norm_at_the_origin(ord):
    f = lambda t: vector_norm(t, ord=ord)
    assert gradient(f, np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert np.isfinite(hessian(f, np.zeros(3))).all()


def test_k1_smooth_functions_of_a_norm_to_second_order():
    zero = np.zeros(2)
    squared = lambda t: vector_norm(t) ** 2
    assert gradient(squared, zero).tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(hessian(squared, zero), 2 * np.eye(2))
    np.testing.assert_array_equal(hessian(lambda t: (n := vector_norm(t)) * n, zero), 2 * np.eye(2))
    np.testing.assert_array_equal(hessian(lambda t: cr.cos(vector_norm(t)), zero), -np.eye(2))
    np.testing.assert_array_equal(hessian(lambda t: cr.sqrt(1.0 + vector_norm(t) ** 2), zero), np.eye(2))
    np.testing.assert_array_equal(hessian(lambda t: vector_norm(t) ** 4, zero), np.zeros((2, 2)))


def test_k1_forward_over_reverse():
    squared = lambda t: vector_norm(t) ** 2
    np.testing.assert_array_equal(cr.hvp(squared, np.zeros(2), np.array([1.0, 2.0])), [2.0, 4.0])
    np.testing.assert_array_equal(cr.hessian(squared)(np.zeros(2)), 2 * np.eye(2))
    equal = np.array([0.1, 0.1, 0.1])
    curvature = np.eye(3) * 2 / 3 - 2 / 9  # of the variance
    np.testing.assert_allclose(cr.hessian(lambda t: cr.std(t) ** 2)(equal), curvature, atol=1e-15)
    np.testing.assert_allclose(cr.hessian(cr.var)(equal), curvature, atol=1e-15)


def test_norm_vanishes_in_one_row_only():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    f = lambda t: vector_norm(t, axis=1) ** 2
    np.testing.assert_allclose(gradient(f, x), 2 * x)
    np.testing.assert_allclose(hessian(f, x), 2 * np.eye(4), atol=1e-14)
    g = gradient(lambda t: vector_norm(t, axis=1), x)
    np.testing.assert_allclose(g, [[0.6, 0.8], [0.0, 0.0]])


def test_norm_with_zero_entries_and_of_order_zero():
    x = np.array([0.0, 2.0, -1.0])
    assert np.isfinite(gradient(lambda t: vector_norm(t, ord=0.5), x)).all()
    assert gradient(lambda t: vector_norm(t, ord=3), x)[0] == 0.0
    assert vector_norm(cr.tensor(x), ord=0).item() == 2.0
    with pytest.raises(ArgumentError, match="vector_norm: odd order"):
        vector_norm(x, ord="fro")


# ---------------------------------------------------------------- softmax
def test_s1_fully_masked_row():
    logits = np.array([[0.0, 0.0], [-INF, -INF]])
    assert cr.softmax(logits).tolist() == [[0.5, 0.5], [0.0, 0.0]]
    w = cr.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    mask = np.array([[True, True], [False, False]])
    for f in (cr.softmax, cr.log_softmax):
        scores = f(cr.where(mask, w, -INF))
        loss = cr.sum(scores[0] * np.array([1.0, 3.0]))
        g = cr.gradients(loss, w, create_graph=True)
        assert np.isfinite(g.data).all()
        assert g.data[1].tolist() == [0.0, 0.0]
        assert g.data[0].any()
        assert np.isfinite(cr.gradients(cr.sum(g * g), w)).all()
    assert cr.gradients(cr.sum(cr.softmax(cr.where(mask, w, -INF)) * mask), w)[1].tolist() == [0.0, 0.0]


def test_partly_masked_rows_take_no_weight():
    x = np.array([1.0, -INF, 2.0])
    e = np.exp([1.0, 2.0])
    np.testing.assert_allclose(cr.softmax(x), [e[0] / e.sum(), 0.0, e[1] / e.sum()])
    np.testing.assert_allclose(gradient(cr.logsumexp, x), cr.softmax(x))
    assert gradient(cr.logsumexp, [-INF, -INF]).tolist() == [0.0, 0.0]
    assert cr.logsumexp(np.array([-INF, -INF])) == -INF


def test_no_overflow_at_ten_thousand():
    x = np.array([1e4, -1e4, 1e4])
    assert cr.softmax(x).tolist() == [0.5, 0.0, 0.5]
    assert cr.logsumexp(x) == pytest.approx(1e4 + np.log(2.0))
    np.testing.assert_allclose(cr.log_softmax(x), [-np.log(2), -2e4 - np.log(2), -np.log(2)])
    g = gradient(lambda t: cr.log_softmax(t)[1], x)
    np.testing.assert_allclose(g, [-0.5, 1.0, -0.5])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "prod", "amax", "var", "std", "cumprod"])
def test_agrees_with_pytorch(name):
    torch = peer("torch")
    ours = {"amax": "max", "cumprod": "cumulative_prod"}.get(name, name)
    x = RNG.normal(size=(3, 5))
    weights = RNG.normal(size=(3, 5) if name in ("softmax", "log_softmax", "cumprod") else 3)
    t = torch.tensor(x, requires_grad=True)
    theirs = getattr(torch, name)(t, 1)
    loss = (theirs * torch.tensor(weights)).sum()
    (slope,) = torch.autograd.grad(loss, t, create_graph=True)
    how = {"correction": 1} if name in ("var", "std") else {}
    f = lambda u: getattr(cr, ours)(u, axis=1, **how) * weights
    np.testing.assert_allclose(gradient(f, x), slope.detach().numpy(), rtol=1e-12, atol=1e-14)
    if slope.requires_grad:
        (curve,) = torch.autograd.grad((slope**2).sum(), t)
        u = cr.tensor(x, requires_grad=True)
        g = cr.gradients(cr.sum(f(u)), u, create_graph=True)
        np.testing.assert_allclose(cr.gradients(cr.sum(g * g), u), curve.numpy(), rtol=1e-10, atol=1e-12)


# ---------------------------------------------------------------- positions, counts
def test_positions_and_counts():
    x = np.array([[4.0, 2.0, 4.0], [0.0, 3.0, 0.0]])
    assert cr.argmax(x) == 0
    assert cr.argmax(x, keepdims=True).shape == (1, 1)
    assert cr.argmax(x, axis=-1).tolist() == [0, 1]
    assert cr.argmin(x, axis=0, keepdims=True).tolist() == [[1, 0, 1]]
    assert cr.count_nonzero(x, axis=1).tolist() == [3, 1]
    assert cr.count_nonzero(x) == 4
    assert cr.all(x, axis=1).tolist() == [True, False]
    t = cr.tensor(x, requires_grad=True)
    assert not cr.argmax(t, axis=1).requires_grad
    with pytest.raises(ShapeError, match="argmax"):
        cr.argmax(np.zeros((0, 2)), axis=0)


# ---------------------------------------------------------------- dtypes, edges
ALL = {
    **{name: getattr(cr, name) for name in ("sum", "mean", "max", "min", "prod", "var", "std", "logsumexp", "softmax")},
    "log_softmax": cr.log_softmax,
    "norm": vector_norm,
    "norm3": lambda x, axis=None: vector_norm(x, axis=axis, ord=3),
}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", ALL)
def test_dtype_stays(name, dtype):
    t = cr.tensor(X.astype(dtype), requires_grad=True)
    y = ALL[name](t, axis=1)
    assert y.dtype == dtype
    g = cr.gradients(cr.sum(y * y), t, create_graph=True)
    assert g.dtype == dtype
    assert cr.gradients(cr.sum(g * g), t).dtype == dtype


@pytest.mark.parametrize("name", ALL)
def test_no_rule_promotes_float32(name):
    """Seen on abstract arrays: every array of full size, backward pass included, is float32."""
    with tracing():
        t = cr.tensor(Abstract((2, 3, 2), np.dtype(np.float32)), requires_grad=True)
        y = ALL[name](t, axis=1)
        g = cr.gradients(cr.sum(y * y), t)
    for equation in reach_equations([g.equation]):
        if equation.shape == t.shape:
            assert equation.dtype in (np.float32, np.bool_), equation


def test_integers():
    x = np.array([[1, 2], [3, 4]], np.int32)
    assert cr.mean(x) == 2.5
    assert cr.var(x) == 1.25
    assert cr.var(np.array([0, 255], np.uint8)) == 127.5**2
    assert vector_norm(np.array([3, 4])) == 5.0
    assert cr.prod(x, axis=0).tolist() == [3, 8]
    assert cr.sum(x, dtype=np.float32).dtype == np.float32
    assert cr.prod(x, dtype="float32").dtype == np.float32
    assert cr.softmax(x).dtype == np.float64
    assert cr.max([1, 5, 2]) == 5


def test_float16_mean_does_not_overflow():
    x = np.full(70_000, 2.0, np.float16)
    assert cr.mean(x) == np.mean(x) == 2.0
    assert cr.var(x) == 0.0


def test_sum_with_dtype_casts_the_cotangent_back():
    t = cr.tensor(np.ones(3, np.float32), requires_grad=True)
    y = cr.sum(t, dtype=np.float64)
    assert y.dtype == np.float64
    assert cr.gradients(y, t).dtype == np.float32


def test_numbers_without_axes():
    for f in (cr.sum, cr.mean, cr.max, cr.min, cr.prod, cr.logsumexp):
        assert gradient(f, 1.5) == 1.0
    assert gradient(vector_norm, -1.5) == -1.0
    assert gradient(cr.var, 1.5) == 0.0
    assert gradient(cr.std, 1.5) == 0.0
    with pytest.raises(ArgumentError, match="softmax: axis -1 of a 0-d array"):
        cr.softmax(1.5)


def test_nothing_to_reduce():
    none = np.zeros((2, 0))
    assert cr.sum(none, axis=1).tolist() == [0.0, 0.0]
    assert cr.prod(none, axis=1).tolist() == [1.0, 1.0]
    assert cr.logsumexp(none, axis=1).tolist() == [-INF, -INF]
    assert cr.softmax(none).shape == (2, 0)
    for f in (cr.sum, cr.prod, cr.logsumexp, cr.softmax, vector_norm):
        assert gradient(lambda t, f=f: f(t, axis=1), none).shape == (2, 0)
    assert cr.max(none, axis=0).shape == (0,)
    assert gradient(lambda t: cr.max(t, axis=0), none).shape == (2, 0)
    with pytest.raises(ShapeError, match=r"max: .*zero-size"):
        cr.max(none, axis=1)


@pytest.mark.parametrize("name", ALL)
def test_axes_that_are_not_there(name):
    with pytest.raises(ArgumentError, match="axis 3 is out of range"):
        ALL[name](X, axis=3)
    with pytest.raises(ArgumentError, match="no integer"):
        ALL[name](X, axis=1.5)


def test_axis_named_twice():
    with pytest.raises(ArgumentError, match="named twice"):
        cr.max(X, axis=(0, -3))


@pytest.mark.parametrize("name", ALL)
def test_memory_in_any_order(name):
    turned = X.transpose(2, 0, 1)[:, ::-1]
    f = lambda t: ALL[name](t, axis=1) * 2.0
    np.testing.assert_allclose(gradient(f, turned), gradient(f, np.ascontiguousarray(turned)), rtol=1e-14)


def test_nan_shows():
    x = np.array([[1.0, np.nan], [1.0, 2.0]])
    g = gradient(lambda t: cr.max(t, axis=1), x)
    assert np.isnan(g[0]).all()
    assert g[1].tolist() == [0.0, 1.0]


# ------------------------------------------------------------------------------------------------ sums as products
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(3, 5, 4, 2), (9000, 3, 2, 1), (0, 3, 2, 2), (3, 0, 2, 2), (2, 1, 9001, 1)])
def test_sums_over_what_comes_first_in_memory(shape, keepdims, dtype):
    """Whatever the order of axes in memory, and over more rows than are added at once."""
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    for order in ((0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 2, 3)):
        laid = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        for axes in ((0, 2, 3), (0,), (1,), (0, 1), (2, 3), (3,)):
            out = cr.sum(laid, axis=axes, keepdims=keepdims)
            assert out.dtype == dtype
            expected = x.astype(float).sum(axis=axes, keepdims=keepdims)
            np.testing.assert_allclose(
                out, expected, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=2e-3 if dtype == np.float32 else 1e-11
            )


def test_a_long_sum_rounds_as_short_ones():
    """A million entries of 0.1 in float32: a running sum is off by a hundredth."""
    x = np.full((1 << 20, 2), 0.1, np.float32)
    np.testing.assert_allclose(cr.sum(x, axis=0), 0.1 * (1 << 20), rtol=1e-4)
