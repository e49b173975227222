"""G: the graph engine, its memory, and threads; the scalar engine where a case applies."""

import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule import scalar
from tests.cases.ways import derivatives_are, leaf


@pytest.fixture
def without_collector():
    """Whatever dies in here dies by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ---------------------------------------------------------------- G1
def test_g1_reused_node():
    a = leaf(1.0)
    b = a + a
    c = b + b
    c.backward()
    assert a.grad == 4.0
    derivatives_are(lambda x: (x + x) + (x + x), 1.0, 4.0, [[0.0]])
    derivatives_are(lambda x: x * x + x, 2.0, 5.0, [[2.0]])


def test_g1_reused_node_in_the_scalar_engine():
    a = scalar.Value(1.0)
    b = a + a
    c = b + b
    c.backward()
    assert (a.grad, b.grad, c.grad) == (4.0, 2.0, 1.0)
    x = scalar.Value(2.0)
    (x * x + x).backward()
    assert x.grad == 5.0
    assert scalar.grad(scalar.grad(lambda x: x * x + x))(2.0) == 2.0


@pytest.mark.parametrize("depth", [1, 10, 60])
def test_g1_doubling_takes_linear_time_and_is_exact(depth):
    """2^depth ways from y to x: a walk that visits each way does not come back."""

    def f(x):
        for _ in range(depth):
            x = x + x
        return x

    derivatives_are(f, 1.0, 2.0**depth, [[0.0]])
    derivatives_are(lambda x: f(x * x), 1.0, 2.0 ** (depth + 1), [[2.0 ** (depth + 1)]])
    v = scalar.Value(1.0)
    f(v).backward()
    assert v.grad == 2.0**depth


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("+-*"), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=14))
def test_g1_any_way_of_sharing_in_both_engines(program):
    """Straight-line programs whose steps use any earlier values, as polynomials with NumPy's own derivative."""
    operations = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}

    def run(x):
        values = [x, x * 0.5]
        for sign, i, j in program:
            values.append(operations[sign](values[i % len(values)], values[j % len(values)]) * 0.5)
        return values[-1]

    polynomial = run(np.polynomial.Polynomial([0.0, 1.0]))
    at = 0.75
    first, second = polynomial.deriv(1)(at), polynomial.deriv(2)(at)
    t = leaf(at)
    run(t).backward()
    np.testing.assert_allclose(t.grad, first, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(cr.grad(cr.grad(run))(at), second, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(cr.hessian(run)(at), second, rtol=1e-9, atol=1e-12)
    v = scalar.Value(at)
    run(v).backward()
    np.testing.assert_allclose(v.grad, first, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scalar.derivative(run, 2)(at), second, rtol=1e-9, atol=1e-12)


def test_g1_two_losses_and_two_calls_accumulate():
    x = leaf([1.0, 2.0])
    y = x * x
    y.sum().backward(retain_graph=True)
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [4.0, 8.0]
    (3.0 * y.sum()).backward()
    assert x.grad.tolist() == [10.0, 20.0]


def test_g1_a_leaf_that_is_the_result():
    x = leaf(3.0)
    x.backward()
    assert x.grad == 1.0
    x.backward()
    assert x.grad == 2.0
    assert cr.grad(lambda x: x)(3.0) == 1.0
    assert cr.gradients(x, [x, x]) == [1.0, 1.0]


def test_g_a_second_call_on_a_freed_graph_raises_and_touches_nothing():
    x = leaf([1.0, 2.0])
    h = x * x
    y = h.sum()
    y.backward()
    for again in (y, h.sum(), (h * 2.0).sum()):
        with pytest.raises(cr.errors.FreedGraphError, match="retain_graph"):
            again.backward()
    assert x.grad.tolist() == [2.0, 4.0]


# ---------------------------------------------------------------- G3
DEEP = 1_000_000


def chain(x, n, step=lambda y: y + 1.0):
    for _ in range(n):
        x = step(x)
    return x


def test_g3_a_chain_of_a_million_builds_walks_and_is_freed():
    limit = sys.getrecursionlimit()
    x = leaf(1.0)
    y = chain(x, DEEP)
    assert y.item() == DEEP + 1.0
    y.backward()
    assert x.grad == 1.0
    del y
    assert sys.getrecursionlimit() == limit


def test_g3_a_chain_of_a_million_that_is_dropped_unwalked():
    x = leaf(1.0)
    y = chain(x, DEEP)
    del y
    z = chain(x, 10)
    z.backward()
    assert x.grad == 1.0


@pytest.mark.parametrize("step", [lambda y: -y, lambda y: y * 1.0, lambda y: y.reshape(()), lambda y: y[()], lambda y: cr.sin(y)])
def test_g3_long_chains_of_every_kind_of_node(step):
    for walk in ("backward", "drop"):
        x = leaf(0.5)
        y = chain(x, 50_000, step)
        if walk == "backward":
            y.backward()
            assert np.isfinite(x.grad)
        del y


def test_g3_long_chains_in_other_walks():
    n = 20_000
    assert cr.jvp(lambda x: chain(x, n), (1.0,), (3.0,))[1] == 3.0
    assert cr.grad(lambda x: chain(x, n))(1.0) == 1.0
    assert cr.grad(cr.checkpoint(lambda x: chain(x, n)))(1.0) == 1.0
    assert cr.hvp(lambda x: chain(x * x, n), 1.0, 1.0) == 2.0
    assert cr.grad(cr.grad(lambda x: chain(x * x, n)))(1.0) == 2.0
    derivative = cr.grad(cr.grad(lambda x: chain(x, 2_000, cr.sin)))(0.5)
    assert np.isfinite(derivative)


def test_g3_long_chains_in_place_and_in_stacks():
    x = leaf(np.ones(3))
    y = x * 1.0
    for _ in range(20_000):
        y += 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 3
    x = leaf(1.0)
    cr.stack([x] * 20_000).sum().backward()
    assert x.grad == 20_000.0
    t = leaf(np.ones(3_000))
    total = 0.0
    for row in t:
        total = total + row
    total.backward()
    assert t.grad.tolist() == [1.0] * 3_000


def test_g3_a_long_chain_in_the_scalar_engine():
    x = scalar.Value(1.0)
    y = chain(x, 100_000)
    y.backward()
    assert x.grad == 1.0
    del y
    z = chain(x, 100_000)
    del z
    assert scalar.grad(lambda x: chain(x * x, 20_000))(3.0) == 6.0
    assert scalar.derivative(lambda x: chain(x * x, 5_000), 2)(3.0) == 2.0


def test_g3_a_recorded_gradient_of_a_long_chain_is_freed_too():
    x = leaf(1.0)
    g = cr.gradients(chain(x, 20_000, lambda y: y * 1.00001), x, create_graph=True)
    g.backward()
    del g


# ---------------------------------------------------------------- G5
def test_g5_a_gradient_inside_a_custom_rule(without_collector):
    """The rule differentiates something by itself; nothing of a step survives it."""
    dead = []

    for create in (False, True):

        @cr.operation(lambda ct, x, create=create: ct * inner(x, create))
        def cube(x):
            return x**3

        def inner(x, create):
            t = leaf(np.array(x.data if isinstance(x, cr.Tensor) else x))
            dead.append(weakref.ref(t))
            g = cr.gradients((t**3).sum(), t, create_graph=create)
            return g.data if isinstance(g, cr.Tensor) else g

        for _ in range(5):
            x = leaf(np.arange(3.0))
            y = cube(x)
            dead.extend([weakref.ref(y), weakref.ref(y.data)])
            y.sum().backward()
            np.testing.assert_allclose(x.grad, 3 * np.arange(3.0) ** 2)
            dead.append(weakref.ref(x))
            del x, y
    assert [ref for ref in dead if ref() is not None] == []


def steps():
    """One training step each, with what it leaves on the way."""

    def plain(x):
        h = cr.tanh(x * x)
        y = h.sum()
        yield from (h, y)
        y.backward()

    def retained(x):
        h = cr.exp(x)
        y = h.sum()
        yield from (h, y)
        y.backward(retain_graph=True)

    def recorded(x):
        h = cr.sin(x)
        g = cr.gradients(h.sum(), x, create_graph=True)
        yield from (h, g)
        (g * g).sum().backward()

    def created(x):
        h = cr.sin(x)
        yield h
        h.sum().backward(create_graph=True)
        x.grad = None

    def unwalked(x):
        h = cr.exp(x * x)
        yield from (h, h.sum())

    def transformed(x):
        def f(t):
            kept.append(t)
            return (t * x).sum()

        kept = []
        cr.grad(f)(np.ones(3))
        cr.hvp(f, np.ones(3), np.ones(3))
        cr.jvp(f, (np.ones(3),), (np.ones(3),))
        yield from kept

    def checkpointed(x):
        h = cr.checkpoint(lambda t: cr.exp(cr.sin(t)))(x)
        yield h
        h.sum().backward()

    def in_place(x):
        t = x * 1.0
        t *= t
        t[0] = t[1]
        yield t
        t.sum().backward()

    def failing(x):
        h = cr.exp(x)
        yield h
        try:
            h @ cr.zeros((7, 7))
        except cr.errors.ShapeError:
            pass

    def several(x):
        parts = cr.unstack(cr.stack([x, x]))
        yield from parts
        (parts[0] * parts[1]).sum().backward()

    return [plain, retained, recorded, created, unwalked, transformed, checkpointed, in_place, failing, several]


@pytest.mark.parametrize("step", steps(), ids=lambda step: step.__name__)
def test_g5_everything_of_a_step_dies_without_the_collector(step, without_collector):
    x = leaf(np.array([0.5, 1.0, 1.5]))
    refs = []
    for _ in range(3):
        for tensor in step(x):
            refs.append(weakref.ref(tensor))
            if isinstance(tensor.data, np.ndarray):
                refs.append(weakref.ref(tensor.data))
            del tensor
        x.grad = None
    assert [ref for ref in refs if ref() is not None] == []


def test_g5_the_leaf_itself_dies_while_a_graph_lives(without_collector):
    x = leaf(np.ones(3))
    y = (x * 2.0).sum()
    ref = weakref.ref(x)
    del x
    assert ref() is None
    y.backward()  # nobody wants the gradient any more


def test_g5_residuals_die_during_the_walk_while_the_user_holds_an_intermediate(without_collector):
    x = leaf(np.ones(1000))
    h = cr.exp(x)
    hidden = weakref.ref((h * h).data)
    k = cr.sin(h * h)
    kept = weakref.ref(k.node[3][0])
    k.sum().backward()
    assert hidden() is None
    assert kept() is None
    assert h.data.shape == (1000,)
    assert k.node[2] is None


def test_g5_only_residuals_that_rules_name_are_kept(without_collector):
    x = leaf(np.ones(1000))
    a = x + 1.0  # needed by nobody: the rules of add and sum read nothing
    ref = weakref.ref(a.data)
    y = (a + 1.0).sum()
    del a
    assert ref() is None
    y.backward()
    assert x.grad.sum() == 1000.0


def test_g5_a_forward_whose_result_is_dropped_leaves_nothing_behind(without_collector):
    x = leaf(np.ones(10))
    before = sys.getrefcount(x.node)
    for _ in range(100):
        cr.exp(x * 2.0).sum()
    assert sys.getrefcount(x.node) == before


def test_g5_the_scalar_engine_frees_without_the_collector(without_collector):
    x = scalar.Value(1.0)
    y = (x * x).exp()
    y.backward()
    ref = weakref.ref(y) if hasattr(scalar.Value, "__weakref__") else None
    del y
    assert ref is None or ref() is None


# ---------------------------------------------------------------- G7
def in_threads(work, count=4):
    """Run `work(k)` in threads that start together."""
    barrier = threading.Barrier(count)

    def start(k):
        barrier.wait()
        return work(k)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(start, range(count)))
    finally:
        sys.setswitchinterval(interval)


def test_g7_parallel_backward_on_separate_graphs():
    def work(k):
        out = []
        for _ in range(200):
            x = leaf(float(k))
            (x * x).backward()
            out.append(float(x.grad))
        return out

    assert in_threads(work) == [[2.0 * k] * 200 for k in range(4)]


def test_g7_parallel_transforms_of_every_order_while_operations_are_registered():
    stop = threading.Event()

    def register():
        count = 0
        while not stop.is_set():
            count += 1

            @cr.operation(lambda ct, x: ct * 2.0 * x)
            def squared(x):
                return x * x

            assert cr.grad(squared)(3.0) == 6.0
        return count

    def work(k):
        for _ in range(100):
            assert cr.grad(lambda x: x * x)(float(k)) == 2.0 * k
            assert cr.grad(cr.grad(lambda x: x * x * x))(float(k)) == 6.0 * k
            assert cr.hvp(lambda x: (x**3).sum(), np.full(2, float(k)), np.ones(2)).tolist() == [6.0 * k] * 2
            assert cr.jvp(lambda x: cr.where(x < 0, cr.log(x), x * x), (float(k),), (1.0,))[1] == 2.0 * k
        return True

    with ThreadPoolExecutor(1) as pool:
        registering = pool.submit(register)
        try:
            assert in_threads(work) == [True] * 4
        finally:
            stop.set()
        assert registering.result(30) > 0


def test_g7_threads_that_accumulate_into_graphs_of_one_leaf():
    """One leaf, many graphs: gradients of separate walks are right; `.grad` is the caller's to lock."""
    w = leaf([1.0, 2.0, 3.0])

    def work(k):
        return [cr.gradients((w * float(k) * w).sum(), w).tolist() for _ in range(100)]

    for k, found in enumerate(in_threads(work)):
        assert found == [[2.0 * k, 4.0 * k, 6.0 * k]] * 100


def test_g7_grad_mode_is_each_threads_own():
    def work(k):
        for _ in range(200):
            x = leaf(1.0)
            if k % 2:
                with cr.no_grad():
                    y = x * 2.0
                assert not y.requires_grad
            else:
                y = x * 2.0
                assert y.requires_grad
                y.backward()
                assert x.grad == 2.0
        return True

    assert all(in_threads(work))


def test_g7_debug_mode_is_each_threads_own():
    def work(k):
        for _ in range(50):
            x = leaf([1.0, 2.0])
            if k == 0:
                with cr.debug():
                    y = (x * x).sum()
                    x.data[0] = 5.0
                    with pytest.raises(cr.errors.StaleGraphError):
                        y.backward()
            else:
                (x * x).sum().backward()
                assert x.grad.tolist() == [2.0, 4.0]
        return True

    assert all(in_threads(work))


def test_g7_writes_in_one_thread_do_not_disturb_walks_in_another():
    def work(k):
        x = leaf(np.full(3, float(k)))
        for step in range(200):
            loss = (x * x).sum()
            loss.backward()
            assert x.grad.tolist() == (2 * x.data).tolist()
            with cr.no_grad():
                x -= 0.01 * x.grad
            x.grad = None
            assert step >= 0
        return float(x.data[0])

    np.testing.assert_allclose(in_threads(work), [k * 0.98**200 for k in range(4)], rtol=1e-10)


def test_g7_the_scalar_engine_in_threads():
    def work(k):
        out = []
        for _ in range(200):
            x = scalar.Value(float(k))
            (x * x).backward()
            out.append(x.grad)
        return out

    assert in_threads(work) == [[2.0 * k] * 200 for k in range(4)]
