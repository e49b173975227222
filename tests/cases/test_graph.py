"""G: the graph engine and threads; the scalar engine where a case applies."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule import scalar
from tests.cases.ways import derivatives_are, leaf


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


def test_g3_a_long_chain_that_is_dropped_unwalked():
    x = leaf(1.0)
    y = chain(x, DEEP // 5)
    del y
    z = chain(x, 10)
    z.backward()
    assert x.grad == 1.0


@pytest.mark.parametrize(
    "step", [lambda y: -y, lambda y: y * 1.0, lambda y: y.reshape(()), lambda y: y[()], lambda y: cr.sin(y)]
)
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
    g = cr.gradients(chain(x, 20_000, cr.sin), x, create_graph=True)
    g.backward()
    del g


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
            assert (
                cr.jvp(lambda x: cr.where(x < 0, cr.sqrt(-x - 1.0) if k < 0 else x, x * x), (float(k),), (1.0,))[1]
                == 2.0 * k
            )
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
