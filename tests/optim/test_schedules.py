"""Each schedule gives PyTorch's rates, for two groups that begin with different ones, over more steps than it has."""

import copy
import json

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, ChainruleError, DTypeError
from tests.oracle.peers import peer

torch = peer("torch")
BEGIN = (0.5, 0.03)


def optimizer(lib, kind="SGD", **options):
    ps = [lib.tensor(np.ones(2), requires_grad=True) for _ in BEGIN]
    return getattr(lib.optim, kind)([{"params": [p], "lr": lr} for p, lr in zip(ps, BEGIN, strict=True)], **options)


SCHEDULES = {
    "constant": lambda s, o: s.ConstantLR(o, factor=0.3, total_iters=7),
    "constant from the start": lambda s, o: s.ConstantLR(o, 0.5, 0),
    "linear": lambda s, o: s.LinearLR(o, start_factor=0.2, end_factor=0.7, total_iters=30),
    "linear down": lambda s, o: s.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=40),
    "linear as it is": lambda s, o: s.LinearLR(o),
    "step": lambda s, o: s.StepLR(o, 7, 0.6),
    "steps": lambda s, o: s.MultiStepLR(o, [40, 3, 9, 9], 0.5),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.97),
    "polynomial": lambda s, o: s.PolynomialLR(o, 60, 2.5),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 50, 0.001),
    "cosine, odd": lambda s, o: s.CosineAnnealingLR(o, 37),
    "cosine of one step": lambda s, o: s.CosineAnnealingLR(o, 1),
    "lambda": lambda s, o: s.LambdaLR(o, [lambda n: 1 / (1 + n), lambda n: 0.9**n]),
    "one lambda": lambda s, o: s.LambdaLR(o, lambda n: 0.9**n),
    "one lambda of NumPy": lambda s, o: s.LambdaLR(o, lambda n: np.exp(-0.1 * n)),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda n: 0.95 + 0.01 * (n % 2)),
    "warm restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 1, 2, 0.01),
    "equal restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 7),
    "warm-up, then others": lambda s, o: s.SequentialLR(
        o,
        [
            s.LinearLR(o, 0.1, total_iters=10),
            s.CosineAnnealingLR(o, 40, 1e-3),
            s.StepLR(o, 3, 0.5),
            s.CosineAnnealingWarmRestarts(o, 5, 2),
        ],
        [10, 50, 70],
    ),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.LinearLR(o, 0.1, total_iters=10), s.CosineAnnealingLR(o, 40, 1e-3), s.ExponentialLR(o, 0.99)]
    ),
    "one cycle": lambda s, o: s.OneCycleLR(o, [1.0, 0.2], total_steps=110),
    "one cycle, momentum": lambda s, o: s.OneCycleLR(
        o, 1.0, total_steps=110, base_momentum=[0.5, 0.6], max_momentum=0.9
    ),
    "one cycle, three phases": lambda s, o: s.OneCycleLR(o, 1.0, epochs=11, steps_per_epoch=10, three_phase=True),
    "one cycle, lines": lambda s, o: s.OneCycleLR(
        o, 1.0, 110, pct_start=0.4, anneal_strategy="linear", div_factor=10.0, final_div_factor=100.0
    ),
    "one cycle without a rise": lambda s, o: s.OneCycleLR(o, 1.0, 110, pct_start=0.0, cycle_momentum=False),
}


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_rates_are_pytorchs(name, kind):
    options = {"momentum": 0.9} if kind == "SGD" else {}
    ours, theirs = optimizer(cr, kind, **options), optimizer(torch, kind, **options)
    schedule = SCHEDULES[name](cr.optim.lr_scheduler, ours)
    peer_schedule = SCHEDULES[name](torch.optim.lr_scheduler, theirs)
    seen = set()
    for _ in range(110):
        for mine, other in zip(ours.param_groups, theirs.param_groups, strict=True):
            assert type(mine["lr"]) is float
            assert mine["lr"] == pytest.approx(other["lr"], rel=1e-12, abs=1e-17)
            for key in {"momentum", "betas"} & set(mine):
                assert mine[key] == pytest.approx(other[key], rel=1e-12)
            seen.add(mine["lr"])
        assert schedule.get_last_lr() == [group["lr"] for group in ours.param_groups]
        theirs.step()
        schedule.step()
        peer_schedule.step()
    assert len(seen) >= 2


def test_a_place_between_two_epochs():
    ours, theirs = optimizer(cr), optimizer(torch)
    for t_mult in (1, 3):
        schedule = cr.optim.CosineAnnealingWarmRestarts(ours, 4, t_mult, 0.01)
        peer_schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(theirs, 4, t_mult, 0.01)
        for epoch in (0.0, 0.25, 3.9, 4, 4.5, 16.5, 70.25, 12):
            schedule.step(epoch)
            theirs.step()
            peer_schedule.step(epoch)
            assert schedule.get_last_lr() == pytest.approx([g["lr"] for g in theirs.param_groups], rel=1e-12)
        schedule.step()
        peer_schedule.step()
        assert schedule.get_last_lr() == pytest.approx([g["lr"] for g in theirs.param_groups], rel=1e-12)


def test_a_restart_falls_on_its_step_exactly():
    """PyTorch, which finds a place by logarithms, misses some: that at 121 for T_0=1, T_mult=3."""
    opt = optimizer(cr)
    for factor in (2, 3, 10):
        schedule = cr.optim.CosineAnnealingWarmRestarts(opt, 1, factor)
        for k in range(10):
            schedule.step((factor**k - 1) // (factor - 1))
            assert schedule.get_last_lr() == list(BEGIN)


def test_a_rate_that_a_user_changed_stays_changed():
    opt = optimizer(cr)
    schedule = cr.optim.ExponentialLR(opt, 0.5)
    opt.param_groups[0]["lr"] = 8.0
    schedule.step()
    assert opt.param_groups[0]["lr"] == 4.0


def test_one_cycle_ends():
    opt = optimizer(cr, momentum=0.9)
    schedule = cr.optim.OneCycleLR(opt, 1.0, total_steps=3)
    for _ in range(3):
        schedule.step()
    before = schedule.get_last_lr()
    with pytest.raises(ArgumentError, match="over"):
        schedule.step()
    assert (schedule.get_last_lr(), int(schedule.last_epoch)) == (before, 3)


@pytest.mark.parametrize("when", [0, 5, 12, 31])
@pytest.mark.parametrize("first", ["optimizer", "schedule"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_resumed_exactly(name, first, when):
    options = {"momentum": 0.9}
    opt = optimizer(cr, **options)
    schedule = SCHEDULES[name](cr.optim.lr_scheduler, opt)
    for _ in range(when):
        schedule.step()
    state, opt_state = copy.deepcopy(schedule.state_dict()), opt.state_dict()
    assert_plain(state)
    again = optimizer(cr, **options)
    if first == "optimizer":
        again.load_state_dict(opt_state)
    resumed = SCHEDULES[name](cr.optim.lr_scheduler, again)
    if first == "schedule":
        again.load_state_dict(opt_state)
    resumed.load_state_dict(state)
    for _ in range(60):
        for mine, other in zip(again.param_groups, opt.param_groups, strict=True):
            assert (mine["lr"], mine["momentum"]) == (other["lr"], other["momentum"])
        schedule.step()
        resumed.step()


def assert_plain(state):
    """Arrays and JSON values."""
    if isinstance(state, dict):
        for value in state.values():
            assert_plain(value)
    elif isinstance(state, list):
        for value in state:
            assert_plain(value)
    elif not isinstance(state, np.ndarray):
        json.dumps(state)


def test_counts_are_arrays_that_stay():
    opt = optimizer(cr)
    schedule = cr.optim.CosineAnnealingWarmRestarts(opt, 2)
    arrays = [schedule.last_epoch, schedule.T_cur, schedule.T_i]
    for _ in range(3):
        schedule.step()
    schedule.load_state_dict(schedule.state_dict())
    assert [schedule.last_epoch, schedule.T_cur, schedule.T_i] == [3, 1.0, 2.0]
    assert all(a is b for a, b in zip(arrays, [schedule.last_epoch, schedule.T_cur, schedule.T_i], strict=True))


def test_a_saved_part_that_does_not_fit_changes_nothing():
    opt = optimizer(cr)
    make = SCHEDULES["warm-up, then others"]
    schedule = make(cr.optim, opt)
    for _ in range(12):
        schedule.step()
    saved = schedule.state_dict()
    for _ in range(3):
        schedule.step()
    before = repr(schedule.state_dict())
    del saved["_schedulers"][3]["T_cur"]
    for spoiled in (saved, {**saved, "_schedulers": []}, {}, {"last_epoch": 3}):
        with pytest.raises(ArgumentError):
            schedule.load_state_dict(spoiled)
    assert repr(schedule.state_dict()) == before


def test_groups_that_came_later_are_noticed():
    opt = optimizer(cr)
    schedule = cr.optim.ExponentialLR(opt, 0.5)
    opt.add_param_group({"params": [cr.tensor(1.0, requires_grad=True)]})
    with pytest.raises(ArgumentError, match="groups were added"):
        schedule.step()
    assert schedule.last_epoch == 0


def test_going_on_from_a_step():
    """As PyTorch's: the groups know their first rates, and the schedule the step."""
    opt, other = optimizer(cr), optimizer(cr)
    whole = cr.optim.CosineAnnealingWarmRestarts(opt, 3, 2)
    for group in other.param_groups:
        group["initial_lr"] = group["lr"]
    part = cr.optim.CosineAnnealingWarmRestarts(other, 3, 2, last_epoch=9)
    for _ in range(10):
        whole.step()
    assert part.get_last_lr() == whole.get_last_lr()
    with pytest.raises(ArgumentError, match="initial_lr"):
        cr.optim.StepLR(optimizer(cr), 2, last_epoch=4)


REFUSED = [
    lambda o: cr.optim.StepLR(o, 0),
    lambda o: cr.optim.StepLR(o, 2.5),
    lambda o: cr.optim.ExponentialLR(o, float("nan")),
    lambda o: cr.optim.LinearLR(o, start_factor=0.0),
    lambda o: cr.optim.LinearLR(o, end_factor=1.5),
    lambda o: cr.optim.ConstantLR(o, factor=-0.1),
    lambda o: cr.optim.MultiStepLR(o, [-1]),
    lambda o: cr.optim.CosineAnnealingLR(o, 0),
    lambda o: cr.optim.CosineAnnealingWarmRestarts(o, 0),
    lambda o: cr.optim.CosineAnnealingWarmRestarts(o, 1, 0),
    lambda o: cr.optim.CosineAnnealingWarmRestarts(o, 1).step(-1.0),
    lambda o: cr.optim.OneCycleLR(o, 1.0),
    lambda o: cr.optim.OneCycleLR(o, 1.0, total_steps=0),
    lambda o: cr.optim.OneCycleLR(o, 1.0, total_steps=9, pct_start=1.5),
    lambda o: cr.optim.OneCycleLR(o, 1.0, total_steps=9, anneal_strategy="steps"),
    lambda o: cr.optim.OneCycleLR(o, [1.0], total_steps=9),
    lambda o: cr.optim.LambdaLR(o, [lambda n: 1.0]),
    lambda o: cr.optim.SequentialLR(o, [], []),
    lambda o: cr.optim.SequentialLR(o, [cr.optim.ExponentialLR(o, 0.9)], [3]),
    lambda o: cr.optim.SequentialLR(o, [cr.optim.ExponentialLR(o, 0.9)] * 3, [5, 3]),
    lambda o: cr.optim.SequentialLR(o, [cr.optim.ExponentialLR(optimizer(cr), 0.9)] * 2, [3]),
    lambda o: cr.optim.ChainedScheduler([]),
    lambda o: cr.optim.ChainedScheduler([cr.optim.ExponentialLR(o, 0.9)], optimizer(cr)),
    lambda o: cr.optim.ChainedScheduler([o]),
]


@pytest.mark.parametrize("make", REFUSED)
def test_what_cannot_be_is_refused(make):
    with pytest.raises(ChainruleError):
        make(optimizer(cr, momentum=0.9))


@pytest.mark.parametrize("make", [cr.optim.ExponentialLR, cr.optim.LambdaLR, cr.optim.OneCycleLR])
def test_a_schedule_needs_an_optimiser(make):
    with pytest.raises(DTypeError, match="optimiser"):
        make([cr.tensor(1.0)], 0.5, **({"total_steps": 3} if make is cr.optim.OneCycleLR else {}))


def test_one_cycle_without_a_momentum_to_cycle():
    w = cr.tensor([1.0], requires_grad=True)
    with pytest.raises(ArgumentError, match="cycle_momentum=False"):
        cr.optim.OneCycleLR(cr.optim.Adagrad([w]), 1.0, total_steps=5)
