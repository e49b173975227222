"""Losses beside PyTorch's, with random options, and what PyTorch leaves undefined or lets through."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import ArgumentError, IndexingError, ShapeError
from tests.nn.beside_torch import compare
from tests.oracle.peers import peer

REDUCTIONS = ("mean", "sum", "none")


def functional():
    return peer("torch").nn.functional


# ---------------------------------------------------------------- of classes
@pytest.mark.parametrize("seed", range(60))
def test_cross_entropy(seed):
    torch, rng = peer("torch"), np.random.default_rng(seed)
    count, more = int(rng.integers(1, 6)), [(), (3,), (2, 2)][rng.integers(3)]
    front = () if seed % 10 == 0 else (int(rng.integers(1, 5)),)
    shape = (*front, count, *more) if front else (count,)
    x, rest = rng.normal(size=shape) * 3, shape[:1] + shape[2:] if front else ()
    options = {"reduction": REDUCTIONS[seed % 3], "label_smoothing": [0.0, 0.1][rng.integers(2)]}
    weight = rng.uniform(0.5, 2.0, count) if rng.random() < 0.5 else None
    if rng.random() < 0.3:
        target = np.moveaxis(rng.dirichlet(np.ones(count), rest), -1, min(1, len(rest)))
    else:
        options["ignore_index"] = int([-100, 0, -1, 255][rng.integers(4)])
        target = np.where(rng.random(rest) < 0.3, options["ignore_index"], rng.integers(0, count, rest))
        target.reshape(-1)[:1] = count - 1  # of nothing but ignored rows PyTorch makes NaN
        options["ignore_index"] = -100 if options["ignore_index"] == count - 1 else options["ignore_index"]
    w = None if weight is None else torch.tensor(weight)
    compare(
        lambda a: nn.cross_entropy(a, target, weight, **options),
        lambda a: functional().cross_entropy(a, torch.tensor(target), w, **options),
        [x],
        seed,
    )


@pytest.mark.parametrize("seed", range(12))
def test_nll_loss(seed):
    torch, rng = peer("torch"), np.random.default_rng(seed)
    shape = (4, 3, *[(), (2,)][seed % 2])
    target = rng.integers(0, 3, (4, *shape[2:]))
    target[0] = [-100, 1][rng.integers(2)]
    weight = rng.uniform(0.5, 2.0, 3) if rng.random() < 0.5 else None
    reduction = REDUCTIONS[seed % 3]
    w = None if weight is None else torch.tensor(weight)
    compare(
        lambda a: nn.nll_loss(a, target, weight, reduction=reduction),
        lambda a: functional().nll_loss(a, torch.tensor(target), w, reduction=reduction),
        [rng.normal(size=shape)],
        seed,
    )


@pytest.mark.parametrize("seed", range(12))
def test_multi_margin_loss(seed):
    torch, rng = peer("torch"), np.random.default_rng(seed)
    x, target = (rng.normal(size=(5, 4)), rng.integers(0, 4, 5)) if seed % 4 else (rng.normal(size=4), np.array(2))
    weight = rng.uniform(0.5, 2.0, 4) if rng.random() < 0.5 else None
    options = {"p": 1 + seed % 2, "margin": float(rng.uniform(0.5, 2.0)), "reduction": REDUCTIONS[seed % 3]}
    w = None if weight is None else torch.tensor(weight)
    compare(
        lambda a: nn.multi_margin_loss(a, target, weight=weight, **options),
        lambda a: functional().multi_margin_loss(a, torch.tensor(target), weight=w, **options),
        [x],
        seed,
        second=False,  # PyTorch has none
    )


def test_cross_entropy_of_probabilities_differentiates_the_target_too():
    rng = np.random.default_rng(3)
    compare(
        lambda a, t: nn.cross_entropy(a, t),
        lambda a, t: functional().cross_entropy(a, t),
        [rng.normal(size=(4, 3)), rng.dirichlet(np.ones(3), 4)],
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_cross_entropy_gives_p_minus_y(dtype):
    """B5: to the last bit, against softmax; float16 computes in float32."""
    rng = np.random.default_rng(4)
    x, target = (rng.normal(size=(40, 7)) * 4).astype(dtype), rng.integers(0, 7, 40)
    leaf = cr.tensor(x, requires_grad=True)
    nn.cross_entropy(leaf, target, reduction="sum").backward()
    wide = x.astype(np.float32) if dtype == np.float16 else x
    expected = cr.softmax(wide)
    expected[np.arange(40), target] -= 1
    assert leaf.grad.dtype == dtype
    np.testing.assert_array_equal(leaf.grad, expected.astype(dtype))


def test_cross_entropy_of_large_logits_neither_overflows_nor_loses_small_losses():
    loss = nn.cross_entropy(cr.tensor([[1e4, -1e4], [0.0, 30.0]]), [0, 1], reduction="none")
    np.testing.assert_allclose(loss.data, [0.0, np.exp(-30)], atol=1e-15)
    assert nn.cross_entropy(np.array([[1e4, -1e4]]), [1]) == 2e4


@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 3.0]])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("loss", [nn.cross_entropy, nn.nll_loss])
def test_where_every_row_is_ignored_the_mean_is_zero(loss, weight, smoothing):
    """PyTorch divides by zero."""
    more = {"label_smoothing": smoothing} if loss is nn.cross_entropy else {}
    x = cr.tensor(np.ones((2, 3)), requires_grad=True)
    value = loss(x, [-100, -100], weight, **more)
    value.backward()
    assert value.item() == 0.0
    assert x.grad.tolist() == [[0.0] * 3] * 2
    nothing = cr.tensor(np.ones((0, 3)), requires_grad=True)
    assert loss(nothing, np.zeros(0, int), weight, **more).item() == 0.0


def test_what_an_ignored_row_holds_does_not_matter():
    x = cr.tensor([[1.0, 2.0], [np.nan, np.inf]], requires_grad=True)
    w = cr.tensor(2.0, requires_grad=True)
    with np.errstate(invalid="ignore"):  # NumPy remarks on inf - inf
        loss = nn.cross_entropy(x * w, [0, -100])
    loss.backward()
    assert x.grad[1].tolist() == [0.0, 0.0]
    assert np.isfinite([loss.item(), w.grad]).all()


def test_indices_are_recorded_as_they_were():
    target = np.array([0, 1])
    x = cr.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    loss = nn.cross_entropy(x, target, reduction="sum")
    target[:] = 1
    loss.backward()
    assert x.grad[0, 0] < 0 < x.grad[0, 1]


@pytest.mark.parametrize("target", [[0, 2], (0, 2), np.array([0, 2], np.uint8), cr.asarray([0, 2])])
def test_class_indices_of_any_kind(target):
    assert nn.cross_entropy(cr.zeros((2, 4)), target).item() == pytest.approx(np.log(4))


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ([0, 1, 5], IndexingError),
        ([0, -1, 2], IndexingError),
        ([[0], [1], [2]], ShapeError),
        ([0, 1], ShapeError),
        ([0.0, 1.0, 2.0], ShapeError),
        ([True, False, True], IndexingError),
    ],
)
def test_targets_that_are_refused(target, error):
    with pytest.raises(error):
        nn.cross_entropy(cr.zeros((3, 4)), target)


# ---------------------------------------------------------------- of two arrays
PAIRS = {
    "mse_loss": {},
    "l1_loss": {},
    "huber_loss": {"delta": 0.7},
    "smooth_l1_loss": {"beta": 0.7},
    "binary_cross_entropy_with_logits": {},
    "kl_div": {"log_target": False},
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")  # PyTorch's own remark on kl_div
def test_of_two_arrays(name, reduction):
    rng = np.random.default_rng(5)
    target = rng.uniform(0.1, 0.9, (4, 3)) if name in ("binary_cross_entropy_with_logits", "kl_div") else None
    arrays = [rng.normal(size=(4, 3)), rng.normal(size=(4, 3)) if target is None else target]
    ours, theirs = getattr(nn, name), getattr(functional(), name)
    compare(
        lambda a, b: ours(a, b, reduction=reduction, **PAIRS[name]),
        lambda a, b: theirs(a, b, reduction=reduction, **PAIRS[name]),
        arrays,
    )


def test_bce_with_weights():
    torch, rng = peer("torch"), np.random.default_rng(6)
    weight, pos_weight = rng.uniform(0.5, 2.0, (4, 1)), rng.uniform(0.5, 2.0, 3)
    target = rng.integers(0, 2, (4, 3))
    compare(
        lambda a: nn.binary_cross_entropy_with_logits(a, target, weight, pos_weight=pos_weight),
        lambda a: functional().binary_cross_entropy_with_logits(
            a, torch.tensor(target).double(), torch.tensor(weight), pos_weight=torch.tensor(pos_weight)
        ),
        [rng.normal(size=(4, 3))],
    )


def test_bce_is_exact_at_large_logits():
    x = np.array([-40.0, 40.0, 1000.0, -1000.0])
    loss = nn.binary_cross_entropy_with_logits(x, [0, 1, 0, 1], reduction="none")
    np.testing.assert_allclose(loss, [np.exp(-40), np.exp(-40), 1000.0, 1000.0], rtol=1e-15)


@pytest.mark.parametrize("reduction", ["batchmean", "sum"])
def test_kl_div_of_logarithms(reduction):
    rng = np.random.default_rng(7)
    a, b = np.log(rng.dirichlet(np.ones(3), (2, 4)))
    compare(
        lambda x, y: nn.kl_div(x, y, reduction, log_target=True),
        lambda x, y: functional().kl_div(x, y, reduction=reduction, log_target=True),
        [a, b],
    )


def test_kl_div_where_the_target_has_no_mass():
    x = cr.tensor(np.log([0.5, 0.5]), requires_grad=True)
    nn.kl_div(x, [1.0, 0.0], reduction="sum").backward()
    assert x.grad.tolist() == [-1.0, 0.0]
    assert nn.kl_div(np.array([0.0, -np.inf]), [1.0, 0.0], reduction="sum") == 0.0


def test_hinge_loss():
    x = np.array([0.5, 2.0, -1.0, 0.2])
    t = cr.tensor(x, requires_grad=True)
    y = np.array([1, 1, -1, -1])
    nn.hinge_loss(t, y).backward()
    assert nn.hinge_loss(x, y) == pytest.approx(np.mean([0.5, 0.0, 0.0, 1.2]), rel=1e-15)
    assert t.grad.tolist() == [-0.25, 0.0, 0.0, 0.25]


def test_huber_is_smooth_at_zero():
    """|d| is not."""
    assert cr.hessian(lambda d: nn.huber_loss(d, np.zeros(1)))(np.zeros(1)).tolist() == [[1.0]]


@pytest.mark.parametrize("name", [*PAIRS, "hinge_loss"])
def test_shapes_never_broadcast_and_integers_take_the_dtype_of_the_input(name):
    loss = getattr(nn, name)
    with pytest.raises(ShapeError):
        loss(cr.ones((3, 1)), np.ones(3))
    assert loss(np.ones(3, np.float32), [1, 1, 1]).dtype == np.float32
    with pytest.raises(ArgumentError):
        loss(np.ones(3), np.ones(3), reduction="average")


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_numbers_of_numpy_do_not_promote(dtype):
    x, half = np.zeros((2, 3), dtype), np.float64(0.5)
    assert nn.huber_loss(x, x, delta=half).dtype == dtype
    assert nn.smooth_l1_loss(x, x, beta=half).dtype == dtype
    assert nn.hinge_loss(x, x, margin=half).dtype == dtype
    assert nn.multi_margin_loss(x, [0, 1], margin=half).dtype == dtype


def test_gradients_of_cross_entropies_that_are_open_at_once_do_not_meet():
    """Few logits that were met last keep their exponentials for the gradient; those before them are computed again."""
    rng = np.random.default_rng(7)
    target = rng.integers(0, 5, 9)
    leaves = [cr.tensor(rng.normal(size=(9, 5)), requires_grad=True) for _ in range(3)]
    losses = [nn.cross_entropy(leaf, target) for leaf in leaves]
    expected = [(cr.softmax(leaf.data) - np.eye(5)[target]) / 9 for leaf in leaves]
    for k in (1, 2, 0):
        losses[k].backward(retain_graph=True)
        losses[k].backward()
        np.testing.assert_allclose(leaves[k].grad, 2 * expected[k], rtol=1e-13)


def test_logits_written_in_place_after_the_gradient_are_met_anew():
    x = cr.tensor([[1.0, 2.0], [0.5, -1.0]], requires_grad=True)
    for _ in range(2):
        x.grad = None
        nn.cross_entropy(x, [0, 1], reduction="sum").backward()
        np.testing.assert_allclose(x.grad, cr.softmax(x.data) - np.eye(2), rtol=1e-13)
        with cr.no_grad():
            x -= 3.0 * x.grad
