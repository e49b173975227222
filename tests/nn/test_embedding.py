"""Embedding: rows B8 and case X1, PyTorch's twin, what it refuses."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from tests.nn import twins
from tests.nn.twins import Twin

INDICES = np.array([[1, 4, 1], [0, 1, 2]])

test_twins = twins.tests(
    Twin("Embedding", lambda **how: nn.Embedding(5, 3, **how), lambda t: t.nn.Embedding(5, 3), [INDICES]),
    Twin("one index", lambda **how: nn.Embedding(5, 3, **how), lambda t: t.nn.Embedding(5, 3), [np.array(2)]),
    Twin("padding", lambda **how: nn.Embedding(5, 3, 1, **how), lambda t: t.nn.Embedding(5, 3, 1), [INDICES]),
    Twin("padding from the end", lambda **how: nn.Embedding(5, 3, -1, **how), lambda t: t.nn.Embedding(5, 3, -1), [INDICES]),
)  # fmt: skip


def test_a_row_that_is_read_twice_gets_both_gradients():
    """Case X1."""
    w = cr.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
    nn.embedding([0, 0, 2], w).sum().backward()
    assert w.grad.tolist() == [[2.0], [0.0], [1.0]]


@pytest.mark.parametrize("padding_idx", [None, 1])
def test_derivatives_of_every_order_and_mode(padding_idx):
    ct = np.random.default_rng(0).normal(size=(2, 3, 2))
    f = lambda w: (nn.embedding(INDICES, w, padding_idx) ** 3 * ct).sum()
    w = np.random.default_rng(1).normal(size=(5, 2))
    counted = np.zeros((5, 2))
    for index, row in zip(INDICES.ravel(), ct.reshape(-1, 2), strict=True):
        counted[index] += row * (index != padding_idx)
    np.testing.assert_allclose(cr.grad(f)(w), 3 * w**2 * counted, rtol=1e-13)
    np.testing.assert_allclose(cr.jvp(f, (w,), (w,))[1], (3 * w**3 * counted).sum(), rtol=1e-13)
    np.testing.assert_allclose(cr.hvp(f, w, np.ones_like(w)), 6 * w * counted, rtol=1e-13)


def test_the_row_of_padding_starts_at_zeros_and_stays():
    layer = nn.Embedding(4, 3, padding_idx=-2, generator=cr.random.generator(0))
    assert layer.padding_idx == 2
    assert layer.weight.data[2].tolist() == [0.0] * 3
    assert (np.delete(layer.weight.data, 2, 0) != 0).all()
    layer([2, 3]).sum().backward()
    assert layer.weight.grad[2].tolist() == [0.0] * 3
    assert layer.weight.grad[3].tolist() == [1.0] * 3


def test_starts_with_standard_normal_numbers():
    values = nn.Embedding(200, 50, generator=cr.random.generator(0)).weight.data
    assert values.mean() == pytest.approx(0.0, abs=0.03)
    assert values.std() == pytest.approx(1.0, rel=0.03)


def test_kinds_and_empty_indices():
    w = np.arange(6.0).reshape(3, 2)
    assert type(nn.embedding(INDICES[1], w)) is np.ndarray
    assert nn.embedding(cr.tensor([2, 0]), w).tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert nn.embedding(np.uint8(1), cr.tensor(w)).tolist() == [2.0, 3.0]
    assert nn.embedding(np.zeros((2, 0), int), w).shape == (2, 0, 2)
    assert nn.embedding([], w).shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.Embedding(10, 3)([[1, 2], [10, 3]]), IndexingError, r"index 10 at position \(1, 0\) .* 10 entries"),
        (lambda: nn.Embedding(10, 3)([-1]), IndexingError, r"index -1 at position \(0,\)"),
        (lambda: nn.Embedding(10, 3)(17), IndexingError, "index 17 is not among 10 entries"),
        (lambda: nn.Embedding(10, 3)([0.5]), DTypeError, "indices are integers"),
        (lambda: nn.Embedding(10, 3)([True]), DTypeError, "indices are integers"),
        (lambda: nn.embedding([0], np.ones(3)), ShapeError, "two axes"),
        (lambda: nn.Embedding(0, 3), ArgumentError, "num_embeddings"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), ArgumentError, "padding_idx 3 is not among 3"),
        (lambda: nn.embedding([0], np.ones((3, 1)), 0.5), ArgumentError, "padding_idx 0.5"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
