"""Modules that the tests of this folder look into."""

from collections import namedtuple

import numpy as np

import chainrule as cr
from chainrule import nn

Pair = namedtuple("Pair", "first second")  # noqa: PYI024 - the plain kind, which users have


def weight(*values, **how):
    return cr.tensor(list(values), requires_grad=True, **how)


class Leaf(nn.Module):
    def __init__(self, start=0.0):
        self.w = weight(start, start + 1)
        self.seen = np.zeros((), np.int64)

    def forward(self, x):
        self.seen += 1
        return (self.w * x).sum()


class Net(nn.Module):
    """Everything that an attribute can be, children before parameters."""

    def __init__(self):
        self.layers = [Leaf(0.0), Leaf(2.0)]
        self.scale = weight(3.0)
        self.by_name = {"a": Leaf(4.0), "b": (Leaf(6.0), "words", [weight(8.0)])}
        self.pair = Pair(Leaf(9.0), 7)
        self.mean = np.array([1.0, 2.0])
        self.frozen = cr.tensor([5.0])
        self.rate, self.sizes, self.act, self.bias = 0.1, [1, 2], cr.tanh, None

    def forward(self, x):
        return sum(layer(x) for layer in self.layers)


NAMES = [
    "scale", "frozen", "layers.0.w", "layers.1.w", "by_name.a.w", "by_name.b.0.w", "by_name.b.2.0", "pair.0.w",
]  # fmt: skip


def tied():
    net = nn.Sequential(Leaf(), Leaf(2.0))
    net[1].w = net[0].w
    return net


class Cubic(nn.Module):
    """a x³ + b x, with derivatives that can be written down."""

    def __init__(self, a=2.0, b=5.0):
        self.a, self.b = cr.tensor(a, requires_grad=True), cr.tensor(b, requires_grad=True)
        self.calls = np.zeros((), np.int64)

    def forward(self, x):
        self.calls += 1
        return self.a * x * x * x + self.b * x


class Power(nn.Module):
    def __init__(self, w=3.0):
        self.w = cr.tensor(w, requires_grad=True)

    def forward(self):
        return self.w * self.w * self.w


def state_of(net):
    """All that a transform must leave as it was, by identity."""
    return [(p, p.data, p.node, p.grad, p.requires_grad) for p in net.parameters()]


def same(a, b):
    return len(a) == len(b) and all(all(u is v for u, v in zip(x, y, strict=True)) for x, y in zip(a, b, strict=True))
