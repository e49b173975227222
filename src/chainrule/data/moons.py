"""Two half circles, one hanging into the other: the smallest problem that no straight boundary solves."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, explain
from chainrule.random import draw


def two_moons(n: int = 100, noise: float = 0.1, *, generator: np.random.Generator | None = None) -> tuple[Any, Any]:
    """Points on two interleaved half circles of radius 1, in random order, each moved by normal noise.

    The upper one is (cos t, sin t), the lower one (1 - cos t, 1/2 - sin t), t evenly from 0 to pi.  `noise` is the
    standard deviation of either coordinate.

    **Shapes** points f64[n, 2]; labels i64[n], 0 on the upper half circle (n // 2 points) and 1 on the lower.
    **Raises** ArgumentError for fewer than two points or negative noise.
    **Source** the construction of scikit-learn's `make_moons`.

    >>> points, labels = two_moons(4, noise=0.0, generator=np.random.default_rng(0))
    >>> points.shape, int(labels.sum())
    ((4, 2), 2)
    """
    if n < 2 or not noise >= 0:
        fault = f"n={n}, noise={noise}"
        raise ArgumentError(explain("two_moons", fault, expected="at least 2 points and noise of at least 0"))
    upper, lower = np.linspace(0.0, np.pi, n // 2), np.linspace(0.0, np.pi, n - n // 2)
    points = np.concatenate([
        np.stack([np.cos(upper), np.sin(upper)], axis=1),
        np.stack([1.0 - np.cos(lower), 0.5 - np.sin(lower)], axis=1),
    ])  # fmt: skip
    labels = np.repeat([0, 1], [upper.size, lower.size])
    order = draw.permutation(n, generator=generator)
    return points[order] + draw.normal(points.shape, 0.0, noise, dtype=np.float64, generator=generator), labels[order]
