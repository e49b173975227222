"""A7: 100,000 points on a line, fitted point by point, all at once, and in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.data import line
from chainrule.scalar import Value
from chainrule.walkthrough.measurement import Measurement, significant

POINTS = 100_000
REFERENCE = (1.0, -1e-5)
TOLERANCE = 1e-6
RATE = 0.3
"""Of single-sample steps: stable as long as rate * (x**2 + 1) < 1."""


@dataclass(frozen=True)
class Fits:
    """(w, b) by each way, and how far away each engine was on the way: pairs of points seen and distance."""

    scalar: tuple[float, float]
    tensor: tuple[float, float]
    closed_form: tuple[float, float]
    scalar_path: list[tuple[int, float]]
    tensor_path: list[tuple[int, float]]
    scalar_in_order: tuple[float, float] | None
    """Of one pass in the given order, if there was time for it."""


def distance(fit: tuple[float, float]) -> float:
    """The larger of the two parameters' distances from the reference."""
    return max(abs(fit[0] - REFERENCE[0]), abs(fit[1] - REFERENCE[1]))


def fit_scalar(
    x: list[float], y: list[float], advance: Callable[[float], None]
) -> tuple[tuple[float, float], list[tuple[int, float]]]:
    """One pass over the points in the order given, a step of gradient descent at each."""
    w, b = Value(0.0), Value(0.0)
    path: list[tuple[int, float]] = []
    for seen, (x_point, y_point) in enumerate(zip(x, y, strict=True)):
        if seen.bit_count() == 1 or seen % 5000 == 0:
            path.append((max(seen, 1), distance((w.data, b.data))))
            advance(seen / len(x))
        w.grad = b.grad = 0.0
        ((w * x_point + b - y_point) ** 2).backward()
        w.data -= RATE * w.grad
        b.data -= RATE * b.grad
    return (w.data, b.data), [*path, (len(x), distance((w.data, b.data)))]


def fit_tensor(x: Any, y: Any, steps: int = 400) -> tuple[tuple[float, float], list[tuple[int, float]]]:
    """Gradient descent on all points at once, with momentum, whose rate and decay fit the curvature.

    **Source** heavy ball, Polyak 1964: for curvatures from l to L, rate (2 / (sqrt L + sqrt l))**2, momentum
    ((sqrt L - sqrt l) / (sqrt L + sqrt l))**2.
    """
    points = np.stack([x, np.ones_like(x)], axis=1)
    low, high = np.sqrt(np.linalg.eigvalsh(2.0 * points.T @ points / len(x)))
    rate, momentum = (2.0 / (high + low)) ** 2, ((high - low) / (high + low)) ** 2
    fit = cr.tensor(np.zeros(2), requires_grad=True)
    inputs, targets, velocity = cr.asarray(points), cr.asarray(y), np.zeros(2)
    path: list[tuple[int, float]] = []
    for step in range(steps):
        path.append((step, distance(tuple(fit.tolist()))))
        errors = inputs @ fit - targets
        (errors * errors).mean().backward()
        velocity = momentum * velocity - rate * fit.grad
        with cr.no_grad():
            fit += velocity
        fit.grad = None
        if path[-1][1] < 1e-12:
            break
    w, b = fit.tolist()
    return (w, b), path


def closed_form(x: Any, y: Any) -> tuple[float, float]:
    """Least squares from the normal equations of centred columns, which know no step."""
    x_mean, y_mean = math.fsum(x) / len(x), math.fsum(y) / len(y)
    slope = float(np.dot(x - x_mean, y - y_mean) / np.dot(x - x_mean, x - x_mean))
    return slope, y_mean - slope * x_mean


def measure(seed: int, quick: bool, advance: Callable[[float], None]) -> Fits:
    """All the fits; a quick run leaves out the one that is meant to fail."""
    x, y = line(POINTS)
    order = np.random.default_rng(seed).permutation(POINTS)
    scalar, path = fit_scalar(x[order].tolist(), y[order].tolist(), lambda done: advance(0.45 * done))
    in_order = None if quick else fit_scalar(x.tolist(), y.tolist(), lambda done: advance(0.45 + 0.45 * done))[0]
    tensor, tensor_path = fit_tensor(x, y)
    return Fits(scalar, tensor, closed_form(x, y), path, tensor_path, in_order)


def regression(fits: Fits) -> Measurement:
    """A7: both engines land on the closed form."""
    measured: dict[str, float] = {"points": POINTS, "tensor_steps": len(fits.tensor_path)}
    named = {"scalar": fits.scalar, "tensor": fits.tensor, "closed_form": fits.closed_form}
    if fits.scalar_in_order is not None:
        named["scalar_in_order"] = fits.scalar_in_order
    for name, (w, b) in named.items():
        measured |= {f"{name}_w": w, f"{name}_b": b, f"{name}_distance": distance((w, b))}
    far = [measured[f"{name}_distance"] for name in ("scalar", "tensor", "closed_form")]
    return Measurement(
        "A7",
        "the line y = x - 1 through 100,000 points, divided by 100,000",
        f"w {fits.scalar[0]:.9f}, b {fits.scalar[1]:.3e}; distance from the closed form: scalar {significant(far[0], 2)} "
        f"(one shuffled pass), tensor {significant(far[1], 2)} ({len(fits.tensor_path)} full-batch steps)",
        f"w 1, b -1e-5, to {TOLERANCE:g}",
        measured,
        {"w": REFERENCE[0], "b": REFERENCE[1], "tolerance": TOLERANCE},
        max(far) <= TOLERANCE,
        note=""
        if fits.scalar_in_order is None
        else f"In the given order one pass of the scalar engine ends {significant(distance(fits.scalar_in_order), 2)} away: "
        "neighbouring points pull the same way.",
    )
