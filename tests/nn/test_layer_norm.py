"""Layer and root-mean-square normalisation beside PyTorch's, and rows that are alone with their NaN."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from tests.nn.beside_torch import compare
from tests.oracle.peers import peer


@pytest.mark.parametrize("seed", range(24))
def test_beside_pytorch(seed):
    functional, rng = peer("torch").nn.functional, np.random.default_rng(seed)
    front = [(), (3,), (2, 3), (0,)][rng.integers(4)]
    over = [(5,), (2, 3), (1,)][rng.integers(3)]
    x = rng.normal(1.0, 2.0, (*front, *over))
    arrays = [x] + [rng.normal(size=over) for _ in range(rng.integers(3))]
    eps = [1e-5, 0.1][rng.integers(2)]
    if seed % 2:
        compare(
            lambda x, *w: nn.layer_norm(x, over, *w, eps=eps),
            lambda x, *w: functional.layer_norm(x, over, *w, eps=eps),
            arrays,
            seed,
        )
    else:
        compare(
            lambda x, *w: nn.rms_norm(x, over, *w, eps=eps),
            lambda x, *w: functional.rms_norm(x, over, *w, eps=eps),
            arrays[:2],
            seed,
        )


def test_eps_of_rms_norm():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4)).astype(np.float32) * np.float32(1e-4)
    torch = peer("torch")
    theirs = torch.nn.functional.rms_norm(torch.tensor(x), (4,)).numpy()
    np.testing.assert_allclose(nn.rms_norm(x, 4), theirs, rtol=1e-6)


@pytest.mark.parametrize("shape", [(700, 128), (3, 100_000), (70_000, 3)])
def test_more_than_a_tile(shape):
    """The same as row by row, and the weight's gradient as the sum over rows."""
    rng = np.random.default_rng(1)
    x, w, ct = rng.normal(size=shape), rng.normal(size=shape[1]), rng.normal(size=shape)
    a, b = cr.tensor(x, requires_grad=True), cr.tensor(w, requires_grad=True)
    y = nn.layer_norm(a, shape[1], b)
    y.backward(ct)
    d = x - x.mean(axis=1, keepdims=True)
    normal = d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y.data, normal * w, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(b.grad, (ct * normal).sum(axis=0), rtol=1e-9, atol=1e-9)
    k = shape[0] - 1
    alone = cr.tensor(x[k], requires_grad=True)
    nn.layer_norm(alone, shape[1], w).backward(ct[k])
    np.testing.assert_allclose(a.grad[k], alone.grad, rtol=1e-10, atol=1e-12)


def test_a_row_that_is_not_used_may_hold_nan():
    x, w = cr.tensor([[1.0, 2.0], [np.nan, np.inf]], requires_grad=True), cr.tensor([1.0, 2.0], requires_grad=True)
    with np.errstate(invalid="ignore"):
        y = nn.layer_norm(x * 1.0, 2, w)
        cr.where(np.array([[True], [False]]), y, 0.0).sum().backward()
    assert x.grad[1].tolist() == [0.0, 0.0]
    assert np.isfinite(x.grad).all()
    np.testing.assert_allclose(w.grad, [-1.0, 1.0], rtol=1e-4)


def test_float16_computes_in_float32():
    x = np.array([[300.0, 301.0, 500.0]], np.float16)
    y = nn.layer_norm(x, 3)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, nn.layer_norm(x.astype(float), 3), rtol=1e-3)
