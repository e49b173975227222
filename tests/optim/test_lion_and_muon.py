"""Lion and Muon against their papers, written out in NumPy's float64; Muon also beside PyTorch's, which rounds to bfloat16."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ShapeError
from chainrule.optim.muon import orthogonalised
from tests.optim.twins import Twins

MATRICES = [(16, 40), (40, 16), (12, 12)]
QUINTIC = (3.4445, -4.775, 2.0315)


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("maximize", [False, True])
def test_lion_is_the_papers(decay, maximize):
    """Chen et al. (2023), algorithm 2: update, then interpolate for the next time."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(7, 5))
    w = cr.tensor(theta, requires_grad=True)
    opt = cr.optim.Lion([w], lr=0.01, betas=(0.8, 0.95), weight_decay=decay, maximize=maximize)
    m = np.zeros((7, 5))
    for _ in range(100):
        g = rng.normal(size=(7, 5))
        w.grad = g
        opt.step()
        g = -g if maximize else g
        c = 0.8 * m + 0.2 * g
        theta = theta - 0.01 * (np.where(c > 0, 1.0, np.where(c < 0, -1.0, 0.0)) + decay * theta)
        m = 0.95 * m + 0.05 * g
    np.testing.assert_allclose(w.data, theta, rtol=1e-12)


def test_lion_does_not_move_where_nothing_pulls():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    opt = cr.optim.Lion([w], lr=0.5)
    w.grad = np.array([0.0, 1.0])
    opt.step()
    assert w.tolist() == [1.0, 1.5]


def by_singular_values(u, steps):
    """The same polynomial, applied to the singular values by hand: the iteration changes nothing else."""
    left, sigma, right = np.linalg.svd(u, full_matrices=False)
    sigma = sigma / np.sqrt((sigma**2).sum())
    a, b, c = QUINTIC
    for _ in range(steps):
        sigma = a * sigma + b * sigma**3 + c * sigma**5
    return (left * sigma) @ right


@pytest.mark.parametrize("shape", MATRICES)
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("adjust", [None, "original", "match_rms_adamw"])
def test_muon_is_its_formula_on_singular_values(shape, nesterov, adjust):
    rng = np.random.default_rng(1)
    theta = rng.normal(size=shape)
    w = cr.tensor(theta, requires_grad=True)
    opt = cr.optim.Muon([w], lr=0.02, momentum=0.9, nesterov=nesterov, adjust_lr_fn=adjust)
    b = np.zeros(shape)
    rows, columns = shape
    ratio = 0.2 * np.sqrt(max(shape)) if adjust == "match_rms_adamw" else np.sqrt(max(1.0, rows / columns))
    for _ in range(30):
        g = rng.normal(size=shape)
        w.grad = g
        opt.step()
        b = 0.9 * b + 0.1 * g
        update = by_singular_values(0.9 * b + 0.1 * g if nesterov else b, 5)
        theta = theta * (1 - 0.02 * 0.1) - 0.02 * ratio * update
    np.testing.assert_allclose(w.data, theta, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw"}, {"momentum": 0.5, "weight_decay": 0.5}]
)
def test_muon_moves_with_pytorchs(options):
    twins = Twins("Muon", {"lr": 0.02, **options}, shapes=MATRICES, dtype=np.float32)
    start = [p.data.copy() for p in twins.ours]
    for _ in range(50):
        twins.step()
    for p, q, before in zip(twins.ours, twins.theirs, start, strict=True):
        theirs = q.detach().numpy()
        assert np.linalg.norm(p.data - theirs) < 0.02 * np.linalg.norm(theirs - before)


@pytest.mark.parametrize("shape", [*MATRICES, (1, 5), (5, 1), (0, 3), (3, 0)])
def test_singular_values_come_near_one(shape):
    u = np.random.default_rng(2).normal(size=shape)
    x = orthogonalised(u, QUINTIC, 5, 1e-7)
    assert x.shape == shape
    if 0 not in shape:
        sigma = np.linalg.svd(x, compute_uv=False)
        assert sigma.min() > 0.3
        assert sigma.max() < 1.3


def test_muon_leaves_a_matrix_without_pull_where_it_is():
    w = cr.tensor(np.eye(3), requires_grad=True)
    opt = cr.optim.Muon([w], lr=0.1, weight_decay=0.0)
    w.grad = np.zeros((3, 3))
    opt.step()
    assert np.array_equal(w.data, np.eye(3))


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2)])
def test_muon_trains_matrices_alone(shape):
    with pytest.raises(ShapeError, match="AdamW"):
        cr.optim.Muon([cr.tensor(np.ones(shape), requires_grad=True)])
