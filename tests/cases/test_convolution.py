"""N: convolution, pooling, normalisation."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn


# ---------------------------------------------------------------- N1
def test_n1_stride_leaves_a_remainder():
    x = cr.zeros((1, 1, 6, 6), requires_grad=True)
    nn.conv2d(x, cr.ones((1, 1, 3, 3)), stride=2).sum().backward()
    one, two = [1, 1, 2, 1, 1, 0], [2, 2, 4, 2, 2, 0]
    assert x.grad[0, 0].tolist() == [one, one, two, one, one, [0] * 6]


@pytest.mark.parametrize("size", range(3, 12))
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_n1_every_remainder(size, stride, dilation):
    """The gradient of a sum says how often each entry was read, which a loop counts; pooling has the same windows."""
    reach = 2 * dilation + 1
    if size < reach:
        return
    read = np.zeros(size)
    for start in range(0, size - reach + 1, stride):
        read[start : start + reach : dilation] += 1
    x = cr.ones((2, 1, size), requires_grad=True)
    (g,) = cr.gradients(nn.conv1d(x, cr.ones((1, 1, 3)), stride=stride, dilation=dilation).sum(), [x])
    assert g.tolist() == [[read.tolist()]] * 2
    (g,) = cr.gradients(nn.max_pool1d(x, 3, stride, dilation=dilation).sum() * 3.0, [x])  # all tie: a third each
    np.testing.assert_allclose(g, [[read]] * 2, rtol=1e-14)
    if dilation == 1:
        (g,) = cr.gradients(nn.avg_pool1d(x, 3, stride).sum() * 3.0, [x])
        np.testing.assert_allclose(g, [[read]] * 2, rtol=1e-14)


# ---------------------------------------------------------------- N3
@pytest.mark.parametrize("dtype", [float, np.float32, int, np.int8])
def test_n3_maximum_of_negatives_with_padding(dtype):
    x = np.full((1, 1, 3, 3), -1, dtype)
    for y in (nn.max_pool2d(x, 3, 1, 1), nn.max_pool2d(cr.tensor(x), 3, 1, 1).data, nn.MaxPool2d(3, 1, 1)(x)):
        assert y.dtype == dtype
        assert (y == -1).all()
        assert y.shape == x.shape


def test_n3_padding_takes_no_share():
    x = cr.tensor(np.full((1, 1, 4), -1.0), requires_grad=True)
    nn.max_pool1d(x, 2, 2, 1).sum().backward()
    assert x.grad.tolist() == [[[1.0, 0.5, 0.5, 1.0]]]


# ---------------------------------------------------------------- N5
@pytest.mark.parametrize("momentum", [0.1, 0.25])
def test_n5_biased_in_the_output_unbiased_in_the_estimate(momentum):
    channel = np.arange(1.0, 5.0) + np.arange(4.0)[:, None]
    layer = nn.BatchNorm2d(3, momentum=momentum)
    y = layer(np.broadcast_to(channel, (1, 3, 4, 4)))
    np.testing.assert_allclose(y.data[0, 1, 0], [-1.897363, -1.264909, -0.632454, 0.0], atol=1e-6)
    np.testing.assert_allclose(layer.running_var, 1 - momentum + momentum * 2.666667, rtol=1e-6)
    np.testing.assert_allclose(layer.running_mean, 4.0 * momentum)
    assert layer.num_batches_tracked == 1
