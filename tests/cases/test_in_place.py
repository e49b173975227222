"""P: in-place operators and writes by index, views, aliases, arrays that belong to the user."""

import operator
import warnings

import numpy as np
import pytest

import chainrule as cr
from tests.cases.ways import derivatives_are, leaf

IN_PLACE = {
    "+=": (operator.iadd, operator.add),
    "-=": (operator.isub, operator.sub),
    "*=": (operator.imul, operator.mul),
    "/=": (operator.itruediv, operator.truediv),
    "**=": (operator.ipow, operator.pow),
    "//=": (operator.ifloordiv, operator.floordiv),
    "%=": (operator.imod, operator.mod),
    "@=": (operator.imatmul, operator.matmul),
    "[...]=": (lambda t, v: _set(t, ..., v), lambda t, v: 0 * t + v),
    "[:1]=": (lambda t, v: _set(t, slice(0, 1), v[:1]), lambda t, v: cr.concat([(0 * t + v)[:1], cr.tensor(t)[1:] if not isinstance(t, cr.Tensor) else t[1:]])),
    "[mask]=": (
        lambda t, v: _set(t, np.array([[True, False], [False, True]]), v[np.array([[True, False], [False, True]])]),
        lambda t, v: cr.where(np.array([[True, False], [False, True]]), 0 * t + v, t),
    ),
}  # fmt: skip
X = np.array([[1.5, 2.0], [2.5, 3.0]])
V = np.array([[2.0, 0.5], [1.5, 2.5]])


def _set(t, index, v):
    t[index] = v
    return t


def raw(value):
    return value.data if isinstance(value, cr.Tensor) else value


def numpys(sign, x, v):
    """The value, by NumPy alone."""
    x = x.copy()
    return np.array(raw(IN_PLACE[sign][0](x, v)))


# ---------------------------------------------------------------- P5
def test_p5_in_place_activation_as_last_op():
    def f(x):
        y = 2.0 * x
        y[...] = cr.tanh(y)
        return y.sum()

    t2 = np.tanh(2.0)
    derivatives_are(f, np.ones((2, 2)), 2 * (1 - t2**2), np.eye(4) * (-8 * t2 * (1 - t2**2)))
    assert 2 * (1 - t2**2) == pytest.approx(0.141302, abs=1e-6)


@pytest.mark.parametrize("activation", [cr.tanh, cr.exp, cr.sigmoid, cr.relu, cr.sqrt, cr.square, lambda t: t * t, abs])
def test_p5_every_activation_written_back_equals_the_new_value(activation):
    def in_place(x):
        y = x * 2.0
        y[...] = activation(y)
        y *= y
        return y.sum()

    def anew(x):
        z = activation(x * 2.0)
        return (z * z).sum()

    x = np.array([0.5, 1.25])
    for way in (cr.grad, cr.hessian):
        np.testing.assert_allclose(way(in_place)(x), way(anew)(x), rtol=1e-14)


# ---------------------------------------------------------------- every operator, every kind of target
@pytest.mark.parametrize("sign", IN_PLACE)
def test_p_a_non_leaf_is_rebound_and_differentiable_in_both(sign):
    write, anew = IN_PLACE[sign]

    def together(operation):
        x, v = leaf(X), leaf(V)
        t = x * 1.0
        before = t
        old = t * t  # has kept the old value
        result = operation(t, v)
        if operation is write:
            assert result is before
            assert result.requires_grad == (sign != "//=")  # whose steps have no slope
        return x, v, result, (result * result).sum() + old.sum()

    x1, v1, r1, y1 = together(write)
    x2, v2, r2, y2 = together(anew)
    np.testing.assert_allclose(r1.data, numpys(sign, X, V), rtol=1e-14)
    np.testing.assert_allclose(r1.data, r2.data, rtol=1e-14)
    y1.backward()
    y2.backward()
    np.testing.assert_allclose(x1.grad, x2.grad, rtol=1e-13)
    for a, b in ((v1.grad, v2.grad),):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.parametrize("sign", IN_PLACE)
def test_p_a_non_leaf_to_second_order(sign):
    write, anew = IN_PLACE[sign]
    f = lambda op: lambda x: (op(x * 1.0, cr.sin(x)) ** 2).sum()
    np.testing.assert_allclose(cr.grad(f(write))(X), cr.grad(f(anew))(X), rtol=1e-13)
    np.testing.assert_allclose(cr.hessian(f(write))(X), cr.hessian(f(anew))(X), rtol=1e-12, atol=1e-12)
    ours = cr.jvp(f(write), (X,), (V,))[1]
    assert ours == pytest.approx(cr.jvp(f(anew), (X,), (V,))[1], rel=1e-13)


@pytest.mark.parametrize("sign", IN_PLACE)
def test_p_a_leaf_that_wants_a_gradient_raises_and_stays(sign):
    x = leaf(X)
    with pytest.raises(cr.errors.GraphError, match="leaf") as caught:
        IN_PLACE[sign][0](x, V)
    assert "no_grad" in str(caught.value)
    assert x.data.tolist() == X.tolist()
    assert x.requires_grad
    with pytest.raises(cr.errors.GraphError):
        IN_PLACE[sign][0](x, x)


@pytest.mark.parametrize("sign", IN_PLACE)
@pytest.mark.parametrize("other", ["array", "tensor", "leaf"])
def test_p_under_no_grad_a_leaf_is_written_where_it_stands(sign, other):
    x = leaf(X)
    memory = x.data
    v = {"array": V, "tensor": cr.tensor(V), "leaf": leaf(V)}[other]
    with cr.no_grad():
        same = IN_PLACE[sign][0](x, v)
    assert same is x
    assert x.data is memory
    assert x.requires_grad
    assert x.is_leaf
    np.testing.assert_allclose(x.data, numpys(sign, X, V), rtol=1e-15)
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * x.data, rtol=1e-15)


@pytest.mark.parametrize("sign", IN_PLACE)
def test_p_a_constant_is_written_where_it_stands(sign):
    c = cr.tensor(X)
    memory = c.data
    same = IN_PLACE[sign][0](c, V)
    assert same is c
    assert c.data is memory
    assert not c.requires_grad
    np.testing.assert_allclose(c.data, numpys(sign, X, V), rtol=1e-15)


@pytest.mark.parametrize("sign", IN_PLACE)
def test_p_a_constant_that_meets_a_leaf_becomes_differentiable(sign):
    c, v = cr.tensor(X), leaf(V)
    kept = c.data
    same = IN_PLACE[sign][0](c, v)
    assert same is c
    assert c.requires_grad == (sign != "//=")
    assert kept.tolist() == X.tolist()
    np.testing.assert_allclose(c.data, numpys(sign, X, V), rtol=1e-14)


@pytest.mark.parametrize("sign", IN_PLACE)
def test_p_a_constant_whose_value_a_graph_has_kept(sign):
    """The residual stays: the constant moves to memory of its own."""
    c, x = cr.tensor(X), leaf(V)
    y = (c * x).sum()
    IN_PLACE[sign][0](c, V)
    np.testing.assert_allclose(c.data, numpys(sign, X, V), rtol=1e-15)
    y.backward()
    assert x.grad.tolist() == X.tolist()


@pytest.mark.parametrize("sign", IN_PLACE)
def test_p_a_written_leaf_whose_old_value_a_walk_needs_raises(sign):
    x, w = leaf(X), leaf(V)
    y = (x * w).sum()
    with cr.no_grad():
        IN_PLACE[sign][0](x, V)
    with pytest.raises(cr.errors.StaleGraphError, match="multiply") as caught:
        y.backward()
    assert "x f64[2, 2]" in str(caught.value)
    assert x.grad is None
    assert w.grad is None
    with pytest.raises(cr.errors.StaleGraphError):
        cr.gradients(y, w)


@pytest.mark.parametrize("sign", IN_PLACE)
def test_p_a_written_leaf_whose_old_value_nobody_needs(sign):
    x = leaf(X)
    y = (x + 1.0).sum() + cr.exp(x).sum()
    with cr.no_grad():
        IN_PLACE[sign][0](x, V)
    y.backward()
    np.testing.assert_allclose(x.grad, 1.0 + np.exp(X), rtol=1e-14)


@pytest.mark.parametrize(
    "look",
    [
        lambda t: t.reshape(4),
        lambda t: t[:],
        lambda t: t.T,
        lambda t: t.T[0][1:],
        lambda t: t.reshape(4)[1:].reshape(3, 1),
    ],
)
def test_p_a_view_of_a_leaf_that_is_written_before_the_walk(look):
    """Either the old value, or an error: never the new one."""
    x = leaf(X)
    seen = look(x)
    y = (seen * seen).sum()
    old = 2 * look(cr.tensor(X)).data
    with cr.no_grad():
        x *= 100.0
    try:
        g = cr.gradients(y, x)
    except cr.errors.StaleGraphError:
        pass
    else:
        assert sorted(g[g != 0].ravel().tolist()) == sorted(old.ravel().tolist())


@pytest.mark.parametrize("sign", IN_PLACE)
def test_p_the_operand_is_the_target_itself_or_a_view_of_it(sign):
    write, _ = IN_PLACE[sign]
    for start in ("constant", "non-leaf"):
        for look in (lambda t: t, lambda t: t.T, lambda t: t[::-1]):
            t = cr.tensor(X) if start == "constant" else leaf(X) * 1.0
            expected = numpys(sign, X, np.array(raw(look(X))))
            write(t, look(t))
            np.testing.assert_allclose(t.data, expected, rtol=1e-14)


def test_p_detached_values_do_not_follow():
    x = leaf(X)
    d = x.detach()
    t = x * 2.0
    e = t.detach()
    with cr.no_grad():
        x *= 0.0
    t *= 0.0
    assert d.tolist() == X.tolist()
    assert e.tolist() == (2 * X).tolist()
    d[...] = 9.0
    assert x.data.tolist() == (0 * X).tolist()


def test_p_in_place_inside_transforms():
    def f(x):
        y = cr.zeros(3)
        for k in range(3):
            y[k] = x[k] ** 2
            y[k] += x[0]
            y *= 2.0
        return (y * np.array([1.0, 10.0, 100.0])).sum()

    # y = (8 (x0^2 + x0), 4 (x1^2 + x0), 2 (x2^2 + x0))
    x = np.array([1.0, 2.0, 3.0])
    derivatives_are(f, x, [8 * 3 + 40 + 200, 80 * 2.0, 400 * 3.0], np.diag([16.0, 80.0, 400.0]))


def test_p_rebinding_data_cannot_reach_back():
    x = leaf(X)
    y = (x * x).sum()
    x.data = np.zeros((2, 2))
    y.backward()
    assert x.grad.tolist() == (2 * X).tolist()


def test_p_a_write_chainrule_cannot_see_is_caught_in_debug_mode():
    x = leaf(X)
    with cr.debug():
        y = (x * x).sum()
        x.data[0, 0] = 9.0
        with pytest.raises(cr.errors.StaleGraphError):
            y.backward()


@pytest.mark.parametrize(("target", "value"), [
    (np.ones(2), np.ones((3, 2))), (np.ones(2, np.float32), np.ones(2)), (np.ones(2, np.int64), 0.5), (np.ones(2), np.ones(3)),
    (np.ones(2, bool), 1.5),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["constant", "non-leaf", "no_grad"])
def test_p_what_does_not_fit_in_place_does_as_numpy(target, value, kind):
    """The same dtype and shape rules as NumPy's `+=`; where it raises, the target is as it was."""
    expected = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = np.array(target)
            expected += value
    except (TypeError, ValueError):
        expected = None
    if kind != "constant" and target.dtype.kind != "f":
        pytest.skip("only floating numbers want gradients")
    t = cr.tensor(target) if kind == "constant" else leaf(target) if kind == "no_grad" else leaf(target) * 1.0
    if kind == "no_grad":
        with cr.no_grad():
            attempt(t, value, expected, target)
    else:
        attempt(t, value, expected, target)


def attempt(t, value, expected, target):
    if expected is None:
        with pytest.raises((cr.errors.ShapeError, cr.errors.DTypeError)):
            t += value
        assert t.tolist() == target.tolist()
        assert t.dtype == target.dtype
    else:
        t += value
        assert t.dtype == target.dtype
        assert t.tolist() == expected.tolist()


def test_p_an_array_on_the_left_of_an_in_place_operator():
    """`a += t`: NumPy's array cannot hold the graph, so it says so and stays."""
    a, t = np.ones(2), leaf([1.0, 2.0])
    with pytest.raises(TypeError, match=r"cr\.asarray"):
        a += t
    assert a.tolist() == [1.0, 1.0]
    a = cr.asarray(a)
    a += t
    assert a.requires_grad
    b = 1.0
    b += t
    assert b.tolist() == [2.0, 3.0]
