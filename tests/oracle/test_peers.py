"""The oracles themselves: each differentiates in float64 and agrees with a closed form, so a comparison with it means something."""

import math

import pytest

from tests.oracle.peers import peer


def test_pytorch():
    torch = peer("torch")
    x = torch.tensor(0.75, dtype=torch.float64, requires_grad=True)
    torch.tanh(x).backward()
    assert x.grad.item() == pytest.approx(1 - math.tanh(0.75) ** 2, rel=1e-15)


def test_jax():
    jax = peer("jax")
    with jax.enable_x64(True):
        slope = jax.grad(jax.numpy.tanh)(0.75)
    assert slope.dtype == "float64"
    assert float(slope) == pytest.approx(1 - math.tanh(0.75) ** 2, rel=1e-15)
