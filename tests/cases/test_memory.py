"""G: everything of a step dies with it, without the garbage collector."""

import gc
import sys
import weakref

import numpy as np
import pytest

import chainrule as cr
from chainrule import scalar
from tests.cases.ways import leaf


@pytest.fixture
def without_collector():
    """Whatever dies in here dies by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ---------------------------------------------------------------- G5
def test_g5_a_gradient_inside_a_custom_rule(without_collector):
    """The rule differentiates something by itself; nothing of a step survives it."""
    dead = []

    for create in (False, True):

        @cr.operation(lambda ct, x, create=create: ct * inner(x, create))
        def cube(x):
            return x**3

        def inner(x, create):
            t = leaf(np.array(x.data if isinstance(x, cr.Tensor) else x))
            dead.append(weakref.ref(t))
            g = cr.gradients((t**3).sum(), t, create_graph=create)
            return g.data if isinstance(g, cr.Tensor) else g

        for _ in range(5):
            x = leaf(np.arange(3.0))
            y = cube(x)
            dead.extend([weakref.ref(y), weakref.ref(y.data)])
            y.sum().backward()
            np.testing.assert_allclose(x.grad, 3 * np.arange(3.0) ** 2)
            dead.append(weakref.ref(x))
            del x, y
    assert [ref for ref in dead if ref() is not None] == []


# One training step each, which hands out what it leaves on the way.
def plain(x):
    h = cr.tanh(x * x)
    y = h.sum()
    yield from (h, y)
    y.backward()


def retained(x):
    h = cr.exp(x)
    y = h.sum()
    yield from (h, y)
    y.backward(retain_graph=True)


def recorded(x):
    h = cr.sin(x)
    g = cr.gradients(h.sum(), x, create_graph=True)
    yield from (h, g)
    (g * g).sum().backward()


def created(x):
    h = cr.sin(x)
    yield h
    h.sum().backward(create_graph=True)
    x.grad = None


def unwalked(x):
    h = cr.exp(x * x)
    yield from (h, h.sum())


def transformed(x):
    def f(t):
        kept.append(t)
        return (t * x).sum()

    kept = []
    cr.grad(f)(np.ones(3))
    cr.hvp(f, np.ones(3), np.ones(3))
    cr.jvp(f, (np.ones(3),), (np.ones(3),))
    yield from kept


def checkpointed(x):
    h = cr.checkpoint(lambda t: cr.exp(cr.sin(t)))(x)
    yield h
    h.sum().backward()


def in_place(x):
    t = x * 1.0
    t *= t
    t[0] = t[1]
    yield t
    t.sum().backward()


def failing(x):
    h = cr.exp(x)
    yield h
    try:
        h @ cr.zeros((7, 7))
    except cr.errors.ShapeError:
        pass


def several(x):
    parts = cr.unstack(cr.stack([x, x]))
    yield from parts
    (parts[0] * parts[1]).sum().backward()


STEPS = [plain, retained, recorded, created, unwalked, transformed, checkpointed, in_place, failing, several]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_g5_everything_of_a_step_dies_without_the_collector(step, without_collector):
    x = leaf(np.array([0.5, 1.0, 1.5]))
    refs = []
    for _ in range(3):
        for tensor in step(x):
            refs.append(weakref.ref(tensor))
            if isinstance(tensor.data, np.ndarray):
                refs.append(weakref.ref(tensor.data))
            del tensor
        x.grad = None
    assert [ref for ref in refs if ref() is not None] == []


def test_g5_the_leaf_itself_dies_while_a_graph_lives(without_collector):
    x = leaf(np.ones(3))
    y = (x * 2.0).sum()
    ref = weakref.ref(x)
    del x
    assert ref() is None
    y.backward()  # nobody wants the gradient any more


def test_g5_residuals_die_during_the_walk_while_the_user_holds_an_intermediate(without_collector):
    x = leaf(np.ones(1000))
    h = cr.exp(x)
    hidden = weakref.ref((h * h).data)
    k = cr.sin(h * h)
    kept = weakref.ref(k.node[3][0])
    k.sum().backward()
    assert hidden() is None
    assert kept() is None
    assert h.data.shape == (1000,)
    assert k.node[2] is None


def test_g5_only_residuals_that_rules_name_are_kept(without_collector):
    x = leaf(np.ones(1000))
    a = x + 1.0  # needed by nobody: the rules of add and sum read nothing
    ref = weakref.ref(a.data)
    y = (a + 1.0).sum()
    del a
    assert ref() is None
    y.backward()
    assert x.grad.sum() == 1000.0


def test_g5_a_forward_whose_result_is_dropped_leaves_nothing_behind(without_collector):
    x = leaf(np.ones(10))
    before = sys.getrefcount(x.node)
    for _ in range(100):
        cr.exp(x * 2.0).sum()
    after = sys.getrefcount(x.node)  # not within an assert, which holds on to what it names
    assert after == before


def test_g5_the_scalar_engine_frees_without_the_collector(without_collector):
    x = scalar.Value(1.0)
    y = (x * x).exp()
    y.backward()
    ref = weakref.ref(y) if hasattr(scalar.Value, "__weakref__") else None
    del y
    assert ref is None or ref() is None
