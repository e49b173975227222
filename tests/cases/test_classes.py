"""S: softmax and the losses of classes."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import IndexingError
from tests.cases.ways import leaf, reverse_first

INF = float("inf")


# ---------------------------------------------------------------- S1
def masked(w, use):
    """Logits of weights that both rows share, the second row masked; the loss reads the first alone."""
    x = cr.reshape(w, (1, 2)) * np.ones((2, 2)) + np.array([[0.0, 0.0], [-INF, -INF]])
    return use(x)


def test_s1_softmax_of_a_row_that_is_masked():
    def f(w):
        return masked(w, lambda x: cr.softmax(x)[0, 0])

    p = np.array([1.0, np.e]) / (1.0 + np.e)
    both = p[0] * p[1]
    second = both * (p[1] - p[0]) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    reverse_first(f, [0.0, 1.0], [both, -both], second)
    assert cr.softmax(np.full((1, 2), -INF)).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: nn.cross_entropy(x, [0, -100]),
        lambda x: nn.cross_entropy(x, [0, 1], reduction="none")[0],
        lambda x: nn.cross_entropy(x, [0, -100], label_smoothing=1e-300),
        lambda x: -cr.log_softmax(x)[0, 0],
    ],
)
def test_s1_a_loss_that_leaves_the_masked_row_out(loss):
    p = np.array([1.0, np.e]) / (1.0 + np.e)
    second = p[0] * p[1] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    with np.errstate(invalid="ignore"):
        reverse_first(lambda w: masked(w, loss), [0.0, 1.0], [p[0] - 1.0, p[1]], second)


# ---------------------------------------------------------------- S3
@pytest.mark.parametrize("loss", [nn.cross_entropy, nn.nll_loss])
def test_s3_an_index_that_is_no_class(loss):
    with pytest.raises(IndexingError, match=r"class -4 at position 2 is not among the 5 classes.*0 to 4, or -1"):
        loss(leaf(np.zeros((3, 5))), [0, 1, -4], ignore_index=-1)
    with pytest.raises(IndexingError, match=r"class 255 at position 1 is not among the 3 classes"):
        loss(leaf(np.zeros((2, 3))), np.array([0, 255], np.uint8))
    with pytest.raises(IndexingError, match=r"class 3 at position \(1, 0\) is not among the 3 classes"):
        loss(leaf(np.zeros((2, 3, 2))), [[0, 1], [3, 9]])
    with pytest.raises(IndexingError, match="not among the 3 classes"):
        nn.multi_margin_loss(leaf(np.zeros((2, 3))), [0, -1])
