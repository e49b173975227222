"""C1 and C2: least squares has an answer in closed form; what gradient descent and Adam make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.walkthrough.measurement import Measurement, significant

POINTS, FEATURES, NOISE = 200, 10, 0.3
RATE = 0.05
"""Of Adam, as in the reference."""
DESCENT_STEPS = 300
STEPS, MORE_STEPS = 6_000, 20_000
SEEDS = 5
ROUNDING = 4e-15
"""Of sums over the points in float64; the answer itself has that much."""
LAST = 2_000
"""Adam's distance is judged by the farthest of so many steps."""
STALLED = 1e-8
"""Farther away than this is not at the answer: half of a float64's digits."""
REFERENCE = {"C1": 1.4e-16, "C2": {"6,000": 4.6e-5, "20,000": 2.1e-5, "annealed": 1.4e-16}}


@dataclass(frozen=True)
class Problem:
    """Minimise mean((X w - y)**2): X f[200, 11] with a column of ones, y f[200]; `answer` by `numpy.linalg.solve`."""

    X: Any
    y: Any
    answer: Any
    lipschitz: float
    """The largest eigenvalue of the Hessian: descent with the inverse of it as rate cannot overshoot."""

    def loss(self, w: Any) -> Any:
        """The mean squared residual at w."""
        residual = self.X @ w - self.y
        return (residual * residual).mean()

    def distance(self, w: Any) -> float:
        """The relative distance of w from the answer."""
        return float(np.linalg.norm(w - self.answer) / np.linalg.norm(self.answer))


def problem(seed: int) -> Problem:
    """The problem of one seed."""
    generator = np.random.default_rng(seed)
    X = np.concatenate([generator.normal(size=(POINTS, FEATURES)), np.ones((POINTS, 1))], axis=1)
    y = X @ generator.normal(size=FEATURES + 1) + NOISE * generator.normal(size=POINTS)
    answer: Any = np.linalg.solve(X.T @ X, X.T @ y)
    hessian = 2.0 / POINTS * (X.T @ X)
    return Problem(X, y, answer, float(np.linalg.eigvalsh(hessian)[-1]))


@dataclass(frozen=True)
class Path:
    """One run: the loss before each step, the distance from the answer after some of them, and where it ended."""

    losses: Any
    distances: Any
    end: Any


def descend(of: Problem, optimizer: type[Any], steps: int, rate: Callable[[int], float]) -> Path:
    """`steps` steps from zero; `rate(k)` is that of step k."""
    w = cr.zeros(len(of.answer), dtype=np.float64, requires_grad=True)
    stepper = optimizer([w], lr=rate(0))
    losses, distances = np.empty(steps), np.empty(steps)
    for k in range(steps):
        stepper.param_groups[0]["lr"] = rate(k)
        stepper.zero_grad()
        loss = of.loss(w)
        loss.backward()
        stepper.step()
        losses[k], distances[k] = loss.item(), of.distance(w.data)
    return Path(losses, distances, w.detach().numpy())


@dataclass(frozen=True)
class Seed:
    """What one problem gave: descent at 1/L, Adam at a fixed rate, Adam with a rate that goes to zero."""

    problem: Problem
    descent: Path
    fixed: Path
    annealed: Path

    @property
    def gradient(self) -> float:
        """The largest entry of the engine's gradient where descent ended, beside the sizes of what it adds up."""
        of, w = self.problem, self.descent.end
        terms = 2.0 / POINTS * np.abs(of.X.T) @ (np.abs(of.X) @ np.abs(w) + np.abs(of.y))
        return float(np.max(np.abs(cr.grad(of.loss)(w)) / terms))

    @property
    def rise(self) -> float:
        """The largest relative rise of the loss from one step of descent to the next; at most 0 if it never rose."""
        losses = self.descent.losses
        return float(np.max(losses[1:] / losses[:-1] - 1.0))

    @property
    def residual(self) -> float:
        """How far, relatively, the last loss is from the residual that NumPy's least squares leaves."""
        solved: Any = np.linalg.lstsq
        residuals = solved(self.problem.X, self.problem.y, rcond=None)[1]
        return abs(float(self.descent.losses[-1]) * POINTS / float(residuals[0]) - 1.0)


def measure(seed: int, quick: bool, advance: Callable[[float], None]) -> list[Seed]:
    """All runs on every seed; quick: Adam at a fixed rate stops after 6,000 steps."""
    found: list[Seed] = []
    for k in range(SEEDS):
        of = problem(seed + k)
        inverse = 1.0 / of.lipschitz
        descent = descend(of, cr.optim.SGD, DESCENT_STEPS, lambda _, inverse=inverse: inverse)
        fixed = descend(of, cr.optim.Adam, STEPS if quick else MORE_STEPS, lambda _: RATE)
        annealed = descend(of, cr.optim.Adam, STEPS, lambda k: RATE * (1.0 - k / STEPS) ** 2)
        found.append(Seed(of, descent, fixed, annealed))
        advance((k + 1) / SEEDS)
    return found


def landing(seeds: list[Seed]) -> Measurement:
    """C1: gradient descent ends at the closed form."""
    far = [s.descent.distances[-1] for s in seeds]
    gradient, rise = max(s.gradient for s in seeds), max(s.rise for s in seeds)
    residual = max(s.residual for s in seeds)
    return Measurement(
        "C1",
        f"least squares, {POINTS} points, {FEATURES + 1} weights: {DESCENT_STEPS} steps of descent at 1/L against numpy.linalg.solve",
        f"relative error {spread(far)}; last loss is the residual to {residual:.1e}; gradient there {gradient:.1e} of its "
        f"terms; largest rise of the loss {max(rise, 0.0):.1e} of it",
        "relative error 1.4e-16; loss is the residual; gradient 0 to rounding; loss never rises",
        {
            "relative_error": far,
            "loss_against_residual": residual,
            "gradient_over_its_terms": gradient,
            "largest_rise": rise,
        },
        {"relative_error": REFERENCE["C1"]},
        max(far) < ROUNDING and residual < 1e-14 and gradient < ROUNDING and rise < ROUNDING,
        note=f"Over {SEEDS} problems, each with its own data. L is the largest eigenvalue of the Hessian, by numpy.linalg.eigvalsh.",
    )


def stall(seeds: list[Seed]) -> Measurement:
    """C2: Adam at a fixed rate keeps a distance; with a rate that goes to zero it does not."""
    early, late = ([float(s.fixed.distances[k - 1]) for s in seeds] for k in (STEPS, len(seeds[0].fixed.distances)))
    farthest = [float(np.max(s.fixed.distances[k - LAST : k])) for s in seeds for k in (STEPS, len(s.fixed.distances))]
    annealed = [s.annealed.distances[-1] for s in seeds]
    is_quick = len(seeds[0].fixed.distances) == STEPS
    words = "" if is_quick else f", {spread(late)} after {MORE_STEPS:,}"
    measured = {"after_6000": early, "after_20000": None if is_quick else late, "annealed": annealed}
    measured["farthest_of_last_2000"] = farthest
    return Measurement(
        "C2",
        f"the same with Adam: at the fixed rate {RATE}, and with a rate that falls to 0 over {STEPS:,} steps",
        f"fixed: {spread(early)} away after {STEPS:,} steps{words}, and as far as {min(farthest):.1g} again and again; "
        f"annealed: {spread(annealed)}",
        "fixed: 4.6e-5 away after 6,000 steps, 2.1e-5 after 20,000; annealed: 1.4e-16",
        measured,
        REFERENCE["C2"],
        min(farthest) > STALLED and max(annealed) < ROUNDING,
        note="At a fixed rate the distance comes and goes: Adam divides by the size of recent gradients, so near the answer, where "
        f"they vanish, its steps grow again. Judged is the farthest of {LAST:,} steps.",
    )


def spread(values: list[float]) -> str:
    """Median and range, for people: what has a spread of orders of magnitude has no useful mean."""
    return (
        f"{significant(float(np.median(values)), 2)} ({significant(min(values), 2)} to {significant(max(values), 2)})"
    )
