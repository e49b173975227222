"""DESIGN 3: recorded values do not change; stale graphs; debug mode.

| sentence | test |
|--|--|
| residuals are raw arrays, so rebinding `t.data` cannot reach back | test_rebinding_data_cannot_reach_back |
| tensors are rebuilt around them with the parents' nodes when a derivative is recorded | test_recorded_derivatives_use_the_old_value |
| a plain array that becomes an operand of a tensor is copied | test_a_plain_operand_is_copied, test_indices_and_conditions_are_copied |
| so is a cotangent where the walk is recorded | test_a_cotangent_is_copied_where_the_walk_is_recorded |
| so are arguments of transforms | test_arguments_of_transforms_are_copied |
| `cr.asarray` shares | test_asarray_shares, test_asarray_moves_when_it_is_written_after_use |
| whatever writes into a leaf through chainrule marks its node as written; a later walk that needs the old value raises `StaleGraphError` naming it | test_a_write_into_a_leaf_makes_the_graph_stale, test_every_walk_refuses_a_stale_graph, test_stale_through_views |
| never uses the new one, `.grad` is untouched | test_a_write_into_a_leaf_makes_the_graph_stale |
| only a walk that needs the old value | test_a_walk_that_does_not_need_the_value_goes_on, test_what_was_recorded_after_the_write_is_fresh |
| nothing is half-done when a write fails | test_a_write_that_fails_leaves_no_mark |
| a constant that was recorded moves when it is written | test_a_recorded_constant_moves_when_it_is_written |
| so does a leaf that is frozen | test_a_leaf_that_is_frozen_leaves_its_old_memory_to_those_who_recorded_it |
| so do arguments of transforms inside `no_grad` | test_a_transform_inside_no_grad_keeps_the_value_of_a_leaf, test_a_function_that_writes_into_its_own_leaf_inside_no_grad_meets_the_old_value |
| memory that cannot be written is named | test_read_only_memory_is_named |
| writes that chainrule cannot see are caught in debug mode | test_debug_mode_catches_hidden_writes, test_debug_mode_catches_them_in_every_walk, test_without_debug_mode_hidden_writes_pass |
"""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, ChainruleError, StaleGraphError


def leaf(*values, dtype=np.float64):
    return cr.tensor(np.array(values, dtype), requires_grad=True)


def test_rebinding_data_cannot_reach_back():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    x.data = np.array([100.0, 100.0])
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_recorded_derivatives_use_the_old_value():
    x = leaf(1.0, 2.0)
    y = (x * x * x).sum()
    x.data = np.array([100.0, 100.0])
    (slope,) = cr.gradients(y, [x], create_graph=True)
    assert slope.tolist() == [3.0, 12.0]
    assert cr.gradients(slope.sum(), [x])[0].tolist() == [6.0, 12.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, a: x * a,
        lambda x, a: a * x,
        lambda x, a: np.multiply(a, x),
        lambda x, a: cr.where(np.array([True, False]), x * a, x),
        lambda x, a: x @ a,
        lambda x, a: a @ x,
        lambda x, a: x * a[:1],
        lambda x, a: cr.maximum(x, a) * x,
        lambda x, a: x**a,
        lambda x, a: cr.tensor([x[0], a[1]]) * x * a,
        lambda x, a: cr.concat([x, a]) ** 2.0,
        lambda x, a: cr.stack([x, a]) ** 2.0,
    ],
)
def test_a_plain_operand_is_copied(f):
    a = np.array([3.0, 4.0])
    x = leaf(1.0, 2.0)
    y, clean = f(x, a), f(x, a.copy())
    a[:] = 1000.0
    assert np.array_equal(y.data, clean.data)
    (clean_slope,) = cr.gradients(clean.sum(), [x])
    assert np.array_equal(cr.gradients(y.sum(), [x])[0], clean_slope)


def test_indices_and_conditions_are_copied():
    x = leaf(1.0, 2.0, 3.0)
    index, mask = np.array([0, 0]), np.array([True, False, False])
    y = x[index].sum() + cr.where(mask, x * 10.0, 0.0).sum() + x[mask].sum() * 100.0
    index[:] = 2
    mask[:] = [False, False, True]
    y.backward()
    assert x.grad.tolist() == [112.0, 0.0, 0.0]


def test_a_cotangent_is_copied_where_the_walk_is_recorded():
    x, ct = leaf(1.0, 2.0), np.ones(2)
    (x**3).backward(ct, create_graph=True)
    (slope,) = cr.gradients(x**3, [x], ct, create_graph=True)
    pulled = cr.vjp(lambda v: v**3, x)[1](ct)[0]
    pushed = cr.jvp(lambda v: v**3, (x,), (ct,))[1]
    ct[:] = 1000.0
    for recorded in (x.grad, slope, pulled, pushed):
        assert cr.gradients(recorded.sum(), [x])[0].tolist() == [6.0, 12.0]


def test_arguments_of_transforms_are_copied():
    a = np.array([1.0, 2.0])
    _, pullback = cr.vjp(lambda v: v * v, a)
    _, linear = cr.linearize(lambda v: v * v, a)
    a[:] = 1000.0
    assert pullback(np.ones(2))[0].tolist() == [2.0, 4.0]
    assert linear(np.ones(2)).tolist() == [2.0, 4.0]


def test_asarray_shares():
    a = np.array([1.0, 2.0])
    shared = cr.asarray(a)
    assert shared.data is a
    assert cr.asarray(shared) is shared
    assert cr.tensor(a).data is not a
    shared[0] = 5.0
    assert a.tolist() == [5.0, 2.0]


def test_asarray_moves_when_it_is_written_after_use():
    a = np.array([3.0, 4.0])
    shared, x = cr.asarray(a), leaf(1.0, 2.0)
    y = (x * shared).sum()
    shared += 1000.0
    y.backward()
    assert x.grad.tolist() == [3.0, 4.0]
    assert a.tolist() == [3.0, 4.0]
    assert shared.tolist() == [1003.0, 1004.0]


WRITES = {
    "augmented": lambda w: w.__iadd__(1.0),
    "item": lambda w: w.__setitem__(0, 7.0),
    "slice": lambda w: w.__setitem__(slice(None), [7.0, 8.0]),
    "mask": lambda w: w.__setitem__(np.array([True, False]), 7.0),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_into_a_leaf_makes_the_graph_stale(write: str):
    w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    w.grad = np.array([9.0, 9.0])
    y = (w * w * v).sum()
    with cr.no_grad():
        WRITES[write](w)
    with pytest.raises(StaleGraphError, match=r"square: the value of x was overwritten .* · x f64\[2\]"):
        y.backward()
    assert w.grad.tolist() == [9.0, 9.0]
    assert v.grad is None
    with pytest.raises(StaleGraphError):  # nothing was freed, and it stays stale
        y.backward()
    (w * w).sum().backward()
    assert np.array_equal(w.grad, 9.0 + 2.0 * w.data)


def test_every_walk_refuses_a_stale_graph():
    w = leaf(1.0, 2.0)
    x = np.array([3.0, 4.0])

    def f(v):
        return v * w * w

    y = f(cr.tensor(x))
    _, pullback = cr.vjp(f, x)
    _, linear = cr.linearize(f, x)
    linear(np.ones(2))
    h = cr.checkpoint(lambda v: v * w * w)(leaf(1.0, 1.0))
    with cr.no_grad():
        w *= 2.0
    walks = {
        "backward": lambda: y.backward([1.0, 1.0]),
        "gradients": lambda: cr.gradients(y, [w], [1.0, 1.0]),
        "recorded": lambda: cr.gradients(y, [w], [1.0, 1.0], create_graph=True),
        "pullback": lambda: pullback(np.ones(2)),
        "linear": lambda: linear(np.ones(2)),
        "checkpoint": lambda: h.sum().backward(),
    }
    for name, walk in walks.items():
        with pytest.raises(StaleGraphError):
            print(name, walk())
    assert w.grad is None


def test_stale_through_views():
    w = leaf(1.0, 2.0)
    row = w.reshape(1, 2)
    part = w[:1]
    y, z = (row * row).sum(), (part * part).sum()
    with cr.no_grad():
        w += 1.0
    for result in (y, z):
        with pytest.raises(StaleGraphError):
            result.backward()
    assert row.tolist() == [[1.0, 2.0]]  # a value, not a view
    assert part.tolist() == [1.0]


def test_a_walk_that_does_not_need_the_value_goes_on():
    w = leaf(1.0, 2.0)
    y = (w * 3.0 + w).sum() + cr.exp(w).sum() + w.reshape(2, 1).sum()
    with cr.no_grad():
        w += 1000.0
    y.backward()
    assert w.grad.tolist() == (5.0 + np.exp([1.0, 2.0])).tolist()


def test_what_was_recorded_after_the_write_is_fresh():
    w = leaf(1.0, 2.0)
    before = w * w
    with cr.no_grad():
        w += 1.0
    after = w * w
    after.sum().backward()
    assert w.grad.tolist() == [4.0, 6.0]
    with pytest.raises(StaleGraphError):
        (before + w * w).sum().backward()
    assert w.grad.tolist() == [4.0, 6.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda w: w.__iadd__([1.0, 2.0, 3.0]),
        lambda w: w.__iadd__("a"),
        lambda w: w.__setitem__(5, 1.0),
        lambda w: w.__setitem__(slice(None), [1.0, 2.0, 3.0]),
        lambda w: w.__setitem__("a", 1.0),
    ],
)
def test_a_write_that_fails_leaves_no_mark(write):
    w = leaf(1.0, 2.0)
    y = (w * w).sum()
    with cr.no_grad(), pytest.raises(ChainruleError):
        write(w)
    y.backward()
    assert w.tolist() == [1.0, 2.0]
    assert w.grad.tolist() == [2.0, 4.0]


def test_a_recorded_constant_moves_when_it_is_written():
    x = leaf(1.0, 2.0)
    for use in (
        lambda c: x * c,
        lambda c: c * x,
        lambda c: x / c,
        lambda c: cr.where(c > 0, x * c, c),
        lambda c: x @ c,
    ):
        constant = cr.tensor([3.0, 4.0])
        y = use(constant)
        (clean,) = cr.gradients(y.sum(), [x])
        constant += 1000.0
        constant[0] = -1.0
        assert constant.tolist() == [-1.0, 1004.0]
        assert np.array_equal(cr.gradients(y.sum(), [x])[0], clean)


def test_debug_mode_catches_hidden_writes():
    x = leaf(1.0, 2.0)
    with cr.debug():
        y = (x * x).sum()
        x.data[0] = 100.0
        with pytest.raises(StaleGraphError, match=r"square: a recorded array was changed .* · x f64\[2\]"):
            y.backward()
        assert x.grad is None
        (x * x).sum().backward()
    assert x.grad.tolist() == [200.0, 4.0]


def test_debug_mode_catches_them_in_every_walk():
    a = np.array([3.0, 4.0])
    shared, x = cr.asarray(a), leaf(1.0, 2.0)
    with cr.debug():
        y = x * shared
        _, pullback = cr.vjp(lambda v: v * shared, x)
        a[:] = 1000.0
        for walk in (
            lambda: y.sum().backward(),
            lambda: cr.gradients(y.sum(), [x]),
            lambda: pullback(np.ones(2)),
        ):
            with pytest.raises(StaleGraphError, match="changed after the operation"):
                walk()
        out = cr.exp(x)
        out.data[0] = 0.0
        with pytest.raises(StaleGraphError, match="exp: a recorded array"):
            out.sum().backward()


def test_without_debug_mode_hidden_writes_pass():
    """Documented: what chainrule cannot see changes the derivative."""
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    x.data[0] = 100.0
    y.backward()
    assert x.grad.tolist() == [200.0, 4.0]


@pytest.mark.parametrize("again", [False, True])
def test_a_leaf_that_is_frozen_leaves_its_old_memory_to_those_who_recorded_it(again):
    x, w = leaf(1.0, 2.0), leaf(1.0, 1.0)
    view, y = x[:1], (x * w).sum()
    x.requires_grad = False
    x.requires_grad = again
    with cr.no_grad():
        x += 100.0
    assert (view.tolist(), x.tolist()) == ([1.0], [101.0, 102.0])
    y.backward()
    assert w.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("of", [lambda w: w, lambda w: w[:]])
def test_a_transform_inside_no_grad_keeps_the_value_of_a_leaf(of):
    w = leaf(1.0, 2.0)
    argument = of(w)
    with cr.no_grad():
        _, pullback = cr.vjp(lambda x: (x * x).sum(), argument)
        _, linear = cr.linearize(lambda x: (x * x).sum(), argument)
        w += 10.0
        assert pullback(1.0)[0].tolist() == [2.0, 4.0]
        assert linear(np.ones(2)).item() == 6.0


def test_a_function_that_writes_into_its_own_leaf_inside_no_grad_meets_the_old_value():
    w = leaf(1.0, 2.0)

    def f(x):
        y = (x * x).sum()
        with cr.no_grad():
            w[...] = 100.0
        return y

    with cr.no_grad():
        assert cr.grad(f)(w).tolist() == [2.0, 4.0]


def test_read_only_memory_is_named():
    t = cr.asarray(np.broadcast_to(1.0, (3,)))
    with pytest.raises(ArgumentError, match="read-only"):
        t += 1.0
