"""Kinds in and out, what is recorded, what is refused: DESIGN section 3, "Transforms"."""

import gc
import threading
import weakref
from collections import namedtuple
from functools import partial

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import (
    ArgumentError,
    FreedGraphError,
    StaleGraphError,
)
from chainrule.ops import reductions

Point = namedtuple("Point", "x y")  # noqa: PYI024 - the plain kind, which users have


def square_sum(x):
    return reductions.sum(x * x)


# ------------------------------------------------------------------------------------------------------------- kinds
def test_float_to_float():
    value, g = cr.value_and_grad(lambda x: x * x)(3.0)
    assert (type(value), value) == (float, 9.0)
    assert (type(g), g) == (float, 6.0)
    for result in (*cr.jvp(lambda x: x * x, (3.0,), (1.0,)), *cr.vjp(lambda x: x * x, 3.0)[1](1.0)):
        assert type(result) is float
    assert type(cr.hessian(lambda x: x * x)(3.0)) is float
    assert type(cr.hvp(lambda x: x * x, 3.0, 1.0)) is float


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arrays_and_numpy_scalars_keep_kind_and_dtype(dtype):
    x = np.array([1.0, 2.0], dtype)
    value, g = cr.value_and_grad(square_sum)(x)
    assert type(value) is dtype
    assert (type(g), g.dtype, g.shape) == (np.ndarray, dtype, (2,))
    value, g = cr.value_and_grad(lambda x: x * x)(dtype(3.0))
    assert (type(value), type(g)) == (dtype, dtype)
    g = cr.grad(lambda x: x * x)(np.array(3.0, dtype))
    assert (type(g), g.shape, g.dtype) == (np.ndarray, (), dtype)


def test_tensor_to_tensor():
    value, g = cr.value_and_grad(square_sum)(cr.tensor([1.0, 2.0]))
    assert type(value) is type(g) is cr.Tensor
    assert g.tolist() == [2.0, 4.0]
    assert not g.requires_grad
    assert not value.requires_grad


def test_tree_to_the_same_tree_with_none_where_nothing_floats():
    def f(p, scale=1.0):
        assert p["n"] == 3
        assert p["name"] == "p"
        return (p["w"][0] * p["w"][1] + p["at"].x * p["at"].y) * p["n"] * scale

    p = {"w": [2.0, np.float32(5.0)], "at": Point(3.0, np.array(4.0)), "n": 3, "name": "p", "none": None}
    value, g = cr.value_and_grad(f)(p)
    assert type(value) is np.float64
    assert value == 66.0
    assert g == {"w": [15.0, 6.0], "at": Point(12.0, 9.0), "n": None, "name": None, "none": None}
    assert [type(v) for v in (*g["w"], *g["at"])] == [float, np.float32, float, np.ndarray]
    assert cr.grad(f)(p, scale=2.0)["w"][0] == 30.0


def test_argnums():
    f = lambda x, y, k=1: k * x * y
    assert cr.grad(f, 1)(2.0, 3.0) == 2.0
    assert cr.grad(f, -1)(2.0, 3.0) == 2.0
    assert cr.grad(f, (0, 1))(2.0, 3.0, k=10) == (30.0, 20.0)
    assert cr.grad(f, (1,))(2.0, 3.0) == (2.0,)
    assert cr.grad(f)(2.0, 3) == 3.0
    assert cr.jacobian(f, (0, 1))(2.0, 3.0) == (3.0, 2.0)


def test_aux():
    def f(x):
        y = x * x
        return reductions.sum(y), {"y": y, "note": "kept"}

    x = np.array([1.0, 2.0])
    (value, aux), g = cr.value_and_grad(f, has_aux=True)(x)
    assert (value, aux["note"], type(aux["y"])) == (5.0, "kept", np.ndarray)
    assert g.tolist() == [2.0, 4.0]
    g, aux = cr.grad(f, has_aux=True)(x)
    assert aux["y"].tolist() == [1.0, 4.0]
    with pytest.raises(ArgumentError, match="has_aux"):
        cr.grad(square_sum, has_aux=True)(x)


def test_methods_partials_and_callable_objects():
    class Scale:
        def __init__(self, k):
            self.k = k

        def times(self, x):
            return self.k * x

        __call__ = times

    assert cr.grad(Scale(3.0).times)(1.0) == 3.0
    assert cr.grad(Scale(4.0))(1.0) == 4.0
    assert cr.grad(partial(lambda a, x: a * x, 5.0))(1.0) == 5.0
    assert cr.grad(cr.sin)(0.0) == 1.0

    def named(x):
        """What it does."""
        return x

    assert (cr.grad(named).__name__, cr.grad(named).__doc__) == ("named", "What it does.")


def test_trees_as_results():
    y, pullback = cr.vjp(lambda x: {"a": x * x, "b": (x * 2.0,)}, 3.0)
    assert y == {"a": 9.0, "b": (6.0,)}
    assert pullback({"a": 1.0, "b": (10.0,)}) == (26.0,)
    assert pullback({"a": None, "b": (1.0,)}) == (2.0,)
    y, t = cr.jvp(lambda x, c: (x * c, c), (3.0, 2.0), (1.0, None))
    assert (y, t) == ((6.0, 2.0), (2.0, 0.0))
    assert cr.jacobian(lambda x: [x * x, x])(3.0) == [6.0, 1.0]


# -------------------------------------------------------------------------------------------------------- independence
def test_a_tensor_that_does_not_depend_on_x_gives_zeros():
    c = cr.tensor(2.0)
    assert cr.grad(lambda x: c)(3.0) == 0.0
    np.testing.assert_array_equal(cr.grad(lambda x: c * 2.0)(np.ones(3)), np.zeros(3))
    assert cr.jvp(lambda x: c, (3.0,), (1.0,)) == (2.0, 0.0)
    assert cr.jacobian(lambda x: c)(np.ones(2)).tolist() == [0.0, 0.0]
    assert cr.hessian(lambda x: c)(np.ones(2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_stop_gradient():
    assert cr.grad(lambda x: x * cr.stop_gradient(x))(3.0) == 3.0
    assert cr.jvp(lambda x: x * cr.stop_gradient(x), (3.0,), (1.0,))[1] == 3.0
    tree = cr.stop_gradient({"a": cr.tensor(1.0, requires_grad=True), "n": 3})
    assert not tree["a"].requires_grad
    assert tree["n"] == 3


# ----------------------------------------------------------------------------------------------------- what is recorded
def test_recorded_where_x_wants_a_gradient():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    g = cr.grad(lambda x: reductions.sum(x * x * x))(x)
    assert g.requires_grad
    reductions.sum(g * g).backward()  # 9 x^4
    assert x.grad.tolist() == [36.0, 36.0 * 8]


def test_recorded_where_a_closed_over_tensor_wants_one():
    w = cr.tensor(3.0, requires_grad=True)
    value, g = cr.value_and_grad(lambda x: w * w * x)(2.0)
    assert type(value) is type(g) is cr.Tensor
    assert (value.item(), g.item(), w.grad) == (18.0, 9.0, None)
    g.backward()
    assert w.grad == 6.0
    w.grad = None
    y, t = cr.jvp(lambda x: w * w * x, (2.0,), (10.0,))
    (t + y).backward()  # 10 w^2 + 2 w^2
    assert w.grad == 72.0
    w.grad = None
    cr.vjp(lambda x: w * w * x, 2.0)[1](5.0)[0].backward()
    assert w.grad == 30.0
    w.grad = None
    cr.hvp(lambda x: w * x * x, 2.0, 1.0).backward()
    assert w.grad == 2.0


def test_nothing_is_recorded_otherwise():
    w = cr.tensor(3.0, requires_grad=True)
    with cr.no_grad():
        assert type(cr.grad(lambda x: w * x * x)(2.0)) is float
        g = cr.grad(lambda x: w * x * x)(cr.tensor(2.0, requires_grad=True))
        assert not g.requires_grad
        assert cr.hvp(lambda x: w * x * x * x, 2.0, 1.0) == 36.0
        assert cr.hessian(lambda x: w * x * x)(2.0) == 6.0
    assert type(cr.grad(lambda x: w.detach() * x)(2.0)) is float
    assert type(cr.grad(lambda x: cr.stop_gradient(w) * x)(2.0)) is float
    assert type(cr.grad(lambda x: cr.grad(lambda y: y * y)(x))(2.0)) is float
    assert type(cr.grad(lambda x: cr.jvp(lambda y: y * y, (x,), (1.0,))[1])(2.0)) is float


def test_the_direction_may_want_a_gradient():
    v = cr.tensor([1.0, 0.0], requires_grad=True)
    x = np.array([1.0, 2.0])
    reductions.sum(cr.hvp(lambda x: reductions.sum(x * x * x), x, v)).backward()
    assert v.grad.tolist() == [6.0, 12.0]
    v.grad = None
    reductions.sum(cr.vjp(lambda x: x * x, x)[1](v)[0]).backward()
    assert v.grad.tolist() == [2.0, 4.0]


def test_grad_is_never_touched():
    x = cr.tensor(3.0, requires_grad=True)
    x.grad = np.array(7.0)
    cr.grad(lambda x: x * x)(x)
    cr.hessian(lambda x: x * x)(x)
    cr.vjp(lambda x: x * x, x)[1](1.0)
    assert x.grad == 7.0


def test_recorded_jacobians_and_hessians():
    w = cr.tensor([2.0, 3.0], requires_grad=True)
    h = cr.hessian(lambda x: reductions.sum(w * x * x))(np.ones(2))
    assert h.tolist() == [[4.0, 0.0], [0.0, 6.0]]
    reductions.sum(h).backward()
    assert w.grad.tolist() == [2.0, 2.0]
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    j = cr.jacobian(lambda x: x * x * x)(x)
    reductions.sum(j).backward()
    assert x.grad.tolist() == [6.0, 12.0]


# ------------------------------------------------------------------------------------------------------------- memory
def test_results_share_memory_with_nothing():
    x, y, ct = np.ones(3), np.ones(3), np.ones(3)
    gx, gy = cr.grad(lambda a, b: reductions.sum(a + b), (0, 1))(x, y)
    value, pullback = cr.vjp(lambda a, b: (a, a + b), x, y)
    ga, gb = pullback((ct, ct))
    same, t = cr.jvp(lambda a: a, (x,), (ct,))
    arrays = [x, y, ct, gx, gy, *value, ga, gb, same, t]
    for k, array in enumerate(arrays):
        assert array.flags.writeable
        assert not any(np.shares_memory(array, other) for other in arrays[:k])


def test_arguments_may_change_after_the_call():
    x = np.array([1.0, 2.0])
    y, pullback = cr.vjp(lambda x: cr.exp(x * x), x)
    linear = cr.linearize(lambda x: cr.exp(x * x), x)[1]
    expected = 2 * x * np.exp(x * x)
    x[:] = 0.0
    y[:] = 0.0
    np.testing.assert_allclose(pullback(np.ones(2))[0], expected)
    np.testing.assert_allclose(linear(np.ones(2)), expected)


def test_a_function_may_write_into_its_argument():
    def f(x):
        x *= 2.0
        return reductions.sum(x * x)

    x = np.array([1.0, 2.0])
    assert cr.grad(f)(x).tolist() == [8.0, 16.0]
    assert x.tolist() == [1.0, 2.0]
    t = cr.tensor([1.0, 2.0], requires_grad=True)
    assert cr.grad(f)(t).tolist() == [8.0, 16.0]
    assert t.tolist() == [1.0, 2.0]


def test_a_leaf_written_in_between_is_noticed():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    pullback = cr.vjp(lambda x: w * x, np.ones(2))[1]
    linear = cr.linearize(lambda x: w * x, np.ones(2))[1]
    assert linear(np.ones(2)).tolist() == [1.0, 2.0]
    with cr.no_grad():
        w -= 1.0
    with pytest.raises(StaleGraphError):
        pullback(np.ones(2))
    with pytest.raises(StaleGraphError):
        linear(np.ones(2))


def test_a_graph_freed_in_between_is_noticed():
    w = cr.tensor(2.0, requires_grad=True)
    y, pullback = cr.vjp(lambda x: w * x * x, 3.0)
    y2, linear = cr.linearize(lambda x: w * x * x, 3.0)
    y.backward()
    y2.backward()
    with pytest.raises(FreedGraphError):
        pullback(1.0)
    with pytest.raises(FreedGraphError):
        linear(1.0)


def test_nothing_stays_behind():
    gc.disable()
    try:
        x = np.ones(1000)
        seen = []

        def f(x):
            y = x * x
            seen.append(weakref.ref(y))
            return reductions.sum(y * x)

        for transform in (cr.grad(f), cr.value_and_grad(f), cr.hessian(lambda x: f(x[:3])), lambda x: cr.hvp(f, x, x)):
            seen.clear()
            transform(x)
            assert seen
            assert all(ref() is None for ref in seen)
    finally:
        gc.enable()


# ------------------------------------------------------------------------------------------------------------- threads
def test_four_threads_two_hundred_times():
    """Case G7."""
    wrong = []

    def work(offset):
        for k in range(200):
            i = float(k + 1000 * offset)
            if cr.grad(lambda x: x * x)(i) != 2 * i or cr.jvp(lambda x: x * x, (i,), (1.0,))[1] != 2 * i:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for k in range(200):  # operations declared meanwhile
        cr.operation(lambda ct: ct)(lambda x, k=k: x)
    for thread in threads:
        thread.join()
    assert wrong == []
