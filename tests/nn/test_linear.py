"""`nn.linear` beside PyTorch's, whatever the rank."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from tests.nn.beside_torch import compare
from tests.oracle.peers import peer


@pytest.mark.parametrize("front", [(), (1,), (7,), (2, 5), (2, 3, 4), (0,), (2, 0)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_linear(front, with_bias):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(*front, 3)), rng.normal(size=(4, 3))] + [rng.normal(size=4)] * with_bias
    compare(nn.linear, peer("torch").nn.functional.linear, arrays)


def test_gradient_of_the_weight_lies_in_rows():
    """A transposed one would cost a copy wherever it meets the weight."""
    w = cr.ones((4, 3), requires_grad=True)
    (g,) = cr.gradients(nn.linear(cr.ones((5, 3)), w).sum(), [w])
    assert g.flags.c_contiguous
