"""Batch normalisation beside PyTorch's, its running estimates, and what it refuses."""

import copy

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import ArgumentError, ShapeError
from chainrule.ops import batch_norm
from tests.nn import twins
from tests.nn.beside_torch import agree, compare
from tests.nn.twins import Twin
from tests.oracle.peers import peer

RNG = np.random.default_rng(0)
SHAPES = [(5, 3), (4, 3, 7), (2, 3, 4, 5), (2, 3, 2, 2, 3), (1, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("piece", [1, 64, 1 << 19])
def test_training(shape, affine, piece, monkeypatch):
    """One row at a time, a few, or all."""
    monkeypatch.setattr(batch_norm, "_PIECE", piece)
    torch = peer("torch").nn.functional
    arrays = [RNG.normal(1.0, 2.0, size=shape), *[RNG.normal(size=3) for _ in range(2 * affine)]]
    compare(
        lambda x, *of: nn.batch_norm(x, None, None, *of, training=True, eps=0.1) ** 2,
        lambda x, *of: torch.batch_norm(x, None, None, *of, training=True, eps=0.1) ** 2,
        arrays,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_evaluation(shape):
    torch = peer("torch")
    mean, var = RNG.normal(size=3), RNG.uniform(0.5, 2.0, size=3)
    compare(
        lambda x, *of: nn.batch_norm(x, mean, var, *of) ** 2,
        lambda x, *of: torch.nn.functional.batch_norm(x, torch.tensor(mean), torch.tensor(var), *of) ** 2,
        [RNG.normal(size=shape), RNG.normal(size=3), RNG.normal(size=3)],
    )


def test_third_order_and_forward_mode():
    x, w, b = RNG.normal(size=(3, 2, 2)), RNG.normal(size=2), RNG.normal(size=2)
    f = lambda x: (nn.batch_norm(x, None, None, w, b, training=True, eps=0.1) ** 3).sum()
    v = RNG.normal(size=x.shape)
    h = 1e-4
    along = lambda f, x: (f(x + h * v) - f(x - h * v)) / (2 * h)
    np.testing.assert_allclose(cr.jvp(f, (x,), (v,))[1], along(f, x), rtol=1e-6)
    np.testing.assert_allclose(cr.hvp(f, x, v), along(cr.grad(f), x), rtol=1e-5, atol=1e-6)
    third = cr.grad(lambda x: (cr.hvp(f, x, v) * v).sum())(x)
    np.testing.assert_allclose(third, along(lambda x: cr.hvp(f, x, v), x), rtol=1e-5, atol=1e-5)


def test_far_from_zero_and_long_sums_in_float32():
    """Mean 1,000, deviation 1: E[x²] - E[x]² would leave nothing of the variance."""
    x = RNG.normal(1000.0, 1.0, size=(64, 2, 32, 32)).astype(np.float32)
    y = nn.batch_norm(x, None, None, training=True)
    exact = (x - x.mean((0, 2, 3), keepdims=True, dtype=float)) / x.std((0, 2, 3), keepdims=True, dtype=float)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, exact, atol=2e-4)


def test_equal_entries_give_zeros_and_finite_gradients():
    x = cr.tensor(np.full((4, 2), 3.0), requires_grad=True)
    y = nn.batch_norm(x, None, None, training=True)
    assert not y.data.any()
    (g,) = cr.gradients((y**2).sum(), [x])
    assert not g.any()


@pytest.mark.parametrize("momentum", [0.1, 0.5, None])
@pytest.mark.parametrize("affine", [True, False])
def test_running_estimates_over_several_batches(momentum, affine):
    torch = peer("torch")
    ours, theirs = (
        nn.BatchNorm1d(3, momentum=momentum, affine=affine),
        torch.nn.BatchNorm1d(3, momentum=momentum, affine=affine).double(),
    )
    memory = ours.running_mean, ours.running_var, ours.num_batches_tracked
    for _ in range(3):
        x = RNG.normal(2.0, 3.0, size=(4, 3, 5))
        agree(ours(x), theirs(torch.tensor(x)), "training")
    now = ours.running_mean, ours.running_var, ours.num_batches_tracked
    assert all(a is b for a, b in zip(memory, now, strict=True))
    for name, value in theirs.named_buffers():
        agree(getattr(ours, name), value, name)
    x = RNG.normal(size=(4, 3))
    before = copy.deepcopy(ours.state_dict())
    agree(ours.eval()(x), theirs.eval()(torch.tensor(x)), "evaluation")
    assert all(np.array_equal(before[name], value) for name, value in ours.state_dict().items())


def test_without_running_estimates_a_batch_speaks_for_itself():
    layer = nn.BatchNorm1d(2, track_running_stats=False)
    assert list(layer.state_dict()) == ["weight", "bias"]
    x = RNG.normal(size=(5, 2))
    np.testing.assert_array_equal(layer(x).data, layer.eval()(x).data)


def test_gradient_reaches_what_came_before():
    """Through mean and variance: moving and scaling a whole channel changes nothing."""
    x = RNG.normal(size=(6, 2, 3))
    g = cr.grad(lambda x: (nn.batch_norm(x, None, None, training=True, eps=0.0) ** 3).sum())(x)
    np.testing.assert_allclose(g.sum((0, 2)), 0.0, atol=1e-12)
    np.testing.assert_allclose((g * x).sum((0, 2)), 0.0, atol=1e-11)


def both(name, *of, **how):
    return lambda dtype, generator: getattr(nn, name)(*of, dtype=dtype, **how), lambda t: getattr(t.nn, name)(
        *of, **how
    )


test_twins = twins.tests(
    Twin("BatchNorm1d", *both("BatchNorm1d", 3), [(5, 3)]),
    Twin("BatchNorm1d of sequences", *both("BatchNorm1d", 3, 0.01, 0.3), [(5, 3, 4)]),
    Twin("BatchNorm2d", *both("BatchNorm2d", 3), [(2, 3, 4, 5)]),
    Twin("BatchNorm2d cumulative", *both("BatchNorm2d", 3, momentum=None), [(2, 3, 4, 5)]),
    Twin("BatchNorm2d plain", *both("BatchNorm2d", 3, affine=False), [(2, 3, 4, 5)]),
    Twin("BatchNorm2d untracked", *both("BatchNorm2d", 3, track_running_stats=False), [(2, 3, 4, 5)]),
)  # fmt: skip


def test_a_network_of_all_of_them_trains():
    """Convolution, normalisation, pooling in one model, through state_dict and back."""
    with cr.set_default_dtype(np.float32):
        made = lambda seed: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, generator=cr.random.generator(seed)),
            nn.BatchNorm2d(4),
            cr.relu,
            nn.MaxPool2d(2),
        )
        model, other = made(0), made(1)
    x = RNG.normal(size=(8, 1, 6, 6)).astype(np.float32)
    loss = (model(x) ** 2).mean()
    loss.backward()
    assert {p.grad.dtype for p in model.parameters()} == {np.dtype(np.float32)}
    other.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(model.eval()(x).data, other.eval()(x).data)
    assert int(model[1].num_batches_tracked) == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.BatchNorm1d(3)(np.ones((1, 3))), ShapeError, "one value a channel has no variance"),
        (lambda: nn.BatchNorm2d(3)(np.ones((1, 3, 1, 1))), ShapeError, "a larger batch, or eval"),
        (lambda: nn.BatchNorm1d(3)(np.ones((4, 2))), ShapeError, r"2 channels.*expected \[n, 3, ...\]"),
        (lambda: nn.BatchNorm2d(3)(np.ones((4, 3))), ShapeError, "BatchNorm2d: the input has 2 axes.*expected 4"),
        (lambda: nn.BatchNorm1d(3)(np.ones((4, 3, 2, 2))), ShapeError, "expected 2 or 3"),
        (lambda: nn.BatchNorm1d(0), ArgumentError, "num_features"),
        (lambda: nn.batch_norm(np.ones((4, 3)), None, None), ArgumentError, "try training=True"),
        (lambda: nn.batch_norm(np.ones(4), None, None, training=True), ShapeError, "no axis of channels"),
        (lambda: nn.batch_norm(np.ones((4, 3)), np.ones(2), np.ones(3)), ShapeError, "running_mean has one number"),
        (lambda: nn.batch_norm(np.ones((4, 3)), None, None, np.ones(2), training=True), ShapeError, "weight has one"),
    ],
)  # fmt: skip
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_nothing_moves_where_it_refuses():
    layer = nn.BatchNorm1d(2)
    with pytest.raises(ShapeError):
        layer(np.ones((1, 2)))
    assert layer.num_batches_tracked == 0
    assert layer.running_var.tolist() == [1.0, 1.0]
