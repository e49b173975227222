"""Laws of higher order and of the transforms on the public face.

No fixtures: the mutants call these functions as they stand.
"""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import (
    DTypeError,
    LostGraphError,
    StaleGraphError,
)
from tests.laws.written import leaf, same, slope


# ------------------------------------------------------------------------------------------------------- higher order
def test_derivatives_of_derivatives():
    f = lambda x: x**4 + cr.exp(2.0 * x)
    for n, expected in ((1, 4 * 1.5**3), (2, 12 * 1.5**2), (3, 24 * 1.5), (4, 24.0)):
        g = f
        for _ in range(n):
            g = cr.grad(g)
        same(g(1.5), expected + 2.0**n * np.exp(3.0))


def test_mixed_second_derivative_of_a_power_at_exponent_zero():
    """d²(x^y) / dx dy = x^(y-1) (1 + y log x), which is 1/x at y = 0; found by comparing the two engines."""
    x, y = leaf([1.5, 2.0, -2.0]), leaf([0.0, 0.5, 0.0])
    for first, second in ((x, y), (y, x)):
        with np.errstate(invalid="ignore"):
            (g,) = cr.gradients((x[:2] ** y[:2]).sum(), [first], create_graph=True)
        (mixed,) = cr.gradients(g.sum(), [second])
        same(mixed[:2], [1.0 / 1.5, 2.0**-0.5 * (1.0 + 0.5 * np.log(2.0))])
    same(slope(lambda x, y: x**y, np.array([0.0, -2.0, 0.0]), np.array([0.0, 0.0, 2.0]))[0], [0.0, 0.0, 0.0])


def test_create_graph_gives_tensors_that_can_be_differentiated():
    x = leaf([1.0, 2.0])
    (x * x * x).sum().backward(create_graph=True)
    assert isinstance(x.grad, cr.Tensor)
    (second,) = cr.gradients(x.grad.sum(), [x])
    same(second, [6.0, 12.0])
    x.grad = None
    (slope_of_x,) = cr.gradients((x * x).sum(), [x], create_graph=True)
    (slope_of_x * slope_of_x).sum().backward()
    same(x.grad, 8.0 * x.data)


def test_nested_perturbations_are_kept_apart():
    same(cr.grad(lambda x: x * cr.grad(lambda y: x + y)(1.0))(1.0), 1.0)
    same(cr.grad(lambda x: cr.grad(lambda y: x * y * y)(x) * 1.0)(3.0), 12.0)
    inner = lambda x: cr.jvp(lambda y: x * y, (2.0,), (1.0,))[1]
    same(cr.jvp(lambda x: x * inner(x), (3.0,), (1.0,))[1], 6.0)


def test_forward_adds_over_paths():
    def f(x, y):
        a = x * y
        return (a * x + cr.sin(a) * y).sum()

    x, y = np.array([0.3, -0.8]), np.array([1.1, 0.4])
    tx, ty = np.array([0.5, 2.0]), np.array([-1.0, 0.3])
    a, ta = x * y, tx * y + x * ty
    expected = ta * x + a * tx + np.cos(a) * ta * y + np.sin(a) * ty
    same(cr.jvp(f, (x, y), (tx, ty))[1], expected.sum())
    _, linear = cr.linearize(f, x, y)
    same(linear(tx, ty), expected.sum())
    same(linear(2.0 * tx, np.zeros(2)), 2.0 * (tx * y * x + a * tx + np.cos(a) * tx * y * y).sum())


def test_forward_broadcasts_and_masks():
    t = cr.jvp(lambda x: x + np.ones((2, 3)), (np.zeros(3),), (np.arange(3.0),))[1]
    same(t, [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    same(cr.jvp(cr.sqrt, (np.array([4.0, 0.0]),), (np.array([1.0, 0.0]),))[1], [0.25, 0.0])


def test_forward_masks_where_the_slope_is_zero():
    with np.errstate(over="ignore"):
        same(
            cr.jvp(lambda x: cr.tanh(cr.exp(x)), (np.array([1000.0, 0.0]),), (np.ones(2),))[1],
            [0.0, 1 - np.tanh(1) ** 2],
        )


def test_forward_gives_every_result_its_tangent():
    def f(x):
        y = x * x
        return y, cr.sin(y) * x, y

    _, (a, b, c) = cr.jvp(f, (0.7,), (1.0,))
    same([a, c], [1.4, 1.4])
    same(b, np.cos(0.49) * 1.4 * 0.7 + np.sin(0.49))


def test_transforms_touch_no_grad():
    w = leaf(2.0)
    g = cr.grad(lambda x: w * x * x)(3.0)
    assert isinstance(g, cr.Tensor)
    same(g.data, 12.0)
    g.backward()
    same(w.grad, 6.0)
    w.grad = None
    cr.grad(lambda x: x * x)(3.0)
    assert w.grad is None
    same(cr.grad(lambda x: cr.tensor(3.0) * 1.0)(2.0), 0.0)
    with pytest.raises(LostGraphError):
        cr.grad(lambda x: 3.0)(2.0)
    same(cr.grad(lambda x: cr.stop_gradient(x) * x)(2.0), 2.0)


def test_checkpoint_gives_the_same():
    def f(x):
        return (cr.sin(x) * cr.exp(x)).sum()

    x = np.array([0.3, -0.8])
    same(cr.grad(lambda t: cr.checkpoint(f)(t))(x), cr.grad(f)(x))


# ------------------------------------------------------------------------------------------------- what walks hand out
def test_recorded_gradients_have_memory_and_graph_of_their_own():
    x = leaf([1.0, 2.0])
    (x.reshape(2, 1) ** 3).sum().backward(create_graph=True)
    assert x.grad.data.base is None
    same(cr.gradients(x.grad.sum(), [x])[0], [6.0, 12.0])
    v, w = leaf(np.ones(2)), leaf(np.ones(2))
    ((v + w) * 2.0).sum().backward(create_graph=True)
    assert not np.shares_memory(v.grad.data, w.grad.data)
    (g,) = cr.gradients(x.sum(), [v], create_graph=True)
    assert isinstance(g, cr.Tensor)


def test_gradients_are_handed_out_as_copies():
    z = leaf(3.0)
    for _ in range(2):
        (g,) = cr.gradients(z, [z])
        same(g, 1.0)
        g += 5.0
    x = leaf([1.0, 2.0])
    once, again = cr.gradients((x * 2.0).sum(), [x, x])
    assert not np.shares_memory(once, again)


def test_the_cotangent_of_a_walk_is_of_the_kind_of_its_value():
    whole, half = leaf(3.0), leaf(3.0, np.float32)
    cr.gradients(whole * whole, [whole])
    value = half * half
    assert cr.gradients(value, [value])[0].dtype == np.float32
    y = leaf([1.0, 2.0], np.float32) * 1.0
    assert cr.gradients(y, [y], cotangent=np.ones(2))[0].dtype == np.float32
    with pytest.raises(DTypeError):
        y.backward(np.array([1j, 1j]))


def test_a_cotangent_that_wants_a_gradient_keeps_its_graph():
    x, v = leaf([1.0, 2.0]), leaf([0.0, 0.0])
    (pulled,) = cr.gradients(x**3, [x], cotangent=v, create_graph=True)
    same(cr.gradients(pulled, [v], cotangent=[1.0, 10.0])[0], [3.0, 120.0])


def test_a_recorded_walk_copies_the_array_that_it_starts_with():
    x, upstream = leaf([1.0, 2.0]), np.array([1.0, 10.0])
    (g,) = cr.gradients(x**3, [x], cotangent=upstream, create_graph=True)
    upstream[:] = 0.0
    same(cr.gradients(g.sum(), [x])[0], [6.0, 120.0])


def test_a_leaf_that_is_gone_is_passed_over():
    x = leaf(2.0)
    y = leaf(3.0) * x
    y.backward()
    same(x.grad, 3.0)


def test_a_linear_map_is_refused_after_a_write_to_what_it_reads():
    w, x = leaf([1.0, 2.0]), np.array([3.0, 4.0])
    _, linear = cr.linearize(lambda x: (w * x).sum(), x)
    same(linear(np.ones(2)).data, 3.0)
    with cr.no_grad():
        w += 1.0
    with pytest.raises(StaleGraphError):
        linear(np.ones(2))


def test_twice_the_same_operand_is_the_product_in_every_dtype():
    """`x * x` is recorded as a square; without a gradient it is NumPy's product, which of booleans is boolean."""
    for data in (np.array([True, False]), np.array([3, 200], np.uint8), np.array([2.0, 3.0], np.float32)):
        x = cr.tensor(data)
        assert (x * x).dtype == (data * data).dtype
        assert ((x * x).data == data * data).all()
