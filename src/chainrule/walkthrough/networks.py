"""The same network and loss on both engines, with the same words: scores, mean hinge, L2 penalty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.scalar import MLP, Value, hinge_loss, l2_penalty
from chainrule.walkthrough.moons import Weights

Layers = list[tuple[Any, Any]]


def scalar_network(weights: Weights) -> MLP:
    """An MLP of Values that starts at `weights`."""
    model = MLP(weights[0][0].shape[1], [len(bias) for _, bias in weights], seed=0)
    for layer, (matrix, bias) in zip(model.layers, weights, strict=True):
        for neuron, row, offset in zip(layer.neurons, matrix.tolist(), bias.tolist(), strict=True):
            for weight, number in zip(neuron.weights, row, strict=True):
                weight.data = number
            neuron.bias.data = offset
    return model


def scalar_loss(
    model: MLP, inputs: Sequence[Sequence[float]], signs: Sequence[float], l2: float
) -> tuple[Value, list[Value]]:
    """The loss, and the scores that it was made of."""
    scores = [model(row)[0] for row in inputs]
    loss = hinge_loss(scores, signs)
    return (loss + l2_penalty(model.parameters(), l2) if l2 else loss), scores


def tensor_network(weights: Weights) -> Layers:
    """The same start as tensors that want gradients."""
    return [(cr.tensor(matrix, requires_grad=True), cr.tensor(bias, requires_grad=True)) for matrix, bias in weights]


def tensor_scores(layers: Layers, inputs: Any) -> Any:
    """The scores f[n] of inputs f[n, 2]."""
    values = inputs
    for matrix, bias in layers[:-1]:
        values = cr.relu(values @ matrix.T + bias)
    matrix, bias = layers[-1]
    return (values @ matrix.T + bias)[:, 0]


def tensor_loss(layers: Layers, inputs: Any, signs: Any, l2: float) -> tuple[Any, Any]:
    """The loss, and the scores that it was made of."""
    scores = tensor_scores(layers, inputs)
    loss = cr.relu(1.0 - signs * scores).mean()
    for matrix, bias in layers if l2 else []:
        loss = loss + l2 * ((matrix * matrix).sum() + (bias * bias).sum())
    return loss, scores


def tensor_update(layers: Layers, rate: float) -> None:
    """One step of gradient descent, which leaves no gradients behind."""
    with cr.no_grad():
        for parameter in (tensor for layer in layers for tensor in layer):
            parameter -= rate * parameter.grad  # noqa: PLW2901 - in place
            parameter.grad = None


def accuracy(scores: Any, signs: Any) -> float:
    """The share of scores whose sign is the right one of -1 and 1."""
    return int(np.sum(np.sign(scores) == signs)) / len(signs)
