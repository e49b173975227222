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
QUICK_FURTHER_SEEDS = 20
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
    count = QUICK_FURTHER_SEEDS if quick else FURTHER_SEEDS
    further = train_seeds(range(first, first + count), OURS, max(REFERENCE))
    while job.is_running:
        job.wait(0.1)
        advance(min(len(job.lines) / (steps + 2), 1.0))
    return Moons(moons, Training(**json.loads(job.result())), tensor, runs, demo, further, seed)


def at_step(runs: Any, step: int) -> dict[str, float]:
    """Mean and spread (one standard deviation) over the seeds of loss and accuracy before this step."""
    (loss, right), (loss_spread, right_spread) = runs[:, :, step].mean(axis=1), runs[:, :, step].std(axis=1, ddof=1)
    named = {"loss": loss, "loss_spread": loss_spread, "accuracy": right, "accuracy_spread": right_spread}
    return {name: float(number) for name, number in named.items()}


def learning(moons: Moons) -> Measurement:
    """A6: loss and accuracy at the reference's steps, as means over seeds."""
    found = {step: at_step(moons.runs, step) for step in REFERENCE}
    trained = [(found[step], REFERENCE[step]) for step in REFERENCE if step]  # before step 0 there is only the draw
    reached = all(f["loss"] <= loss and f["accuracy"] >= share for f, (loss, share) in trained)
    said = "; ".join(
        f"step {step}: {f['loss']:.4f} ± {f['loss_spread']:.4f}, {f['accuracy']:.1%} ± {f['accuracy_spread']:.1%}"
        for step, f in found.items()
    )
    measured: dict[str, float] = {"seeds": SEEDS, "scalar_steps": len(moons.scalar.losses) - 1}
    reference: dict[str, float] = {}
    for step, (loss, share) in REFERENCE.items():
        measured |= {f"{name}_{step}": number for name, number in found[step].items()}
        reference |= {f"loss_{step}": loss, f"accuracy_{step}": share}
    others, note = _others(moons)
    return Measurement(
        "A6",
        "two moons: max-margin loss and L2, plain gradient descent; mean ± spread over 5 seeds",
        said,
        "; ".join(f"step {step}: {loss}, {share:.0%}" for step, (loss, share) in REFERENCE.items()) + " (one draw)",
        measured | others,
        reference,
        reached,
        firm=False,
        note=note,
    )


def _others(moons: Moons) -> tuple[dict[str, float], str]:
    """The demo's recipe on the same seeds, and ours on many more, against a lucky draw; the same in words."""
    found: dict[str, float] = {"further_seeds": moons.further.shape[1]}
    said: dict[str, str] = {}
    for name, runs in (("demo", moons.demo_runs), ("further", moons.further)):
        steps = {step: at_step(runs, step) for step in REFERENCE}
        found |= {f"{name}_{key}_{step}": number for step, f in steps.items() for key, number in f.items()}
        said[name] = ", ".join(f"{f['loss']:.4f} and {f['accuracy']:.1%} at step {k}" for k, f in steps.items() if k)
    note = (
        "Points standardised; the first layer looks in all directions, the last one votes ±1.6; rate 0.5 falling to 0.15. "
        f"On {moons.further.shape[1]} further seeds the means are {said['further']}. micrograd's demo as it is (raw points, weights "
        f"within ±1, rate 1 falling to 0.1) gives {said['demo']} on the same 5 seeds."
    )
    return found, note


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
