"""`scan`, `fori_loop` and `cond` inside compiled functions: an epoch of training steps as one program."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.compiler import loops
from tests.compiler.jitted import assert_equal, executor, jit  # noqa: F401

X = np.random.default_rng(0).normal(size=(5, 6, 3))
Y = np.random.default_rng(1).normal(size=(5, 6, 2))


@pytest.fixture(params=["one equation", "written out"])
def way(request, monkeypatch):
    monkeypatch.setattr(loops, "_AT_MOST", 0 if request.param == "one equation" else 10**9)
    return request.param


class Trainer:
    def __init__(self, dropout=0.0):
        self.model = cr.nn.Sequential(cr.nn.Linear(3, 4), cr.nn.Tanh(), cr.nn.Dropout(dropout), cr.nn.Linear(4, 2))
        rng = np.random.default_rng(2)
        for p in self.model.parameters():
            p.data[...] = rng.normal(size=p.shape)
        self.opt = cr.optim.Adam(self.model.parameters(), lr=0.05)
        self.seen = 0

    def step(self, x, y):
        self.opt.zero_grad()
        loss = ((self.model(x) - y) ** 2).mean()
        loss.backward()
        self.opt.step()
        self.seen += 1
        return loss.detach()

    def epoch(self, xs, ys):
        return cr.fori_loop(0, len(xs), lambda k, total: total + self.step(xs[k], ys[k]), cr.tensor(0.0))

    def scanned(self, xs, ys):
        return cr.scan(lambda carry, row: (carry, self.step(*row)), None, (xs, ys))[1]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("name", ["epoch", "scanned"])
def test_an_epoch_is_one_program(name, dropout, way):
    cr.random.seed(0)
    eager = Trainer(dropout)
    expected = [getattr(eager, name)(X, Y) for _ in range(3)]
    state = cr.random.state()
    cr.random.seed(0)
    trainer = Trainer(dropout)
    compiled = jit(getattr(trainer, name))
    found = [compiled(X, Y) for _ in range(3)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.data, b.data, rtol=1e-11)
    for p, q in zip(trainer.model.parameters(), eager.model.parameters(), strict=True):
        np.testing.assert_allclose(p.data, q.data, rtol=1e-9)
        np.testing.assert_allclose(p.grad, q.grad, rtol=1e-9, atol=1e-14)
    assert trainer.seen == eager.seen == 15
    assert type(trainer.seen) is int
    assert cr.random.state() == state
    assert compiled.stats()["eager"] == 0, compiled.stats()
    assert compiled.stats()["compilations"] <= 2


def test_gradients_through_a_scan():
    def rnn(w, xs):
        return cr.scan(lambda h, x: (cr.tanh(x + h @ w), h.sum()), cr.zeros(2), xs)[0].sum()

    w, xs = np.array([[0.5, 0.1], [-0.2, 0.3]]), np.random.default_rng(3).normal(size=(7, 2))
    assert_equal(jit(cr.grad(rnn))(w, xs), cr.grad(rnn)(w, xs))
    np.testing.assert_allclose(cr.grad(jit(rnn))(w, xs), cr.grad(rnn)(w, xs), rtol=1e-12)


def test_a_condition_on_data():
    def f(x):
        return cr.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: -x, x)

    compiled = jit(f)
    for x in (np.ones(3), -np.ones(3)):
        assert_equal(compiled(x), f(x))
    assert compiled.stats()["compilations"] == 1
