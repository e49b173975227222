"""Laws of views and in-place operators: who shares memory is known, for as long as it lives, and a failed write never was.

No fixtures: the mutants call these functions as they stand.
"""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import DTypeError, GraphError, IndexingError, ShapeError, StaleGraphError
from tests.laws.written import leaf, same


# -------------------------------------------------------------------------------------------------------------- views
def test_every_living_view_keeps_its_value():
    x = leaf([1.0, 2.0])
    views = []
    for k in range(100):
        views.append(x[:1])
        x[1:]  # one that dies at once
        if k % 3 == 0:
            views.pop(0)
    with cr.no_grad():
        x += 10.0
    for view in views:
        same(view.data, [1.0])


def test_dead_views_are_dropped_in_few_looks():
    x = leaf([1.0, 2.0])
    known = x.node[3]
    for _ in range(1000):
        x[:1]
    assert len(known.aliases) < 100
    views = [x[:1] for _ in range(1000)]
    assert 1000 <= len(known.aliases) <= known.limit  # so that the next of them is added without a look at all
    assert len(views) == 1000


def test_a_view_is_copied_at_the_first_write_only():
    x = leaf([1.0, 2.0])
    view = x[:1]
    with cr.no_grad():
        x += 1.0
        own = view.data
        x += 1.0
    assert view.data is own


def test_a_chain_of_views_of_any_length_keeps_its_value():
    for length in (1, 2, *range(60, 70), 200):
        x = leaf([1.0, 2.0])
        view = x
        for _ in range(length):
            view = view.reshape(2)
        y = (view * view * view).sum()
        with cr.no_grad():
            x *= 10.0
        same(view.data, [1.0, 2.0])
        try:
            y.backward()
        except StaleGraphError:
            assert length < 100  # a longer one has memory of its own
            continue
        same(x.grad, [3.0, 12.0])


# ------------------------------------------------------------------------------------------------------ failed writes
def test_a_failed_write_never_was():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    with cr.no_grad():
        with pytest.raises(IndexingError):
            x[5] = 1.0
        with pytest.raises(ShapeError):
            x += np.ones(3)
    same(x.data, [1.0, 2.0])
    y.backward()
    same(x.grad, [2.0, 4.0])


def test_a_failed_write_does_not_undo_the_one_before():
    for fails in (lambda x: x.__setitem__(5, 1.0), lambda x: x.__iadd__(np.ones(3))):
        x = leaf([1.0, 2.0])
        y = (x * x).sum()
        with cr.no_grad():
            x += 1.0
            with pytest.raises((IndexingError, ShapeError)):
                fails(x)
        with pytest.raises(StaleGraphError):
            y.backward()


def test_a_rebound_tensor_keeps_shape_and_dtype():
    x = leaf([1.0, 2.0])
    y = x * 2.0
    with pytest.raises(ShapeError):
        y += np.ones((3, 2))
    same(y.data, [2.0, 4.0])
    single = leaf([1.0, 2.0], np.float32) * 1.0
    single += x
    assert single.dtype == np.float32
    single.sum().backward()
    assert x.grad.dtype == np.float64
    same(x.grad, [1.0, 1.0])
    whole = cr.tensor([1, 2])
    with pytest.raises(DTypeError):
        whole += x
    assert whole.dtype == np.int64


def test_an_entry_of_a_plain_array_loses_no_graph_in_silence():
    x, array = leaf(2.0), np.zeros(2)
    with pytest.raises((GraphError, ValueError)) as caught:  # NumPy may set an error of its own over ours
        array[0] = x
    assert isinstance(caught.value.__cause__ or caught.value, GraphError)
    array[1] = x.detach()
    same(array, [0.0, 2.0])
    assert float(x) == 2.0


# ------------------------------------------------------------------------------------------------ what a node remembers
def test_twice_the_same_tensor_is_one_operand():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    with cr.no_grad():
        x += 1.0
    with pytest.raises(StaleGraphError, match=r"^square"):
        y.backward()
    with cr.debug():
        z = (x * x).sum()
        x.data[0] = 5.0
        with pytest.raises(StaleGraphError, match=r"^square"):
            z.backward()


def test_hidden_nan_are_looked_for_where_they_can_do_harm():
    """That is in what an operation made; a leaf has nothing behind it, and a walk that looks at every entry is slower."""
    bad, taken, zero = [1.0, np.nan], np.array([True, False]), np.zeros(2)
    for condition, other in ((taken, zero), (cr.tensor(taken), cr.tensor(zero))):
        assert not cr.where(condition, leaf(bad), other).node[3][-1]
        assert cr.where(condition, leaf(bad) * 1.0, other).node[3][-1]
        assert not cr.where(condition, leaf([1.0, 2.0]) * 1.0, cr.tensor(bad)).node[3][-1]
