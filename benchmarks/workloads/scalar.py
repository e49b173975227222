"""Scalar engine: one training step of MLP(2, [16, 16, 1]) on 100 points of two moons, where
every number is an object of its own (65,000 operations).

hinge loss + 1e-4 * (sum of squares), SGD: the published demonstration of micrograd.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.workloads.contender import OURS, Case, Contender, Parts

RATE = 0.1
DECAY = 1e-4
LAYERS = (2, 16, 16, 1)

CASES = [
    Case(
        "scalar",
        "scalar engine: SGD step of MLP(2, [16, 16, 1]), 100 moons",
        "float64",
        tolerance=1e-10,
        steps=1,
    )
]


def moons() -> tuple[list[list[float]], list[float]]:
    """Two half circles of 50 points, with noise."""
    angle = np.linspace(0, np.pi, 50)
    outer = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    inner = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    noise = np.random.default_rng(0).normal(scale=0.1, size=(100, 2))
    return (np.concatenate([outer, inner]) + noise).tolist(), [-1.0] * 50 + [1.0] * 50


def initial() -> list[list[list[float]]]:
    """Layers of neurons of numbers: the weights, then the bias."""
    rng = np.random.default_rng(1)
    return [
        np.concatenate([rng.uniform(-1, 1, (out, wide)), np.zeros((out, 1))], axis=1).tolist()
        for wide, out in pairwise(LAYERS)
    ]


def loss_of(layers: Sequence[Any], relu: Callable[[Any], Any]) -> Any:
    losses = []
    for x, y in zip(*moons(), strict=True):
        h = x
        for i, layer in enumerate(layers):
            out = []
            for neuron in layer:
                s = neuron[-1]
                for w, v in zip(neuron, h, strict=False):
                    s = s + w * v
                out.append(relu(s) if i + 1 < len(layers) else s)
            h = out
        losses.append(relu(1.0 - y * h[0]))
    data, squares = losses[0], None
    for one in losses[1:]:
        data = data + one
    for p in flat(layers):
        squares = p * p if squares is None else squares + p * p
    return data * (1.0 / len(losses)) + DECAY * squares


def flat(layers: Sequence[Any]) -> list[Any]:
    return [p for layer in layers for neuron in layer for p in neuron]


def values(make: Callable[[float], Any]) -> Parts:
    """For engines whose Value has data and grad, plain numbers."""
    layers: list[Any] = []
    parameters: list[Any] = []

    def reset() -> None:
        layers[:] = [[[make(p) for p in neuron] for neuron in layer] for layer in initial()]
        parameters[:] = flat(layers)

    def step() -> Any:
        loss = loss_of(layers, lambda v: v.relu())
        for p in parameters:
            p.grad = 0.0
        loss.backward()
        for p in parameters:
            p.data -= RATE * p.grad
        return loss.data

    def results(loss: float) -> dict[str, Any]:
        gradient, now = [p.grad for p in parameters], [p.data for p in parameters]
        return {"loss": loss, "gradient": np.array(gradient), "parameters": np.array(now)}

    reset()
    return Parts(step, results, reset)


def chainrule(_: Case) -> Parts:
    from chainrule.scalar import Value

    return values(Value)


def micrograd(_: Case) -> Parts:
    from micrograd.engine import Value

    return values(Value)


def torch_scalars(_: Case) -> Parts:
    """PyTorch with a tensor for every number."""
    import torch

    torch.set_num_threads(1)
    layers: list[Any] = []
    parameters: list[Any] = []

    def leaf(p: float) -> Any:
        return torch.tensor(p, dtype=torch.float64, requires_grad=True)

    def reset() -> None:
        layers[:] = [[[leaf(p) for p in neuron] for neuron in layer] for layer in initial()]
        parameters[:] = flat(layers)

    def step() -> Any:
        loss = loss_of(layers, torch.relu)
        for p in parameters:
            p.grad = None
        loss.backward()
        with torch.no_grad():
            for p in parameters:
                p.sub_(p.grad, alpha=RATE)
        return loss.item()

    def results(loss: float) -> dict[str, Any]:
        gradient, now = [p.grad.item() for p in parameters], [p.item() for p in parameters]
        return {"loss": loss, "gradient": np.array(gradient), "parameters": np.array(now)}

    reset()
    return Parts(step, results, reset)


CONTENDERS = [
    Contender(OURS, "chainrule", chainrule),
    Contender("micrograd", "micrograd", micrograd),
    Contender("PyTorch, 0-d tensors", "torch", torch_scalars),
]
