"""Layers without parameters."""

import copy
import pickle

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import ArgumentError, ShapeError
from tests.nn import twins
from tests.nn.twins import Twin

test_twins = twins.tests(
    Twin("ReLU", lambda **_: nn.ReLU(), lambda t: t.nn.ReLU(), [(4, 5)]),
    Twin("GELU", lambda **_: nn.GELU(), lambda t: t.nn.GELU(), [(4, 5)]),
    Twin("GELU tanh", lambda **_: nn.GELU("tanh"), lambda t: t.nn.GELU("tanh"), [(4, 5)]),
    Twin("SiLU", lambda **_: nn.SiLU(), lambda t: t.nn.SiLU(), [(4, 5)]),
    Twin("Tanh", lambda **_: nn.Tanh(), lambda t: t.nn.Tanh(), [(4, 5)]),
    Twin("Sigmoid", lambda **_: nn.Sigmoid(), lambda t: t.nn.Sigmoid(), [(4, 5)]),
    Twin("Softmax", lambda **_: nn.Softmax(dim=1), lambda t: t.nn.Softmax(dim=1), [(4, 5, 2)]),
    Twin("Identity", lambda **_: nn.Identity(3, x=4), lambda t: t.nn.Identity(3, x=4), [(4, 5)]),
    Twin("Flatten", lambda **_: nn.Flatten(), lambda t: t.nn.Flatten(), [(2, 3, 4)]),
    Twin("Flatten some", lambda **_: nn.Flatten(0, -2), lambda t: t.nn.Flatten(0, -2), [(2, 3, 4)]),
    Twin("Flatten one", lambda **_: nn.Flatten(), lambda t: t.nn.Flatten(), [(2, 3)]),
    Twin("Dropout of nothing", lambda **_: nn.Dropout(0.0), lambda t: t.nn.Dropout(0.0), [(4, 5)]),
    Twin("Dropout of all", lambda **_: nn.Dropout(1.0), lambda t: t.nn.Dropout(1.0), [(4, 5)]),
    Twin("Dropout", lambda **_: nn.Dropout(0.3), lambda t: t.nn.Dropout(0.3), [(4, 5)], modes=["eval"]),
)  # fmt: skip


def drawn(seed=0, p=0.25, x=None, **how):
    return nn.dropout(np.ones((100, 100)) if x is None else x, p, generator=cr.random.generator(seed), **how)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(p):
    y = drawn(p=p)
    assert sorted(set(y.ravel())) == [0.0, pytest.approx(1 / (1 - p), rel=1e-15)]
    assert (y == 0).mean() == pytest.approx(p, abs=0.015)  # three standard deviations
    assert y.mean() == pytest.approx(1.0, abs=0.1)


def test_dropout_is_the_same_to_the_bit():
    assert np.array_equal(drawn(3), drawn(3))
    assert not np.array_equal(drawn(3), drawn(4))
    with cr.random.use(cr.random.generator(3)):
        assert np.array_equal(nn.dropout(np.ones((100, 100)), 0.25), drawn(3))
    layer = nn.Dropout(0.25, generator=cr.random.generator(3))
    again = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    first = layer(np.ones((100, 100)))
    assert np.array_equal(first, drawn(3))
    assert not np.array_equal(first, layer(np.ones((100, 100))))
    for other in again:
        assert np.array_equal(other(np.ones((100, 100))), first)


def test_dropout_has_the_mask_as_its_derivative():
    x = cr.tensor(np.full((100, 100), 3.0), requires_grad=True)
    y = drawn(x=x)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad * 3.0, y.data)
    f = lambda x: (drawn(x=x) ** 2).sum()
    np.testing.assert_array_equal(cr.hvp(f, np.ones((100, 100)), np.ones((100, 100))), 2 * drawn() ** 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dropout_keeps_the_dtype(dtype):
    x = np.ones((10, 10), dtype)
    for p in (0.0, 0.3, 1.0):
        assert drawn(x=x, p=p).dtype == dtype
        assert drawn(x=cr.tensor(x), p=p).dtype == dtype
    assert drawn(x=np.ones((10, 10), int)).dtype == np.float64


def test_dropout_of_all_and_of_nothing():
    x = cr.tensor([1.0, np.inf, np.nan], requires_grad=True)
    y = nn.dropout(x, 1.0)
    assert y.tolist() == [0.0, 0.0, 0.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    generator = cr.random.generator(0)
    before = generator.bit_generator.state
    assert nn.dropout(x, 0.0, generator=generator) is x
    assert nn.dropout(x, 0.5, training=False, generator=generator) is x
    assert nn.Dropout(0.5, generator=generator).eval()(x) is x
    assert generator.bit_generator.state == before


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), "half", None])
def test_dropout_of_no_probability(p):
    with pytest.raises(ArgumentError, match=r"Dropout: p is no probability .* expected 0 to 1"):
        nn.Dropout(p)
    with pytest.raises(ArgumentError, match="dropout: p is no probability"):
        nn.dropout(np.ones(2), p, training=False)


def test_a_checkpoint_drops_the_same_again():
    layer, x = nn.Dropout(0.5), cr.tensor(np.ones(50), requires_grad=True)
    for wrapped in (layer, cr.checkpoint(layer)):
        x.grad = None
        with cr.random.use(cr.random.generator(1)):
            y = wrapped(x)
            (y * y).sum().backward()
        np.testing.assert_array_equal(x.grad, 2 * y.data * y.data)


def test_flatten_of_what_has_no_such_axes():
    with pytest.raises(ArgumentError, match="Flatten"):
        nn.Flatten()(np.ones(3))
    with pytest.raises(ShapeError, match="start_dim 2 comes after end_dim 0"):
        nn.Flatten(2, 0)(np.ones((2, 3, 4)))


def test_gelu_of_an_unknown_kind():
    with pytest.raises(ArgumentError, match="no approximation"):
        nn.GELU("erf")


def test_words():
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.ReLU(), nn.Softmax(1))
    assert repr(net).splitlines() == [
        "Sequential", "  0: Flatten(start_dim=1, end_dim=-1)", "  1: Dropout(p=0.5)", "  2: ReLU", "  3: Softmax(dim=1)",
    ]  # fmt: skip
