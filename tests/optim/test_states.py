"""The state of an optimiser: PyTorch's layout in both directions, resumed bit for bit, and nothing changed where it does not fit."""

import copy
import json

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, ChainruleError, ShapeError
from tests.optim.twins import Twins, torch

OPTIONS = [
    ("SGD", {}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.5}),
    ("Adam", {"lr": 0.01, "amsgrad": True}),
    ("AdamW", {"lr": 0.01}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("Adagrad", {"lr": 0.01, "lr_decay": 0.1}),
]
every = pytest.mark.parametrize(
    ("name", "options"), [pytest.param(*case, id=f"{case[0]} {case[1]}") for case in OPTIONS]
)
GROUPS = [([0, 3], {"lr": 0.02}), ([1, 2, 4, 5], {})]


def parameters(twins):
    return [p.data.tobytes() for p in twins.ours]


def everything(optimizer):
    saved = optimizer.state_dict()
    return repr(saved["param_groups"]), {(k, n): a.tobytes() for k, s in saved["state"].items() for n, a in s.items()}


@every
def test_resumed_bit_for_bit(name, options):
    one = Twins(name, options, groups=GROUPS)
    for k in range(7):
        one.step(without=(1,) if k == 3 else ())
    two = Twins(name, {**options, "lr": 0.5}, groups=GROUPS, seed=1)
    two.opt.load_state_dict(one.opt.state_dict())
    for p, q in zip(one.ours, two.ours, strict=True):
        q.data[...] = p.data
    for k in range(5):
        without = (4,) if k == 2 else ()
        one.set_gradients(without)
        for p, q in zip(one.ours, two.ours, strict=True):
            q.grad = p.grad
        one.opt.step()
        two.opt.step()
    assert parameters(one) == parameters(two)
    assert everything(one.opt) == everything(two.opt)


@every
def test_pytorchs_state_is_taken_over(name, options):
    twins = Twins(name, options, groups=GROUPS)
    for k in range(7):
        twins.set_gradients(without=(1,) if k == 3 else ())
        twins.peer.step()
    twins.opt.load_state_dict(twins.peer.state_dict())
    for p, q in zip(twins.ours, twins.theirs, strict=True):
        p.data[...] = q.detach().numpy()
    for _ in range(20):
        twins.step()
    assert twins.distance() < 1e-12


@every
def test_pytorch_takes_ours(name, options):
    twins = Twins(name, options, groups=GROUPS)
    for k in range(7):
        twins.set_gradients(without=(1,) if k == 3 else ())
        twins.opt.step()
    saved = twins.opt.state_dict()
    as_tensors = {k: {n: torch.tensor(a) for n, a in state.items()} for k, state in saved["state"].items()}
    own = twins.peer.state_dict()["param_groups"]  # with PyTorch's own switches
    groups = [{**theirs, **ours} for theirs, ours in zip(own, saved["param_groups"], strict=True)]
    twins.peer.load_state_dict({"state": as_tensors, "param_groups": groups})
    for p, q in zip(twins.ours, twins.theirs, strict=True):
        q.data.copy_(torch.tensor(p.data))
    for _ in range(20):
        twins.step()
    assert twins.distance() < 1e-12


def test_a_state_is_arrays_and_json():
    twins = Twins("Adam", {}, groups=GROUPS)
    twins.step()
    saved = twins.opt.state_dict()
    assert set(saved) == {"state", "param_groups"}
    assert list(saved["state"]) == list(range(6))
    assert all(type(a) is np.ndarray for state in saved["state"].values() for a in state.values())
    assert saved["state"][1]["exp_avg"].shape == (130, 150)
    assert [group["params"] for group in saved["param_groups"]] == [[0, 1], [2, 3, 4, 5]]
    groups = json.loads(json.dumps(saved["param_groups"]))
    states = {str(k): state for k, state in saved["state"].items()}
    twins.opt.load_state_dict({"state": states, "param_groups": groups})  # as JSON gives it back
    assert twins.opt.param_groups[0]["betas"] == (0.9, 0.999)
    twins.opt.step()


def test_a_state_is_a_copy_and_loading_keeps_the_arrays():
    twins = Twins("Adam", {})
    twins.step()
    saved = twins.opt.state_dict()
    arrays = {id(array) for unit in twins.opt._units[0] for array in unit.state.values()}
    kept = copy.deepcopy(saved)
    twins.step()
    assert all(np.array_equal(a, kept["state"][k][n]) for k, s in saved["state"].items() for n, a in s.items())
    twins.opt.load_state_dict(saved)
    assert arrays == {id(array) for unit in twins.opt._units[0] for array in unit.state.values()}
    for array in saved["state"][0].values():
        array[...] = 7.0
    assert not np.any(twins.opt.state_dict()["state"][0]["exp_avg"] == 7.0)


def test_a_state_can_be_looked_at_by_parameter():
    twins = Twins("Adam", {})
    twins.step()
    state = twins.opt.state[twins.ours[0]]
    np.testing.assert_allclose(state["exp_avg"], 0.1 * twins.ours[0].grad, rtol=1e-15)
    assert state["step"] == 1.0


def test_names_are_kept():
    w, b = cr.tensor([1.0], requires_grad=True), cr.tensor([1.0], requires_grad=True)
    opt = cr.optim.Adam([("weight", w), ("bias", b)])
    assert opt.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    w.grad, b.grad = np.ones(1), np.ones(2)
    with pytest.raises(ShapeError, match="bias"):
        opt.step()


def spoiled(saved, how):
    how(saved)
    return saved


FAULTS = {
    "no dictionary": lambda saved: [],
    "no groups": lambda saved: {"state": saved["state"]},
    "no state": lambda saved: {"param_groups": saved["param_groups"]},
    "other groups": lambda saved: {**saved, "param_groups": saved["param_groups"][:1]},
    "fewer parameters": lambda saved: spoiled(saved, lambda s: s["param_groups"][1]["params"].pop()),
    "another shape": lambda saved: spoiled(saved, lambda s: s["state"][5].update(exp_avg=np.zeros((1, 3)))),
    "no numbers": lambda saved: spoiled(saved, lambda s: s["state"][4].update(exp_avg=np.array(["a"]))),
    "a state of another optimiser": lambda saved: spoiled(saved, lambda s: s["state"][4].update(square_avg=1.0)),
    "a bad rate": lambda saved: spoiled(saved, lambda s: s["param_groups"][1].update(lr=-1.0)),
    "bad betas": lambda saved: spoiled(saved, lambda s: s["param_groups"][1].update(betas=[0.9])),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_fit_changes_nothing(fault):
    twins = Twins("Adam", {}, groups=GROUPS)
    twins.step()
    saved = twins.opt.state_dict()
    twins.step()
    before = everything(twins.opt)
    with pytest.raises(ChainruleError):
        twins.opt.load_state_dict(FAULTS[fault](saved))
    assert everything(twins.opt) == before


def test_nesterov_without_momentum_is_refused_in_a_file_too():
    twins = Twins("SGD", {"momentum": 0.9, "nesterov": True})
    saved = twins.opt.state_dict()
    saved["param_groups"][0]["momentum"] = 0.0
    with pytest.raises(ArgumentError, match="nesterov"):
        twins.opt.load_state_dict(saved)


def test_an_option_that_is_on_in_the_file_brings_its_states():
    twins = Twins("RMSprop", {"momentum": 0.9, "centered": True})
    twins.step()
    other = Twins("RMSprop", {})
    other.opt.load_state_dict(twins.opt.state_dict())
    for p, q in zip(twins.ours, other.ours, strict=True):
        q.data[...] = p.data
    twins.set_gradients()
    for p, q in zip(twins.ours, other.ours, strict=True):
        q.grad = p.grad
    twins.opt.step()
    other.opt.step()
    assert parameters(twins) == parameters(other)
