"""Laws of the engine itself, on the public face: accumulation, order, fitting, freed and stale graphs, memory, zero cotangents.

No fixtures: the mutants call these functions as they stand.
"""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import (
    DTypeError,
    FreedGraphError,
    GraphError,
    LostGraphError,
    RuleError,
    ShapeError,
    StaleGraphError,
)


def leaf(data, dtype=None):
    return cr.tensor(data, dtype, requires_grad=True)


def same(given, expected):
    np.testing.assert_allclose(np.asarray(given), np.asarray(expected), rtol=1e-12, atol=1e-13)
    assert np.shape(given) == np.shape(expected)


def slope(f, *xs):
    leaves = [leaf(x) for x in xs]
    with np.errstate(all="ignore"):  # of the forward pass; the walk has its own
        y = f(*leaves)
        y = y if not y.shape else y.sum()
    y.backward()
    return [x.grad for x in leaves]


# ------------------------------------------------------------------------------------------------ accumulation and order
def test_a_node_used_several_times_gets_the_sum():
    same(slope(lambda x: x * x + x, 2.0), [5.0])
    same(slope(lambda a: (lambda b: b + b)(a + a), 1.0), [4.0])
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


# ------------------------------------------------------------------------------------------------------------- fitting
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


# ------------------------------------------------------------------------------------------------------ freed and kept
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
    z = (y * y).sum()
    del y
    assert kept() is not None
    z.backward()
    assert kept() is None


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
    product = a * c
    inner = cr.sin(a)
    held = weakref.ref(inner.data)
    (inner * 1.0 + product).sum().backward()
    del inner
    assert held() is None
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


def test_a_wanted_value_and_what_lies_before_it():
    x = leaf(2.0)
    a = x * x
    b = a * a
    c = b * a
    same(cr.gradients(c, [b, a, x]), [4.0, 3 * 4.0**2, 6 * 2.0**5])
    same(cr.gradients(c, [c]), [1.0])


# ----------------------------------------------------------------------------------------------------------------- stale
def test_a_value_written_after_it_was_recorded_is_refused():
    w, x = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = (w * x).sum()
    with cr.no_grad():
        w -= 1.0
    with pytest.raises(StaleGraphError, match="w|x"):
        y.backward()
    assert x.grad is None
    assert w.grad is None


def test_a_write_that_no_rule_reads_is_no_trouble():
    w = leaf([1.0, 2.0])
    y = (w + 3.0).sum()
    early = (w * 1.0).sum()
    with cr.no_grad():
        w *= 5.0
    y.backward()
    same(w.grad, [1.0, 1.0])
    z = (w * w).sum()  # recorded after the write
    w.grad = None
    z.backward()
    same(w.grad, [10.0, 20.0])
    early.backward()


def test_a_write_shows_through_views():
    w = leaf(np.arange(6.0).reshape(2, 3))
    y = (w.reshape(3, 2) * w.reshape(3, 2)).sum()
    with cr.no_grad():
        w += 1.0
    with pytest.raises(StaleGraphError):
        y.backward()


def test_a_value_never_changes_when_another_is_written():
    w = leaf(np.arange(6.0).reshape(2, 3))
    rows = w[0]
    flat = w.reshape(6)
    twice = w.reshape(6).reshape(3, 2)
    alone = w.detach()
    with cr.no_grad():
        paused = w[1]
        w *= 100.0
    same(rows.data, [0.0, 1.0, 2.0])
    same(flat.data, np.arange(6.0))
    same(twice.data, np.arange(6.0).reshape(3, 2))
    same(alone.data, np.arange(6.0).reshape(2, 3))
    same(paused.data, [3.0, 4.0, 5.0])
    c = cr.tensor(np.zeros(4))
    part = c[:2]
    c[0] = 7.0
    same(part.data, [0.0, 0.0])
    part += 1.0
    same(c.data, [7.0, 0.0, 0.0, 0.0])


def test_a_constant_written_after_it_was_recorded_keeps_its_value_for_the_graph():
    x, c = leaf([1.0, 2.0]), cr.tensor([3.0, 4.0])
    y = (x * c).sum()
    c += 10.0
    y.backward()
    same(x.grad, [3.0, 4.0])
    same(c.data, [13.0, 14.0])


def test_a_leaf_is_written_where_it_stands():
    w = leaf([1.0, 2.0])
    memory = w.data
    with cr.no_grad():
        w -= 0.5
    assert w.data is memory
    same(memory, [0.5, 1.5])


def test_arrays_as_operands_are_copied():
    x, array = leaf([1.0, 1.0]), np.array([1.0, 2.0])
    y = (array * x).sum() + (x * array).sum()
    array[:] = 0.0
    y.backward()
    same(x.grad, [2.0, 4.0])
    condition = np.array([True, False])
    x.grad = None
    z = cr.where(condition, x, 2.0 * x).sum()
    condition[:] = False
    z.backward()
    same(x.grad, [1.0, 2.0])


def test_debug_mode_finds_outside_writes():
    x = leaf([1.0, 2.0])
    with cr.debug():
        y = (x * x).sum()
        x.data[0] = 5.0
        with pytest.raises(StaleGraphError):
            y.backward()
        z = (x * x).sum()
        z.backward()
    same(x.grad, [10.0, 4.0])


# ---------------------------------------------------------------------------------------------------- memory of gradients
def test_gradients_share_memory_with_nothing():
    x, y, upstream = leaf(np.ones(3)), leaf(np.ones(3)), np.ones(3)
    z = x + y
    z.backward(upstream)
    for a, b in ((x.grad, y.grad), (x.grad, upstream), (y.grad, upstream), (x.grad, x.data), (x.grad, z.data)):
        assert not np.shares_memory(a, b)
    x.grad[:] = 9.0
    same(y.grad, np.ones(3))
    a = leaf(np.ones((2, 3)))
    a.sum().backward()
    a.grad[0, 0] = 5.0
    same(a.grad, [[5.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    b = leaf(np.ones((2, 3)))
    (b.T * 1.0).reshape(6).sum().backward()
    assert b.grad.flags.writeable
    assert b.grad.base is None
    s = leaf(2.0)
    (s * 3.0).backward()
    assert isinstance(s.grad, np.ndarray)
    s.grad += 1.0
    same(s.grad, 4.0)
    p, q = leaf(np.ones(2)), leaf(np.ones(2))
    (p + q).sum().backward(create_graph=True)
    assert not np.shares_memory(p.grad.data, q.grad.data)


def test_the_first_gradient_does_not_change_when_more_is_added():
    x = leaf([1.0])
    (x * 2.0).sum().backward()
    first = x.grad
    (x * 2.0).sum().backward()
    same(x.grad, [4.0])
    same(first, [2.0])


# -------------------------------------------------------------------------------------------------------------- constants
def test_numbers_are_weak_and_told_apart():
    x = leaf(np.ones(2, np.float32))
    assert (x * 2.0).dtype == (2.0 * x).dtype == (x + 1).dtype == (True * x).dtype == np.float32
    i = cr.tensor([1, 2])
    assert (i * 2).dtype == np.int64
    assert (i * 2.0).dtype == np.float64
    assert (i * True).dtype == np.int64
    assert (i + 1).dtype == np.int64
    assert (i + 1.0).dtype == np.float64
    assert np.signbit((cr.tensor([0.0]) * -0.0).data[0])
    assert not np.signbit((cr.tensor([0.0]) * 0.0).data[0])
    assert cr.copysign(cr.tensor([1.0]), -0.0).item() == -1.0
    assert cr.copysign(cr.tensor([1.0]), 0.0).item() == 1.0
    assert (x * np.float64(2.0)).dtype == np.float64
    with pytest.raises(DTypeError):
        cr.tensor(np.array([1], np.int8)) * 1000


def test_both_orders_of_a_numpy_scalar():
    for scalar in (np.float64(2.0), np.float32(2.0), np.int64(2)):
        x = leaf(np.ones(2, np.float32))
        left, right = scalar * x, x * scalar
        assert type(left) is type(right) is cr.Tensor
        assert left.dtype == right.dtype
        (left + right).sum().backward()
        same(x.grad, [4.0, 4.0])
        assert x.grad.dtype == np.float32


# ---------------------------------------------------------------------------------------------------------------- no_grad
def test_no_grad_records_nothing_in_this_context_only():
    x = leaf([1.0, 2.0])
    inside: list[bool] = []

    def elsewhere():
        inside.append((x * x).requires_grad)

    with cr.no_grad():
        assert not (x * x).requires_grad
        assert not cr.concat([x, x]).requires_grad
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert inside == [True]
    assert (x * x).requires_grad
    assert cr.concat([x, x]).requires_grad


def test_detach_and_silent_losses():
    x = leaf([1.0, 2.0])
    assert not x.detach().requires_grad
    for loses in (lambda: np.asarray(x), lambda: np.array([x, x]), x.numpy):
        with pytest.raises(GraphError):
            loses()
    with pytest.raises(LostGraphError):
        x.detach().sum().backward()
    with pytest.raises(GraphError):
        (x * x).requires_grad = False
    with pytest.raises(DTypeError):
        cr.tensor([1, 2], requires_grad=True)


# -------------------------------------------------------------------------------------------------------------- in place
def test_in_place_while_recording_rebinds():
    x = leaf(np.ones((2, 2)))
    y = x * 2.0
    old = y
    keeps = y * y
    y += x
    same(y.data, np.full((2, 2), 3.0))
    same(keeps.data, np.full((2, 2), 4.0))
    assert old is y
    (y.sum() + keeps.sum()).backward()
    same(x.grad, np.full((2, 2), 3.0 + 8.0))
    with pytest.raises(GraphError):
        x += 1.0
    buffer = cr.zeros((3, 3))
    buffer[:2, :2] = x
    buffer.sum().backward()
    same(x.grad, np.full((2, 2), 12.0))


def test_shared_memory_of_new_leaves():
    array = np.zeros(3)
    a = cr.asarray(array)
    a[0] = 5.0
    same(array, [5.0, 0.0, 0.0])
    t = cr.tensor(array)
    t[0] = 1.0
    same(array, [5.0, 0.0, 0.0])
    base = cr.tensor([1.0, 2.0, 3.0])
    part = base[:2]
    part.requires_grad = True
    with cr.no_grad():
        part -= 1.0
    same(base.data, [1.0, 2.0, 3.0])


def test_copies_keep_value_gradient_and_wish():
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.requires_grad
        same(made.grad, [2.0, 4.0])
        same(made.data, [1.0, 2.0])
        assert not np.shares_memory(made.data, x.data)
        assert not np.shares_memory(made.grad, x.grad)
    assert not copy.deepcopy(x * x).requires_grad


# -------------------------------------------------------------------------------------------------------- zero cotangents
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


def test_infinities_add_up_without_complaint():
    x = leaf([0.0])
    (cr.sqrt(x) - cr.sqrt(x)).sum().backward()
    assert np.isnan(x.grad[0])


# ---------------------------------------------------------------------------------------- several inputs, several outputs
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


# ----------------------------------------------------------------------------------------------------------- higher order
def test_derivatives_of_derivatives():
    f = lambda x: x**4 + cr.exp(2.0 * x)
    for n, expected in ((1, 4 * 1.5**3), (2, 12 * 1.5**2), (3, 24 * 1.5), (4, 24.0)):
        g = f
        for _ in range(n):
            g = cr.grad(g)
        same(g(1.5), expected + 2.0**n * np.exp(3.0))


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
