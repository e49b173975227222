"""W: values that overflowed and are then clamped, saturated or masked."""

import math

import numpy as np
import pytest

import chainrule as cr
from tests.cases.ways import derivatives_are, differences, second_differences

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # they overflow on purpose
INF = float("inf")


# ---------------------------------------------------------------- W5
def test_w5_clamp_of_an_overflowed_value():
    x = np.array([-5.0, 90.0, 1000.0])
    e = math.exp(-5.0)
    derivatives_are(lambda x: cr.clip(cr.exp(x), None, 1).sum(), x, [e, 0.0, 0.0], np.diag([e, 0.0, 0.0]))
    derivatives_are(lambda x: np.clip(cr.exp(x), None, 1).sum(), x, [e, 0.0, 0.0], np.diag([e, 0.0, 0.0]))
    derivatives_are(lambda x: cr.exp(x).clip(max=1.0).sum(), x, [e, 0.0, 0.0], np.diag([e, 0.0, 0.0]))
    assert e == pytest.approx(0.0067379, abs=1e-7)


MASKS = {
    "clip_above": (lambda y: cr.clip(y, None, 1.0), False),
    "clip_both": (lambda y: cr.clip(y, -1.0, 1.0), False),
    "minimum": (lambda y: cr.minimum(y, 1.0), False),
    "minimum_left": (lambda y: cr.minimum(1.0, y), False),
    "relu_of_the_negative": (lambda y: cr.relu(1.0 - y), False),
    "maximum_of_the_negative": (lambda y: cr.maximum(-y, -1.0), False),
    "min_with_a_row": (lambda y: cr.min(cr.stack([y, cr.ones_like(y)]), axis=0), False),
    "sort": (lambda y: cr.sort(cr.stack([y, cr.ones_like(y)]), axis=0)[0], False),
    "tanh": (cr.tanh, True),
    "sigmoid": (cr.sigmoid, True),
    "exp_of_the_negative": (lambda y: cr.exp(-y), True),
    "atan": (cr.atan, True),
    "reciprocal": (lambda y: 1.0 / (1.0 + y), True),
    "floor_of_inverse": (lambda y: cr.floor(1.0 / y), False),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("grower", ["exp", "expm1", "cosh", "exp_of_exp", "square_of_exp", "reciprocal"])
def test_w5_saturated_by_every_mask(mask, grower):
    """An infinite value that saturates: no gradient, no curvature, no NaN."""
    grow = {
        "exp": lambda x: cr.exp(x),
        "expm1": lambda x: cr.expm1(x),
        "cosh": lambda x: cr.cosh(x),
        "exp_of_exp": lambda x: cr.exp(cr.exp(x)),
        "square_of_exp": lambda x: cr.exp(x) ** 2,
        "reciprocal": lambda x: 1.0 / (x - 1000.0) ** 2,
    }[grower]
    saturate, _ = MASKS[mask]
    derivatives_are(lambda x: saturate(grow(x)).sum(), [1000.0, 1000.0], 0.0, 0.0)


def test_w5_softplus_written_out_with_a_threshold():
    x = np.array([-800.0, 0.0, 800.0])
    f = lambda x: cr.where(x > 20.0, x, cr.log(1.0 + cr.exp(x))).sum()
    derivatives_are(f, x, [0.0, 0.5, 1.0], np.diag([0.0, 0.25, 0.0]))


def test_w5_log_of_a_masked_probability():
    """Cross entropy with p log p, p = 0: where(p > 0, p * log(p), 0)."""
    p = np.array([0.0, 0.25, 0.75])
    f = lambda p: -cr.where(p > 0, p * cr.log(p), 0.0).sum()
    derivatives_are(f, p, [0.0, -1 - math.log(0.25), -1 - math.log(0.75)], np.diag([0.0, -4.0, -4 / 3]))


def test_w_masked_attention_rows():
    """-inf where masked, softmax, a weighted sum; one row masked entirely and left out of the loss."""
    scores = np.array([[0.5, 1.0, -0.5], [0.2, 0.1, 0.3]])
    mask = np.array([[True, True, False], [False, False, False]])
    values = np.array([1.0, -2.0, 3.0])
    f = lambda s: (cr.softmax(cr.where(mask, s, -INF), axis=1) * values).sum()
    row = lambda s: (np.exp(s) / np.exp(s).sum() * values[:2]).sum()
    first, second = np.zeros((2, 3)), np.zeros((6, 6))
    first[0, :2] = differences(row, scores[0, :2])
    second[:2, :2] = second_differences(row, scores[0, :2])
    derivatives_are(f, scores, first, second, rtol=1e-6, atol=1e-7)


def test_w_float32_and_float16_too():
    for dtype, far in ((np.float32, 200.0), (np.float16, 50.0)):
        x = np.array([far, -1.0], dtype)
        f = lambda a: cr.where(a <= 0, cr.exp(a), 1 + a).sum()
        want = np.array([1.0, math.exp(-1)])
        derivatives_are(f, x, want, np.diag([0.0, math.exp(-1)]), rtol=2e-3, atol=1e-3)
