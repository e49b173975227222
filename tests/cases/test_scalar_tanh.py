"""S5: functions of a scalar engine that overflow when they are written by exp."""

import math

import pytest

import chainrule as cr
from chainrule import scalar
from tests.cases.ways import derivatives_are


@pytest.mark.parametrize(("x", "value"), [(1000.0, 1.0), (-1000.0, -1.0), (1e308, 1.0), (-math.inf, -1.0)])
def test_s5_tanh_far_out(x, value):
    v = scalar.Value(x)
    y = v.tanh()
    y.backward()
    assert y.data == value
    assert v.grad == 0.0
    assert scalar.derivative(lambda v: v.tanh(), 2)(x) == 0.0
    derivatives_are(cr.tanh, x, 0.0, [[0.0]], value=value)


@pytest.mark.parametrize("x", [1000.0, -1000.0, 745.2, -745.2, 710.0, 36.0, -36.0, 0.0])
def test_s5_sigmoid_far_out_and_at_0(x):
    """s = 1 / (1 + exp(-x)), s' = exp(-|x|) / (1 + exp(-|x|))^2, s'' = -s' tanh(x/2)."""
    small = math.exp(-abs(x))
    slope = small / (1 + small) ** 2
    value = (1.0 if x > 0 else small) / (1 + small)
    v = scalar.Value(x)
    y = v.sigmoid()
    y.backward()
    assert y.data == pytest.approx(value, rel=1e-15)
    assert v.grad == pytest.approx(slope, rel=1e-12, abs=1e-16)
    assert scalar.derivative(lambda v: v.sigmoid(), 2)(x) == pytest.approx(
        -slope * math.tanh(x / 2), rel=1e-12, abs=1e-16
    )
    derivatives_are(cr.sigmoid, x, slope, [[-slope * math.tanh(x / 2)]], value=value, rtol=1e-12, atol=1e-16)


def test_s5_exp_overflows_to_infinity_as_ieee_says():
    v = scalar.Value(1000.0)
    y = v.exp()
    y.backward()
    assert y.data == v.grad == math.inf
    assert scalar.Value(-1000.0).exp().data == 0.0


@pytest.mark.parametrize("f", [
    lambda v: v.tanh(), lambda v: v.sigmoid(), lambda v: (v * 0.001).exp(), lambda v: v.relu(), lambda v: abs(v), lambda v: (v * v + 1e-3).log(),
    lambda v: v.sin() * v.cos(), lambda v: v**2, lambda v: v**-1,
])  # fmt: skip
@pytest.mark.parametrize("x", [1e3, -1e3, 0.5, -0.5, 1e-300])
def test_s5_both_engines_say_the_same(f, x):
    v = scalar.Value(x)
    y = f(v)
    y.backward()
    t = cr.tensor(x, requires_grad=True)
    z = f(t)
    z.backward()
    assert y.data == pytest.approx(z.item(), rel=1e-14)
    assert v.grad == pytest.approx(t.grad.item(), rel=1e-13, abs=1e-300)
