"""A step runs on abstract arrays, without a branch on a value, and the equations that it leaves do what the step does."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import SideEffectError
from tests.optim.traced import place, places, run_traced

OPTIONS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("Lion", {"lr": 0.1, "weight_decay": 0.1}),
    ("Muon", {"lr": 0.1}),
]
CASES = [pytest.param(name, options, id=f"{name} {options}") for name, options in OPTIONS]
SHAPES = [(3, 2), (2,), (), (150, 120)]


def trained(name, options, dtype, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [s for s in SHAPES if len(s) == 2] if name == "Muon" else SHAPES
    ps = [cr.tensor(np.asarray(rng.normal(size=shape), dtype), requires_grad=True) for shape in shapes]
    return ps, getattr(cr.optim, name)(ps, **options)


def give_gradients(ps, seed):
    rng = np.random.default_rng(seed)
    for p in ps:
        p.grad = np.asarray(rng.normal(size=p.shape), p.dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_traced_step_does_what_the_step_does(name, options, dtype):
    ps, opt = trained(name, options, dtype)
    qs, twin = trained(name, options, dtype)
    for k in range(5):
        give_gradients(ps, k)
        give_gradients(qs, k)
        opt.step()
        run_traced(twin.step, places(twin))
        for p, q in zip(ps, qs, strict=True):
            np.testing.assert_allclose(p.data, q.data, rtol=30 * np.finfo(dtype).eps, atol=30 * np.finfo(dtype).eps)
    assert [unit.state["step"].item() for unit in twin._units[0] if "step" in unit.state] == [
        5.0 for unit in twin._units[0] if "step" in unit.state
    ]


def test_a_rate_may_be_traced_too():
    ps, opt = trained("AdamW", {"lr": 0.1}, np.float32)
    qs, twin = trained("AdamW", {"lr": 0.1}, np.float32)
    for k, lr in enumerate((0.1, 0.05, 0.02)):
        give_gradients(ps, k)
        give_gradients(qs, k)
        opt.param_groups[0]["lr"] = lr
        twin.param_groups[0]["lr"] = np.array(lr)
        opt.step()
        run_traced(twin.step, [*places(twin), place(twin.param_groups[0], "lr")])
    for p, q in zip(ps, qs, strict=True):
        assert q.dtype == np.float32
        np.testing.assert_allclose(p.data, q.data, rtol=1e-5, atol=1e-6)


def test_parameters_that_part_in_a_trace_are_told_so():
    ps, opt = trained("Adam", {}, np.float64)
    give_gradients(ps, 0)
    ps[1].grad = None
    found = [(get, put) for get, put in places(opt) if get() is not None]
    with pytest.raises(SideEffectError, match="outside the trace"):
        run_traced(opt.step, found)


def test_parameters_that_parted_before_are_traced_apart():
    ps, opt = trained("Adam", {"lr": 0.1}, np.float64)
    qs, twin = trained("Adam", {"lr": 0.1}, np.float64)
    for k in range(4):
        for tensors in (ps, qs):
            give_gradients(tensors, k)
            if k % 2 == 0:
                tensors[1].grad = None
        opt.step()
        if k:
            run_traced(twin.step, [(get, put) for get, put in places(twin) if get() is not None])
        else:
            twin.step()
    for p, q in zip(ps, qs, strict=True):
        np.testing.assert_allclose(p.data, q.data, rtol=1e-14, atol=1e-14)


SCHEDULES = [
    lambda opt: cr.optim.ConstantLR(opt, 0.5, 3),
    lambda opt: cr.optim.LinearLR(opt, 0.25, total_iters=3),
    lambda opt: cr.optim.StepLR(opt, 2, 0.5),
    lambda opt: cr.optim.MultiStepLR(opt, [2, 2, 5], 0.5),
    lambda opt: cr.optim.ExponentialLR(opt, 0.9),
    lambda opt: cr.optim.PolynomialLR(opt, 5, 2.0),
    lambda opt: cr.optim.LambdaLR(opt, lambda n: 1.0 / (n + 1)),
    lambda opt: cr.optim.MultiplicativeLR(opt, lambda n: 1.0 / (n + 1)),
    lambda opt: cr.optim.CosineAnnealingLR(opt, 3, 0.01),
    lambda opt: cr.optim.CosineAnnealingWarmRestarts(opt, 2, 2),
    lambda opt: cr.optim.OneCycleLR(opt, 1.0, total_steps=9, three_phase=True),
    lambda opt: cr.optim.SequentialLR(
        opt,
        [cr.optim.ConstantLR(opt, 0.5, 3), cr.optim.OneCycleLR(opt, 1.0, 9), cr.optim.ExponentialLR(opt, 0.9)],
        [2, 5],
    ),
    lambda opt: cr.optim.ChainedScheduler([cr.optim.ConstantLR(opt, 0.5, 3), cr.optim.ExponentialLR(opt, 0.9)]),
]


def counts(schedule):
    found = [place(schedule, name) for name in ("last_epoch", "T_cur", "T_i") if hasattr(schedule, name)]
    return found + [pair for part in getattr(schedule, "schedulers", ()) for pair in counts(part)]


@pytest.mark.parametrize("make", SCHEDULES)
def test_a_traced_schedule_gives_the_same_rates(make):
    _, opt = trained("SGD", {"lr": 0.5, "momentum": 0.5}, np.float64)
    _, twin = trained("SGD", {"lr": 0.5, "momentum": 0.5}, np.float64)
    schedule, traced = make(opt), make(twin)
    group = twin.param_groups[0]
    for _ in range(8):

        def step():
            traced.step()
            return {name: group[name] for name in ("lr", "momentum")}

        schedule.step()
        # what the trace left in the group is a box; the compiler puts the number in its place, as here
        group.update({name: float(value) for name, value in run_traced(step, counts(traced)).items()})
        for name in ("lr", "momentum"):
            assert group[name] == pytest.approx(opt.param_groups[0][name], rel=1e-13, abs=1e-16)


def test_clipping_is_traced():
    for norm in (2.0, 3.0, float("inf")):
        ps, _ = trained("SGD", {}, np.float64)
        qs, twin = trained("SGD", {}, np.float64)
        give_gradients(ps, 0)
        give_gradients(qs, 0)
        total = cr.optim.clip_grad_norm_(ps, 1.0, norm)
        cr.optim.clip_grad_value_(ps, 0.01)

        def clip(qs=qs, norm=norm):
            total = cr.optim.clip_grad_norm_(qs, 1.0, norm)
            cr.optim.clip_grad_value_(qs, 0.01)
            return {"total": total}

        found = run_traced(clip, [pair for pair in places(twin) if pair[0]() is not None])
        assert found["total"] == pytest.approx(total, rel=1e-13)
        for p, q in zip(ps, qs, strict=True):
            np.testing.assert_allclose(p.grad, q.grad, rtol=1e-13)


@pytest.mark.parametrize("warmup", [False, True])
@pytest.mark.parametrize("kind", ["ExponentialMovingAverage", "AveragedWeights"])
def test_averages_are_traced(kind, warmup):
    if warmup and kind == "AveragedWeights":
        pytest.skip("an option of the other")
    more = {"decay": 0.9, "warmup": warmup} if kind == "ExponentialMovingAverage" else {}
    ps, _ = trained("SGD", {}, np.float32)
    eager, twin = getattr(cr.optim, kind)(ps, **more), getattr(cr.optim, kind)(ps, **more)
    for k in range(12):
        for p in ps:
            p.data[...] += k
        eager.update()
        averages = [item_of(twin.averages, i) for i in range(len(ps))]
        run_traced(twin.update, [place(twin, "n_averaged"), *averages])
    for a, b in zip(eager.averages, twin.averages, strict=True):
        assert b.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-6)


def item_of(items, i):
    return lambda: items[i], lambda value: items.__setitem__(i, value)
