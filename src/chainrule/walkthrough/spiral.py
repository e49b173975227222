"""B6: the same step of the same network on both engines; how many nodes, and how many seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import chainrule as cr
from chainrule.core.graph import reach
from chainrule.data import two_arm_spiral
from chainrule.scalar import MLP
from chainrule.scalar.engine import reachable
from chainrule.walkthrough.measurement import Measurement, collector_paused, median_seconds, significant
from chainrule.walkthrough.moons import SIZES, Weights
from chainrule.walkthrough.networks import Layers, scalar_loss, scalar_network, tensor_loss, tensor_network

POINTS = 200
REFERENCE = {"fewer_nodes": 5649.0, "times_faster": 5000.0}


@dataclass(frozen=True)
class Workload:
    """What one step takes on each engine: the nodes that its loss hangs on, and seconds for forward and backward."""

    scalar_nodes: int
    tensor_nodes: int
    scalar_seconds: float
    tensor_seconds: float
    gradient_difference: float


def measure(seed: int, quick: bool, advance: Callable[[float], None]) -> Workload:
    """Walk and time both graphs of MLP(2, [16, 16, 1]) on 200 points, mean hinge loss, full batch."""
    generator = np.random.default_rng(seed)
    points, labels = two_arm_spiral(POINTS, generator=generator)
    signs = 2.0 * labels - 1.0
    weights: Weights = [
        (generator.uniform(-1.0, 1.0, (after, before)), np.zeros(after)) for before, after in pairwise(SIZES)
    ]
    model, layers = scalar_network(weights), tensor_network(weights)
    rows, row_signs = points.tolist(), signs.tolist()
    inputs, wanted = cr.asarray(points), cr.asarray(signs)

    def scalar_step() -> None:
        model.zero_grad()
        scalar_loss(model, rows, row_signs, 0.0)[0].backward()

    def tensor_step() -> None:
        for matrix, bias in layers:
            matrix.grad = bias.grad = None
        tensor_loss(layers, inputs, wanted, 0.0)[0].backward()

    scalar, tensor = scalar_loss(model, rows, row_signs, 0.0)[0], tensor_loss(layers, inputs, wanted, 0.0)[0]
    scalar_nodes, tensor_nodes = len(reachable(scalar)), len(reach([tensor.node]))
    scalar.backward()
    tensor.backward()
    del scalar
    difference = gradient_difference(model, layers)
    advance(0.2)
    with collector_paused():
        scalar_seconds = median_seconds(scalar_step, 3 if quick else 9)
        advance(0.8)
        tensor_seconds = median_seconds(tensor_step, 15, 50)
    return Workload(scalar_nodes, tensor_nodes, scalar_seconds, tensor_seconds, difference)


def gradient_difference(model: MLP, layers: Layers) -> float:
    """The largest difference between the gradients that both engines hold."""
    ours = [parameter.grad for parameter in model.parameters()]
    theirs = [np.concatenate([matrix.grad, bias.grad[:, None]], axis=1).ravel() for matrix, bias in layers]
    return float(np.max(np.abs(np.array(ours) - np.concatenate(theirs))))


def comparison(work: Workload) -> Measurement:
    """B6: both ratios."""
    fewer, faster = work.scalar_nodes / work.tensor_nodes, work.scalar_seconds / work.tensor_seconds
    return Measurement(
        "B6",
        "spiral, 200 points, MLP(2, [16, 16, 1]), hinge, full batch: one step on both engines",
        f"{work.scalar_nodes:,} nodes against {work.tensor_nodes} ({fewer:,.0f} times fewer); "
        f"{significant(work.scalar_seconds * 1e3)} ms against {significant(work.tensor_seconds * 1e6)} µs ({faster:,.0f} times faster)",
        "5,649 times fewer nodes, about 5,000 times faster",
        {
            "scalar_nodes": work.scalar_nodes,
            "tensor_nodes": work.tensor_nodes,
            "fewer_nodes": fewer,
            "scalar_seconds": work.scalar_seconds,
            "tensor_seconds": work.tensor_seconds,
            "times_faster": faster,
            "largest_gradient_difference": work.gradient_difference,
        },
        REFERENCE,
        work.gradient_difference < 1e-12 and fewer >= REFERENCE["fewer_nodes"],
        note="Nodes are counted by walking the graphs of both losses, leaves included. The ratio of times is not judged: a "
        "faster scalar engine makes it smaller.",
    )
