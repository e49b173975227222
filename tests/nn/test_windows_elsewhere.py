"""Convolution, pooling and batch normalisation of another library's arrays, and of arrays without numbers."""

import array_api_strict as strict
import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.backends.abstract import Abstract
from chainrule.core.equations import tracing
from tests.laws.values import STRICT, strict_backend

RNG = np.random.default_rng(0)
X, W, B = RNG.normal(size=(2, 4, 6, 7)), RNG.normal(size=(6, 2, 3, 3)), RNG.normal(size=6)
CALLS = {
    "conv2d": (lambda x, w, b: nn.conv2d(x, w, b, 2, 1, 1, 2), (X, W, B)),
    "conv2d with a remainder": (lambda x, w: nn.conv2d(x, w, stride=3, groups=2), (X, W)),
    "conv1d": (lambda x, w: nn.conv1d(x, w, padding="same"), (X[0], RNG.normal(size=(2, 6, 3)))),
    "conv_transpose2d": (lambda x, w: nn.conv_transpose2d(x, w, None, 2, 1), (X, RNG.normal(size=(4, 3, 3, 3)))),
    "max_pool2d": (lambda x: nn.max_pool2d(x, 2), (X,)),
    "max_pool2d with padding": (lambda x: nn.max_pool2d(x, 3, 2, 1), (X,)),
    "avg_pool2d": (lambda x: nn.avg_pool2d(x, 2), (X,)),
    "avg_pool2d, counted": (lambda x: nn.avg_pool2d(x, 3, 2, 1, True, False), (X,)),
    "adaptive_avg_pool2d": (lambda x: nn.adaptive_avg_pool2d(x, (2, 3)), (X,)),
    "batch_norm": (lambda x, w, b: nn.batch_norm(x, None, None, w, b, True), (X, B[:4], B[2:])),
    "batch_norm, plain": (lambda x: nn.batch_norm(x, None, None, training=True), (X,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_another_library_computes_the_same(name):
    f, arrays = CALLS[name]
    ours = [cr.tensor(a, requires_grad=True) for a in arrays]
    y = f(*ours)
    expected = cr.gradients((y * y).sum(), ours)
    with strict_backend():
        theirs = [cr.asarray(strict.asarray(a)) for a in arrays]
        for t in theirs:
            t.requires_grad = True
        z = f(*theirs)
        np.testing.assert_allclose(np.asarray(z.data), y.data, rtol=1e-12, atol=1e-12)
        for g, h in zip(cr.gradients((z * z).sum(), theirs), expected, strict=True):
            assert type(g) is STRICT
            np.testing.assert_allclose(np.asarray(g), h, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", CALLS)
def test_arrays_without_numbers_have_the_same_types(name):
    f, arrays = CALLS[name]
    for dtype in (np.float64, np.float32):
        given = [a.astype(dtype) for a in arrays]
        with tracing():
            y = f(*[Abstract(a.shape, a.dtype) for a in given])
        assert (y.shape, y.dtype) == (f(*given).shape, dtype)
