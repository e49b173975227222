"""A6 and B1: two moons, learned by both engines from the same start, and in the mean over draws."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.core.graph import reach
from chainrule.walkthrough.job import Job
from chainrule.walkthrough.measurement import Measurement, significant
from chainrule.walkthrough.moons import DEMO, L2, OURS, STEPS, Problem, Recipe, Training, problem
from chainrule.walkthrough.networks import accuracy, tensor_loss, tensor_network, tensor_scores, tensor_update

SEEDS = 5
FURTHER_SEEDS = 100
QUICK_STEPS = 60
COLUMNS = 60
TOLERANCE = 1e-6

REFERENCE = {0: (1.4665, 0.26), 20: (0.0984, 0.96), 60: (0.0182, 1.0)}
"""Loss and accuracy of the reference system before these steps, from one draw."""


@dataclass(frozen=True)
class Moons:
    """Everything measured on the moons: what rows and figures are made from.

    `runs` and `demo_runs`: per recipe, loss and accuracy f[2, seeds, steps] of the tensor engine.
    """

    problem: Problem
    scalar: Training
    tensor: Training
    runs: Any
    demo_runs: Any
    further: Any
    seed: int

    @property
    def loss_difference(self) -> float:
        count = len(self.scalar.losses)
        return float(np.max(np.abs(np.subtract(self.scalar.losses, self.tensor.losses[:count]))))

    @property
    def score_difference(self) -> float:
        return float(np.max(np.abs(np.subtract(self.scalar.scores, self.tensor.scores))))


def start_scalar(seed: int, quick: bool) -> Job:
    """The scalar engine's training, in the background."""
    steps = QUICK_STEPS if quick else STEPS
    return Job("chainrule.walkthrough.scalar_training", seed, steps, COLUMNS)


def train_tensors(moons: Problem, steps: int, columns: int = 0) -> Training:
    """Train on the tensor engine, measuring before each step and once after the last."""
    layers = tensor_network(moons.weights)
    inputs, signs = cr.asarray(moons.inputs(moons.points)), cr.asarray(moons.signs)
    losses: list[float] = []
    accuracies: list[float] = []
    nodes = 0
    start = time.perf_counter()
    for step in range(steps + 1):
        loss, scores = tensor_loss(layers, inputs, signs, L2)
        losses.append(loss.item())
        accuracies.append(accuracy(scores.data, moons.signs))
        nodes = nodes or len(reach([loss.node]))
        if step < steps:
            loss.backward()
            tensor_update(layers, moons.recipe.rate(step))
    seconds = (time.perf_counter() - start) / (steps + 1)
    grid = moons.inputs(moons.grid(columns)[2]) if columns else np.zeros((0, 2))
    scored = tensor_scores(layers, cr.asarray(grid)).tolist()
    return Training(losses, accuracies, scored, nodes, seconds)


def train_seeds(seeds: range, recipe: Recipe, steps: int) -> Any:
    """Loss and accuracy f[2, seeds, steps + 1]."""
    runs = [train_tensors(problem(seed, recipe), steps) for seed in seeds]
    return np.array([[run.losses for run in runs], [run.accuracies for run in runs]])


def measure(job: Job, seed: int, quick: bool, advance: Callable[[float], None]) -> Moons:
    """Train the tensor engine, then wait for the scalar one."""
    moons = problem(seed, OURS)
    steps = QUICK_STEPS if quick else STEPS
    tensor = train_tensors(moons, steps, COLUMNS)
    runs = train_seeds(range(seed, seed + SEEDS), OURS, STEPS)
    demo = train_seeds(range(seed, seed + SEEDS), DEMO, STEPS)
    first = seed + SEEDS
    further = train_seeds(range(first, first + FURTHER_SEEDS), OURS, max(REFERENCE)) if not quick else None
    while job.is_running:
        job.wait(0.1)
        advance(min(len(job.lines) / (steps + 2), 1.0))
    return Moons(moons, Training(**json.loads(job.result())), tensor, runs, demo, further, seed)


def learning(moons: Moons) -> Measurement:
    """A6: loss and accuracy at the reference's steps, as means over seeds."""
    measured: dict[str, Any] = {"seeds": SEEDS, "scalar_steps": len(moons.scalar.losses) - 1}
    reached = True
    said: list[str] = []
    for step, (loss, share) in REFERENCE.items():
        (mean, right), (spread, right_spread) = moons.runs[:, :, step].mean(axis=1), moons.runs[:, :, step].std(axis=1, ddof=1)
        measured |= {f"loss_{step}": mean, f"loss_{step}_spread": spread}
        measured |= {f"accuracy_{step}": right, f"accuracy_{step}_spread": right_spread}
        said.append(f"step {step}: {mean:.4f} ± {spread:.4f}, {right:.1%} ± {right_spread:.1%}")
        reached = reached and (step == 0 or (mean <= loss and right >= share))  # step 0 is the draw itself
    measured |= _others(moons)
    reference = {f"{name}_{step}": v for step, pair in REFERENCE.items() for name, v in zip(("loss", "accuracy"), pair, strict=True)}
    return Measurement(
        "A6",
        "two moons: max-margin loss and L2, plain gradient descent; mean ± spread over 5 seeds",
        "; ".join(said),
        "; ".join(f"step {step}: {loss}, {share:.0%}" for step, (loss, share) in REFERENCE.items()) + " (one draw)",
        measured,
        reference,
        reached,
        firm=False,
        note="Points standardised; weights uniform within ±1.2, ±0.7, ±2.0 by layer; rate 0.8 falling to a tenth. "
        "The numbers named demo_ are micrograd's demo as it is: raw points, weights within ±1, rate from 1.",
    )


def _others(moons: Moons) -> dict[str, float]:
    """The demo's recipe on the same seeds, and ours on many more, against a lucky draw."""
    found: dict[str, float] = {}
    named = {"demo": moons.demo_runs} | ({} if moons.further is None else {"further_seeds": moons.further})
    for name, runs in named.items():
        found[f"{name}_count"] = runs.shape[1]
        for step in REFERENCE:
            (loss, right), (spread, _) = runs[:, :, step].mean(axis=1), runs[:, :, step].std(axis=1, ddof=1)
            found |= {f"{name}_loss_{step}": loss, f"{name}_loss_{step}_spread": spread, f"{name}_accuracy_{step}": right}
    return {name: float(value) for name, value in found.items()}


def agreement(moons: Moons) -> Measurement:
    """B1: the tensor engine does what the scalar engine does, step by step, and draws the same boundary."""
    count = len(moons.scalar.losses)
    worst, boundary = moons.loss_difference, moons.score_difference
    return Measurement(
        "B1",
        "both engines from the same start: loss before every step, and the boundary at the end",
        f"{count} losses, largest difference {significant(worst, 2)}; scores on {len(moons.scalar.scores):,} grid "
        f"points, largest difference {significant(boundary, 2)}",
        f"equal to {TOLERANCE:g}, the same decision boundary",
        {
            "losses_compared": count,
            "largest_loss_difference": worst,
            "grid_points": len(moons.scalar.scores),
            "largest_score_difference": boundary,
            "scalar_nodes": moons.scalar.nodes,
            "tensor_nodes": moons.tensor.nodes,
            "scalar_seconds_per_step": moons.scalar.seconds_per_step,
            "tensor_seconds_per_step": moons.tensor.seconds_per_step,
        },
        {"largest_loss_difference": TOLERANCE, "largest_score_difference": TOLERANCE},
        worst <= TOLERANCE and boundary <= TOLERANCE,
    )
