"""erf against the C library's, GELU and SiLU where formulas lose digits, and beside PyTorch's to second order."""

import math

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.ops import erf as module
from chainrule.ops.erf import erf
from tests.nn.beside_torch import compare
from tests.oracle.peers import peer

INF, NAN = np.inf, np.nan
POINTS = np.concatenate([np.linspace(-6.5, 6.5, 30011), np.logspace(-300, 0, 601), -np.logspace(-40, 0.5, 601)])


def units(dtype):
    """The largest error in units in the last place, on points that no formula treats apart and around where it does."""
    x = np.concatenate([POINTS, 1 + np.arange(-50, 50) * 1e-7, [1.0, -1.0, 6.0, 4.3]]).astype(dtype)
    x = x[np.abs(x) > np.finfo(dtype).tiny]
    exact = np.array([math.erf(v) for v in x.astype(float).tolist()])
    return (np.abs(erf(x) - exact) / np.spacing(np.abs(exact).astype(dtype))).max()


def test_units_in_the_last_place():
    assert units(np.float64) <= 2.0  # 1.1 against exact values; the C library's has its own error
    assert units(np.float32) <= 4.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_special_values(dtype):
    x = np.array([0.0, -0.0, INF, -INF, NAN, 7.0, -7.0, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal], dtype)
    y = erf(x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y[:8], np.array([0.0, 0.0, 1.0, -1.0, NAN, 1.0, -1.0, 1.0]))
    assert np.signbit(y[:2]).tolist() == [False, True]
    assert y[8] >= 0.0
    np.testing.assert_array_equal(erf(-POINTS.astype(dtype)), -erf(POINTS.astype(dtype)))


def test_arrays_of_more_than_a_tile():
    x = np.random.default_rng(0).normal(size=module._TILE // 8 * 2 + 17)
    pieces = np.concatenate([erf(x[:1000]), erf(x[1000:])])
    np.testing.assert_array_equal(erf(x), pieces)
    np.testing.assert_array_equal(nn.gelu(x), np.concatenate([nn.gelu(x[:1000]), nn.gelu(x[1000:])]))
    g = cr.grad(lambda x: nn.gelu(x).sum())(x)
    np.testing.assert_array_equal(g[:1000], cr.grad(lambda x: nn.gelu(x).sum())(x[:1000]))


def test_integers_become_float64():
    assert erf(np.array([0, 1])).tolist() == [0.0, pytest.approx(math.erf(1), rel=1e-15)]
    assert nn.gelu([0, 30]).tolist() == [0.0, 30.0]


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_beside_pytorch(approximate):
    x = np.concatenate([np.linspace(-8, 8, 41), [0.0, -0.0, 1e-30, 30.0, -30.0]])
    compare(
        lambda x: nn.gelu(x, approximate),
        lambda x: peer("torch").nn.functional.gelu(x, approximate=approximate),
        [x],
    )


def test_silu_beside_pytorch():
    compare(nn.silu, peer("torch").nn.functional.silu, [np.linspace(-30, 30, 41)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_slope_of_gelu_where_its_quotient_would_be_zero_by_zero(approximate, dtype):
    tiny = float(np.finfo(dtype).smallest_subnormal)
    x = np.array([0.0, -0.0, tiny, -tiny, 1e-30, -1e-30, 1e-36, 100.0, -100.0], dtype)
    g = cr.grad(lambda x: nn.gelu(x, approximate).sum())(x)
    np.testing.assert_allclose(g, [0.5] * 7 + [1.0, 0.0], rtol=1e-6, atol=1e-6)


def test_silu_keeps_small_values():
    x = np.array([-700.0, -30.0, 800.0, -800.0])
    np.testing.assert_allclose(nn.silu(x), [-700 * math.exp(-700), -30 / (1 + math.exp(30)), 800.0, 0.0], rtol=1e-14)
