"""Clipping gives PyTorch's norms and gradients, and refuses what PyTorch lets pass."""

import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, ChainruleError, DTypeError
from tests.oracle.peers import peer

torch = peer("torch")
SHAPES = [(30, 20), (20,), (), (0, 3), (4, 5)]
INF = float("inf")


def leaves(dtype=np.float64, scale=1.0, seed=0):
    """Parameters with gradients, ours and PyTorch's; the last one has none."""
    rng = np.random.default_rng(seed)
    ours, theirs = [], []
    for shape in SHAPES:
        g = np.asarray(scale * rng.normal(size=shape), dtype)
        p, q = cr.tensor(np.ones(shape, dtype), requires_grad=True), torch.ones(shape, dtype=torch.tensor(g).dtype)
        q.requires_grad_(True)
        p.grad, q.grad = g, torch.tensor(g.copy())
        ours.append(p)
        theirs.append(q)
    ours[-1].grad = theirs[-1].grad = None
    return ours, theirs


def gradients_agree(ours, theirs, rtol):
    for p, q in zip(ours[:-1], theirs[:-1], strict=True):
        assert p.grad.dtype == q.grad.numpy().dtype
        np.testing.assert_allclose(p.grad, q.grad.numpy(), rtol=rtol)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("max_norm", [0.1, 1.0, 1e6, 0.0, INF])
@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.5, 0.5, INF, "inf", 2])
def test_norms_and_gradients_are_pytorchs(norm_type, max_norm, dtype):
    ours, theirs = leaves(dtype)
    before = [p.grad for p in ours]
    total = cr.optim.clip_grad_norm_(ours, max_norm, norm_type)
    expected = torch.nn.utils.clip_grad_norm_([q for q in theirs if q.numel()], max_norm, norm_type)
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    assert total.dtype == dtype
    assert total == pytest.approx(expected.item(), rel=rtol)
    gradients_agree(ours, theirs, rtol)
    assert all(p.grad is g for p, g in zip(ours, before, strict=True))  # in place


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("clip_value", [0.5, 0.0, 100.0, INF])
def test_values_are_pytorchs(clip_value, dtype):
    ours, theirs = leaves(dtype)
    ours[0].grad[0, :3] = np.nan, INF, -INF
    theirs[0].grad[0, :3] = torch.tensor([np.nan, INF, -INF])
    assert cr.optim.clip_grad_value_(ours, clip_value) is None
    torch.nn.utils.clip_grad_value_(theirs, clip_value)
    gradients_agree(ours, theirs, 0)


def test_a_limit_beyond_float32_clips_nothing():
    p = cr.tensor(np.ones(2, np.float32), requires_grad=True)
    p.grad = np.array([1e30, -1e30], np.float32)
    cr.optim.clip_grad_value_([p], 1e300)
    cr.optim.clip_grad_norm_([p], 1e300)
    assert p.grad.tolist() == [np.float32(1e30), np.float32(-1e30)]


def test_one_tensor_a_generator_and_nothing_to_clip():
    ours, _ = leaves()
    alone = cr.optim.clip_grad_norm_(ours[0], INF)
    assert alone == pytest.approx(np.linalg.norm(ours[0].grad), rel=1e-14)
    assert cr.optim.clip_grad_norm_((p for p in ours[:1]), INF) == alone
    assert cr.optim.clip_grad_norm_([ours[-1]], 1.0) == 0.0


def test_a_parameter_that_comes_twice_counts_once():
    w = cr.tensor([1.0, 1.0], requires_grad=True)
    w.grad = np.array([3.0, 4.0])
    assert cr.optim.clip_grad_norm_([w, w], 1.0) == 5.0
    np.testing.assert_allclose(w.grad, [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e25, 1e-30])
@pytest.mark.parametrize("norm_type", [2.0, 3.0])
def test_squares_that_overflow_or_vanish_do_no_harm(scale, norm_type):
    """float32 ends at 3e38; PyTorch gives an infinite norm, and with it zero gradients, or no norm at all."""
    p = cr.tensor(np.ones(2, np.float32), requires_grad=True)
    p.grad = np.array([3.0, 4.0], np.float32) * np.float32(scale)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total = cr.optim.clip_grad_norm_([p], 1.0, norm_type)
    expected = np.linalg.norm([3.0, 4.0], norm_type)
    assert total == pytest.approx(expected * scale, rel=1e-6)
    if scale > 1:
        np.testing.assert_allclose(p.grad, np.array([3.0, 4.0]) / expected, rtol=1e-6)


def test_half_precision():
    p = cr.tensor(np.ones(10_000, np.float16), requires_grad=True)
    p.grad = np.ones(10_000, np.float16)
    assert cr.optim.clip_grad_norm_([p], 1.0) == 100.0
    np.testing.assert_allclose(p.grad, 0.01, rtol=1e-3)


@pytest.mark.parametrize("bad", [np.nan, INF])
def test_a_norm_that_is_no_number(bad):
    for raises in (True, False):
        ours, theirs = leaves()
        ours[0].grad[0, 0] = bad
        theirs[0].grad[0, 0] = float(bad)
        before = [p.grad.copy() for p in ours[:-1]]
        if raises:
            with pytest.raises(ArgumentError, match="cannot be clipped"):
                cr.optim.clip_grad_norm_(ours, 1.0, error_if_nonfinite=True)
            assert all(np.array_equal(p.grad, g, equal_nan=True) for p, g in zip(ours[:-1], before, strict=True))
        else:
            total = cr.optim.clip_grad_norm_(ours, 1.0)
            expected = torch.nn.utils.clip_grad_norm_(theirs, 1.0)
            assert total == pytest.approx(expected.item(), nan_ok=True)
            gradients_agree(ours, theirs, 1e-12)


def test_measuring_alone_touches_nothing():
    ours, _ = leaves()
    ours[0].grad[0, 0] = INF
    before = [p.grad.copy() for p in ours[:-1]]
    assert cr.optim.clip_grad_norm_(ours, INF) == INF
    assert all(np.array_equal(p.grad, g) for p, g in zip(ours[:-1], before, strict=True))


@pytest.mark.parametrize("bad", [-1.0, float("nan"), None, "one", np.ones(2)])
def test_bad_limits_change_nothing(bad):
    ours, _ = leaves()
    before = [p.grad.copy() for p in ours[:-1]]
    for call in (
        lambda: cr.optim.clip_grad_norm_(ours, bad),
        lambda: cr.optim.clip_grad_norm_(ours, 1.0, bad),
        lambda: cr.optim.clip_grad_value_(ours, bad),
    ):
        with pytest.raises(ArgumentError):
            call()
    assert all(np.array_equal(p.grad, g) for p, g in zip(ours[:-1], before, strict=True))


def test_other_things_that_are_refused():
    ours, _ = leaves()
    with pytest.raises(ArgumentError, match="norm_type"):
        cr.optim.clip_grad_norm_(ours, 1.0, 0.0)
    with pytest.raises(ArgumentError, match="no parameters"):
        cr.optim.clip_grad_norm_(iter([]), 1.0)
    with pytest.raises(DTypeError, match="no tensor"):
        cr.optim.clip_grad_norm_([np.ones(2)], 1.0)
    ours[1].grad = np.ones(3)
    for call in (cr.optim.clip_grad_norm_, cr.optim.clip_grad_value_):
        before = ours[0].grad.copy()
        with pytest.raises(ChainruleError):
            call(ours, 1e-3)
        assert np.array_equal(ours[0].grad, before)


def test_any_layout():
    p = cr.tensor(np.ones((3, 4)), requires_grad=True)
    g = np.arange(24.0).reshape(4, 6)[:, ::2].T
    p.grad = g
    total = cr.optim.clip_grad_norm_([p], 1.0)
    assert total == pytest.approx(np.sqrt((np.arange(0.0, 24.0, 2.0) ** 2).sum()))
    np.testing.assert_allclose(np.linalg.norm(p.grad), 1.0, rtol=1e-6)
