"""Recurrent layers and cells beside PyTorch's."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import ShapeError
from tests.nn import twins
from tests.nn.twins import Twin


def layer(name, *args, **options):
    return (
        lambda **how: getattr(nn, name)(*args, **options, **how),
        lambda t: getattr(t.nn, name)(*args, **options),
    )


def pair(net, x, h, c):
    """The states of an LSTM are one argument."""
    return net(x, (h, c))


def of_both(name, what, inputs, *args, **options):
    """A twin without states at the beginning and one with them; the last shape is that of a state."""
    made = layer(name, *args, **options)
    x, state = inputs
    if name.startswith("LSTM"):
        return [
            Twin(f"{name}, {what}", *made, [x]),
            Twin(f"{name}, {what}, from states", *made, [x, state, state], own=pair, their=pair),
        ]
    return [Twin(f"{name}, {what}", *made, [x]), Twin(f"{name}, {what}, from a state", *made, [x, state])]


LAYERS = [
    twin
    for name in ("GRU", "LSTM")
    for twin in [
        *of_both(name, "plain", [(5, 2, 3), (1, 2, 4)], 3, 4),
        *of_both(name, "two layers", [(4, 2, 3), (2, 2, 4)], 3, 4, 2),
        *of_both(name, "batch first", [(2, 5, 3), (1, 2, 4)], 3, 4, batch_first=True),
        *of_both(name, "both ways", [(4, 2, 3), (4, 2, 4)], 3, 4, 2, bidirectional=True),
        *of_both(name, "without bias", [(4, 2, 3), (1, 2, 4)], 3, 4, bias=False),
        *of_both(name, "one sequence", [(4, 3), (2, 4)], 3, 4, bidirectional=True),
        *of_both(name, "one place", [(1, 2, 3), (1, 2, 4)], 3, 4),
        *of_both(f"{name}Cell", "batch", [(2, 3), (2, 4)], 3, 4),
        *of_both(f"{name}Cell", "one, without bias", [(3,), (4,)], 3, 4, bias=False),
    ]
]
test_twins = twins.tests(*LAYERS)  # fmt: skip


@pytest.mark.parametrize("name", ["GRU", "LSTM"])
def test_dropout_between_layers(name):
    net = getattr(nn, name)(3, 4, 2, dropout=0.5, generator=np.random.default_rng(0))
    x = np.random.default_rng(1).normal(size=(5, 2, 3))
    once, twice, other = (net(x, generator=np.random.default_rng(s))[0].data for s in (2, 2, 3))
    np.testing.assert_array_equal(once, twice)
    assert (once != other).any()
    still = net.eval()(x)[0].data
    np.testing.assert_array_equal(still, net(x, generator=np.random.default_rng(3))[0].data)


@pytest.mark.parametrize("name", ["GRU", "LSTM"])
def test_cells_one_after_the_other_are_a_layer(name):
    net = getattr(nn, name)(3, 4, generator=np.random.default_rng(0))
    cell = getattr(nn, f"{name}Cell")(3, 4)
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in net.state_dict().items()})
    x = np.random.default_rng(1).normal(size=(5, 2, 3))
    state, outs = None, []
    for part in x:
        state = cell(part, state)
        outs.append(state if name == "GRU" else state[0])
    np.testing.assert_allclose(cr.stack(outs).data, net(x)[0].data, rtol=1e-13)


def test_second_order():
    """The Hessian of a sum over outputs against differences of its gradient."""
    net = nn.LSTM(2, 3, generator=np.random.default_rng(0)).requires_grad_(False)
    x = np.random.default_rng(1).normal(size=(3, 1, 2))
    f = lambda x: (net(x)[0] ** 2).sum()
    v = np.random.default_rng(2).normal(size=x.shape)
    g = cr.grad(f)
    h = 1e-5
    np.testing.assert_allclose(cr.hvp(f, x, v), (g(x + h * v) - g(x - h * v)) / (2 * h), rtol=1e-6, atol=1e-8)


def test_a_long_sequence_needs_no_recursion():
    net = nn.GRU(1, 2, generator=np.random.default_rng(0))
    y, _ = net(np.ones((3000, 1, 1)))
    y.sum().backward()
    assert np.isfinite(net.weight_hh_l0.grad).all()


@pytest.mark.parametrize("shape", [(5, 2, 4), (5,), (0, 2, 3), (5, 0, 3)])
def test_inputs_that_are_refused(shape):
    with pytest.raises(ShapeError):
        nn.GRU(3, 4)(np.ones(shape))
