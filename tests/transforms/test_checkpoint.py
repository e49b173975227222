"""checkpoint(f) is f: values, derivatives of every order and mode, closures, trees; and residuals die."""

import gc
import weakref

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import FreedGraphError, StaleGraphError
from chainrule.ops import reductions
from tests.transforms.formulas import mixture, sum_of

RNG = np.random.default_rng(1)
X, V = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 4))


def twice(x):
    """Two checkpoints in a row, and one inside another."""
    inner = cr.checkpoint(lambda h: cr.tanh(h) * cr.exp(h))
    outer = cr.checkpoint(lambda h: inner(h * 2.0) + inner(h) * h)
    return outer(cr.checkpoint(cr.sin)(x))


def twice_plain(x):
    inner = lambda h: cr.tanh(h) * cr.exp(h)
    h = cr.sin(x)
    return inner(h * 2.0) + inner(h) * h


@pytest.mark.parametrize(("f", "g"), [(cr.checkpoint(mixture), mixture), (twice, twice_plain)])
def test_same_values_and_derivatives_of_every_order_and_mode(f, g):
    f, g = sum_of(f), sum_of(g)
    assert cr.value_and_grad(f)(X)[0] == cr.value_and_grad(g)(X)[0]
    np.testing.assert_array_equal(cr.grad(f)(X), cr.grad(g)(X))
    close = {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(cr.jvp(f, (X,), (V,))[1], cr.jvp(g, (X,), (V,))[1], **close)
    np.testing.assert_allclose(cr.hvp(f, X, V), cr.hvp(g, X, V), **close)
    slope = lambda f: lambda x: cr.jvp(f, (x,), (V,))[1]
    np.testing.assert_allclose(cr.grad(slope(f))(X), cr.hvp(g, X, V), **close)
    np.testing.assert_allclose(slope(slope(f))(X), slope(slope(g))(X), **close)
    third = lambda f: lambda x: reductions.sum(cr.hvp(f, x, V) * V)
    np.testing.assert_allclose(cr.grad(third(f))(X), cr.grad(third(g))(X), **close)


def test_closed_over_tensors_get_their_gradients_once():
    """w is used inside, outside, and through h, which the closure also reads."""

    def loss(w, wrap):
        h = w * 2.0
        f = wrap(lambda x: x * w * h * x)
        return f(h) * w

    results = []
    for wrap in (cr.checkpoint, lambda f: f):
        w = cr.tensor(1.5, requires_grad=True)
        y = loss(w, wrap)
        (g,) = cr.gradients(y, [w], create_graph=True)
        (g2,) = cr.gradients(g, [w], create_graph=True)
        (g3,) = cr.gradients(g2, [w])
        y.backward()
        results.append([y.item(), g.item(), g2.item(), float(g3), float(w.grad)])
        t, t2 = cr.jvp(lambda v, wrap=wrap: loss(v, wrap), (1.5,), (1.0,))[1], cr.hvp(lambda v: loss(v, wrap), 1.5, 1.0)  # noqa: B023
        results[-1] += [t, t2]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-14)
    assert results[0][0] == 8 * 1.5**5  # x h w x w with x = h = 2w
    assert results[0][1] == pytest.approx(40 * 1.5**4)


def test_trees_in_and_out():
    f = cr.checkpoint(lambda p, k=1.0: {"a": p["x"] * p["y"] * k, "b": [p["x"] + 1.0, p["n"], "text"], "c": None})
    x, y = cr.tensor(2.0, requires_grad=True), cr.tensor(5.0)
    out = f({"x": x, "y": y, "n": 3}, k=10.0)
    assert (out["a"].item(), out["b"][0].item(), out["b"][1:], out["c"]) == (100.0, 3.0, [3, "text"], None)
    (out["a"] + out["b"][0] * 7.0).backward()
    assert x.grad == 57.0
    x.grad = None
    f({"x": x, "y": y, "n": 3})["b"][0].backward()  # one output alone
    assert x.grad == 1.0


def test_an_argument_or_a_closed_over_tensor_may_be_the_result():
    w, x = cr.tensor(2.0, requires_grad=True), cr.tensor(3.0, requires_grad=True)
    a, b, c = cr.checkpoint(lambda x: (x, w, x * w))(x)
    (a * 10.0 + b * 100.0 + c).backward()
    assert (x.grad, w.grad) == (12.0, 103.0)
    assert cr.jvp(cr.checkpoint(lambda x: (x, x * x)), (3.0,), (1.0,)) == ((3.0, 9.0), (1.0, 6.0))


def test_without_gradients_it_is_the_function():
    assert cr.checkpoint(lambda x: x * 2)(np.ones(2)).tolist() == [2.0, 2.0]
    t = cr.checkpoint(lambda x: x * 2)(cr.tensor([1.0]))
    assert not t.requires_grad
    with cr.no_grad():
        assert not cr.checkpoint(lambda x: x * 2)(cr.tensor([1.0], requires_grad=True)).requires_grad


def test_residuals_die_and_the_graph_is_one_node():
    gc.disable()
    try:
        inside = []

        def f(x):
            for _ in range(5):
                x = cr.tanh(x)
                inside.append(weakref.ref(x))
            return reductions.sum(x)

        x = cr.tensor(np.ones(100), requires_grad=True)
        y = cr.checkpoint(f)(x)
        assert len(inside) == 5
        assert all(ref() is None for ref in inside)
        expected = cr.grad(f)(np.ones(100))
        inside.clear()
        y.backward()
        assert len(inside) == 5
        assert all(ref() is None for ref in inside)
        np.testing.assert_array_equal(x.grad, expected)
        with pytest.raises(FreedGraphError):
            y.backward()
    finally:
        gc.enable()


def test_memory_of_a_long_chain_is_that_of_its_segments():
    import tracemalloc

    n, segments = 50_000, 12

    def segment(x):
        for _ in range(20):
            x = cr.tanh(x)
        return x

    def peak(wrap):
        f = wrap(segment)

        def chain(x):
            for _ in range(segments):
                x = f(x)
            return reductions.sum(x)

        tracemalloc.start()
        cr.grad(chain)(np.ones(n))
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size / (8 * n)

    assert peak(lambda f: f) > 20 * segments
    assert peak(cr.checkpoint) < 20 + segments + 15


def test_errstate_of_the_first_run_comes_back():
    seen = []

    def f(x):
        seen.append(np.geterr()["divide"])
        return cr.log(x)

    x = cr.tensor([0.0, 1.0], requires_grad=True)
    with np.errstate(divide="ignore"):
        y = reductions.sum(cr.checkpoint(f)(x)[1:])
    y.backward()
    assert seen == ["ignore", "ignore"]
    assert x.grad.tolist() == [0.0, 1.0]


def test_zero_cotangents_stay_zero_inside():
    def f(wrap, x):
        return reductions.sum(cr.where(x > 0.0, wrap(lambda x: cr.log(cr.sqrt(x)))(x), x * 3.0))

    x = np.array([-1.0, 4.0])
    with np.errstate(invalid="ignore"):
        assert cr.grad(lambda x: f(cr.checkpoint, x))(x).tolist() == [3.0, 0.125]
        assert cr.hvp(lambda x: f(cr.checkpoint, x), x, np.ones(2)).tolist() == [0.0, -1 / 32]


def test_backward_inside_no_grad_runs_again_with_recording():
    x = cr.tensor(0.5, requires_grad=True)
    y = cr.checkpoint(lambda x: cr.sin(cr.sin(x)))(x)
    with cr.no_grad():
        y.backward()
    assert x.grad == pytest.approx(np.cos(np.sin(0.5)) * np.cos(0.5))


def test_arguments_may_be_written_afterwards():
    a, x = np.array([1.0, 2.0]), cr.tensor([3.0, 4.0], requires_grad=True)
    t = cr.tensor([5.0, 6.0])
    y = reductions.sum(cr.checkpoint(lambda x, a, t: x * a * t)(x, a, t))
    a[:] = 0.0
    with cr.no_grad():
        t *= 0.0
    y.backward()
    assert x.grad.tolist() == [5.0, 12.0]
    y = reductions.sum(cr.checkpoint(lambda x: x * x)(x))
    with cr.no_grad():
        x -= 1.0
    with pytest.raises(StaleGraphError, match="checkpoint"):
        y.backward()


def test_what_the_function_closes_over_must_stay():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    closed = [w * 2.0]
    f = cr.checkpoint(lambda x: x * closed[0])
    x = cr.tensor([3.0, 4.0], requires_grad=True)
    y = reductions.sum(f(x))
    closed[0] = w * 3.0
    with pytest.raises(StaleGraphError, match="other tensors"):
        y.backward()
    y = reductions.sum(cr.checkpoint(lambda x: x * w)(x))
    w.data = np.zeros(2)
    with pytest.raises(StaleGraphError, match="another array"):
        y.backward()
    y = reductions.sum(cr.checkpoint(lambda x: x * w)(x))
    with cr.no_grad():
        w += 1.0
    with pytest.raises(StaleGraphError):
        y.backward()


def test_a_result_does_not_change_with_the_leaf():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    y = cr.checkpoint(lambda x: x)(x)
    z = cr.checkpoint(lambda x: x[1:])(x)
    with cr.no_grad():
        x *= 0.0
    assert (y.tolist(), z.tolist()) == ([1.0, 2.0], [2.0])


def test_gradients_of_intermediates_and_repeated_walks():
    x = cr.tensor(0.5, requires_grad=True)
    h = x * x
    y = cr.checkpoint(lambda h: cr.exp(h) * x)(h)
    assert cr.gradients(y, [h, x]) == pytest.approx([0.5 * np.exp(0.25), np.exp(0.25) * 1.5])
    assert cr.gradients(y, [x]) == pytest.approx([np.exp(0.25) * 1.5])
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad == pytest.approx(2 * np.exp(0.25) * 1.5)


def test_many_in_a_row_need_no_recursion():
    step = cr.checkpoint(lambda x: x + 1.0)

    def f(x):
        for _ in range(3000):
            x = step(x)
        return x * x

    assert cr.grad(f)(1.0) == 2 * 3001.0
