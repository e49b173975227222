"""DESIGN 3: `backward` and `gradients`, freed and lost graphs.

| sentence | test |
|--|--|
| `loss.backward()` accumulates into leaves' `.grad` | test_backward_accumulates |
| `.grad`: an ndarray of the leaf's shape and dtype | test_grad_has_the_shape_and_dtype_of_its_leaf |
| writable, sharing memory with nothing | test_grad_shares_memory_with_nothing |
| a tensor with `create_graph=True` | test_create_graph_makes_grad_a_tensor, test_any_order |
| `y.backward(cotangent=None, retain_graph=None, create_graph=False)` | test_signature_of_backward, test_cotangents, test_a_cotangent_that_wants_a_gradient_keeps_its_graph |
| it frees the graph unless `retain_graph` | test_backward_frees_unless_retained |
| which defaults to `create_graph` | test_retain_graph_defaults_to_create_graph |
| a second call on a freed graph raises `FreedGraphError` | test_every_walk_over_a_freed_graph_raises |
| `.grad` untouched afterwards | test_errors_leave_grad_alone |
| `cr.gradients` never frees, never touches `.grad` | test_gradients_frees_nothing_and_touches_no_grad |
| and gives zeros for an input that was not reached | test_gradients_gives_zeros_where_nothing_was_reached |
| `cr.gradients(y, [x, w], cotangent=None, create_graph=False)` | test_signature_of_gradients, test_gradients_of_intermediates |
| a tensor without a graph raises LostGraphError | test_a_lost_graph_says_so |
| a dropped leaf is passed over | test_a_leaf_told_otherwise_gets_no_gradient |
"""

import inspect

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import DTypeError, FreedGraphError, LostGraphError, ShapeError, StaleGraphError


def leaf(*values, dtype=np.float64):
    return cr.tensor(np.array(values, dtype), requires_grad=True)


def test_backward_accumulates():
    x = leaf(1.0, 2.0)
    for times in (1.0, 2.0, 3.0):
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0 * times, 4.0 * times]
    x.grad = None
    x.sum().backward()
    x.backward([10.0, 10.0])  # a leaf is a result too
    assert x.grad.tolist() == [11.0, 11.0]


def test_grad_has_the_shape_and_dtype_of_its_leaf():
    leaves = [
        cr.tensor(2.0, requires_grad=True),
        leaf(1.0, dtype=np.float32),
        cr.ones((2, 1), np.float16, requires_grad=True),
        cr.zeros((0, 3), requires_grad=True),
    ]
    total = sum((cr.exp(x) * np.ones((2, 1, 1))).sum() for x in leaves)
    total.backward()
    for x in leaves:
        assert type(x.grad) is np.ndarray
        assert (x.grad.shape, x.grad.dtype) == (x.shape, x.dtype)


GRAPHS = {
    "same cotangent": lambda x, w: x + w,
    "itself": lambda x, w: x,
    "positive": lambda x, w: +x,
    "reshape": lambda x, w: x.reshape(2, 2).reshape(4) + w,
    "transpose": lambda x, w: x.reshape(2, 2).T.reshape(4) - w,
    "sum": lambda x, w: cr.broadcast_to(x.sum() + w.sum(), (4,)),
    "where": lambda x, w: cr.where(np.array([True, False, True, True]), x, w),
    "stack": lambda x, w: cr.stack([x, w])[0] + w,
    "concat": lambda x, w: cr.concat([x, w])[2:6],
    "index": lambda x, w: x[...] + w[::-1],
    "astype": lambda x, w: x.astype(np.float64) + w,
    "unstack": lambda x, w: cr.unstack(cr.stack([x, w]))[0],
    "flip": lambda x, w: cr.flip(x) + w,
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_shares_memory_with_nothing(name: str, create_graph: bool):
    x, w, ct = leaf(1.0, 2.0, 3.0, 4.0), leaf(5.0, 6.0, 7.0, 8.0), np.ones(4)
    y = GRAPHS[name](x, w)
    y.backward(ct, create_graph=create_graph)
    memories = [ct, x.data, w.data, *([] if y is x else [y.data])]
    for t in (x, w):
        if t.grad is not None:
            g = getattr(t.grad, "data", t.grad) if create_graph else t.grad
            assert g.flags.writeable
            assert not any(np.shares_memory(g, memory) for memory in memories)
            memories.append(g)
            g += 1000.0
    assert ct.tolist() == [1.0] * 4
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_create_graph_makes_grad_a_tensor():
    x = leaf(1.0, 2.0)
    (x**3).sum().backward(create_graph=True)
    assert isinstance(x.grad, cr.Tensor)
    assert x.grad.requires_grad
    slope, x.grad = x.grad, None
    slope.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]
    assert type(x.grad) is np.ndarray


def test_any_order():
    x = leaf(2.0)
    y = (x**5).sum()
    values = []
    for _ in range(6):
        (g,) = cr.gradients(y, [x], create_graph=True)
        values.append(g.item())
        y = g.sum()
    assert values == [80.0, 160.0, 240.0, 240.0, 120.0, 0.0]


def test_signature_of_backward():
    parameters = inspect.signature(cr.Tensor.backward).parameters
    assert list(parameters) == ["self", "cotangent", "retain_graph", "create_graph"]
    assert [p.default for p in parameters.values()][1:] == [None, None, False]


def test_signature_of_gradients():
    parameters = inspect.signature(cr.gradients).parameters
    assert list(parameters) == ["y", "xs", "cotangent", "create_graph"]
    assert [p.default for p in parameters.values()][2:] == [None, False]


def test_cotangents():
    for ct in ([1.0, 10.0], np.array([1, 10]), cr.tensor([1.0, 10.0]), np.array([1.0, 10.0], np.float32), (1, 10)):
        x = leaf(3.0, 4.0)
        (x * x).backward(ct)
        assert x.grad.tolist() == [6.0, 80.0]
        assert cr.gradients(x * x, x, ct).tolist() == [6.0, 80.0]
    s = cr.tensor(3.0, requires_grad=True)
    for ct in (2, 2.0, np.float32(2.0), cr.tensor(2.0), np.array(2.0)):
        assert cr.gradients(s * s, s, ct) == 12.0
    x = leaf(1.0, 2.0)
    with pytest.raises(ShapeError, match=r"does not have the shape .* y f64\[2\] · cotangent f64\[\]"):
        (x * x).backward(1.0)
    with pytest.raises(ShapeError, match="only a tensor of one element"):
        (x * x).backward()
    with pytest.raises(DTypeError, match="the cotangent of a real value is real"):
        (x * x).backward(np.array([1j, 1j]))
    with pytest.raises(DTypeError, match="str is no array of numbers"):
        (x * x).backward("ab")
    assert x.grad is None
    x.sum().reshape(1, 1).backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_cotangent_that_wants_a_gradient_keeps_its_graph():
    """Two reverse walks make a forward one: the derivative by the cotangent of ct -> Jᵀ ct."""
    x, v = leaf(1.0, 2.0), leaf(0.0, 0.0)
    (pulled,) = cr.gradients(x**3, [x], cotangent=v, create_graph=True)
    assert cr.gradients(pulled, [v], cotangent=[1.0, 10.0])[0].tolist() == [3.0, 120.0]
    (x**3).backward(v * 2.0, create_graph=True)
    assert cr.gradients(x.grad.sum(), [v])[0].tolist() == [6.0, 24.0]


def test_backward_frees_unless_retained():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward(None, True)
    y.backward()
    assert x.grad.tolist() == [6.0, 12.0]
    with pytest.raises(FreedGraphError):
        y.backward()


def test_retain_graph_defaults_to_create_graph():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(create_graph=True)
    y.backward(create_graph=True, retain_graph=False)
    with pytest.raises(FreedGraphError):
        y.backward()


def test_every_walk_over_a_freed_graph_raises():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    shared = cr.exp(x)
    other = shared * w
    (shared * shared).sum().backward()
    x.grad = None
    walks = {
        "backward": lambda: other.sum().backward(),
        "the part itself": lambda: shared.backward([1.0, 1.0]),
        "gradients": lambda: cr.gradients(other.sum(), [w]),
        "recorded": lambda: cr.gradients(other.sum(), [w], create_graph=True),
        "new operations on it": lambda: cr.sin(shared).sum().backward(),
        "a view of it": lambda: shared.reshape(2, 1).sum().backward(),
        "an index of it": lambda: shared[0].backward(),
    }
    for name, walk in walks.items():
        with pytest.raises(FreedGraphError, match=r"freed by an earlier backward · try backward\(retain_graph=True\)"):
            print(name, walk())
    assert x.grad is None
    assert w.grad is None


def test_errors_leave_grad_alone():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    x.grad = before = np.array([7.0, 7.0])
    freed, stale = cr.exp(x), x * w
    freed.sum().backward(retain_graph=False)
    before = x.grad.copy()
    with cr.no_grad():
        w += 1.0
    for result, error in ((freed.sum() + x.sum(), FreedGraphError), (stale.sum() + x.sum(), StaleGraphError)):
        with pytest.raises(error):
            result.backward()
        assert np.array_equal(x.grad, before)
        assert w.grad is None


def test_gradients_frees_nothing_and_touches_no_grad():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = (x * w).sum()
    for _ in range(2):
        gx, gw = cr.gradients(y, [x, w])
        assert type(gx) is np.ndarray
        assert (gx.tolist(), gw.tolist()) == ([3.0, 4.0], [1.0, 2.0])
    assert x.grad is None
    assert w.grad is None
    y.backward()


def test_gradients_gives_zeros_where_nothing_was_reached():
    x, w = leaf(1.0, 2.0), cr.ones((2, 3), np.float32, requires_grad=True)
    gx, gw = cr.gradients((x * x).sum(), [x, w])
    assert gx.tolist() == [2.0, 4.0]
    assert (gw.shape, gw.dtype, gw.any()) == ((2, 3), np.float32, False)
    (g,) = cr.gradients(cr.tensor(1.0), [x])
    assert g.tolist() == [0.0, 0.0]
    assert isinstance(cr.gradients(x.sum(), [w], create_graph=True)[0], cr.Tensor)


def test_gradients_of_intermediates():
    x = leaf(1.0, 2.0)
    h = x * x
    y = (h * h).sum()
    gh, gx, gy = cr.gradients(y, [h, x, y])
    assert (gh.tolist(), gx.tolist(), float(gy)) == ([2.0, 8.0], [4.0, 32.0], 1.0)
    one, again = cr.gradients(y, [h, h])
    assert not np.shares_memory(one, again)
    assert cr.gradients(y, h).tolist() == [2.0, 8.0]


def test_a_lost_graph_says_so():
    x, constant = leaf(1.0, 2.0), cr.tensor([1.0, 2.0])
    with cr.no_grad():
        paused = (x * x).sum()
    losses = {
        "constant": lambda: constant.sum().backward(),
        "no_grad": lambda: paused.backward(),
        "detach": lambda: (x * x).sum().detach().backward(),
        "comparison": lambda: (x > 0).sum().backward(),
        "gradients of": lambda: cr.gradients(x.sum(), [constant]),
        "gradients of an array": lambda: cr.gradients(x.sum(), [np.ones(2)]),
        "gradients from": lambda: cr.gradients(2.0, [x]),
        "stop_gradient": lambda: cr.stop_gradient(x).sum().backward(),
    }
    for name, lost in losses.items():
        with pytest.raises(LostGraphError):
            print(name, lost())
    assert x.grad is None


def test_a_leaf_told_otherwise_gets_no_gradient():
    x, w = leaf(1.0), leaf(2.0)
    y = (x * w).sum()
    x.requires_grad = False
    y.backward()
    assert x.grad is None
    assert w.grad.tolist() == [1.0]
