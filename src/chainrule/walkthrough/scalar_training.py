"""A6 on the scalar engine, as a process of its own: it takes ten seconds or more, and the other core has time.

Run as `python -m chainrule.walkthrough.scalar_training SEED STEPS COLUMNS`; prints a line a step, then the result as
JSON, in which floats keep every bit.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Callable

from chainrule.scalar import MLP, Value
from chainrule.scalar.engine import reachable
from chainrule.walkthrough.measurement import collector_paused
from chainrule.walkthrough.moons import L2, OURS, Training, problem
from chainrule.walkthrough.networks import accuracy, scalar_loss, scalar_network


def train(seed: int, steps: int, columns: int, after_step: Callable[[int], None]) -> Training:
    """Train for `steps` steps, measuring before each and once after the last; score a grid of `columns` columns."""
    moons = problem(seed, OURS)
    model = scalar_network(moons.weights)
    inputs, signs = moons.inputs(moons.points).tolist(), moons.signs.tolist()
    losses: list[float] = []
    accuracies: list[float] = []
    nodes = 0
    start = time.perf_counter()
    with collector_paused():
        for step in range(steps + 1):
            loss, scores = scalar_loss(model, inputs, signs, L2)
            losses.append(loss.data)
            accuracies.append(accuracy([score.data for score in scores], signs))
            nodes = nodes or len(reachable(loss))
            after_step(step)
            if step < steps:
                descend(model, loss, OURS.rate(step))
    seconds = (time.perf_counter() - start) / (steps + 1)
    grid = moons.inputs(moons.grid(columns)[2]).tolist()
    return Training(losses, accuracies, [model(point)[0].data for point in grid], nodes, seconds)


def descend(model: MLP, loss: Value, rate: float) -> None:
    """One step of plain gradient descent."""
    model.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        parameter.data -= rate * parameter.grad


def main() -> None:
    """Print the steps and the result for the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this process
    seed, steps, columns = map(int, sys.argv[1:])
    training = train(seed, steps, columns, lambda step: print(step, flush=True))
    print(json.dumps(dataclasses.asdict(training)), flush=True)


if __name__ == "__main__":
    main()
