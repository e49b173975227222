"""The least that the drawings need of the two engines, so that they are tested without either."""

import weakref
from typing import Any

import numpy as np


class Value:
    """A scalar with parents, and with an equality that a drawing must not use."""

    def __init__(self, data, parents=(), op="", grad=0.0, name=""):
        self.data, self.parents, self.op, self.grad, self.name = data, parents, op, grad, name

    def __eq__(self, other):
        raise AssertionError("compared by value")

    __hash__ = None

    def __add__(self, other):
        return Value(self.data + other.data, (self, other), "+")

    def __mul__(self, other):
        return Value(self.data * other.data, (self, other), "*")

    def __pow__(self, power):
        return Value(self.data**power, (self, Value(power)), "**c")

    def relu(self):
        return Value(max(self.data, 0.0), (self,), "relu")


class Primitive:
    def __init__(self, name):
        self.name = name


class Leaf:
    def __init__(self, tensor):
        self.tensor = weakref.ref(tensor)


class Tensor:
    """An array with a node: number, primitive, parents, residuals, parameters, shape, dtype."""

    count = 0

    def __init__(self, data, primitive=None, parents=(), requires_grad=True):
        self.data = np.asarray(data, dtype=np.float64)
        self.grad: Any = None
        Tensor.count += 1
        residuals = () if primitive else Leaf(self)
        parents = tuple(parent.node for parent in parents)
        name = Primitive(primitive) if primitive else None
        node = [Tensor.count, name, parents, residuals, (), self.data.shape, self.data.dtype]
        self.node = node if requires_grad else None

    def __matmul__(self, other):
        return Tensor(self.data @ other.data, "matmul", (self, other))

    def __add__(self, other):
        return Tensor(self.data + other.data, "add", (self, other))

    def __mul__(self, other):
        return Tensor(self.data * other.data, "multiply", (self, other))

    def tanh(self):
        return Tensor(np.tanh(self.data), "tanh", (self,))

    def mean(self):
        return Tensor(self.data.mean(), "mean", (self,))


def squared_loss():
    """(w x + b - y)^2 on scalars, and the names of its leaves."""
    w, x, b, y = Value(2.0, grad=-6.0), Value(-1.5), Value(0.25, grad=4.0), Value(1.0)
    loss = (w * x + b + y * Value(-1.0)) ** 2
    loss.grad = 1.0
    return loss, {"w": w, "x": x, "b": b, "y": y}


def multilayer(sizes, inputs):
    """A perceptron on scalars whose parameters are all different leaves."""
    layer = [Value(number) for number in inputs]
    for width in sizes:
        following = []
        for unit in range(width):
            total = Value(0.1 * unit)
            for index, value in enumerate(layer):
                total = total + Value(0.3 * index - 0.2 * unit) * value
            following.append(total.relu())
        layer = following
    return layer[0]


def residual_block():
    """Two residual blocks on tensors, the input constant, and the names of the parameters."""
    rng = np.random.default_rng(0)
    x = Tensor(rng.normal(size=(32, 8)), requires_grad=False)
    names = {name: Tensor(rng.normal(size=(8, 8)), requires_grad=True) for name in ("stem", "w1", "w2", "w3", "w4")}
    scale = names["scale"] = Tensor([0.5])
    h = x @ names["stem"]
    first = h + ((h @ names["w1"]).tanh() @ names["w2"]).tanh() * scale
    second = first + h + ((first @ names["w3"]).tanh() @ names["w4"]).tanh() * scale
    for tensor in names.values():
        tensor.grad = np.ones_like(tensor.data) / 8
    return (second * second).mean(), names


def chain(length):
    """A chain of additions on scalars."""
    total, step = Value(0.0), Value(1.0)
    for _ in range(length):
        total = total + step
    return total
