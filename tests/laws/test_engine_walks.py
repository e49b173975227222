"""Laws of the walks on the public face: accumulation, order, fitting, freed graphs, zero cotangents.

No fixtures: the mutants call these functions as they stand.
"""

import gc
import weakref

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import (
    FreedGraphError,
    RuleError,
    ShapeError,
)
from tests.laws.written import leaf, same, slope


# --------------------------------------------------------------------------------------------- accumulation and order
def test_a_node_used_several_times_gets_the_sum():
    same(slope(lambda x: x * x + x, 2.0), [5.0])
    doubled = lambda b: b + b
    same(slope(lambda a: doubled(doubled(a)), 1.0), [4.0])
    same(slope(lambda x: x + x + x, np.ones(3)), [np.full(3, 3.0)])


def test_consumers_come_before_what_they_consume():
    def f(x):
        a = x * x
        b = a * x
        c = a * b
        return c + b * a + x

    same(slope(f, 2.0), [2 * 5 * 2.0**4 + 1])

    def g(x):  # an old value used again at the very end
        early = cr.sin(x)
        late = early
        for _ in range(5):
            late = late * x
        return late + early * early

    same(slope(g, 0.7), [np.cos(0.7) * 0.7**5 + 5 * np.sin(0.7) * 0.7**4 + 2 * np.sin(0.7) * np.cos(0.7)])


def test_backward_twice_adds_to_grad():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    (3.0 * x).sum().backward()
    same(x.grad, [5.0, 7.0])


def test_the_cotangent_of_a_sum_has_the_shape_of_what_was_summed_wherever_it_shows():
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    wanted = 2.0 * x.data
    (x * x).sum().backward()
    same(x.grad, wanted)
    x.sum().backward()
    same(x.grad, wanted + 1.0)
    same(slope(lambda x: (x * x).sum(axis=1).sum() + x.sum(), x.data), [wanted + 1.0])
    same(slope(lambda x: (3.0 * x).sum() + (x * x).sum(), x.data), [wanted + 3.0])
    same(slope(lambda x: cr.tanh(x).sum(), x.data), [1.0 - np.tanh(x.data) ** 2])
    square = x * x
    same(cr.gradients(square.sum(), [square, x]), [np.ones((2, 3)), wanted])
    (both,) = cr.gradients((2.0 * square).sum() + square.sum(), [square])
    same(both, np.full((2, 3), 3.0))


def test_the_cotangent_of_a_sum_has_its_shape_behind_a_checkpoint():
    x = leaf([1.0, 2.0, 3.0])
    cr.checkpoint(lambda q: q.sum())(x * x).backward()
    same(x.grad, 2.0 * x.data)
    cr.checkpoint(lambda a, b: (a * a).sum() + b.sum())(x * x, cr.abs(x)).backward()
    same(x.grad, 2.0 * x.data + 4.0 * x.data**3 + 1.0)


def test_a_chain_of_many_operations_does_not_recurse():
    x = y = leaf(1.0)
    for _ in range(20_000):
        y = y + 1.0
    y.backward()
    same(x.grad, 1.0)
    del y


def test_upstream_gradient():
    x = leaf([1.0, 2.0])
    (x * x).backward([10.0, 100.0])
    same(x.grad, [20.0, 400.0])
    with pytest.raises(ShapeError):
        (x * x).backward()
    with pytest.raises(ShapeError):
        (x * x).backward(np.ones(3))


# ------------------------------------------------------------------------------------------------------------ fitting
def test_broadcasting_is_undone():
    for shape in ((), (1,), (3,), (2, 1), (1, 3), (1, 1), (2, 3)):
        for other in ((2, 3), (4, 2, 3)):
            x, y = np.full(shape, 2.0), np.arange(1.0, 1.0 + np.prod(other)).reshape(other)
            gx, gy = slope(lambda x, y: x * y, x, y)
            axes = tuple(k for k in range(-len(other), 0) if -k > len(shape) or shape[k] == 1)
            same(gx, y.sum(axis=axes, keepdims=True).reshape(shape))
            same(gy, np.full(other, 2.0))


def test_gradient_has_the_dtype_of_its_leaf():
    x, y = leaf(np.ones(3, np.float32)), leaf(np.full(3, 2.0))
    (x * y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (np.float32, np.float64)
    z = leaf(np.ones((2, 3), np.float32))
    (z * np.full(3, 2.0)).sum().backward()
    assert z.grad.dtype == np.float32
    same(z.grad, np.full((2, 3), 2.0))
    m, n = leaf(np.ones((2, 2), np.float32)), leaf(np.full((2, 2), 2.0))
    (m @ n).sum().backward()
    assert (m.grad.dtype, n.grad.dtype) == (np.float32, np.float64)
    same(m.grad, np.full((2, 2), 4.0))
    half = leaf(np.ones(2, np.float16))
    cr.sum(half.astype(np.float64) * 3.0).backward()
    assert half.grad.dtype == np.float16


def test_a_rule_of_wrong_shape_is_named():
    from chainrule.core.primitive import PRIMITIVES, primitive
    from chainrule.ops.families import GENERAL

    try:
        odd = primitive("odd_shape", GENERAL, [lambda ct: np.ones((2, 2))], forward=np.sin)
        with pytest.raises(RuleError):
            odd(leaf(np.ones(3))).sum().backward()
    finally:
        PRIMITIVES.pop("odd_shape", None)


# ----------------------------------------------------------------------------------------------------- freed and kept
def test_a_freed_graph_says_so():
    x = leaf(3.0)
    y = x * x
    z = cr.exp(y)
    z.backward()
    before = x.grad.copy()
    with pytest.raises(FreedGraphError):
        z.backward()
    with pytest.raises(FreedGraphError):
        y.backward()
    with pytest.raises(FreedGraphError):
        (y * 2.0).backward()
    same(x.grad, before)


def test_retain_graph_keeps_it():
    x = leaf(3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    same(x.grad, 12.0)
    with pytest.raises(FreedGraphError):
        y.backward()


def test_residuals_die_as_the_walk_passes():
    x = leaf(np.ones(1000))
    y = cr.exp(x)
    kept = weakref.ref(y.data)
    square = y * y
    z = square.sum()
    del y
    assert kept() is not None
    z.backward()
    assert kept() is None  # though `square`, whose rule read it, is still there
    assert square.shape == (1000,)


def test_a_dropped_graph_dies_without_the_collector():
    gc.disable()
    try:
        x = leaf(np.ones(10))
        seen = weakref.ref(x)
        y = cr.exp(x) * x
        data = weakref.ref(y.data)
        del x, y
        assert seen() is None
        assert data() is None
    finally:
        gc.enable()


def test_only_what_rules_read_is_kept():
    x, y = leaf(np.ones(10)), np.full(10, 2.0)
    z = x + y
    data = weakref.ref(z.data)
    w = z + 1.0
    del z
    assert data() is None
    w.sum().backward()
    c = cr.tensor(np.full(10, 2.0))
    a = leaf(np.ones(10))
    inner = cr.sin(a)
    held = weakref.ref(inner.data)
    total = (inner * c).sum()  # only c is read, and c wants no gradient, so nobody will read the other
    del inner
    assert held() is None
    total.backward()
    same(a.grad, 2.0 * np.cos(np.ones(10)))
    big = cr.exp(leaf(np.ones(10))).detach()
    value = weakref.ref(big.data)
    out = c * big  # wants no gradient: nothing is kept
    del big
    assert value() is None
    assert out.node is None


def test_gradients_frees_nothing_and_touches_no_grad():
    x, unused = leaf([1.0, 2.0]), leaf(np.ones((2, 2), np.float32))
    y = x * x
    z = (y * x).sum()
    for _ in range(2):
        gx, gy, gu = cr.gradients(z, [x, y, unused])
        same(gx, [3.0, 12.0])
        same(gy, [1.0, 2.0])
        same(gu, np.zeros((2, 2)))
        assert gu.dtype == np.float32
    assert x.grad is None
    z.backward()
    same(x.grad, [3.0, 12.0])
    (whole,) = cr.gradients(x * 1.0, [x], cotangent=np.array([1.0, 5.0]))
    same(whole, [1.0, 5.0])


def test_a_result_given_twice_counts_twice():
    def f(x):
        y = x * x
        return y, y

    _, pullback = cr.vjp(f, 3.0)
    same(pullback((1.0, 10.0))[0], 66.0)
    z = leaf(3.0)
    same(cr.gradients(z * z, [z]), [6.0])


def test_a_leaf_told_anew_has_no_part_in_the_old_graph():
    x, y = leaf(3.0), leaf(2.0)
    z = x * y
    x.requires_grad = False
    x.requires_grad = True
    z.backward()
    assert x.grad is None
    same(y.grad, 3.0)


def test_a_wanted_value_and_what_lies_before_it():
    x = leaf(2.0)
    a = x * x
    b = a * a
    c = b * a
    same(cr.gradients(c, [b, a, x]), [4.0, 3 * 4.0**2, 6 * 2.0**5])
    same(cr.gradients(c, [c]), [1.0])


# ---------------------------------------------------------------------------------------------------- zero cotangents
def test_where_never_leaks_from_the_branch_not_taken():
    same(slope(lambda a: cr.where(a <= 0.0, cr.exp(a), 1.0 + a), 1000.0), [1.0])
    same(slope(lambda x: cr.where(x > 0.0, cr.sqrt(x), 0.0), np.array([4.0, 0.0])), [[0.25, 0.0]])
    same(slope(lambda x: cr.clip(cr.exp(x), None, 1.0), np.array([-5.0, 90.0, 1000.0])), [[np.exp(-5.0), 0.0, 0.0]])
    same(slope(lambda x: cr.where(x > 0.0, cr.sqrt(x), 0.0), np.array([4.0, -1.0])), [[0.25, 0.0]])
    same(slope(lambda x: cr.where(x > 0.0, cr.sqrt(x) * x, 0.0), np.array([4.0, np.nan])), [[3.0, 0.0]])


def test_where_in_second_order_and_forward():
    def f(x):
        return cr.where(x > 0.0, cr.sqrt(x), x * 0.0).sum()

    x = np.array([4.0, 0.0])
    same(cr.grad(lambda t: cr.grad(f)(t).sum())(x), [-1.0 / 32.0, 0.0])
    same(cr.jvp(f, (x,), (np.array([1.0, 0.0]),))[1], 0.25)
    with np.errstate(invalid="ignore"):
        z = np.array([4.0, -1.0])
        same(cr.grad(lambda t: cr.grad(f)(t).sum())(z), [-1.0 / 32.0, 0.0])


def test_a_norm_then_where():
    x = leaf([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]])
    n = cr.sqrt((x * x).sum(axis=1))
    cr.where(n > 0.5, n, 1.0).sum().backward()
    same(x.grad[:2], x.data[:2] / np.sqrt((x.data[:2] ** 2).sum(1, keepdims=True)))
    same(x.grad[2], [0.0, 0.0])


def test_a_nan_that_matters_stays():
    """Only zero cotangents are masked: where the derivative is not defined it stays NaN or infinite."""
    assert np.isinf(slope(cr.sqrt, 0.0)[0])
    assert np.isnan(slope(lambda x: cr.sqrt(x) * cr.sqrt(x) * 0.0 + cr.sin(x * np.inf), 0.0)[0])
    k, x = leaf(0.0), leaf(0.0)
    with np.errstate(all="ignore"):
        y = k * cr.log(x)
    y.backward()  # finite results are left alone: the derivative with respect to k is log 0
    assert k.grad == -np.inf


def test_a_finite_derivative_is_not_masked_either():
    """k log x at k = 0, beside an entry that holds NaN: the slope in x is 0, and its derivative in k is 1 / x."""
    x, k = leaf([2.0, np.nan]), leaf([0.0, 1.0])
    y = cr.where(np.array([True, False]), k * cr.log(x), 0.0).sum()
    (gx,) = cr.gradients(y, [x], create_graph=True)
    same(gx.data, [0.0, 0.0])
    same(cr.gradients(gx.sum(), [k])[0], [0.5, 0.0])


def test_infinities_add_up_without_complaint():
    x = leaf([0.0])
    (cr.sqrt(x) - cr.sqrt(x)).sum().backward()
    assert np.isnan(x.grad[0])


# ------------------------------------------------------------------------------------ several inputs, several outputs
def test_outputs_that_nobody_uses():
    x = leaf(np.arange(6.0).reshape(3, 2))
    first, _, last = cr.unstack(x)
    (first * 2.0 + last * last).sum().backward()
    same(x.grad, [[2.0, 2.0], [0.0, 0.0], [8.0, 10.0]])


def test_each_of_many_inputs_gets_its_own():
    xs = [leaf(np.full((k + 1, 2), 1.0 + k)) for k in range(3)]
    fixed = cr.tensor(np.zeros((2, 2)))
    (cr.concat([xs[0], fixed, xs[1], xs[2]]) * np.arange(16.0).reshape(8, 2)).sum().backward()
    same(xs[0].grad, [[0.0, 1.0]])
    same(xs[1].grad, [[6.0, 7.0], [8.0, 9.0]])
    same(xs[2].grad, [[10.0, 11.0], [12.0, 13.0], [14.0, 15.0]])
