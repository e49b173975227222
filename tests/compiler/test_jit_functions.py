"""Functions of arrays, tensors, numbers and trees, compiled: what goes in, what comes out, and what is compiled anew."""

import collections
import copy
import threading
import warnings
from collections import namedtuple

import numpy as np
import pytest

import chainrule as cr
from tests.compiler.jitted import assert_equal, chosen, executor, jit  # noqa: F401

Pair = namedtuple("Pair", "first second")  # noqa: PYI024 - as users write it


def compilations(f):
    return f.stats()["compilations"]


# ------------------------------------------------------------------------------------------------- J cases of cases.md
def test_j1_a_result_is_not_overwritten_by_a_later_call():
    f = jit(lambda x: x + 1)
    results = [f(np.array([float(k)])) for k in (1, 2, 3, 4)]
    assert [r.item() for r in results] == [2.0, 3.0, 4.0, 5.0]


def test_j3_an_update_in_place_is_not_dropped_on_replay():
    def trained(compile_it):
        w = cr.tensor([1.0, -2.0], requires_grad=True)

        def step(x):
            w.grad = None
            ((w * x) ** 2).sum().backward()
            with cr.no_grad():
                w[...] = w - 0.1 * w.grad

        run = compile_it(step)
        found = []
        for k in range(5):
            run(np.array([1.0, 0.5 + k]))
            found.append(w.tolist())
        return found

    assert_equal(trained(jit), trained(lambda f: f))
    assert len(set(map(tuple, trained(jit)))) == 5


def test_j5_one_compiled_method_of_two_objects():
    class Scaled:
        def __init__(self, scale):
            self.scale = scale

        @jit
        def forward(self, x):
            return x * self.scale

    two, three = Scaled(2), Scaled(3)
    for _ in range(2):
        assert two.forward(np.array(5.0)) == 10
        assert three.forward(np.array(5.0)) == 15
    assert two.forward.stats()["eager"] == 0
    assert "multiply" in two.forward.lower(np.array(5.0)).as_text()
    assert two.forward.__name__ == "forward"


def test_j5_modules_and_their_parameters():
    class Layer(cr.nn.Module):
        def __init__(self, value):
            self.weight = cr.tensor([value], requires_grad=True)

        @jit
        def forward(self, x):
            return self.weight * x

    layers = [Layer(2.0), Layer(3.0)]
    for _ in range(2):
        assert [layer(5.0).item() for layer in layers] == [10.0, 15.0]
    layers[0].weight.data[...] = 7.0
    assert [layer(5.0).item() for layer in layers] == [35.0, 15.0]


def test_j7_no_needless_compilation():
    f = jit(lambda x, i: x + i)
    x = 0
    for i in range(5):
        x = f(x, i)
    assert x == 10
    assert type(x) is int
    assert f.stats()["traces"] == 1

    g = jit(lambda x, lr: x - lr * x)
    x = np.ones(3)
    for k in range(5):
        x = g(x, 0.1 * (k + 1))
    assert compilations(g) == 1
    np.testing.assert_allclose(x, np.prod([0.9, 0.8, 0.7, 0.6, 0.5]))


def test_j8_checkpoint_with_dropout_draws_the_same():
    def make(wrapped):
        w = cr.tensor(np.ones((4, 4)), requires_grad=True)

        def block(x):
            return cr.nn.dropout(x @ w, 0.5)

        def f(x):
            w.grad = None
            (cr.checkpoint(block) if wrapped else block)(x).sum().backward()
            return w.grad

        return f

    x, states, gradients = np.arange(8.0).reshape(2, 4), [], []
    for wrapped in (False, True):
        for compile_it in (jit, lambda f: f):
            f = compile_it(make(wrapped))
            cr.random.seed(3)
            gradients.append([f(x).copy() for _ in range(3)])
            states.append(cr.random.state()["state"])
    for found in gradients[1:]:
        np.testing.assert_array_equal(found, gradients[0])
    assert all(state == states[0] for state in states)
    assert not np.array_equal(gradients[0][0], gradients[0][1])


# ---------------------------------------------------------------------------------------------------- in and out
def test_results_are_of_the_kind_that_eager_gives():
    def f(x, t, n):
        return {"array": x + 1, "scalar": x.sum(), "tensor": t * 2, "number": n * 2, "pair": Pair(x, (n, None, "s"))}

    x, t = np.arange(3.0, dtype=np.float32), cr.tensor([1.0, 2.0])
    expected, found = f(x, t, 3), jit(f)(x, t, 3)
    assert list(found) == list(expected)
    assert type(found["array"]) is np.ndarray
    assert found["array"].dtype == np.float32
    assert type(found["scalar"]) is type(expected["scalar"]) is np.float32
    assert type(found["tensor"]) is cr.Tensor
    assert found["number"] == 6
    assert type(found["number"]) is int
    assert found["pair"].first is x
    assert found["pair"].second == (3, None, "s")


def test_one_object_twice_stays_one_object():
    def f(x):
        y = x * 2
        return [y, y, {"y": y}]

    found = jit(f)(np.ones(2))
    assert found[0] is found[1]
    assert found[0] is found[2]["y"]


def test_trees_of_arrays_as_arguments():
    @jit
    def f(state, *, rate):
        return {"w": [w - rate * g for w, g in zip(state["w"], state["g"], strict=True)], "g": state["g"]}

    state = {"w": [np.ones(2), np.ones(3)], "g": [np.full(2, 2.0), np.full(3, 3.0)]}
    for _ in range(3):
        state = f(state, rate=0.5)
    np.testing.assert_array_equal(state["w"][0], [-2, -2])
    np.testing.assert_array_equal(state["w"][1], [-3.5] * 3)
    assert compilations(f) == 1


def test_another_shape_dtype_or_form_is_compiled_anew():
    f = jit(lambda x: x * 2)
    for x in (np.ones(3), np.ones(4), np.ones(3, np.float32), np.ones((3, 1)), np.ones(3, np.int64)):
        found = f(x)
        assert found.dtype == (x * 2).dtype
        np.testing.assert_array_equal(found, x * 2)
    assert compilations(f) == 5
    f(np.ones(3))
    assert compilations(f) == 5
    assert "f64[4], was f64[3]" in f.stats()["reasons"][1]


def test_weak_numbers_stay_weak():
    f = jit(lambda x, k: x * k)
    assert f(np.ones(2, np.float32), 2.5).dtype == np.float32
    assert f(np.ones(2, np.int64), 3).dtype == np.int64
    assert f(np.ones(2, np.float32), np.float64(2.5)).dtype == np.float64
    assert f(2.0, 3) == 6.0


def test_a_number_that_is_asked_for_its_value_is_guarded():
    @jit
    def f(x, axis, keep):
        return cr.sum(x, axis=axis, keepdims=keep)

    x = np.arange(6.0).reshape(2, 3)
    for axis in (0, 1, 0):
        np.testing.assert_array_equal(f(x, axis, True), x.sum(axis=axis, keepdims=True))
    assert compilations(f) == 2


def test_captured_arrays_and_tensors_are_live():
    a, t = np.ones(2), cr.tensor([1.0, 2.0])
    box = {"b": np.ones(2)}
    f = jit(lambda x: x + a + t.data + box["b"])
    np.testing.assert_array_equal(f(np.zeros(2)), [3, 4])
    a[0] = 10.0
    t.data = np.array([5.0, 6.0])
    box["b"] = np.array([100.0, 200.0])
    np.testing.assert_array_equal(f(np.zeros(2)), [115, 207])
    assert compilations(f) == 1


SCALE = 2.0


def test_globals_are_guarded_and_then_live():
    global SCALE

    f = jit(lambda x: x * SCALE)
    try:
        for SCALE in (2.0, 3.0, 4.0, 5.0):
            np.testing.assert_array_equal(f(np.ones(2)), [SCALE, SCALE])
    finally:
        SCALE = 2.0
    assert compilations(f) == 2


def test_guarded_containers():
    settings = {"power": 2, "names": ["a", "b"]}
    f = jit(lambda x: x ** settings["power"] + len(settings["names"]))
    assert f(np.array([3.0])).item() == 11
    settings["power"] = 3
    assert f(np.array([3.0])).item() == 29
    settings["names"].append("c")
    assert f(np.array([3.0])).item() == 30


def test_sets_of_tensors_and_queues_of_arrays():
    ties = {cr.tensor([1.0, 2.0]), cr.tensor([3.0, 4.0])}
    queue = collections.deque([np.ones(2), np.zeros(2)], maxlen=2)

    def f(x):
        queue.append(sum(queue) + x)
        return sum(t * x for t in ties)

    expected, kept = f(np.ones(2)), [a.copy() for a in queue]
    queue.extend([np.ones(2), np.zeros(2)])
    compiled = jit(f)
    assert_equal(compiled(np.ones(2)).data, expected.data)
    for a, b in zip(queue, kept, strict=True):
        assert_equal(a, b)
    next(iter(ties)).data[...] = 0.0
    for _ in range(3):
        assert_equal(compiled(np.ones(2)).data, sum(t.data for t in ties))
    assert compilations(compiled) == 1


def test_a_class_attribute_is_guarded():
    class Config:
        factor = 2

    f = jit(lambda x: x * Config.factor)
    assert f(np.ones(1)).item() == 2
    Config.factor = 5
    assert f(np.ones(1)).item() == 5


def test_float_zero_and_nan_are_told_apart():
    kept = {"z": 0.0}
    f = jit(lambda x: np.copysign(x, kept["z"]) if isinstance(kept["z"], float) else x)
    for z, expected in ((0.0, 1.0), (-0.0, -1.0), (0.0, 1.0)):
        kept["z"] = z
        assert f(np.ones(1)).item() == expected


def test_defaults_and_keywords():
    @jit
    def f(x, y=3.0, *, z=None):
        return x * y if z is None else x * y + z

    assert f(np.ones(1)).item() == 3
    assert f(np.ones(1), 4.0).item() == 4
    assert f(np.ones(1), y=5.0).item() == 5
    assert f(np.ones(1), z=np.ones(1)).item() == 4


# ----------------------------------------------------------------------------------------------------------- modes
def test_grad_mode_belongs_to_the_key():
    w = cr.tensor([2.0], requires_grad=True)
    f = jit(lambda x: w * x)
    assert f(3.0).requires_grad
    with cr.no_grad():
        assert not f(3.0).requires_grad
    assert f(3.0).requires_grad


def test_the_default_dtype_belongs_to_the_key():
    f = jit(lambda x: x + cr.ones(2).data)
    assert f(np.ones(2, np.float32)).dtype == np.float64
    with cr.set_default_dtype(np.float32):
        assert f(np.ones(2, np.float32)).dtype == np.float32


def test_inside_debug_it_is_the_plain_function():
    seen = []

    @jit
    def f(x):
        return x * 2

    with cr.debug():
        assert f(np.ones(1)).item() == 2
    assert compilations(f) == 0
    assert not seen


def test_a_warning_after_eight_compilations():
    f = jit(lambda x, name: x * len(name))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(12):
            f(np.ones(1), "x" * k)
    assert len(caught) == 1
    assert "name" in str(caught[0].message) or "argument 1" in str(caught[0].message)


def test_threads():
    w = np.zeros(1000)

    @jit
    def f(x):
        w[...] = w + x
        return w.sum()

    def run():
        for _ in range(50):
            f(np.ones(1000))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(w, 200)


def test_nested_and_inlined():
    inner = jit(lambda x: cr.tanh(x) * 2)
    outer = jit(lambda x: inner(x) + inner(x * 2))
    x = np.arange(3.0)
    np.testing.assert_array_equal(outer(x), np.tanh(x) * 2 + np.tanh(x * 2) * 2)
    assert compilations(inner) == 0
    assert compilations(outer) == 1


@pytest.mark.slow
def test_a_hundred_thousand_operations():
    def f(x):
        for _ in range(100_000):
            x = x + 1.0
        return x

    assert jit(f)(np.zeros(1)).item() == 100_000


def test_lower_shows_the_program():
    text = jit(lambda x: cr.tanh(x) + 1.0).lower(np.ones(3, np.float32)).as_text()
    assert "f32[3] = tanh" in text
    assert "return" in text


def test_as_decorator_with_options_and_repr():
    @jit(strict=True)
    def double(x):
        """Twice x."""
        return 2 * x

    assert double(np.ones(1)).item() == 2
    assert double.__name__ == "double"
    assert double.__doc__ == "Twice x."
    assert "double" in repr(double)
    assert double.stats()["executor"] == chosen[0]


def test_a_module_as_argument_and_what_is_copied():
    model = cr.nn.Linear(2, 2)
    f = jit(lambda m, x: m(x))
    x = np.ones((1, 2))
    twin = copy.deepcopy(model)
    twin.weight.data[...] = 0.0
    np.testing.assert_array_equal(f(model, x).data, model(x).data)
    np.testing.assert_array_equal(f(twin, x).data, twin(x).data)
    np.testing.assert_array_equal(f(model, x).data, model(x).data)
