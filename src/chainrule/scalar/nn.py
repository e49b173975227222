"""Neurons, layers and multilayer perceptrons, made of `Value` operations and nothing else.

A layer is a list of neurons, a network a list of layers. To train one: compute a loss, call `zero_grad()` and
`loss.backward()`, and move each parameter against its gradient.
"""

from collections.abc import Iterable, Sequence
from random import Random

from .engine import Value, relu

Number = Value | float


class Module:
    """Something with parameters."""

    def parameters(self) -> list[Value]:
        """The numbers that training changes."""
        return []

    def zero_grad(self) -> None:
        """Forget the gradients, which `backward()` would otherwise add to."""
        for parameter in self.parameters():
            parameter.grad = 0.0


class Neuron(Module):
    """relu(w · x + b), or without relu if it is linear. Weights start uniform in [-1, 1], the bias at 0.

    Raises: ValueError when called with another number of inputs.

    >>> neuron = Neuron(2, seed=0)
    >>> len(neuron.parameters()), neuron([0.0, 0.0]).data
    (3, 0.0)
    """

    def __init__(self, inputs: int, linear: bool = False, seed: int | Random | None = None) -> None:
        random = generator(seed)
        self.weights = [Value(random.uniform(-1.0, 1.0)) for _ in range(inputs)]
        self.bias = Value(0.0)
        self.linear = linear

    def __call__(self, x: Sequence[Number]) -> Value:
        if len(x) != len(self.weights):
            raise ValueError(f"{self!r}: called with {len(x)} inputs, expected {len(self.weights)}")
        activation = sum((w * v for w, v in zip(self.weights, x, strict=True)), self.bias)
        return activation if self.linear else relu(activation)

    def parameters(self) -> list[Value]:
        return [*self.weights, self.bias]

    def __repr__(self) -> str:
        return f"Neuron({len(self.weights)}, linear={self.linear})"


class Layer(Module):
    """Neurons side by side, each seeing all inputs.

    >>> [y.data for y in Layer(2, 3, seed=0)([0.0, 0.0])]
    [0.0, 0.0, 0.0]
    """

    def __init__(self, inputs: int, outputs: int, linear: bool = False, seed: int | Random | None = None) -> None:
        random = generator(seed)
        self.neurons = [Neuron(inputs, linear, random) for _ in range(outputs)]

    def __call__(self, x: Sequence[Number]) -> list[Value]:
        return [neuron(x) for neuron in self.neurons]

    def parameters(self) -> list[Value]:
        return [parameter for neuron in self.neurons for parameter in neuron.parameters()]

    def __repr__(self) -> str:
        return f"Layer({', '.join(map(repr, self.neurons))})"


class MLP(Module):
    """Layers one after the other, relu between them, the last one linear. Gives a list with its outputs.

    One `seed` (a number or a `random.Random`) fixes all weights; without one they differ from run to run.

    Raises: ValueError if `outputs` is empty, or when called with another number of inputs.

    >>> model = MLP(2, [16, 16, 1], seed=0)
    >>> len(model.parameters())
    337
    >>> score, = model([0.5, -0.5])
    >>> loss = hinge_loss([score], [1]) + l2_penalty(model.parameters())
    >>> model.zero_grad()
    >>> loss.backward()
    >>> for p in model.parameters():
    ...     p.data -= 0.1 * p.grad
    """

    def __init__(self, inputs: int, outputs: Sequence[int], seed: int | Random | None = None) -> None:
        if not outputs:
            raise ValueError("MLP: no layers · give the number of outputs of each layer, such as [16, 16, 1]")
        random = generator(seed)
        last = len(outputs) - 1
        sizes = [inputs, *outputs]
        self.layers = [Layer(sizes[i], outputs[i], linear=i == last, seed=random) for i in range(len(outputs))]

    def __call__(self, x: Sequence[Number]) -> list[Value]:
        values = self.layers[0](x)
        for layer in self.layers[1:]:
            values = layer(values)
        return values

    def parameters(self) -> list[Value]:
        return [parameter for layer in self.layers for parameter in layer.parameters()]

    def __repr__(self) -> str:
        return f"MLP({', '.join(map(repr, self.layers))})"


def hinge_loss(scores: Sequence[Value], labels: Sequence[float]) -> Value:
    """The mean of relu(1 - label * score), labels -1 or 1: no loss for a score on the right side with a margin of 1.

    Raises: ValueError if there are no scores, or not as many labels.

    >>> hinge_loss([Value(0.5), Value(-3.0)], [1, -1]).data
    0.25
    """
    if not scores or len(scores) != len(labels):
        raise ValueError(
            f"hinge_loss: {len(scores)} scores and {len(labels)} labels · give as many of each, at least one"
        )
    losses = [relu(1 - label * score) for score, label in zip(scores, labels, strict=True)]
    return sum(losses, Value(0.0)) * (1.0 / len(losses))


def l2_penalty(parameters: Iterable[Value], strength: float = 1e-4) -> Value:
    """strength times the sum of the squared parameters.

    >>> l2_penalty([Value(1.0), Value(2.0)], 0.5).data
    2.5
    """
    return sum((p * p for p in parameters), Value(0.0)) * strength


def generator(seed: int | Random | None) -> Random:
    return seed if isinstance(seed, Random) else Random(seed)
