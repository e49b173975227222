"""O: decay, parameters that come twice, the first restart."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError

optim = cr.optim


def leaf(value):
    return cr.tensor(value, requires_grad=True)


# ---------------------------------------------------------------- O1
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_o1_coupled_or_decoupled_decay(dtype):
    """AdamW takes 1% off; Adam's decay is a gradient, so its first step is as long as the rate."""
    for make, expected in ((optim.AdamW, 0.99), (optim.Adam, 0.9)):
        w = leaf(np.array(1.0, dtype))
        opt = make([w], lr=0.1, weight_decay=0.1)
        (0.0 * w).backward()
        opt.step()
        assert w.item() == pytest.approx(expected, abs=1e-6)


def test_o1_decay_of_the_others_without_a_gradient():
    """By hand: SGD w - lr λ w; RMSprop lr √100 for α 0.99, Adagrad lr times the sign; Lion as AdamW."""
    for make, expected in (
        (lambda ps: optim.SGD(ps, lr=0.1, weight_decay=0.1), 0.99),
        (lambda ps: optim.RMSprop(ps, lr=0.01, weight_decay=0.1), 0.9),
        (lambda ps: optim.Adagrad(ps, lr=0.1, weight_decay=0.1), 0.9),
        (lambda ps: optim.Lion(ps, lr=0.1, weight_decay=0.1), 0.99),
    ):
        w = leaf(1.0)
        opt = make([w])
        w.grad = np.zeros(())
        opt.step()
        assert w.item() == pytest.approx(expected, abs=1e-6)


def test_o1_zero_decay_is_no_decay():
    runs = []
    for make in (optim.Adam, optim.AdamW):
        w = leaf([1.0, -2.0])
        opt = make([w], lr=0.1, weight_decay=0.0)
        for _ in range(5):
            opt.zero_grad()
            (w**4).sum().backward()
            opt.step()
        runs.append(w.tolist())
    assert runs[0] == runs[1]


# ---------------------------------------------------------------- O3
GROUPS = {
    "one group": lambda x: [x, x],
    "two groups": lambda x: [{"params": [x]}, {"params": [x]}],
    "within a second group": lambda x: [{"params": [leaf(0.0)]}, {"params": [x, x]}],
    "by two names": lambda x: [("head", x), ("embedding", x)],
}


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Lion])
@pytest.mark.parametrize("groups", GROUPS)
def test_o3_parameter_listed_twice(groups, make):
    x = leaf(0.0)
    with pytest.raises(ArgumentError, match="twice"):
        make(GROUPS[groups](x), lr=0.1)
    assert x.item() == 0.0


def test_o3_parameter_added_again():
    x = leaf(0.0)
    opt = optim.SGD([x], lr=0.1)
    with pytest.raises(ArgumentError, match="twice"):
        opt.add_param_group({"params": [x]})
    x.grad = np.ones(())
    opt.step()
    assert x.item() == -0.1


def test_o3_equal_values_are_not_one_parameter():
    x, y = leaf([0.0, 1.0]), leaf([0.0, 1.0])
    opt = optim.SGD([x, y], lr=0.1)
    x.grad = np.ones(2)
    opt.step()
    assert (x.tolist(), y.tolist()) == ([-0.1, 0.9], [0.0, 1.0])


# ---------------------------------------------------------------- O6
def test_o6_warm_restarts_from_the_first_step():
    opt = optim.SGD([leaf(0.0)], lr=0.5)
    schedule = optim.CosineAnnealingWarmRestarts(opt, T_0=1, T_mult=2)
    seen = []
    for _ in range(9):
        seen.append(opt.param_groups[0]["lr"])
        schedule.step()
    assert seen == pytest.approx([0.5, 0.5, 0.25, 0.5, 0.4268, 0.25, 0.0732, 0.5, 0.4810], abs=5e-5)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: optim.StepLR(o, 2, 0.5), [0.5, 0.5, 0.25, 0.25, 0.125]),
        (lambda o: optim.MultiStepLR(o, [1, 3], 0.5), [0.5, 0.25, 0.25, 0.125, 0.125]),
        (lambda o: optim.ExponentialLR(o, 0.5), [0.5, 0.25, 0.125, 0.0625, 0.03125]),
        (lambda o: optim.LinearLR(o, 0.5, total_iters=2), [0.25, 0.375, 0.5, 0.5, 0.5]),
        (lambda o: optim.ConstantLR(o, 0.5, 2), [0.25, 0.25, 0.5, 0.5, 0.5]),
        (lambda o: optim.CosineAnnealingLR(o, 2), [0.5, 0.25, 0.0, 0.25, 0.5]),
        (lambda o: optim.LambdaLR(o, lambda n: 1 + n), [0.5, 1.0, 1.5, 2.0, 2.5]),
        (lambda o: optim.PolynomialLR(o, 2), [0.5, 0.25, 0.0, 0.0, 0.0]),
    ],
)
def test_o6_no_schedule_has_an_extra_first_step(make, expected):
    opt = optim.SGD([leaf(0.0)], lr=0.5)
    schedule = make(opt)
    seen = []
    for _ in expected:
        seen.append(opt.param_groups[0]["lr"])
        schedule.step()
    assert seen == pytest.approx(expected, abs=1e-12)
