"""DESIGN 3: tensors, nodes, lifetimes and the order of the walk.

| sentence | test |
|--|--|
| `Tensor`: slots `data`, `grad`, `node`; no closure, no dictionary | test_a_tensor_has_slots_and_no_dictionary |
| a node: sequence number, pullback, parents, residuals, parameters, output shape | test_a_node_is_a_list_of_seven |
| `backward()` empties it as it passes | test_backward_empties_the_nodes |
| so residuals die even while the user holds an intermediate | test_residuals_die_while_an_intermediate_is_held, test_residuals_die_during_the_walk |
| a leaf's node refers to its tensor weakly | test_a_leaf_refers_to_its_tensor_weakly |
| no reference cycles, and a dropped graph dies at once, without the collector | test_a_dropped_graph_dies_without_the_collector, test_the_collector_finds_nothing |
| `requires_grad` is the property of having a node | test_requires_grad_is_having_a_node |
| settable on leaves only | test_requires_grad_is_settable_on_leaves_only |
| missing cotangents stay `None`, never arrays of zeros | test_missing_cotangents_stay_none |
| order of the reverse walk: reachable nodes by descending sequence number | test_the_walk_goes_by_descending_number, test_a_node_runs_once |
| no recursion anywhere: a chain of a million operations differentiates and is freed | test_a_long_chain_differentiates_and_is_freed, test_a_long_chain_is_dropped_without_recursion, test_long_chains_in_every_walk |
| no global tape: a forward whose result is dropped leaves nothing behind | test_a_dropped_forward_leaves_nothing_behind |
| memory of a backward pass: residuals named by rules and nothing else; freed as it goes | test_memory_of_a_backward_pass |
| non-contiguous data | test_non_contiguous_data |
"""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.primitive import primitive
from chainrule.errors import GraphError
from chainrule.ops.families import ELEMENTWISE


def leaf(*values, dtype=np.float64):
    return cr.tensor(np.array(values, dtype), requires_grad=True)


def traced(name, log, rule=lambda ct: ct):
    """The identity, whose rule notes that it ran."""
    return primitive(
        name, ELEMENTWISE, [lambda ct: log.append(name) or rule(ct)], forward=lambda x: x + 0.0, listed=False
    )


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_tensor_has_slots_and_no_dictionary():
    x = leaf(1.0)
    assert {"data", "grad", "node"} <= set(cr.Tensor.__slots__)
    assert not hasattr(x, "__dict__")
    with pytest.raises(AttributeError):
        x.note = 1


def test_a_node_is_a_list_of_seven():
    x = leaf(1.0, 2.0)
    y = x.sum(axis=0, keepdims=True)
    number, record, parents, residuals, parameters, shape, dtype = y.node
    assert number > x.node[0]
    assert record.name == "sum"
    assert callable(record.pull)
    assert parents[0] is x.node
    assert (residuals, parameters, shape, dtype) == ((), ((0,), True), (1,), np.float64)


def test_backward_empties_the_nodes():
    x = leaf(1.0, 2.0)
    h = cr.exp(x)
    h.sum().backward()
    assert h.node[2] is None
    assert h.node[3] is None
    assert h.requires_grad


def test_residuals_die_while_an_intermediate_is_held(without_collector):
    x = leaf(1.0, 2.0)
    inner = cr.sin(x)
    watch = weakref.ref(inner.data)
    held = cr.square(inner)  # keeps inner's array
    del inner
    assert watch() is not None
    held.sum().backward()
    assert watch() is None
    assert held.tolist() == np.square(np.sin([1.0, 2.0])).tolist()


def test_residuals_die_during_the_walk(without_collector):
    x = leaf(1.0, 2.0)
    seen = []
    first = traced("first", [], lambda ct: seen.append(watch() is None) or ct)
    inner = first(x) * 3.0
    watch = weakref.ref(inner.data)
    held = cr.square(inner)
    del inner
    held.sum().backward()
    assert seen == [True]


def test_a_leaf_refers_to_its_tensor_weakly(without_collector):
    x, w = leaf(1.0), leaf(2.0)
    y = (x * w).sum()
    watch = weakref.ref(x)
    del x
    assert watch() is None
    y.backward()
    assert w.grad.tolist() == [1.0]


def test_a_dropped_graph_dies_without_the_collector(without_collector):
    x = leaf(1.0, 2.0)
    h = cr.exp(x)
    y = (h * x).sum()
    watches = [weakref.ref(t) for t in (x, h, y)] + [weakref.ref(h.data), weakref.ref(x.data)]
    del x, h, y
    assert [watch() for watch in watches] == [None] * 5


def test_the_collector_finds_nothing(without_collector):
    def work():
        x = leaf(1.0, 2.0)
        y = (cr.exp(x) * x).sum()
        y.backward(create_graph=True)
        x.grad.sum().backward()
        cr.grad(lambda v: (v * v).sum())(x)
        cr.jvp(lambda v: v * v, (x,), (x,))
        z = x * 2.0
        z += x
        z[0] = 1.0
        for _ in z:
            pass

    work()
    gc.collect()
    work()
    assert gc.collect() == 0


def test_requires_grad_is_having_a_node():
    x = cr.tensor([1.0])
    assert x.node is None
    assert not x.requires_grad
    x.requires_grad = True
    assert x.node is not None
    assert x.requires_grad
    assert (x * 2.0).requires_grad
    x.requires_grad = False
    assert x.node is None
    assert not (x * 2.0).requires_grad


def test_requires_grad_is_settable_on_leaves_only():
    y = leaf(1.0) * 2.0
    for wanted in (True, False):
        with pytest.raises(GraphError, match="only a leaf can be told"):
            y.requires_grad = wanted
    assert y.requires_grad


def test_missing_cotangents_stay_none():
    """A branch that the result does not depend on runs no rule; its leaf keeps `grad is None`."""
    log = []
    x, w = leaf(1.0), leaf(2.0)
    traced("unused", log)(w)
    cr.unstack(cr.stack([x * 2.0, traced("other", log)(w)]))[0].sum().backward()
    assert x.grad.tolist() == [2.0]
    assert w.grad is None or w.grad.tolist() == [0.0]  # stack is one operation, so the cotangent of its row is zero
    y = leaf(3.0)
    (traced("used", log)(x) + y.detach()).sum().backward()
    assert y.grad is None
    assert "unused" not in log


def test_the_walk_goes_by_descending_number():
    log = []
    a, b, c, d = (traced(name, log) for name in "abcd")
    x = leaf(1.0)
    first = a(x)
    left = b(first)
    right = c(x)
    d(left + right * first).sum().backward()
    assert log == ["d", "c", "b", "a"]


def test_a_node_runs_once():
    log = []
    x = leaf(1.0)
    shared = traced("shared", log)(x)
    y = shared
    for _ in range(20):
        y = y + y
    y.sum().backward()
    assert log == ["shared"]
    assert x.grad.tolist() == [2.0**20]


def test_a_long_chain_differentiates_and_is_freed():
    """A million operations, walked and emptied."""
    x = y = cr.tensor(1.0, requires_grad=True)
    negative = cr.negative
    for _ in range(1_000_000):
        y = negative(y)
    y.backward()
    assert x.grad == 1.0
    assert y.node[2] is None


def test_a_long_chain_is_dropped_without_recursion():
    y = cr.tensor(1.0, requires_grad=True)
    for _ in range(200_000):
        y = y + 1.0
    watch = weakref.ref(y)
    del y
    assert watch() is None


def test_long_chains_in_every_walk():
    def deep(v):
        for _ in range(5_000):
            v = v + 1e-9
        return v * v

    assert cr.grad(deep)(1.0) == pytest.approx(2.0, abs=1e-3)
    assert cr.jvp(deep, (1.0,), (1.0,))[1] == pytest.approx(2.0, abs=1e-3)
    assert cr.grad(cr.grad(deep))(1.0) == pytest.approx(2.0)
    assert cr.hvp(deep, 1.0, 1.0) == pytest.approx(2.0)
    assert cr.grad(cr.checkpoint(deep))(1.0) == pytest.approx(2.0, abs=1e-3)


def test_a_dropped_forward_leaves_nothing_behind(without_collector):
    x = cr.tensor(np.ones(1000), requires_grad=True)

    def forward():
        return (cr.exp(x) * cr.sin(x) + cr.softmax(x)).sum()

    for _ in range(3):
        forward()
    tracemalloc.start()
    try:
        forward()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            forward()
        assert tracemalloc.get_traced_memory()[0] - before < 3 * 8000  # of 200 times five arrays of 8,000 bytes
    finally:
        tracemalloc.stop()


def test_memory_of_a_backward_pass():
    """Additions keep nothing: the peak does not grow with their number.  Squares keep their input, one array each."""
    n, depth = 100_000, 20
    size = 8 * n

    def peak(f):
        x = cr.tensor(np.ones(n), requires_grad=True)
        tracemalloc.start()
        try:
            y = f(x)
            forward = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            y.backward()
            return forward / size, (tracemalloc.get_traced_memory()[1] - forward) / size
        finally:
            tracemalloc.stop()

    def additions(x):
        for _ in range(depth):
            x = x + 1.0
        return x.sum()

    def squares(x):
        for _ in range(depth):
            x = cr.square(x)
        return x.sum()

    kept, extra = peak(additions)
    assert kept < 0.1
    assert extra < 3.0
    kept, extra = peak(squares)
    assert kept == pytest.approx(depth - 1, abs=0.2)  # the first residual is x itself, the last result is dropped
    assert extra < 4.0  # and what the walk adds does not grow with the depth: residuals die as it goes


def test_non_contiguous_data():
    base = np.arange(24.0).reshape(4, 6)
    w = np.arange(6.0).reshape(3, 2)
    for view in (base[::2, ::-2], base[:3, :3].T[:2], np.asfortranarray(base[:2, :3])):
        x, same = cr.tensor(view, requires_grad=True), cr.tensor(np.ascontiguousarray(view), requires_grad=True)
        for t in (x, same):
            (cr.tanh(t @ w) * t.sum(axis=1, keepdims=True)).sum().backward()
        assert np.array_equal(x.grad, same.grad)
        strided = cr.asarray(view)
        strided.requires_grad = True
        (strided * strided).sum().backward()
        assert np.array_equal(strided.grad, 2.0 * view)
