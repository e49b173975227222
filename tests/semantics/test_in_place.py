"""DESIGN 3: in place.

| sentence | test |
|--|--|
| `t[i] = v`, `t += v` change the object `t` | test_in_place_operators_change_the_object, test_every_in_place_operator |
| while recording, a non-leaf is rebound to the new value, differentiable in `t` and `v` | test_a_non_leaf_is_rebound_differentiably, test_assignment_is_differentiable_in_both |
| and whoever used the old value keeps it | test_whoever_used_the_old_value_keeps_it |
| a leaf that wants a gradient raises and names the cures | test_a_leaf_raises_and_names_the_cures |
| under `no_grad`, or where no gradient is wanted, they write into `t`'s own memory | test_without_gradient_they_write_into_own_memory, test_under_no_grad_a_leaf_is_written_where_it_stands |
| a constant becomes differentiable where a gradient comes in | test_a_constant_takes_a_gradient_in |
| `with cr.no_grad(): p -= lr * p.grad` is a training step | test_a_training_step |
| there are no views between tensors: `u = t[0]` is a value | test_there_are_no_views_between_tensors |
| writing to `u` never changes `t` | test_there_are_no_views_between_tensors, test_writing_to_the_source_never_changes_the_value |
| the shape and dtype of `t` stay | test_shape_and_dtype_stay |
"""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import DTypeError, GraphError, ShapeError


def leaf(*values, dtype=np.float64):
    return cr.tensor(np.array(values, dtype), requires_grad=True)


def plus(t, v):
    t += v
    return t


def minus(t, v):
    t -= v
    return t


def times(t, v):
    t *= v
    return t


def over(t, v):
    t /= v
    return t


def power(t, v):
    t **= v
    return t


def floor_over(t, v):
    t //= v
    return t


def remainder(t, v):
    t %= v
    return t


def matrix(t, v):
    t @= v
    return t


OPERATORS = {
    "+=": (plus, np.add), "-=": (minus, np.subtract), "*=": (times, np.multiply), "/=": (over, np.divide),
    "**=": (power, np.power), "//=": (floor_over, np.floor_divide), "%=": (remainder, np.remainder),
}  # fmt: skip


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize("recorded", [False, True])
def test_every_in_place_operator(sign: str, recorded: bool):
    update, expected = OPERATORS[sign]
    x = leaf(5.0, 7.0)
    t = x * 1.0 if recorded else cr.tensor([5.0, 7.0])
    for v in (2.0, np.array([2.0, 3.0]), cr.tensor([2.0, 3.0])):
        before = t.data.copy()
        assert update(t, v) is t
        assert np.allclose(t.data, expected(before, getattr(v, "data", v)))
    square = cr.tensor(np.eye(2)) if not recorded else cr.tensor(np.eye(2), requires_grad=True) * 1.0
    assert matrix(square, np.ones((2, 2))).tolist() == np.ones((2, 2)).tolist()


def test_in_place_operators_change_the_object():
    for t in (cr.tensor([1.0, 2.0]), leaf(1.0, 2.0) * 1.0):
        alias = t
        t += 1.0  # noqa: PLW2901 - what is tested
        t[0] = 10.0
        assert alias is t
        assert alias.tolist() == [10.0, 3.0]


def test_a_non_leaf_is_rebound_differentiably():
    x, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    t = x * 2.0
    t *= v
    t += v
    t.sum().backward()
    assert x.grad.tolist() == [6.0, 8.0]
    assert v.grad.tolist() == [3.0, 5.0]


def test_assignment_is_differentiable_in_both():
    x, v = leaf(1.0, 2.0, 3.0), leaf(10.0, 20.0)
    t = x * 2.0
    t[0] = v[1] * v[1]
    t[1:] = v * 3.0
    t[2] = x[0]
    (t * np.array([1.0, 10.0, 100.0])).sum().backward()
    assert t.tolist() == [400.0, 30.0, 1.0]
    assert x.grad.tolist() == [100.0, 0.0, 0.0]
    assert v.grad.tolist() == [30.0, 40.0]
    (slope,) = cr.gradients((t * t).sum(), [v], create_graph=True) if t.node[2] else (None,)
    assert slope is None  # the graph was freed


def test_whoever_used_the_old_value_keeps_it():
    x = leaf(1.0, 2.0)
    t = x * 2.0
    old, view = t * t, t[0]
    t += 100.0
    t[0] = -1.0
    assert view.item() == 2.0
    (old.sum() + view).backward()
    assert x.grad.tolist() == [10.0, 16.0]  # 8 x, and 2 at the first entry


def test_a_leaf_raises_and_names_the_cures():
    x = leaf(1.0, 2.0)
    for write in (lambda: plus(x, 1.0), lambda: x.__setitem__(0, 1.0), lambda: times(x, x)):
        with pytest.raises(GraphError, match=r"a leaf that wants a gradient .* cr\.no_grad\(\).* new tensor"):
            write()
    assert x.tolist() == [1.0, 2.0]


def test_without_gradient_they_write_into_own_memory():
    t = cr.tensor([1.0, 2.0])
    memory = t.data
    t += 1.0
    t[0] = 5.0
    assert t.data is memory
    assert memory.tolist() == [5.0, 3.0]


def test_under_no_grad_a_leaf_is_written_where_it_stands():
    x = leaf(1.0, 2.0)
    memory, node = x.data, x.node
    with cr.no_grad():
        x += 1.0
        x[0] = 5.0
        x *= leaf(2.0, 2.0)
    assert x.data is memory
    assert x.node is node
    assert memory.tolist() == [10.0, 6.0]


def test_a_constant_takes_a_gradient_in():
    x = leaf(2.0, 3.0)
    total = cr.zeros(2)
    alias = total
    for _ in range(3):
        total += x * x
    total[0] = x[1]
    assert alias is total
    total.sum().backward()
    assert x.grad.tolist() == [0.0, 19.0]


def test_a_training_step():
    p = leaf(1.0, 2.0)
    memory = p.data
    for _ in range(2):
        p.grad = None
        (p * p).sum().backward()
        with cr.no_grad():
            p -= 0.25 * p.grad
    assert p.data is memory
    assert p.tolist() == [0.25, 0.5]
    assert p.requires_grad
    scalar = cr.tensor(4.0, requires_grad=True)
    (scalar * scalar).backward()
    with cr.no_grad():
        scalar -= 0.25 * scalar.grad
    assert scalar.item() == 2.0


VIEWS = {
    "row": lambda t: t[0], "slice": lambda t: t[:, :1], "reshape": lambda t: t.reshape(4), "T": lambda t: t.T,
    "squeeze": lambda t: cr.squeeze(cr.expand_dims(t, 0)), "broadcast": lambda t: cr.broadcast_to(t, (2, 2, 2)),
    "mT": lambda t: t.mT, "detach": lambda t: t.detach(), "stop": cr.stop_gradient, "flip": cr.flip,
    "unstack": lambda t: cr.unstack(t)[0], "split": lambda t: cr.split(t, 2)[1], "diagonal": cr.diagonal,
    "iteration": lambda t: next(iter(t)), "positive": lambda t: +t, "astype": lambda t: t.astype(np.float64),
    "permute": lambda t: cr.permute_dims(t, (1, 0)), "ravel": np.ravel, "clip": lambda t: cr.clip(t),
}  # fmt: skip
SOURCES = {
    "constant": lambda: cr.tensor([[1.0, 2.0], [3.0, 4.0]]),
    "leaf": lambda: cr.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True),
    "recorded": lambda: cr.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True) * 1.0,
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("view", VIEWS)
def test_there_are_no_views_between_tensors(view: str, source: str):
    for paused in (False, True):
        t = SOURCES[source]()
        if paused:
            with cr.no_grad():
                u = VIEWS[view](t)
                u += 1000.0
        else:
            u = VIEWS[view](t)
            u += 1000.0
        assert t.tolist() == [[1.0, 2.0], [3.0, 4.0]]
        u = VIEWS[view](t)
        with cr.no_grad():
            u[...] = -1.0
        assert t.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("view", VIEWS)
def test_writing_to_the_source_never_changes_the_value(view: str, source: str):
    t = SOURCES[source]()
    u = VIEWS[view](t)
    before = u.tolist()
    with cr.no_grad():
        t += 1000.0
        assert u.tolist() == before
        t[0] = 5.0
    assert u.tolist() == before
    assert np.asarray(t.detach()).min() == 5.0


def test_shape_and_dtype_stay():
    for t in (cr.tensor([1.0, 2.0]), leaf(1.0, 2.0) * 1.0):
        with pytest.raises(ShapeError, match="does not have the shape of the tensor"):
            t += np.ones((2, 2))  # noqa: PLW2901
        with pytest.raises((ShapeError, GraphError)):
            t[:1] = np.ones(3)
        assert t.tolist() == [1.0, 2.0]
    x32 = leaf(1.0, 2.0, dtype=np.float32) * 1.0
    x32 += np.ones(2)
    assert x32.dtype == np.float32
    assert x32.requires_grad
    with pytest.raises(DTypeError):
        x32 += 1j
    integers = cr.tensor([1, 2])
    with pytest.raises(DTypeError):
        integers += 0.5
    with pytest.raises(DTypeError):
        integers += leaf(0.5, 0.5)
    assert integers.tolist() == [1, 2]
