"""Steps as people write them: states made late, two optimisers, averages, gradients accumulated over calls."""

import warnings

import numpy as np

import chainrule as cr
from tests.compiler.jitted import assert_equal, executor, jit  # noqa: F401


def both(run):
    """What a run leaves in eager mode, and compiled; and the compiled function."""
    kept = []

    def compiled(f):
        kept.append(jit(f))
        return kept[-1]

    expected, found = run(lambda f: f), run(compiled)
    for a, b in zip(found, expected, strict=True):
        assert_equal(a, b)
    return kept[-1].stats()


def test_a_momentum_that_is_switched_on_late():
    def run(compile_it):
        ws = [cr.tensor(np.arange(3.0) + k, requires_grad=True) for k in range(2)]
        opt = cr.optim.SGD(ws, lr=0.1)

        def step(x):
            opt.zero_grad()
            sum(((w - x) ** 2).sum() for w in ws).backward()
            opt.step()

        go = compile_it(step)
        for k, momentum in enumerate([0, 0, 0.9, 0.9, 0.0, 0.5, 0.5, 0.9]):
            opt.param_groups[0]["momentum"] = momentum
            go(np.full(3, float(k)))
        return [w.data for w in ws]

    stats = both(run)
    assert stats["eager"] == 1  # the step that makes the states
    assert stats["compilations"] <= 4


def test_two_networks_against_each_other():
    def run(compile_it):
        cr.random.seed(0)
        maker, judge = cr.nn.Linear(2, 2), cr.nn.Linear(2, 1)
        optimisers = [cr.optim.Adam(m.parameters(), lr=0.01) for m in (maker, judge)]

        def step(x):
            z = cr.random.normal((4, 2))
            optimisers[1].zero_grad()
            first = (judge(x) ** 2).mean() - (judge(maker(z).detach()) ** 2).mean()
            first.backward()
            optimisers[1].step()
            optimisers[0].zero_grad()
            second = (judge(maker(z)) ** 2).mean()
            second.backward()
            optimisers[0].step()
            return first, second

        go = compile_it(step)
        losses = [loss.data for k in range(5) for loss in go(np.full((4, 2), float(k)))]
        parameters = maker.parameters() + judge.parameters()
        return [*losses, *(p.data for p in parameters), *(p.grad for p in parameters)]

    stats = both(run)
    assert stats["eager"] == 0
    assert stats["compilations"] == 1


def test_running_averages():
    def run(compile_it):
        cr.random.seed(0)
        model = cr.nn.Linear(2, 2)
        opt = cr.optim.SGD(model.parameters(), lr=0.1)
        averages = cr.optim.ExponentialMovingAverage(model.parameters(), decay=0.9)

        def step(x):
            opt.zero_grad()
            (model(x) ** 2).sum().backward()
            opt.step()
            averages.update()

        go = compile_it(step)
        for k in range(5):
            go(np.full((4, 2), k / 10))
        return averages.averages

    stats = both(run)
    assert (stats["eager"], stats["compilations"]) == (0, 1)


def test_a_branch_on_a_counter_runs_as_it_is_after_a_warning():
    def run(compile_it):
        cr.random.seed(0)
        model = cr.nn.Linear(2, 2)
        opt = cr.optim.SGD(model.parameters(), lr=0.001)
        count = {"n": 0}

        def step(x):
            (model(x) ** 2).sum().backward()
            count["n"] += 1
            if count["n"] % 2 == 0:
                opt.step()
                opt.zero_grad()

        go = compile_it(step)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for k in range(12):
                go(np.full((4, 2), float(k)))
        assert compile_it is not jit or len(caught) == 1
        return [p.data for p in model.parameters()] + [np.array(count["n"])]

    stats = both(run)
    assert stats["eager"] > 0
    assert stats["compilations"] == 2
