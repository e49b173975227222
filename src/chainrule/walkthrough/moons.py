"""A6 and B1, the problem itself: two moons, a start, and a rule for the learning rate, the same for both engines.

Two recipes.  `DEMO` is micrograd's demo.  `OURS` sees the points standardised and starts spread out: first-layer neurons
look in all directions, and half of the second layer's vote for each class.  The reference quotes its figures from one
draw, ours reaches them in the mean over draws.  It was chosen on the seeds 0 to 199, which the report leaves alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule.data import two_moons

POINTS = 100
NOISE = 0.1
STEPS = 100
L2 = 1e-4
SIZES = (2, 16, 16, 1)

Weights = list[tuple[Any, Any]]
"""Per layer, the matrix f[out, in] and the bias f[out]."""


@dataclass(frozen=True)
class Recipe:
    """How to start and how to step: weights are uniform within +-`bounds[layer]`, biases zero.

    If `spread`, the first layer's weight vectors have the length of their bound and point evenly around the circle, and
    the last layer's weights are plus and minus their bound in turn.  The rate falls from the first to the last of
    `rates` over 100 steps.
    """

    standardised: bool
    spread: bool
    bounds: tuple[float, float, float]
    rates: tuple[float, float]

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        first, last = self.rates
        return first - (first - last) * step / 100


DEMO = Recipe(standardised=False, spread=False, bounds=(1.0, 1.0, 1.0), rates=(1.0, 0.1))
OURS = Recipe(standardised=True, spread=True, bounds=(1.0, 0.8, 1.6), rates=(0.5, 0.15))


@dataclass(frozen=True)
class Problem:
    """Points as drawn f[100, 2], signs -1 or 1 f[100], the start, and the recipe that says how to go on."""

    points: Any
    signs: Any
    weights: Weights
    recipe: Recipe

    def inputs(self, points: Any) -> Any:
        """What the network sees of `points` f[n, 2]."""
        if not self.recipe.standardised:
            return points
        return (points - self.points.mean(axis=0)) / self.points.std(axis=0)

    def grid(self, columns: int) -> tuple[Any, Any, Any]:
        """Coordinates f[columns], f[rows] around the points, and the points of the grid f[columns * rows, 2]."""
        (left, bottom), (right, top) = self.points.min(axis=0) - 0.3, self.points.max(axis=0) + 0.3
        x = np.linspace(float(left), float(right), columns)
        y = np.linspace(float(bottom), float(top), round(columns * 0.75))
        return x, y, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def problem(seed: int, recipe: Recipe) -> Problem:
    """The problem of one seed, which fixes points and start."""
    generator = np.random.default_rng(seed)
    points, labels = two_moons(POINTS, NOISE, generator=generator)
    weights: Weights = []
    for bound, before, after in zip(recipe.bounds, SIZES, SIZES[1:], strict=False):
        weights.append((generator.uniform(-bound, bound, (after, before)), np.zeros(after)))
    if recipe.spread:
        angles = generator.uniform(0.0, 2.0 * np.pi) + 2.0 * np.pi * np.arange(SIZES[1]) / SIZES[1]
        weights[0] = recipe.bounds[0] * np.stack([np.cos(angles), np.sin(angles)], axis=1), weights[0][1]
        weights[2] = recipe.bounds[2] * np.resize([1.0, -1.0], weights[2][0].shape), weights[2][1]
    return Problem(points, 2.0 * labels - 1.0, weights, recipe)


@dataclass(frozen=True)
class Training:
    """What one training run left: loss and accuracy before each step, and the scores on a grid after the last."""

    losses: list[float]
    accuracies: list[float]
    scores: list[float]
    nodes: int
    seconds_per_step: float
