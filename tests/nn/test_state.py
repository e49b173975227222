"""The state of modules: saved, loaded, copied, mapped as a tree."""

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, tree
from chainrule.errors import ArgumentError, DTypeError, ShapeError, StaleGraphError
from tests.nn.models import NAMES, Leaf, Net, Pair, tied, weight


# -------------------------------------------------------------------------------------------------------------- state
def test_state_is_copied_both_ways():
    net, other = Net(), Net()
    net.layers[0].w.data[:] = 7.0
    net.mean[:] = 8.0
    state = net.state_dict()
    kept = [p.data for p in other.parameters()] + other.buffers()
    assert other.load_state_dict(state) == ([], [])
    assert other.layers[0].w.tolist() == [7.0, 7.0]
    assert other.mean.tolist() == [8.0, 8.0]
    assert all(a is b for a, b in zip(kept, [p.data for p in other.parameters()] + other.buffers(), strict=True))
    for value in state.values():
        value[...] = 0
    assert other.layers[0].w.tolist() == net.layers[0].w.tolist() == [7.0, 7.0]
    assert all(p.requires_grad == q.requires_grad for p, q in zip(net.parameters(), other.parameters(), strict=True))


def test_loading_takes_tensors_lists_and_other_dtypes():
    net = Leaf()
    net.load_state_dict({"w": cr.tensor([1.0, 2.0], requires_grad=True), "seen": 3})
    assert (net.w.tolist(), int(net.seen)) == ([1.0, 2.0], 3)
    net.w = cr.tensor([0.0, 0.0], dtype=np.float32, requires_grad=True)
    net.load_state_dict({"w": [0.1, 3], "seen": np.int32(1)})
    assert net.w.dtype == np.float32
    assert net.w.tolist() == [np.float32(0.1), 3.0]


def test_loading_is_a_write_that_a_graph_notices():
    net = Leaf()
    out = (net.w * net.w).sum()
    before = net.w.detach()
    net.load_state_dict(Leaf(5.0).state_dict())
    assert before.tolist() == [0.0, 1.0]
    with pytest.raises(StaleGraphError):
        out.backward()


def faulty(**changes):
    state = Net().state_dict()
    for name, value in changes.items():
        state.pop(name) if value is None else state.update({name: value})
    return state


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        (faulty(scale=None, mean=None), ArgumentError, "missing: scale; mean"),
        (faulty(other=np.ones(2)), ArgumentError, "unexpected: other"),
        (faulty(scale=np.ones((2, 2))), ShapeError, r"scale f64\[2, 2\], expected f64\[1\]"),
        (faulty(scale=np.ones(1, complex)), DTypeError, r"scale c128\[1\]"),
        (faulty(**{"layers.0.seen": np.array(0.5)}), DTypeError, r"layers.0.seen f64\[\], expected i64\[\]"),
        (
            faulty(mean=None, other=np.ones(2), scale=np.ones(2)),
            ShapeError,
            "missing: mean · unexpected: other · different: scale",
        ),
    ],
)
def test_what_does_not_fit_is_said_and_nothing_is_changed(state, error, words):
    net = Net()
    before = net.state_dict()
    state = {name: value + 1 if name in before and name != "scale" else value for name, value in state.items()}
    with pytest.raises(error, match=words):
        net.load_state_dict(state)
    assert all(np.array_equal(before[name], value) for name, value in net.state_dict().items())


def test_not_strict_takes_what_is_there():
    net = Net()
    loaded = net.load_state_dict({"scale": [4.0], "other": [1.0]}, strict=False)
    assert loaded.unexpected_keys == ["other"]
    assert loaded.missing_keys == [name for name in Net().state_dict() if name != "scale"]
    assert net.scale.tolist() == [4.0]
    with pytest.raises(ShapeError):
        net.load_state_dict({"scale": [4.0, 5.0]}, strict=False)


def test_what_is_tied_needs_one_name_and_one_value():
    net = tied()
    state = net.state_dict()
    assert state["0.w"] is state["1.w"]
    net.load_state_dict({"0.seen": 0, "1.seen": 0, "1.w": [5.0, 6.0]})
    assert net[0].w.tolist() == [5.0, 6.0]
    assert net[0].w is net[1].w
    with pytest.raises(ArgumentError, match=r"1\.w and 0\.w are one tensor and differ"):
        net.load_state_dict(state | {"1.w": np.array([1.0, 1.0])})
    assert net[0].w.tolist() == [5.0, 6.0]


def test_what_is_tied_may_be_no_number():
    net, state = tied(), tied().state_dict()
    nans = np.full_like(state["0.w"], np.nan)
    net.load_state_dict(state | {"0.w": nans, "1.w": nans.copy()})
    assert np.isnan(net[1].w.data).all()


def test_memory_that_cannot_be_written_is_refused_before_anything_is():
    array = np.ones(2)
    array.flags.writeable = False
    net = nn.Sequential(Leaf(), Leaf())
    net[1].w = cr.asarray(array)
    with pytest.raises(ArgumentError, match=r"1\.w"):
        net.load_state_dict(nn.Sequential(Leaf(3.0), Leaf(3.0)).state_dict())
    assert net[0].w.tolist() == [0.0, 1.0]


def test_two_entries_of_one_name_are_refused():
    net = nn.Sequential(Leaf())
    net.x = {"y.z": weight(1.0), "y": {"z": weight(2.0)}}
    with pytest.raises(ArgumentError, match=r"two entries are named 'x\.y\.z'"):
        net.state_dict()


# ------------------------------------------------------------------------------------------------------------- copies
def copied(net, way):
    return pickle.loads(pickle.dumps(net)) if way == "pickle" else copy.deepcopy(net)


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_copies_have_everything_and_share_nothing(way):
    net = tied()
    net(3.0).backward()
    net.eval()
    again = copied(net, way)
    assert again[0].w is again[1].w
    assert again[0].w is not net[0].w
    assert again[0].w.grad.tolist() == net[0].w.grad.tolist()
    assert not again.training
    assert not any(np.shares_memory(a, b) for a in again.state_dict().values() for b in net.state_dict().values())
    again[0].seen += 5
    assert net[0].seen == 1
    assert again(1.0).item() == net(1.0).item()


@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_a_module_that_kept_an_activation_is_copied(way):
    """Case H7."""
    net = Leaf()
    net.last = net.w * 2.0
    net.both = [net.last, None]
    again = copied(net, way)
    assert again.last.tolist() == [0.0, 2.0]
    assert not again.last.requires_grad
    assert list(again.state_dict()) == list(net.state_dict()) == ["w", "seen"]
    assert net.transient == ()
    again.load_state_dict(net.state_dict())
    assert list(copied(again, way).state_dict()) == ["w", "seen"]


def test_shallow_copy_shares_parameters():
    net = Net()
    again = copy.copy(net)
    assert again.scale is net.scale
    again.scale = None
    assert net.scale is not None


# -------------------------------------------------------------------------------------------------------------- trees
def test_a_module_is_a_tree_of_its_arrays():
    net = Net()
    leaves, structure = tree.flatten({"net": net, "x": 1.0})
    assert len(leaves) == len(NAMES) + 6 + 1
    again = tree.unflatten(structure, leaves)["net"]
    assert type(again) is Net
    assert again is not net
    assert again.scale is net.scale
    assert again.layers is not net.layers
    assert (again.rate, again.sizes, again.act, again.bias) == (0.1, [1, 2], cr.tanh, None)
    assert type(again.pair) is Pair
    assert again.pair.second == 7
    assert again.by_name["b"][1] == "words"


def test_a_structure_keeps_its_form_whatever_becomes_of_the_module():
    net = Net()
    leaves, structure = tree.flatten(net)
    net.layers.append(Leaf())
    net.mean = np.zeros(3)
    assert tree.unflatten(structure, leaves).mean.tolist() == [1.0, 2.0]
    assert len(tree.unflatten(structure, leaves).layers) == 2


def test_map_over_modules_and_over_what_has_none_in_places():
    net = tied()
    step = tree.map(lambda leaf: None if leaf.dtype.kind == "i" else leaf * 10.0, net)
    assert step[0].w is step[1].w
    assert step[0].seen is None
    moved = tree.map(lambda leaf, by: leaf if by is None else leaf + by, net, step)
    assert moved[1].w.tolist() == [0.0, 11.0]
    assert moved[0].w is moved[1].w
    assert [p.requires_grad for p in moved.parameters()] == [True]  # computed, and a parameter here
    assert moved(1.0).requires_grad


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda net: net.layers.pop(), r"no Net\.layers\.1, which was expected"),
        (lambda net: net.by_name.pop("a"), r"no Net\.by_name\.a"),
        (lambda net: setattr(net, "layers", ()), r"tuple at Net\.layers where a list was expected"),
        (lambda net: net.layers.__setitem__(0, Net()), r"Net at Net\.layers\.0 where a Leaf was expected"),
        (lambda net: delattr(net, "scale"), r"no Net\.scale"),
    ],
)
def test_modules_of_another_form(change, words):
    other = Net()
    change(other)
    with pytest.raises(ArgumentError, match=f"tree: {words}"):
        tree.map(lambda a, b: a, Net(), other)


def test_other_configuration_is_no_other_form():
    other = Net()
    other.sizes, other.bias = (1, 2, 3), "words"
    assert tree.map(lambda a, b: b, Net(), other).scale is other.scale


def test_dictionaries_keep_their_class():
    net = Leaf()
    net.more = OrderedDict(b=weight(1.0), a=weight(2.0))
    again = tree.map(lambda leaf: leaf, net)
    assert type(again.more) is OrderedDict
    assert list(again.more) == ["b", "a"]
