"""A step writes into the parameters' own memory, all of it or nothing, and whoever needs an old value is told."""

import copy
import pickle

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, ChainruleError, DTypeError, GraphError, ShapeError, StaleGraphError

OPTIMISERS = [
    pytest.param(lambda ps: cr.optim.SGD(ps, lr=0.1), id="SGD"),
    pytest.param(lambda ps: cr.optim.SGD(ps, lr=0.1, momentum=0.9), id="momentum"),
    pytest.param(lambda ps: cr.optim.Adam(ps, lr=0.1), id="Adam"),
    pytest.param(lambda ps: cr.optim.AdamW(ps, lr=0.1), id="AdamW"),
    pytest.param(lambda ps: cr.optim.RMSprop(ps, lr=0.1, momentum=0.5, centered=True), id="RMSprop"),
    pytest.param(lambda ps: cr.optim.Adagrad(ps, lr=0.1), id="Adagrad"),
    pytest.param(lambda ps: cr.optim.Lion(ps, lr=0.1, weight_decay=0.1), id="Lion"),
]
every = pytest.mark.parametrize("make", OPTIMISERS)
SHAPES = [(3, 2), (2,), (), (150, 120)]


def parameters(dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [cr.tensor(np.asarray(rng.normal(size=shape), dtype), requires_grad=True) for shape in SHAPES]


def give_gradients(ps, seed=1):
    rng = np.random.default_rng(seed)
    for p in ps:
        p.grad = np.asarray(rng.normal(size=p.shape), p.dtype)


def everything(ps, opt):
    """All that a step may change, as bytes."""
    states = opt.state_dict()["state"]
    return [p.data.tobytes() for p in ps] + [a.tobytes() for s in states.values() for a in s.values()]


@every
def test_a_step_writes_where_the_parameter_stands_and_leaves_gradients_alone(make):
    ps = parameters()
    opt = make(ps)
    give_gradients(ps)
    memory = [p.data for p in ps]
    states = {id(array) for unit in opt._units[0] for array in unit.state.values()}
    gradients = [(p.grad, p.grad.copy()) for p in ps]
    before = [p.data.copy() for p in ps]
    opt.step()
    for p, array, (g, copied), old in zip(ps, memory, gradients, before, strict=True):
        assert p.data is array
        assert p.grad is g
        assert np.array_equal(g, copied)
        assert not np.any(array == old)
    assert states == {id(array) for unit in opt._units[0] for array in unit.state.values()}


@every
def test_a_walk_that_needs_an_old_value_is_refused(make):
    ps = parameters()
    opt = make(ps)
    loss = sum((p * p).sum() for p in ps)
    give_gradients(ps)
    opt.step()
    with pytest.raises(StaleGraphError):
        loss.backward()


@every
def test_recorded_views_of_a_parameter_keep_their_values(make):
    ps = parameters()
    opt = make(ps)
    flat, old = ps[0].reshape(-1), ps[0].data.reshape(-1).copy()
    give_gradients(ps)
    opt.step()
    assert np.array_equal(flat.data, old)


FAULTS = {
    "shape": (lambda p: setattr(p, "grad", np.ones((*p.shape, 1))), ShapeError),
    "dtype": (lambda p: setattr(p, "grad", np.ones(p.shape, np.float32)), DTypeError),
    "no array": (lambda p: setattr(p, "grad", 1.0), DTypeError),
    "other data": (lambda p: setattr(p, "data", np.ones(7)), ShapeError),
    "read-only": (lambda p: p.data.setflags(write=False), ArgumentError),
}


@every
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("k", [0, 1, 3])
def test_a_gradient_that_does_not_fit_changes_nothing(make, fault, k):
    ps = parameters()
    opt = make([{"params": ps[:2]}, {"params": ps[2:]}])
    give_gradients(ps)
    opt.step()
    spoil, error = FAULTS[fault]
    spoil(ps[k])
    before = everything(ps, opt)
    with pytest.raises(error):
        opt.step()
    assert everything(ps, opt) == before


@every
@pytest.mark.parametrize("spoiled", ["fast", None, cr.tensor(0.1)], ids=["text", "none", "tensor"])
def test_a_number_that_a_user_spoiled_changes_nothing(make, spoiled):
    ps = parameters()
    opt = make([{"params": ps[:2]}, {"params": ps[2:]}])
    give_gradients(ps)
    opt.param_groups[1]["lr"] = spoiled
    before = everything(ps, opt)
    with pytest.raises(TypeError):
        opt.step()
    assert everything(ps, opt) == before


@every
def test_a_frozen_parameter_stays(make):
    ps = parameters()
    opt = make(ps)
    give_gradients(ps)
    ps[1].requires_grad = False
    before = [p.data.copy() for p in ps]
    opt.step()
    assert [np.array_equal(p.data, old) for p, old in zip(ps, before, strict=True)] == [False, True, False, False]


@every
def test_what_is_frozen_from_the_start_stays_and_trains_once_it_is_thawed(make):
    """As in transfer learning: the optimiser is given all of the model."""
    ps = parameters()
    ps[0].requires_grad = False
    opt = make(ps)
    before = [p.data.copy() for p in ps]
    give_gradients(ps[1:])
    opt.step()
    assert [np.array_equal(p.data, old) for p, old in zip(ps, before, strict=True)] == [True, False, False, False]
    ps[0].requires_grad = True
    give_gradients(ps)
    opt.step()
    assert not np.array_equal(ps[0].data, before[0])


@every
def test_the_same_steps_give_the_same_bits(make):
    def run():
        ps = parameters(np.float32)
        opt = make(ps)
        for k in range(20):
            give_gradients(ps, seed=k)
            opt.step()
        return everything(ps, opt)

    assert run() == run()


@every
def test_together_or_alone_gives_the_same_bits(make):
    """Small parameters share their arithmetic, and large ones are worked through in tiles: neither shows."""

    def run(groups, seed=5):
        ps = parameters(np.float32)
        opt = make([{"params": [ps[k] for k in group]} for group in groups])
        for k in range(5):
            give_gradients(ps, seed=k)
            opt.step()
        return [p.data.tobytes() for p in ps]

    alone = parameters(np.float32)
    whole = [make([p]) for p in alone]
    for k in range(5):
        give_gradients(alone, seed=k)
        for opt in whole:
            opt.step()
    assert run([[0, 1, 2, 3]]) == run([[0], [1], [2], [3]]) == [p.data.tobytes() for p in alone]


@every
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_layout_of_parameters_and_gradients(make, order):
    rng = np.random.default_rng(0)
    value, gradients = rng.normal(size=(140, 150)), rng.normal(size=(3, 140, 150))
    ps = [cr.asarray(np.asfortranarray(value)), cr.asarray(value.copy())]
    for p in ps:
        p.requires_grad = True
    opt = make(ps)
    for g in gradients:
        ps[0].grad, ps[1].grad = g.copy(), np.array(g, order=order)
        opt.step()
    assert ps[0].data.flags.f_contiguous
    assert np.array_equal(ps[0].data, ps[1].data)


def test_a_closure_is_called_first_with_gradients_on():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    opt = cr.optim.SGD([w], lr=0.25)

    def closure():
        opt.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with cr.no_grad():
        assert opt.step(closure).item() == 5.0
    assert w.tolist() == [0.5, 1.0]


def test_zero_grad_forgets_or_zeroes():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    opt = cr.optim.SGD([w], lr=0.25)
    w.grad = kept = np.ones(2)
    opt.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0.0, 0.0]
    assert kept.tolist() == [1.0, 1.0]  # a gradient that was handed out is not written
    opt.zero_grad()
    assert w.grad is None


def test_gradients_that_are_tensors_are_taken():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    opt = cr.optim.SGD([w], lr=0.25)
    (w * w).sum().backward(create_graph=True)
    opt.step()
    assert w.tolist() == [0.5, 1.0]


def test_what_overflows_is_no_warning_and_shows_in_the_parameter():
    w = cr.tensor(np.array([1.0, 1.0], np.float32), requires_grad=True)
    opt = cr.optim.Adam([w], lr=0.5)
    w.grad = np.array([1e30, np.nan], np.float32)
    opt.step()
    assert w.data[0] == 1.0  # the square is infinite, and so is the divisor
    assert np.isnan(w.data[1])


@every
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
def test_a_copy_goes_its_own_way(make, copied):
    ps = parameters()
    opt = make(ps)
    give_gradients(ps)
    opt.step()
    twin_ps, twin = copied((ps, opt))
    give_gradients(ps, seed=3)
    before = everything(twin_ps, twin)
    opt.step()
    assert everything(twin_ps, twin) == before
    give_gradients(twin_ps, seed=3)
    twin.step()
    assert everything(twin_ps, twin) == everything(ps, opt)


def test_momentum_that_comes_on_later_starts_then():
    w = cr.tensor([1.0], requires_grad=True)
    opt = cr.optim.SGD([w], lr=1.0)
    seen = []
    for momentum in (0.0, 0.5, 0.5):
        opt.param_groups[0]["momentum"] = momentum
        w.grad = np.array([1.0])
        opt.step()
        seen.append(w.item())
    assert seen == [0.0, -1.0, -2.5]


@every
def test_refused_parameters_add_nothing(make):
    ps = parameters()
    opt = make(ps[:2])
    computed = ps[2] * 2.0
    for group in (
        {"params": [ps[2], ps[0]]},
        {"params": [ps[2], computed]},
        {"params": [cr.tensor(1.0)]},
        {"params": [ps[2], cr.tensor([1, 2])]},
        {"params": [ps[2]], "lr": -1.0},
        {"params": [ps[2]], "rate": 1.0},
        {"params": []},
        {"lr": 1.0},
    ):
        with pytest.raises(ChainruleError):
            opt.add_param_group(group)
    assert len(opt.param_groups) == 1
    opt.add_param_group({"params": ps[2]})
    give_gradients(ps)
    before = ps[3].data.copy()
    opt.step()
    assert np.array_equal(ps[3].data, before)


def test_a_group_whose_parameters_were_replaced_is_refused():
    ps = parameters()
    opt = cr.optim.SGD(ps[:2])
    opt.param_groups[0]["params"] = [*opt.param_groups[0]["params"], ps[2]]
    with pytest.raises(ArgumentError, match="add_param_group"):
        opt.step()


def test_a_parameter_that_became_a_result_is_refused():
    w = cr.tensor([1.0], requires_grad=True)
    opt = cr.optim.SGD([w])
    x = cr.tensor([2.0], requires_grad=True)
    w.requires_grad = False
    w *= x
    w.grad = np.array([1.0])
    with pytest.raises(GraphError, match="no leaf"):
        opt.step()
