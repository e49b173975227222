"""Rows of several loops, in some of which a value that is kept between passes does not change."""

import numpy as np
import pytest

import chainrule as cr


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 7)])
@pytest.mark.parametrize("times", [2, 3, 8])
def test_a_softmax_of_repeated_entries(shape, times):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)

    def f(x):
        return cr.softmax(cr.repeat(x, times, axis=0), axis=0) ** 2

    found = cr.jit(f, executor="native")(x)
    e = np.exp(np.repeat(x.astype(float), times, axis=0))
    assert np.allclose(found, (e / e.sum(axis=0)) ** 2, rtol=1e-5)
