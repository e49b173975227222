"""Loops and branches: as plain Python, compiled, differentiated, and beside JAX, whose signatures they have."""

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.calls import raw
from chainrule.errors import ArgumentError, DTypeError, ShapeError, TraceError
from tests.compiler.traced import run

RNG = np.random.default_rng(0)
W, X, H = RNG.normal(size=(3, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=3)


def cell(h, x):
    h = cr.tanh(h @ W + x)
    return h, {"state": h * 2.0, "none": None}


def recurrent(h, xs):
    last, ys = cr.scan(cell, h, xs)
    return (last * last).sum() + (ys["state"] * cr.arange(15.0).reshape(5, 3)).sum()


def by_hand(h, xs):
    total = 0.0
    for k in range(5):
        h = np.tanh(h @ W + xs[k])
        total += (2.0 * h * np.arange(15.0).reshape(5, 3)[k]).sum()
    return (h * h).sum() + total


def test_a_recurrent_net():
    assert float(recurrent(H, X)) == pytest.approx(by_hand(H, X), rel=1e-14)
    gh, gx = cr.grad(recurrent, argnums=(0, 1))(H, X)
    for g, at, f in ((gh, H, lambda h: by_hand(h, X)), (gx, X, lambda x: by_hand(H, x))):
        direction = RNG.normal(size=at.shape)
        slope = (f(at + 1e-6 * direction) - f(at - 1e-6 * direction)) / 2e-6
        assert (g * direction).sum() == pytest.approx(slope, rel=1e-8)
    assert cr.jvp(recurrent, (H, X), (H, X))[1] == pytest.approx((gh * H).sum() + (gx * X).sum(), rel=1e-12)


def test_compiled_it_is_the_same():
    found = run(lambda h, x: [recurrent(h, x), *cr.grad(recurrent, argnums=(0, 1))(h, x)], H, X)
    expected = [raw(recurrent(H, X)), *cr.grad(recurrent, argnums=(0, 1))(H, X)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_beside_jax():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def theirs(h, xs):
        last, ys = jax.lax.scan(lambda h, x: (jnp.tanh(h @ W + x),) * 2, h, xs)
        return (last * last).sum() + (2.0 * ys * jnp.arange(15.0).reshape(5, 3)).sum()

    for mine, other in zip(
        cr.grad(recurrent, argnums=(0, 1))(H, X), jax.grad(theirs, argnums=(0, 1))(H, X), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-12)
    for n in (0, 1, 7):
        mine = cr.fori_loop(2, 2 + n, lambda i, x: x * 0.5 + i, 3.0)
        assert mine == jax.lax.fori_loop(2, 2 + n, lambda i, x: x * 0.5 + i, 3.0)
    for pred in (True, False):
        ours = cr.cond(pred, lambda a, b: a - b, lambda a, b: a * b, 2.0, 5.0)
        assert ours == jax.lax.cond(pred, lambda a, b: a - b, lambda a, b: a * b, 2.0, 5.0)


def test_trees_numbers_and_lengths():
    carry, ys = cr.scan(
        lambda c, x: ((c[0] + 1, c[1] * x["a"].sum()), (x["b"], c[0])), (0, 1.0), {"a": X, "b": X[:, 0]}
    )
    assert carry[0] == 5
    assert carry[1] == pytest.approx(np.prod(X.sum(axis=1)))
    np.testing.assert_array_equal(ys[0], X[:, 0])
    assert ys[1].tolist() == [0, 1, 2, 3, 4]
    assert cr.scan(lambda c, x: (c * 2, x), 1, length=4) == (16, None)
    assert cr.scan(lambda c, x: (c, x), 1.0, np.zeros((0, 3))) == (1.0, None)
    _, ys = cr.scan(lambda c, x: (c, x * c), cr.tensor(2.0), cr.tensor(X, requires_grad=True))
    assert ys.requires_grad
    np.testing.assert_array_equal(ys.data, 2.0 * X)


WRONG = [
    (ShapeError, lambda: cr.scan(lambda c, x: (c, x), 0.0)),
    (ShapeError, lambda: cr.scan(lambda c, x: (c, x), 0.0, (X, H))),
    (ShapeError, lambda: cr.scan(lambda c, x: (c, x), 0.0, X, length=4)),
    (ShapeError, lambda: cr.scan(lambda c, x: (c, x), 0.0, 3.0)),
    (ArgumentError, lambda: cr.scan(lambda c, x: c, 0.0, X)),
    (ArgumentError, lambda: cr.scan(lambda c, x: ((c,), x), 0.0, X)),
    (ArgumentError, lambda: cr.scan(lambda c, x: (c, x), 0.0, length=1.5)),
    (ShapeError, lambda: cr.scan(lambda c, x: (c + X, x), np.zeros(3), X)),
    (DTypeError, lambda: cr.scan(lambda c, x: (c.astype(np.float32), x), H, X)),
    (ShapeError, lambda: cr.fori_loop(0, 2, lambda i, v: v[None], H)),
    (ArgumentError, lambda: cr.fori_loop(0, 2.5, lambda i, v: v, H)),
    (ShapeError, lambda: cr.cond(H > 0, lambda: 1, lambda: 2)),
    (ShapeError, lambda: run(lambda x: [cr.cond(x.sum() > 0, lambda: x, lambda: x[0])], X)),
    (DTypeError, lambda: run(lambda x: [cr.cond(x.sum() > 0, lambda: x, lambda: x > 0)], X)),
    (ArgumentError, lambda: run(lambda x: [cr.cond(x.sum() > 0, lambda: x, lambda: (x,))], X)),
    (TraceError, lambda: run(lambda x: [cr.cond(x.sum() > 0, lambda: x * cr.random.normal(3), lambda: cr.tensor(x))], X)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "act"), WRONG)
def test_refusals(kind, act):
    with pytest.raises(kind):
        act()


# ------------------------------------------------------------ branches of a compiled function
def choose(x: Any, y: Any) -> list[Any]:
    """Every kind of result, and a gradient that must not leak from the branch not taken."""
    a, b = cr.cond(x.sum() > 0, lambda v: (cr.log(v.sum()), 1.0), lambda v: (v.sum() * 3.0, 2.0), cr.tensor(x))
    g = cr.grad(lambda v: cr.cond(v.sum() > 0, lambda: cr.sqrt(v).sum(), lambda: (v * v).sum()))(x)
    n = cr.cond(x.sum(), lambda: 1, lambda: 0)  # any number is a predicate
    return [a, np.float64(1.0) * b, g, n * y]


@pytest.mark.parametrize("x", [np.array([1.0, 4.0]), np.array([-1.0, -4.0]), np.array([0.0, 0.0])])
def test_a_branch_on_data(x):
    with np.errstate(all="ignore"):
        expected = [raw(r) for r in choose(x, np.ones(2))]
    for one, other in zip(run(choose, x, np.ones(2)), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_branches_may_write():
    def f(x, state):
        view = state[0]

        def up(s):
            inside = np.zeros_like(s)
            inside += 2.0
            s += inside
            return s.sum()

        def down(s):
            s[1] *= x[0]
            return s.sum() * 0.5

        total = cr.cond(x.sum() > 0, up, down, state)
        return [total, view * 1.0]

    for sign in (1.0, -1.0):
        pairs = []
        for how in (run, lambda f, *arrays, twice: f(*arrays)):
            state = np.arange(6.0).reshape(2, 3)
            pairs.append([*how(f, np.array([sign, 0.0]), state, twice=False), state])
        for one, other in zip(*pairs, strict=True):
            np.testing.assert_array_equal(one, other)


# ------------------------------------------------------------ a training step is a body
def test_an_epoch_of_a_training_step():
    rng = np.random.default_rng(1)
    batches = (rng.normal(size=(6, 8, 2)), rng.normal(size=(6, 8, 1)))

    def trained():
        w = cr.tensor(np.ones((2, 1)), requires_grad=True)
        opt = cr.optim.Adam([w], lr=0.1)

        def step(count, batch):
            opt.zero_grad()
            loss = ((cr.tensor(batch[0]) @ w - batch[1]) ** 2).mean()
            loss.backward()
            opt.step()
            return count + 1, loss.detach()

        return w, lambda: cr.scan(step, 0, batches), step

    w, epoch, _ = trained()
    count, losses = epoch()
    v, _, step = trained()
    expected = [step(0, (batches[0][k], batches[1][k]))[1].item() for k in range(6)]
    assert count == 6
    assert losses.tolist() == expected
    np.testing.assert_array_equal(w.data, v.data)
