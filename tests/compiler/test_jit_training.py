"""Whole training steps in ordinary eager code, compiled: parameters, states and gradients equal eager to the bit."""

import numpy as np
import pytest

import chainrule as cr
from tests.compiler.jitted import assert_equal, executor, jit  # noqa: F401
from tests.optim.test_traces import SCHEDULES

OPTIMISERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("Adam", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "amsgrad": True}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.5}),
    ("Lion", {"lr": 0.01}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
]


class Net(cr.nn.Module):
    def __init__(self, generator):
        self.first = cr.nn.Linear(3, 8, generator=generator)
        self.second = cr.nn.Linear(8, 4, generator=generator)

    def forward(self, x):
        return self.second(cr.tanh(self.first(x)))


def squares(z, y):
    d = z - y.reshape(-1, 1)
    return (d * d).mean()


def trainer(name, options, dtype, loss_of=squares):
    with cr.set_default_dtype(dtype):
        model = Net(cr.random.generator(0))
    opt = getattr(cr.optim, name)(model.parameters(), **options)

    def step(x, y):
        opt.zero_grad()
        loss = loss_of(model(cr.asarray(x)), y)
        loss.backward()
        opt.step()
        return loss

    return model, opt, step


def batches(dtype, count=6):
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(10, 3)).astype(dtype), rng.integers(0, 4, 10)) for _ in range(count)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "options"), OPTIMISERS, ids=[f"{n} {o}" for n, o in OPTIMISERS])
def test_a_training_step_equals_eager_to_the_bit(name, options, dtype):
    model, opt, eager = trainer(name, options, dtype)
    twin, twin_opt, step = trainer(name, options, dtype)
    compiled = jit(step)
    memory = [p.data for p in twin.parameters()]
    for x, y in batches(dtype):
        expected, found = eager(x, y), compiled(x, y)
        assert found.dtype == expected.dtype
        assert_equal(found.data, expected.data, dtype=dtype)
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            assert_equal(p.data, q.data)
            assert_equal(p.grad, q.grad)
    assert all(p.data is m for p, m in zip(twin.parameters(), memory, strict=True))
    ours, theirs = opt.state_dict(), twin_opt.state_dict()
    for k, state in ours["state"].items():
        for key, array in state.items():
            assert_equal(theirs["state"][k][key], array)
    assert compiled.stats()["compilations"] == 1, compiled.stats()
    assert compiled.stats()["eager"] == 0


def test_cross_entropy_equals_eager():
    """Its gradient is spelled otherwise on NumPy's arrays: equal to rounding."""
    model, _, eager = trainer("Adam", {"lr": 0.01}, np.float64, cr.nn.cross_entropy)
    twin, _, step = trainer("Adam", {"lr": 0.01}, np.float64, cr.nn.cross_entropy)
    compiled = jit(step)
    for x, y in batches(np.float64):
        assert compiled(x, y).item() == pytest.approx(eager(x, y).item(), rel=1e-12)
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            np.testing.assert_allclose(p.data, q.data, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("make", SCHEDULES)
def test_a_schedule_runs_along(make):
    rates = []
    for compile_it in (lambda f: f, jit):
        w = cr.tensor(np.ones(3), requires_grad=True)
        opt = cr.optim.SGD([w], lr=0.5, momentum=0.5)
        schedule = make(opt)

        def step(x, w=w, opt=opt, schedule=schedule):
            opt.zero_grad()
            ((w - x) ** 2).sum().backward()
            opt.step()
            schedule.step()

        run, found = compile_it(step), []
        for k in range(8):
            run(np.full(3, float(k)))
            found.append([opt.param_groups[0]["lr"], opt.param_groups[0]["momentum"], *w.tolist()])
        rates.append(found)
        assert all(type(rate) is float for rate, *_ in found)
    np.testing.assert_allclose(rates[1], rates[0], rtol=1e-12)
    assert run.stats()["eager"] == 0, run.stats()
    assert run.stats()["compilations"] <= 3, run.stats()  # one of them careful
