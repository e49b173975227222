"""Averages of parameters against sums written out, and PyTorch's; the parameters come back as they were."""

import copy

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, ChainruleError, DTypeError, ShapeError, StaleGraphError
from tests.oracle.peers import peer

torch = peer("torch")
KINDS = {
    "ema": lambda ps: cr.optim.ExponentialMovingAverage(ps, 0.9),
    "ema that warms up": lambda ps: cr.optim.ExponentialMovingAverage(ps, 0.9, warmup=True),
    "mean": cr.optim.AveragedWeights,
}
every = pytest.mark.parametrize("kind", KINDS)


def wandering(dtype=np.float64):
    """Parameters, and a function that moves them and gives their new values."""
    rng = np.random.default_rng(0)
    ps = [cr.tensor(np.asarray(rng.normal(size=shape), dtype), requires_grad=True) for shape in ((3, 4), (), (5,))]

    def move():
        with cr.no_grad():
            for p in ps:
                p[...] = p.data + rng.normal(size=p.shape).astype(dtype)
        return [p.data.copy() for p in ps]

    return ps, move


def test_an_exponential_average_is_the_weighted_sum():
    ps, move = wandering()
    values = [[p.data.copy() for p in ps]]
    ema = cr.optim.ExponentialMovingAverage(ps, 0.9)
    for _ in range(20):
        values.append(move())
        ema.update()
    weights = [0.9**20, *[0.1 * 0.9 ** (20 - k) for k in range(1, 21)]]
    for k, average in enumerate(ema.averages):
        expected = sum(w * v[k] for w, v in zip(weights, values, strict=True))
        np.testing.assert_allclose(average, expected, rtol=1e-12)
    assert ema.n_averaged == 20


def test_a_warm_up_follows_closely_at_first():
    ps, move = wandering()
    ema = cr.optim.ExponentialMovingAverage(ps, 0.5, warmup=True)
    expected = ps[0].data.copy()
    for n in range(30):
        value = move()[0]
        ema.update()
        decay = min(0.5, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * value
    np.testing.assert_allclose(ema.averages[0], expected, rtol=1e-13)


def test_a_plain_average_is_the_mean_and_pytorchs():
    ps, move = wandering()
    module = torch.nn.ParameterList([torch.tensor(p.data) for p in ps])
    peer_average = torch.optim.swa_utils.AveragedModel(module)
    swa = cr.optim.AveragedWeights(ps)
    seen = []
    for k in range(12):
        seen.append(move())
        with torch.no_grad():
            for q, p in zip(module, ps, strict=True):
                q.copy_(torch.tensor(p.data))
        swa.update()
        peer_average.update_parameters(module)
        if k == 0:
            assert all(np.array_equal(a, v) for a, v in zip(swa.averages, seen[0], strict=True))
    for k, average in enumerate(swa.averages):
        np.testing.assert_allclose(average, np.mean([v[k] for v in seen], axis=0), rtol=1e-12)
    for average, q in zip(swa.averages, peer_average.parameters(), strict=True):
        np.testing.assert_allclose(average, q.detach().numpy(), rtol=1e-12)


@every
def test_the_parameters_have_their_averages_inside_and_their_own_values_after(kind):
    ps, move = wandering(np.float32)
    averages = KINDS[kind](ps)
    for _ in range(3):
        move()
        averages.update()
    own, memory = [p.data.copy() for p in ps], [p.data for p in ps]
    with averages.average_parameters():
        for p, average in zip(ps, averages.averages, strict=True):
            assert np.array_equal(p.data, average)
            assert p.dtype == np.float32
    with pytest.raises(RuntimeError, match="by hand"), averages.average_parameters():
        raise RuntimeError("by hand")
    for p, value, array in zip(ps, own, memory, strict=True):
        assert np.array_equal(p.data, value)
        assert p.data is array
    averages.copy_to()
    assert all(np.array_equal(p.data, a) for p, a in zip(ps, averages.averages, strict=True))
    assert not any(np.shares_memory(p.data, a) for p, a in zip(ps, averages.averages, strict=True))


@every
def test_a_walk_over_a_graph_from_before_the_swap_is_refused(kind):
    ps, move = wandering()
    averages = KINDS[kind](ps)
    move()
    averages.update()
    loss = (ps[0] * ps[0]).sum()
    with averages.average_parameters(), pytest.raises(StaleGraphError):
        loss.backward()


@every
def test_resumed_bit_for_bit(kind):
    ps, move = wandering()
    one, two = KINDS[kind](ps), KINDS[kind](ps)
    for _ in range(4):
        move()
        one.update()
    arrays = [two.n_averaged, *two.averages]
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    assert all(a is b for a, b in zip(arrays, [two.n_averaged, *two.averages], strict=True))
    for _ in range(4):
        move()
        one.update()
        two.update()
    assert all(np.array_equal(a, b) for a, b in zip(one.averages, two.averages, strict=True))
    assert one.n_averaged == two.n_averaged == 8


@every
def test_buffers_are_averaged_and_counters_followed(kind):
    running, count = np.zeros(3), np.array(0)
    averages = KINDS[kind]([running, count])
    for k in range(1, 4):
        running += 1.0
        count[...] = k
        averages.update()
    assert averages.averages[1] == 3
    assert 0.0 < averages.averages[0][0] < 3.0
    with averages.average_parameters():
        assert np.array_equal(running, averages.averages[0])
    assert running.tolist() == [3.0, 3.0, 3.0]


@every
def test_what_is_refused_changes_nothing(kind):
    ps, move = wandering()
    averages = KINDS[kind](ps)
    move()
    averages.update()
    saved, before = averages.state_dict(), repr(averages.state_dict())
    for spoiled, error in (
        ({}, ArgumentError),
        ({**saved, "averages": saved["averages"][:2]}, ArgumentError),
        ({**saved, "averages": [*saved["averages"][:2], np.zeros(4)]}, ShapeError),
        ({"averages": saved["averages"]}, ArgumentError),
    ):
        with pytest.raises(error):
            averages.load_state_dict(spoiled)
    ps[2].data = np.zeros(7)
    with pytest.raises(ShapeError):
        averages.update()
    assert repr(averages.state_dict()) == before
    for nothing in ([], cr.tensor([1.0]), np.ones(2), [1.0], {"a": ps[0]}):
        with pytest.raises(DTypeError):
            KINDS[kind](nothing)


@pytest.mark.parametrize("decay", [-0.1, 1.5, float("nan"), "much"])
def test_bad_decays(decay):
    with pytest.raises(ChainruleError, match="decay"):
        cr.optim.ExponentialMovingAverage([cr.tensor([1.0])], decay)


def test_a_parameter_that_comes_twice_is_averaged_once():
    w = cr.tensor([1.0], requires_grad=True)
    ema = cr.optim.ExponentialMovingAverage([w, w], 0.5)
    with cr.no_grad():
        w += 1.0
    ema.update()
    assert [a.tolist() for a in ema.averages] == [[1.5]]
