"""Each optimiser goes PyTorch's way, for all its options, to rounding."""

import numpy as np
import pytest

import chainrule as cr
from tests.optim.twins import Twins

OPTIONS = {
    "SGD": [
        {},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        {"lr": 0.01, "momentum": 0.5, "maximize": True},
        {"lr": 0.01, "weight_decay": 0.3, "maximize": True},
    ],
    "Adam": [
        {},
        {"lr": 0.05, "betas": (0.5, 0.8), "eps": 1e-3},
        {"lr": 0.05, "weight_decay": 0.1},
        {"lr": 0.05, "weight_decay": 0.1, "amsgrad": True},
        {"lr": 0.01, "weight_decay": 0.1, "maximize": True},
        {"lr": 0.01, "betas": (0.0, 0.0)},
    ],
    "AdamW": [
        {},
        {"lr": 0.05, "weight_decay": 0.0},
        {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True},
        {"lr": 0.01, "weight_decay": 0.1, "maximize": True},
    ],
    "RMSprop": [
        {},
        {"lr": 0.05, "alpha": 0.5, "eps": 1e-3, "weight_decay": 0.1},
        {"momentum": 0.9, "weight_decay": 0.1},
        {"momentum": 0.5, "centered": True, "maximize": True},
    ],
    "Adagrad": [
        {},
        {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.3},
        {"lr": 0.1, "weight_decay": 0.1, "eps": 1e-3, "maximize": True},
    ],
}
CASES = [pytest.param(name, options, id=f"{name} {options}") for name, many in OPTIONS.items() for options in many]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_hundred_steps_are_pytorchs(name, options):
    twins = Twins(name, options)
    for _ in range(100):
        twins.step()
    assert twins.distance() < 1e-12


@pytest.mark.parametrize("name", OPTIONS)
def test_float32_stays_float32_and_near(name):
    twins = Twins(name, {"lr": np.float64(0.01), "weight_decay": np.float64(0.1)}, dtype=np.float32)
    for group in twins.opt.param_groups:
        group["lr"] = np.float64(0.01)  # as a schedule of the user's may set it
    for _ in range(100):
        twins.step()
    assert twins.distance() < 2e-5
    for states in twins.opt.state_dict()["state"].values():
        assert all(array.dtype == np.float32 for name, array in states.items() if name != "step")


@pytest.mark.parametrize("name", OPTIONS)
def test_two_groups_with_options_of_their_own(name):
    groups = [([0, 3], {"lr": 0.1}), ([1, 2, 4, 5], {"weight_decay": 0.2})]
    twins = Twins(name, {"lr": 0.01}, groups=groups)
    for k in range(100):
        for optimizer in (twins.opt, twins.peer):
            optimizer.param_groups[1]["lr"] = 0.01 / (k + 1)
        twins.step()
    assert twins.distance() < 1e-12


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "dampening": 0.5}])
def test_parameters_without_a_gradient_stay_and_so_does_their_state(name, options):
    if options and name != "SGD":
        pytest.skip("an option of SGD")
    twins = Twins(name, {"lr": 0.02, "weight_decay": 0.1, **options})
    before = [p.data.copy() for p in twins.ours]
    for k in range(100):
        twins.step(without=(0, 3) if k < 3 else (1,) if k % 7 == 0 else ())
        if k < 3:
            assert np.array_equal(twins.ours[0].data, before[0])
            assert np.array_equal(twins.ours[3].data, before[3])
    assert twins.distance() < 1e-12


def test_a_centred_variance_that_rounds_below_zero_does_no_harm():
    """PyTorch takes the root of g² - g·g, which rounds to a little below zero for equal gradients, and goes to NaN."""
    w = cr.tensor(np.ones(1000, np.float32), requires_grad=True)
    opt = cr.optim.RMSprop([w], lr=1e-9, centered=True, alpha=0.5)
    for _ in range(60):
        w.grad = np.linspace(0.01, 10.0, 1000, dtype=np.float32)
        opt.step()
    assert np.isfinite(w.data).all()
