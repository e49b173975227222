"""A6 and B1, the problem itself: two moons, a start, and a rule for the learning rate, the same for both engines.

Two recipes.  `DEMO` is micrograd's demo, whose figures the reference quotes from one draw.  `OURS` sees the points
standardised, starts from weights spread for each layer, and reaches those figures in the mean over draws; bounds and
rate were chosen on the seeds 0 to 59, which the report does not use unless it is asked to.
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
    """How to start and how to step: weights are uniform within +-`bounds[layer]`, biases zero."""

    standardised: bool
    bounds: tuple[float, float, float]
    first_rate: float

    def rate(self, step: int) -> float:
        """The learning rate, which falls to a tenth over 100 steps."""
        return self.first_rate * (1.0 - 0.9 * step / 100)


DEMO = Recipe(False, (1.0, 1.0, 1.0), 1.0)
OURS = Recipe(True, (1.2, 0.7, 2.0), 0.8)


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
        x = np.linspace(left, right, columns)
        y = np.linspace(bottom, top, round(columns * 0.75))
        return x, y, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def problem(seed: int, recipe: Recipe) -> Problem:
    """The problem of one seed, which fixes points and start."""
    generator = np.random.default_rng(seed)
    points, labels = two_moons(POINTS, NOISE, generator=generator)
    weights: Weights = []
    for bound, before, after in zip(recipe.bounds, SIZES, SIZES[1:], strict=False):
        weights.append((generator.uniform(-bound, bound, (after, before)), np.zeros(after)))
    return Problem(points, 2.0 * labels - 1.0, weights, recipe)


@dataclass(frozen=True)
class Training:
    """What one training run left: loss and accuracy before each step, and the scores on a grid after the last."""

    losses: list[float]
    accuracies: list[float]
    scores: list[float]
    nodes: int
    seconds_per_step: float
