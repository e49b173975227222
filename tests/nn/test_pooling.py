"""Pooling beside PyTorch's, ties and padding beside what they mean, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule import nn
from chainrule.errors import ArgumentError, ShapeError
from tests.nn import twins
from tests.nn.beside_torch import compare
from tests.nn.twins import Twin
from tests.oracle.peers import peer

RNG = np.random.default_rng(0)


@st.composite
def settings_of_pooling(draw, ndim: int, largest: bool):
    """Shapes and keyword arguments that PyTorch takes."""
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(ndim))
    kernel = each(1, 4)
    how = {"kernel_size": kernel, "stride": draw(st.sampled_from([None, each(1, 5)])), "ceil_mode": draw(st.booleans())}
    dilation = each(1, 3) if largest else (1,) * ndim
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    how["padding"] = tuple(draw(st.integers(0, min(r, k) // 2)) for r, k in zip(reach, kernel, strict=True))
    if largest:
        how["dilation"] = dilation
    else:
        how["count_include_pad"] = draw(st.booleans())
        if ndim == 2:
            how["divisor_override"] = draw(st.sampled_from([None, 3]))
    size = tuple(max(1, r - 2 * p) + more for r, p, more in zip(reach, how["padding"], each(0, 6), strict=True))
    front = (draw(st.integers(1, 2)), 2) if draw(st.booleans()) else (2,)
    return (*front, *size), how


@pytest.mark.parametrize("name", ["max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d"])
def test_any_configuration(name):
    torch = peer("torch").nn.functional

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(settings_of_pooling(int(name[-2]), name.startswith("max")))
    def check(drawn):
        shape, how = drawn
        compare(
            lambda x: getattr(nn, name)(x, **how) ** 2,
            lambda x: getattr(torch, name)(x, **how) ** 2,
            [RNG.normal(size=shape)],
        )

    check()


@pytest.mark.parametrize("size", [(6, 8), (7, 5), (1, 9), (3, 3)])
@pytest.mark.parametrize("output", [1, 3, (2, 3), (5, 1)])
def test_adaptive(size, output):
    torch = peer("torch").nn.functional
    x = RNG.normal(size=(2, 3, *size))
    compare(lambda x: nn.adaptive_avg_pool2d(x, output) ** 2, lambda x: torch.adaptive_avg_pool2d(x, output) ** 2, [x])
    one = output if isinstance(output, int) else output[0]
    compare(lambda x: nn.adaptive_avg_pool1d(x, one) ** 2, lambda x: torch.adaptive_avg_pool1d(x, one) ** 2, [x[0]])


# ------------------------------------------------------------------------------------------------------------------ ties
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 1), (2, 3), (3, 2)])
def test_ties_share_evenly(kernel, stride, recorded):
    """Small integers tie all the time; a plain loop over windows says who gets what."""
    x = RNG.integers(0, 3, size=(2, 2, 7, 8)).astype(float)
    t = cr.tensor(x, requires_grad=True)
    y = nn.max_pool2d(t, kernel, stride)
    ct = RNG.normal(size=y.shape)
    (g,) = cr.gradients(y, [t], cotangent=cr.tensor(ct), create_graph=recorded)
    expected = np.zeros_like(x)
    for n, c, i, j in np.ndindex(y.shape):
        at = (n, c, slice(i * stride, i * stride + kernel), slice(j * stride, j * stride + kernel))
        won = x[at] == x[at].max()
        assert y[n, c, i, j].item() == x[at].max()
        expected[at] += won / won.sum() * ct[n, c, i, j]
    np.testing.assert_allclose(np.asarray(g.detach() if recorded else g), expected, rtol=1e-12, atol=1e-14)


def test_a_large_kernel_counts_its_winners_exactly():
    """300 that tie: more than a byte counts."""
    x = cr.tensor(np.zeros((1, 1, 15, 20), np.float32), requires_grad=True)
    nn.max_pool2d(x, (15, 20)).sum().backward()
    assert x.grad.dtype == np.float32
    np.testing.assert_allclose(x.grad, np.full((1, 1, 15, 20), 1 / 300, np.float32), rtol=1e-6)


def test_who_lost_gets_zero_whatever_arrives():
    """An infinite or undefined cotangent of one window goes to its winner alone."""
    x = cr.tensor([[[1.0, 2.0, 4.0, 3.0]]], requires_grad=True)
    for bad in (np.inf, np.nan):
        (g,) = cr.gradients(nn.max_pool1d(x, 2), [x], cotangent=cr.tensor([[[bad, 1.0]]]))
        np.testing.assert_array_equal(g, [[[0.0, bad, 1.0, 0.0]]])


def test_nan_is_seen_and_minus_infinity_is_a_value():
    assert np.isnan(nn.max_pool1d(np.array([[[1.0, np.nan, 2.0]]]), 3)).all()
    assert nn.max_pool1d(np.full((1, 1, 3), -np.inf), 3, padding=1).tolist() == [[[-np.inf]]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, bool, np.float16, np.float32])
def test_dtypes(dtype):
    x = np.array([[[0, 1, 1, 0, 1]]], dtype)
    y = nn.max_pool1d(x, 2, padding=1)
    assert (y.dtype, y.tolist()) == (np.dtype(dtype), [[[0, 1, 1]]])
    mean = nn.avg_pool1d(x, 2)
    assert mean.dtype == (dtype if np.dtype(dtype).kind == "f" else np.float64)
    assert mean.tolist() == [[[0.5, 0.5]]]


@pytest.mark.parametrize("batch", [0, 2])
def test_no_examples(batch):
    x = cr.tensor(np.ones((batch, 3, 4, 4)), requires_grad=True)
    for f in (nn.max_pool2d, nn.avg_pool2d):
        y = f(x, 2)
        assert y.shape == (batch, 3, 2, 2)
        assert cr.gradients(y.sum(), [x])[0].shape == x.shape


def test_whatever_the_memory_of_the_input():
    x = RNG.normal(size=(2, 3, 6, 7))
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    for f in (lambda x: nn.max_pool2d(x, 3, 2, 1), lambda x: nn.avg_pool2d(x, 3, 2, 1), lambda x: nn.max_pool2d(x, 2)):
        slope_of = cr.grad(lambda x, f=f: (f(x) ** 2).sum())
        expected, slope = f(x), slope_of(x)
        for same in (last, np.asfortranarray(x), x[:, :, ::-1].copy()[:, :, ::-1]):
            np.testing.assert_allclose(f(same), expected, rtol=1e-14)
            np.testing.assert_allclose(slope_of(same), slope, rtol=1e-14)


# --------------------------------------------------------------------------------------------------------------- layers
def both(name, *of, **how):
    """The same arguments for both sides; pooling has no parameters."""
    return lambda dtype, generator: getattr(nn, name)(*of, **how), lambda t: getattr(t.nn, name)(*of, **how)


test_twins = twins.tests(
    Twin("MaxPool1d", *both("MaxPool1d", 3, 2, 1), [(2, 3, 9)]),
    Twin("MaxPool2d", *both("MaxPool2d", 2), [(2, 3, 5, 6)]),
    Twin("MaxPool2d all", *both("MaxPool2d", (3, 2), (2, 1), (1, 0), (1, 2), ceil_mode=True), [(2, 3, 8, 7)]),
    Twin("AvgPool1d", *both("AvgPool1d", 3, 2, 1, True, False), [(2, 3, 8)]),
    Twin("AvgPool2d", *both("AvgPool2d", 2), [(2, 3, 5, 6)]),
    Twin("AvgPool2d all", *both("AvgPool2d", 3, 2, 1, True, False, 5), [(2, 3, 8, 7)]),
    Twin("AdaptiveAvgPool1d", *both("AdaptiveAvgPool1d", 3), [(2, 3, 7)]),
    Twin("AdaptiveAvgPool2d", *both("AdaptiveAvgPool2d", 1), [(2, 3, 5, 6)]),
)  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: nn.max_pool2d(x, 2, padding=2), ArgumentError, "more than half a kernel"),
        (lambda x: nn.avg_pool2d(x, 3, padding=2), ArgumentError, "more than half a kernel"),
        (lambda x: nn.max_pool2d(x, 6), ShapeError, "reaches over 6 entries along axis -2.*there are 5"),
        (lambda x: nn.max_pool2d(x, (2, 0)), ArgumentError, "bad kernel_size .2, 0."),
        (lambda x: nn.max_pool2d(x, 2, stride=1.5), ArgumentError, "bad stride 1.5"),
        (lambda x: nn.max_pool1d(x, 2), ShapeError, "4 axes.*expected .n, channels, length"),
        (lambda x: nn.avg_pool2d(x, 2, divisor_override=0), ArgumentError, "divisor_override is 0"),
        (lambda x: nn.adaptive_avg_pool2d(x, 0), ArgumentError, "bad output_size 0"),
        (lambda x: nn.MaxPool2d(7)(x), ShapeError, "MaxPool2d: the kernel reaches over 7"),
    ],
)  # fmt: skip
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call(np.ones((2, 3, 5, 5)))
