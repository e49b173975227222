"""Modules: what attributes mean, names and order, settings, words."""

import copy

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, tree
from chainrule.errors import ArgumentError
from tests.nn.models import NAMES, Leaf, Net, weight
from tests.oracle.peers import peer


# ------------------------------------------------------------------------------------------------------------ looking
def test_attributes_say_what_they_are():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert [name for name, _ in net.named_buffers()] == [
        "mean", "layers.0.seen", "layers.1.seen", "by_name.a.seen", "by_name.b.0.seen", "pair.0.seen",
    ]  # fmt: skip
    assert [name for name, _ in net.named_modules()] == [
        "", "layers.0", "layers.1", "by_name.a", "by_name.b.0", "pair.0",
    ]  # fmt: skip
    assert net.parameters()[0] is net.scale
    assert net.modules()[0] is net
    assert net.children() == [*net.layers, net.by_name["a"], net.by_name["b"][0], net.pair.first]
    assert net.buffers()[0] is net.mean


def test_order_and_names_are_those_of_pytorch():
    torch = peer("torch")

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 3)
            self.scale = torch.nn.Parameter(torch.ones(3))
            self.blocks = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)])
            self.register_buffer("mean", torch.zeros(3, dtype=torch.float64))
            self.shift = torch.nn.Parameter(torch.zeros(3))
            self.extra = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(1))])
            self.again = self.inner

    class Ours(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 3)
            self.scale = weight(1.0, 1.0, 1.0)
            self.blocks = [nn.Linear(3, 3), nn.Linear(3, 1)]
            self.mean = np.zeros(3)
            self.shift = weight(0.0, 0.0, 0.0)
            self.extra = [weight(1.0)]
            self.again = self.inner

    ours, theirs = Ours(), Block().double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert len(ours.modules()) == len(list(theirs.named_modules())) - 2  # our lists are no modules
    theirs.load_state_dict({k: torch.tensor(v) for k, v in ours.state_dict().items()}, strict=True)
    ours.load_state_dict(theirs.state_dict())


def test_lists_that_grow_and_attributes_that_are_rebound():
    net = Net()
    net.layers.append(Leaf())
    net.scale = weight(1.0, 2.0)
    del net.frozen
    net.late = cr.zeros(2)
    assert [name for name, _ in net.named_parameters()] == [
        "scale", "late", "layers.0.w", "layers.1.w", "layers.2.w", *NAMES[4:],
    ]  # fmt: skip
    assert net.parameters()[0] is net.scale
    net.layers.clear()
    assert "layers.0.w" not in net.state_dict()


def test_shared_parameters_and_modules_are_listed_once():
    net = nn.Sequential(Leaf(), Leaf())
    net[1].w = net[0].w
    assert [name for name, _ in net.named_parameters()] == ["0.w"]
    same = Leaf()
    net = nn.Sequential(same, same)
    assert net.parameters()[0] is same.w
    assert [name for name, _ in net.named_modules()] == ["", "0"]
    state = net.state_dict()
    assert list(state) == ["0.w", "0.seen", "1.w", "1.seen"]
    assert state["0.w"] is state["1.w"]


def test_modules_and_lists_that_contain_themselves_have_an_end():
    parent, child = Leaf(), Leaf(2.0)
    parent.child, child.parent = child, parent
    parent.everything = everything = [child]
    everything += [everything, {"again": everything, "parent": parent}]
    assert [name for name, _ in parent.named_parameters()] == ["w", "child.w"]
    assert list(parent.state_dict()) == ["w", "seen", "child.w", "child.seen"]
    assert len(repr(parent).splitlines()) == 2
    again = copy.deepcopy(parent)
    assert again.child.parent is again
    doubled = tree.map(lambda leaf: leaf * 2, parent)
    assert doubled.child.parent is doubled
    assert doubled.everything[1] is doubled.everything
    assert doubled.everything[2]["parent"] is doubled
    assert doubled.child.w.tolist() == [4.0, 6.0]
    assert [len(m.modules()) for m in parent.train().modules()] == [2, 2]


def test_a_net_in_which_everybody_knows_everybody():
    """A walk that went along every path would take 40! steps."""
    crowd = [Leaf(float(k)) for k in range(40)]
    for leaf in crowd:
        leaf.others = crowd
    assert len(crowd[0].parameters()) == len(crowd[0].state_dict()) // 2 == 40


def test_a_long_chain_of_modules_needs_no_recursion():
    first = last = Leaf()
    for k in range(3000):
        last.next = Leaf(float(k))
        last = last.next
    assert len(first.parameters()) == 3001
    assert len(tree.flatten(first)[0]) == 6002
    assert tree.map(lambda leaf: leaf + 1, first).next.w.tolist() == [1.0, 2.0]


def test_what_is_configuration():
    net = Leaf()
    net.words = np.array(["a", "b"])
    net.number = np.float64(3.0)
    net.history = [0.5] * 1000
    net.several = {weight(1.0)}
    net.made_by = np.random.default_rng(0)
    assert [name for name, _ in net.named_parameters()] == ["w"]
    assert [name for name, _ in net.named_buffers()] == ["seen"]


def test_what_forward_computed_is_no_parameter():
    class Keeps(Leaf):
        def forward(self, x):
            self.last = self.w * x
            self.all = [self.last, self.last + 1]
            return self.last.sum()

    net = Keeps()
    net(2.0).backward()
    assert [name for name, _ in net.named_parameters()] == ["w"]
    assert list(net.state_dict()) == ["w", "seen"]
    assert "last" not in repr(net)
    assert tree.map(lambda leaf: leaf, net).last is None


def test_transient_attributes_are_not_looked_at():
    class Caches(Leaf):
        transient = ("cache", "parent")

        def __init__(self):
            super().__init__()
            self.cache, self.parent = np.ones(3), Net()

    net = Caches()
    assert list(net.state_dict()) == ["w", "seen"]
    assert net.modules() == [net]
    again = tree.map(lambda leaf: leaf, net)
    assert again.cache is net.cache  # forward needs it, so it comes along
    assert again.parent is net.parent
    net.transient = ("w", *net.transient)  # of one object
    assert list(net.state_dict()) == ["seen"]


def test_a_module_without_forward_says_so():
    class Empty(nn.Module):
        pass

    with pytest.raises(ArgumentError, match=r"Empty: it has no forward .* def forward"):
        Empty()(1.0)


# ----------------------------------------------------------------------------------------------------------- settings
def test_train_and_eval_reach_all_modules():
    net = Net()
    assert net.training
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.layers.append(Leaf())
    assert net.train() is net
    assert all(module.training for module in net.modules())
    assert Leaf().training


def test_zero_grad_and_freezing():
    net = Net()
    net(2.0).backward()
    assert net.layers[0].w.grad.tolist() == [2.0, 2.0]
    net.zero_grad()
    assert [p.grad for p in net.parameters()] == [None] * len(NAMES)
    assert net.requires_grad_(False) is net
    assert not any(p.requires_grad for p in net.parameters())
    assert len(net.parameters()) == len(NAMES)
    net.requires_grad_()
    assert all(p.requires_grad for p in net.parameters())
    net.frozen = cr.tensor([1, 2])  # integers cannot be trained, and stay frozen
    net.requires_grad_()
    assert not net.frozen.requires_grad


def test_apply_goes_from_the_inside_out():
    net = nn.Sequential(nn.Sequential(Leaf()), Leaf())
    seen = []
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen == ["Leaf", "Leaf", "Sequential", "Sequential"]


# -------------------------------------------------------------------------------------------------------------- words
def test_repr():
    net = Net()
    net.layers[1].w.requires_grad = False
    net.tied = net.scale
    assert repr(net) == (
        "Net(rate=0.1) · scale f64[1] · frozen f64[1] frozen · tied is scale · mean f64[2] buffer"
        " · by_name.b.2.0 f64[1] · 10 parameters, 3 frozen\n"
        "  layers.0: Leaf · w f64[2] · seen i64[] buffer · 2 parameters\n"
        "  layers.1: Leaf · w f64[2] frozen · seen i64[] buffer · 0 parameters, 2 frozen\n"
        "  by_name.a: Leaf · w f64[2] · seen i64[] buffer · 2 parameters\n"
        "  by_name.b.0: Leaf · w f64[2] · seen i64[] buffer · 2 parameters\n"
        "  pair.0: Leaf · w f64[2] · seen i64[] buffer · 2 parameters"
    )


def test_repr_of_nested_modules_and_functions():
    net = nn.Sequential(nn.Linear(1000, 3), cr.tanh, nn.Sequential({"last": nn.Linear(3, 1, bias=False)}))
    assert repr(net) == (
        "Sequential(1: tanh) · 3,006 parameters\n"
        "  0: Linear(in_features=1000, out_features=3) · weight f64[3, 1000] · bias f64[3] · 3,003 parameters\n"
        "  2: Sequential · 3 parameters\n"
        "    last: Linear(in_features=3, out_features=1) · weight f64[1, 3] · 3 parameters"
    )
    assert repr(nn.Sequential()) == "Sequential"
