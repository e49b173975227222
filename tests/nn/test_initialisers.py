"""Values to start from: their distributions, against PyTorch's bounds and closed forms."""

from math import inf, pi, sqrt

import numpy as np
import pytest
from scipy import stats

import chainrule as cr
from chainrule import nn
from chainrule.errors import ArgumentError, DTypeError, ShapeError, StaleGraphError
from chainrule.nn import init
from tests.oracle.peers import peer

SHAPE = (60, 20, 3, 5)  # fan_in 300, fan_out 900
UNIFORM = [
    (lambda w, g: init.uniform_(w, -2.0, 3.0, generator=g), (-2.0, 3.0)),
    (lambda w, g: init.xavier_uniform_(w, 2.0, generator=g), (-2 * sqrt(6 / 1200), 2 * sqrt(6 / 1200))),
    (lambda w, g: init.kaiming_uniform_(w, generator=g), (-sqrt(6 / 300), sqrt(6 / 300))),
    (lambda w, g: init.kaiming_uniform_(w, sqrt(5), generator=g), (-sqrt(1 / 300), sqrt(1 / 300))),
    (
        lambda w, g: init.kaiming_uniform_(w, mode="fan_out", nonlinearity="linear", generator=g),
        (-sqrt(3 / 900), sqrt(3 / 900)),
    ),
]
NORMAL = [
    (lambda w, g: init.normal_(w, 1.0, 0.5, generator=g), (1.0, 0.5)),
    (lambda w, g: init.xavier_normal_(w, generator=g), (0.0, sqrt(2 / 1200))),
    (lambda w, g: init.kaiming_normal_(w, nonlinearity="relu", generator=g), (0.0, sqrt(2 / 300))),
    (lambda w, g: init.kaiming_normal_(w, mode="fan_out", nonlinearity="tanh", generator=g), (0.0, 5 / 3 / sqrt(900))),
]


def made(fill, shape=SHAPE, dtype=None, seed=0):
    w = nn.parameter(shape, dtype)
    memory = w.data
    assert fill(w, cr.random.generator(seed)) is w
    assert w.data is memory
    assert w.requires_grad
    return w.data


@pytest.mark.parametrize("case", range(len(UNIFORM)))
def test_uniform(case):
    fill, (low, high) = UNIFORM[case]
    assert stats.kstest(made(fill).ravel(), stats.uniform(low, high - low).cdf).pvalue > 1e-3


@pytest.mark.parametrize("case", range(len(NORMAL)))
def test_normal(case):
    fill, (mean, std) = NORMAL[case]
    assert stats.kstest(made(fill).ravel(), stats.norm(mean, std).cdf).pvalue > 1e-3


def test_constants():
    assert made(lambda w, _: init.zeros_(w)).any() == False  # noqa: E712 - an array's
    assert (made(lambda w, _: init.ones_(w)) == 1).all()
    assert (made(lambda w, _: init.constant_(w, 2.5)) == 2.5).all()
    assert init.constant_(np.empty(2), 3.0).tolist() == [3.0, 3.0]  # a buffer


@pytest.mark.parametrize(
    ("mean", "std", "a", "b"),
    [(0.0, 1.0, -2.0, 2.0), (1.0, 0.02, 0.99, 1.0), (0.0, 1.0, 5.0, inf), (0.0, 1.0, -inf, -3.0), (2.0, 3.0, -1.0, 50.0),
     (0.0, 1.0, -inf, inf), (0.0, 0.1, 3.0, 3.001)],
)  # fmt: skip
def test_truncated_normal(mean, std, a, b):
    values = made(lambda w, g: init.trunc_normal_(w, mean, std, a, b, generator=g), (2000,))
    assert values.min() >= a
    assert values.max() <= b
    wanted = stats.truncnorm((a - mean) / std, (b - mean) / std, mean, std)
    assert stats.kstest(values, wanted.cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_truncated_normal_stays_between_its_bounds_when_rounded(dtype):
    values = made(lambda w, g: init.trunc_normal_(w, 0.0, 0.02, -0.04, 0.04, generator=g), (5000,), dtype)
    assert values.dtype == dtype
    assert np.abs(values).max() <= dtype(0.04)


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 2, 3), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_orthogonal(shape, dtype):
    values = made(lambda w, g: init.orthogonal_(w, 3.0, generator=g), shape, dtype)
    m = values.reshape(shape[0], -1).astype(float) / 3.0
    m = m if m.shape[0] <= m.shape[1] else m.T
    np.testing.assert_allclose(m @ m.T, np.eye(len(m)), atol=5 * len(m) * float(np.finfo(dtype).eps))


def test_orthogonal_matrices_are_evenly_distributed():
    """Without the signs of the diagonal, LAPACK's q would have a first entry that is never positive."""
    rotations = [made(lambda w, g: init.orthogonal_(w, generator=g), (2, 2), seed=seed) for seed in range(200)]
    angles = [np.arctan2(m[1, 0], m[0, 0]) for m in rotations]
    assert stats.kstest(angles, stats.uniform(-pi, 2 * pi).cdf).pvalue > 1e-3
    assert 60 < sum(np.linalg.det(m) > 0 for m in rotations) < 140


@pytest.mark.parametrize(
    "name", ["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu", "conv2d", "conv_transpose1d"]
)
def test_gains_are_those_of_pytorch(name):
    torch = peer("torch")
    assert init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name), rel=1e-15)
    assert init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)


def test_the_generator_fixes_everything():
    for fill, _ in [*UNIFORM, *NORMAL, (lambda w, g: init.trunc_normal_(w, generator=g), ())]:
        assert np.array_equal(made(fill, (30, 20), seed=1), made(fill, (30, 20), seed=1))
        assert not np.array_equal(made(fill, (30, 20), seed=1), made(fill, (30, 20), seed=2))
    with cr.random.use(cr.random.generator(1)):
        assert np.array_equal(
            init.normal_(nn.parameter(5)).data, made(lambda w, g: init.normal_(w, generator=g), 5, seed=1)
        )


def test_filling_is_a_write_that_a_graph_notices():
    w = init.ones_(nn.parameter(2))
    y = (w * w).sum()
    init.zeros_(w)
    with pytest.raises(StaleGraphError):
        y.backward()


def test_apply_fills_a_model():
    model = nn.Sequential(nn.Linear(2, 3), cr.tanh, nn.Sequential(nn.Linear(3, 1)))
    model.apply(lambda m: init.constant_(m.weight, 0.5) if isinstance(m, nn.Linear) else None)
    assert [set(m.weight.data.ravel()) for m in (model[0], model[2][0])] == [{0.5}, {0.5}]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: init.normal_([1.0]), DTypeError, "normal_: only a tensor or an array of floating numbers"),
        (lambda: init.zeros_(cr.tensor([1, 2])), DTypeError, r"i64\[2\]"),
        (lambda: init.xavier_normal_(nn.parameter(3)), ShapeError, "a fan needs two axes"),
        (lambda: init.orthogonal_(nn.parameter(3)), ShapeError, "two axes"),
        (lambda: init.kaiming_normal_(nn.parameter((2, 2)), mode="fan"), ArgumentError, "no mode 'fan'"),
        (lambda: init.kaiming_normal_(nn.parameter((2, 2)), nonlinearity="gel"), ArgumentError, "no gain for 'gel'"),
        (lambda: init.trunc_normal_(nn.parameter(2), a=1.0, b=1.0), ArgumentError, "between these bounds"),
        (lambda: init.trunc_normal_(nn.parameter(2), std=0.0), ArgumentError, "between these bounds"),
        (lambda: init.normal_(nn.parameter(2), std=-1.0), ArgumentError, "negative standard deviation"),
        (lambda: nn.parameter(2, int), DTypeError, "not floating"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
