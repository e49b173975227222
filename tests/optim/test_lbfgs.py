"""L-BFGS beside PyTorch's, step by step: the same points, and the same number of evaluations."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, DTypeError
from chainrule.optim.wolfe import Point, Search
from tests.oracle.peers import peer

torch = peer("torch")
torch.set_num_threads(1)


def bowl(lib, vectors, matrix, target):
    """A convex loss with a curvature that changes: both go to the same place, and rounding does not grow."""
    x = lib.concat(vectors) if lib is cr else torch.cat(vectors)
    r = matrix @ x - target
    return lib.log(1.0 + lib.exp(r)).sum() + 0.05 * (x * x).sum()


class Twins:
    def __init__(self, **options):
        rng = np.random.default_rng(0)
        parts = [rng.normal(size=5), rng.normal(size=7)]
        self.matrix, self.target = rng.normal(size=(20, 12)), rng.normal(size=20)
        self.ours = [cr.tensor(part, requires_grad=True) for part in parts]
        self.theirs = [torch.tensor(part, requires_grad=True) for part in parts]
        self.opt, self.peer = cr.optim.LBFGS(self.ours, **options), torch.optim.LBFGS(self.theirs, **options)

    def our_loss(self):
        self.opt.zero_grad()
        loss = bowl(cr, self.ours, self.matrix, self.target)
        loss.backward()
        return loss

    def their_loss(self):
        self.peer.zero_grad()
        loss = bowl(torch, self.theirs, torch.tensor(self.matrix), torch.tensor(self.target))
        loss.backward()
        return loss

    def step(self):
        return self.opt.step(self.our_loss), self.peer.step(self.their_loss)

    def distance(self):
        return max(np.abs(p.data - q.detach().numpy()).max() for p, q in zip(self.ours, self.theirs, strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {"max_iter": 1},
        {"max_iter": 1, "max_eval": 30, "line_search_fn": "strong_wolfe"},
        {"max_iter": 1, "line_search_fn": "strong_wolfe"},
        {"max_iter": 3, "history_size": 3, "lr": 0.3},
        {"max_iter": 4, "history_size": 2, "line_search_fn": "strong_wolfe"},
        {"max_iter": 20, "max_eval": 5, "line_search_fn": "strong_wolfe"},
        {"line_search_fn": "strong_wolfe", "lr": 0.1},
        {"max_iter": 10, "tolerance_grad": 1e-2},
        {"max_iter": 10, "tolerance_change": 1e-3, "line_search_fn": "strong_wolfe"},
    ],
)
def test_a_hundred_steps_are_pytorchs(options):
    twins = Twins(**options)
    for _ in range(100):
        ours, theirs = twins.step()
        assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
        counted = twins.peer.state[twins.theirs[0]]
        saved = twins.opt.state_dict()["state"][0]
        assert (saved["n_iter"], saved["func_evals"]) == (counted["n_iter"], counted["func_evals"])
    assert twins.distance() < 1e-9


def test_a_search_that_finds_nothing_ends_where_pytorchs_does():
    """At a kink no slope is flat enough."""
    x, y = cr.tensor([1.0], requires_grad=True), torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    for budget in (1, 2, 7, 100):
        counts = []
        for lib, v in ((cr, x), (torch, y)):
            opt = lib.optim.LBFGS([v], max_iter=1, max_eval=budget, line_search_fn="strong_wolfe")
            calls = []

            def closure(lib=lib, v=v, opt=opt, calls=calls):
                calls.append(None)
                opt.zero_grad()
                loss = 3.0 * lib.abs(v - 0.3137).sum()
                loss.backward()
                return loss

            opt.step(closure)
            counts.append(len(calls))
        assert counts[0] == counts[1]
        assert x.item() == pytest.approx(y.item(), rel=1e-12)


def test_the_first_steps_on_a_curved_valley_are_pytorchs_to_rounding():
    """Rosenbrock's function magnifies rounding, so only the first steps can be compared so closely."""
    start = np.array([-1.2, 1.0, -0.5, 0.8])
    x, y = cr.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    opt, peer_opt = (lib.optim.LBFGS([v], line_search_fn="strong_wolfe") for lib, v in ((cr, x), (torch, y)))

    def closure(v, optimizer):
        optimizer.zero_grad()
        loss = (100.0 * (v[1:] - v[:-1] ** 2) ** 2 + (1.0 - v[:-1]) ** 2).sum()
        loss.backward()
        return loss

    opt.step(lambda: closure(x, opt))
    peer_opt.step(lambda: closure(y, peer_opt))
    np.testing.assert_allclose(x.data, y.detach().numpy(), rtol=1e-9)
    for _ in range(5):
        opt.step(lambda: closure(x, opt))
    np.testing.assert_allclose(x.data, np.ones(4), atol=1e-4)


def test_a_search_gives_a_point_that_satisfies_both_conditions():
    """On lines with a kink, a far minimum, a near one, and several."""
    lines = [
        lambda t: (np.sqrt(1 + (t - 3) ** 2), (t - 3) / np.sqrt(1 + (t - 3) ** 2)),
        lambda t: ((t - 0.01) ** 2, 2 * (t - 0.01)),
        lambda t: (-np.exp(-((t - 7) ** 2) / 50), np.exp(-((t - 7) ** 2) / 50) * (t - 7) / 25),
        lambda t: (np.cos(t + 1.0) - 0.01 * t, -np.sin(t + 1.0) - 0.01),
        lambda t: (t**4 - t, 4 * t**3 - 1),
    ]
    for line in lines:
        for first in (1e-3, 1.0, 30.0):
            start = Point(0.0, float(line(0.0)[0]), None, float(line(0.0)[1]))
            evaluate = lambda t, line=line: Point(t, float(line(t)[0]), None, float(line(t)[1]))
            point = Search(evaluate, start, 1.0, 25).run(first)
            assert point.loss <= start.loss + 1e-4 * point.t * start.slope
            assert abs(point.slope) <= 0.9 * abs(start.slope)


def test_a_closure_that_fails_leaves_everything_as_it_was():
    twins = Twins(max_iter=10, line_search_fn="strong_wolfe")
    twins.step()
    before = [p.data.copy() for p in twins.ours]
    memory = twins.opt.state_dict()["state"][0]
    calls = []

    def closure():
        calls.append(None)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return twins.our_loss()

    with pytest.raises(KeyboardInterrupt):
        twins.opt.step(closure)
    assert all(np.array_equal(p.data, old) for p, old in zip(twins.ours, before, strict=True))
    after = twins.opt.state_dict()["state"][0]
    assert all(np.array_equal(after[name], memory[name]) for name in memory)
    twins.step()
    assert twins.distance() < 1e-10


def test_a_saved_memory_goes_on_bit_for_bit():
    one, two = Twins(max_iter=3, line_search_fn="strong_wolfe"), Twins(max_iter=3, line_search_fn="strong_wolfe")
    for _ in range(3):
        one.opt.step(one.our_loss)
    two.opt.load_state_dict(one.opt.state_dict())
    for p, q in zip(one.ours, two.ours, strict=True):
        q.data[...] = p.data
    for _ in range(5):
        one.opt.step(one.our_loss)
        two.opt.step(two.our_loss)
    assert all(np.array_equal(p.data, q.data) for p, q in zip(one.ours, two.ours, strict=True))


def test_pytorchs_memory_is_taken_over():
    twins = Twins(max_iter=3, line_search_fn="strong_wolfe")
    for _ in range(3):
        twins.peer.step(twins.their_loss)
    twins.opt.load_state_dict(twins.peer.state_dict())
    for p, q in zip(twins.ours, twins.theirs, strict=True):
        p.data[...] = q.detach().numpy()
    for _ in range(5):
        twins.step()
    assert twins.distance() < 1e-12


def test_parameters_without_a_gradient_stay():
    a, b = cr.tensor([1.0, 2.0], requires_grad=True), cr.tensor([3.0], requires_grad=True)
    opt = cr.optim.LBFGS([b, a], lr=0.5)

    def closure():
        opt.zero_grad()
        loss = ((a - 5.0) ** 2).sum()
        loss.backward()
        return loss

    opt.step(closure)
    assert b.tolist() == [3.0]
    np.testing.assert_allclose(a.data, 5.0, atol=1e-4)


def test_float32_stays_float32():
    a, b = cr.tensor(np.ones(2, np.float32), requires_grad=True), cr.tensor(np.ones(1, np.float32), requires_grad=True)
    opt = cr.optim.LBFGS([a, b], line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        loss = ((a - 5.0) ** 2).sum()
        loss.backward()
        return loss

    opt.step(closure)
    assert (a.dtype, b.dtype) == (np.float32, np.float32)
    np.testing.assert_allclose(a.data, 5.0, rtol=1e-6)
    saved = opt.state_dict()["state"][0]
    assert {saved[name].dtype for name in ("d", "old_dirs", "old_stps", "H_diag", "prev_flat_grad")} == {np.dtype("f4")}


def test_what_is_refused():
    w = cr.tensor([1.0], requires_grad=True)
    opt = cr.optim.LBFGS([w])
    for closure, error in ((None, ArgumentError), (lambda: None, DTypeError), (lambda: cr.ones(2), DTypeError)):
        with pytest.raises(error):
            opt.step(closure)
    with pytest.raises(ArgumentError, match="one group"):
        opt.add_param_group({"params": [cr.tensor(1.0, requires_grad=True)]})
    with pytest.raises(ArgumentError, match="one group"):
        cr.optim.LBFGS([{"params": [w]}, {"params": [cr.tensor(1.0, requires_grad=True)]}])
    with pytest.raises(ArgumentError, match="strong_wolfe"):
        cr.optim.LBFGS([w], line_search_fn="backtracking")
