"""The functions of networks on arrays of another library, and on abstract ones, as a compiler will meet them."""

import array_api_strict as strict
import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.backends.abstract import Abstract
from chainrule.core import equations
from chainrule.core.calls import wrap
from chainrule.core.graph import leaf_node
from tests.laws.values import strict_backend

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
CLASSES = np.array([0, 2, -100, 1])
FUNCTIONS = {
    "cross_entropy": lambda x, t: nn.cross_entropy(x, t),
    "cross_entropy, smoothed": lambda x, t: nn.cross_entropy(x, t, reduction="none", label_smoothing=0.1),
    "cross_entropy of probabilities": lambda x, t: nn.cross_entropy(x, cr.softmax(x * 2.0)),
    "nll_loss": lambda x, t: nn.nll_loss(x, t),
    "multi_margin_loss": lambda x, t: nn.multi_margin_loss(x, cr.where(t < 0, 0, t)),
    "mse_loss": lambda x, t: nn.mse_loss(x, x * 2.0),
    "huber_loss": lambda x, t: nn.huber_loss(x, x * 2.0),
    "binary_cross_entropy_with_logits": lambda x, t: nn.binary_cross_entropy_with_logits(x, x * x),
    "hinge_loss": lambda x, t: nn.hinge_loss(x, x * x),
    "kl_div": lambda x, t: nn.kl_div(x, x * x),
    "gelu": lambda x, t: nn.gelu(x),
    "gelu by tanh": lambda x, t: nn.gelu(x, "tanh"),
    "silu": lambda x, t: nn.silu(x),
    "layer_norm": lambda x, t: nn.layer_norm(x, 3) * x,
    "rms_norm": lambda x, t: nn.rms_norm(x, 3),
    "linear": lambda x, t: nn.linear(x, x),
    "attention": lambda x, t: nn.scaled_dot_product_attention(x, x * 2.0, x, is_causal=True),
    "attention, masked": lambda x, t: nn.scaled_dot_product_attention(
        x, x, x, cr.matmul(x, cr.matrix_transpose(x)) < 1.0
    ),
}


def leaf(array):
    tensor = wrap(array, None)
    tensor.node = leaf_node(tensor)
    return tensor


@pytest.mark.parametrize("name", FUNCTIONS)
def test_another_library(name):
    ours = cr.tensor(X, requires_grad=True)
    expected = FUNCTIONS[name](ours, cr.asarray(CLASSES))
    expected.sum().backward()
    with strict_backend():
        x = leaf(strict.asarray(X))
        y = FUNCTIONS[name](x, wrap(strict.asarray(CLASSES), None))
        y.sum().backward()
    assert type(x.grad) is type(y.data) is type(strict.asarray(0.0))
    np.testing.assert_allclose(np.asarray(y.data), expected.data, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.asarray(x.grad), ours.grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_abstract_arrays(name):
    """Both passes are recorded, without numbers, class indices among them."""
    expected = FUNCTIONS[name](cr.tensor(X), cr.asarray(CLASSES))
    with equations.tracing():
        x = leaf(Abstract((4, 3), np.dtype(np.float64)))
        y = FUNCTIONS[name](x, wrap(Abstract((4,), np.dtype(np.int64)), None))
        y.sum().backward()
    assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
    assert (x.grad.shape, x.grad.dtype) == ((4, 3), np.float64)


@pytest.mark.parametrize("make", [lambda: nn.TransformerBlock(8, 2), lambda: nn.LSTM(8, 8), lambda: nn.GRU(8, 8)])
def test_layers_on_abstract_arrays(make):
    layer = make()
    with equations.tracing():
        x = leaf(Abstract((2, 3, 8), np.dtype(np.float64)))
        y = layer(x)
        (y if isinstance(y, cr.Tensor) else y[0]).sum().backward()
    assert x.grad.shape == (2, 3, 8)
    for name, parameter in layer.named_parameters():
        assert parameter.grad.shape == parameter.shape, name
