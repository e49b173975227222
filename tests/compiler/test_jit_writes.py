"""What a compiled function writes: in place where eager mode would, bound where it would, and nothing where it fails."""

import numpy as np
import pytest

import chainrule as cr
from tests.compiler.jitted import executor, jit  # noqa: F401


def compilations(f):
    return f.stats()["compilations"]


def test_arrays_are_written_in_place():
    a = np.arange(3.0)
    view = a[1:]

    @jit
    def f(x):
        a[...] = a + x
        x[0] = 7.0
        return x

    x = np.ones(3)
    for _ in range(2):
        assert f(x) is x
    np.testing.assert_array_equal(x, [7, 1, 1])
    np.testing.assert_array_equal(a, [8, 3, 4])
    np.testing.assert_array_equal(view, [3, 4])


def test_attributes_lists_and_dictionaries_are_rebound():
    class Holder:
        pass

    h = Holder()
    h.count, h.mean, h.many, h.by_name = 0, np.zeros(2), [np.zeros(2), None], {}

    def f(x):
        h.count += 1
        h.mean = h.mean + (x - h.mean) / h.count
        h.many[1] = x * 2
        h.by_name["last"] = cr.tensor(x)

    g = jit(f)
    for k in range(4):
        g(np.full(2, float(k)))
    assert h.count == 4
    assert type(h.count) is int
    np.testing.assert_allclose(h.mean, [1.5, 1.5])
    np.testing.assert_array_equal(h.many[1], [6, 6])
    assert type(h.by_name["last"]) is cr.Tensor
    np.testing.assert_array_equal(h.by_name["last"].data, [3, 3])


def test_a_nonlocal_and_a_global():
    count = 0

    @jit
    def f(x):
        nonlocal count
        count += 1
        return x * count

    assert [f(np.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
    assert count == 4
    assert compilations(f) == 1


def test_state_made_at_the_first_step():
    class Momentum:
        state = None

        def step(self, g):
            if self.state is None:
                self.state = np.zeros_like(g)
            self.state = 0.5 * self.state + g
            return self.state

    eager, compiled = Momentum(), Momentum()
    step = jit(compiled.step)
    for k in range(4):
        np.testing.assert_array_equal(step(np.full(2, float(k))), eager.step(np.full(2, float(k))))
    assert compilations(step) == 2


def test_a_tensor_whose_memory_a_graph_keeps_moves_first():
    buffer, w = cr.tensor([1.0, 2.0]), cr.tensor([3.0, 4.0], requires_grad=True)

    @jit
    def count():
        with cr.no_grad():
            buffer[...] = buffer + 1.0

    count()
    y = (w * buffer).sum()
    count()
    y.backward()
    assert w.grad.tolist() == [2.0, 3.0]
    assert buffer.tolist() == [3.0, 4.0]


def test_a_graph_that_needs_what_was_written_is_stale():
    w = cr.tensor([1.0, 2.0], requires_grad=True)

    @jit
    def step():
        with cr.no_grad():
            w[...] = w * 2.0

    step()
    y = (w * w).sum()
    step()
    with pytest.raises(cr.errors.StaleGraphError):
        y.backward()


def test_arrays_that_share_memory_with_a_written_one_run_as_they_are():
    @jit
    def f(a, b):
        a += 1.0
        return a + b

    a = np.zeros(4)
    f(a, np.zeros(4))
    x = np.zeros(5)
    np.testing.assert_array_equal(f(x[1:], x[:-1]), [1, 2, 2, 2])
    np.testing.assert_array_equal(x, [0, 1, 1, 1, 1])
    assert f.stats()["eager"] == 1
    assert "shares memory" in f.stats()["reasons"][-1]
    y = np.zeros(4)
    np.testing.assert_array_equal(f(y, y), [2, 2, 2, 2])


def test_a_failure_leaves_everything_as_it_was():
    h = {"a": np.zeros(2), "n": 1}

    def f(x):
        h["a"] += 1.0
        h["n"] = 2
        return x @ np.ones((3, 3))

    g = jit(f)
    with pytest.raises(ValueError, match="mismatch"):
        g(np.ones(2))
    np.testing.assert_array_equal(h["a"], [0, 0])
    assert h["n"] == 1


def test_an_index_out_of_range_is_eagers_error():
    table, w = np.arange(3.0), np.zeros(1)

    @jit
    def f(i):
        w[...] = w + 1.0
        return cr.take(table, i)

    f(np.array([2]))
    with pytest.raises(IndexError) as found:
        f(np.array([5]))
    with pytest.raises(IndexError) as expected:
        cr.take(table, np.array([5]))
    assert str(found.value) == str(expected.value)
    assert w.tolist() == [1.0]
