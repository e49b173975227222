"""Laws of memory on the public face: recorded values do not change, gradients share with nothing, constants, in-place operators.

No fixtures: the mutants call these functions as they stand.
"""

import copy
import pickle
import sys
import threading

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import (
    DTypeError,
    GraphError,
    LostGraphError,
    StaleGraphError,
)
from tests.laws.written import leaf, same


# -------------------------------------------------------------------------------------------------------------- stale
def test_a_value_written_after_it_was_recorded_is_refused():
    w, x = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = (w * x).sum()
    with cr.no_grad():
        w -= 1.0
    with pytest.raises(StaleGraphError, match="multiply"):
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


def test_a_write_before_it_was_recorded_is_no_trouble():
    w, other = leaf([1.0, 2.0]), leaf([1.0])
    with cr.no_grad():
        w *= 3.0
    y = (w * w).sum()
    with cr.no_grad():
        other += 1.0  # a later write, but to something else
    y.backward()
    same(w.grad, [6.0, 12.0])


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
    flat = w.reshape(6)
    flat.sum().backward()  # which frees the view
    later = flat[:2]
    with cr.no_grad():
        w += 1.0
    same(later.data, [0.0, 100.0])
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
    taken = cr.tensor([True, False])
    x.grad = None
    z = cr.where(taken, x, 0.0).sum()
    taken[1] = True
    z.backward()
    same(x.grad, [1.0, 0.0])


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


# ------------------------------------------------------------------------------------------------ memory of gradients
def test_gradients_share_memory_with_nothing():
    x, y, upstream = leaf(np.ones(3)), leaf(np.ones(3)), np.ones(3)
    z = x + y
    z.backward(upstream)
    for a, b in ((x.grad, y.grad), (x.grad, upstream), (y.grad, upstream), (x.grad, x.data), (x.grad, z.data)):
        assert not np.shares_memory(a, b)
    x.grad[:] = 9.0
    same(y.grad, np.ones(3))
    v, w = leaf(np.ones(3)), leaf(np.ones(3))
    ((v + w) * 2.0).sum().backward()
    assert not np.shares_memory(v.grad, w.grad)
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


# ---------------------------------------------------------------------------------------------------------- constants
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
    assert cr.where(np.array([True, False]), x, 0.0).dtype == np.float32
    assert cr.where(cr.tensor([True, False]), 0.0, x).dtype == np.float32
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


# ------------------------------------------------------------------------------------------------------------ no_grad
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


# ----------------------------------------------------------------------------------------------------------- in place
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


def test_threads_that_share_a_leaf_lose_nothing():
    interval = sys.getswitchinterval()
    x = cr.tensor([1.0, 2.0], requires_grad=True)

    def work():
        for _ in range(300):
            (x * 1.0).sum().backward()

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert x.grad.tolist() == [1200.0, 1200.0]


def test_iterating_over_rows_takes_a_step_for_each():
    """The walk back over n rows makes one list of n cotangents, and not one for each row."""
    x = cr.tensor(np.ones((4000, 1)), requires_grad=True)
    total = sum((row.sum() for row in x), cr.tensor(0.0))
    total.backward()
    assert x.grad.tolist() == [[1.0]] * 4000
