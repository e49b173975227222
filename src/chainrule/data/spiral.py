"""Two spiral arms wound around each other: as easy to see as it is hard to separate."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, explain
from chainrule.random import draw


def two_arm_spiral(
    n: int = 200, revolutions: float = 2.5, noise: float = 0.5, *, generator: np.random.Generator | None = None
) -> tuple[Any, Any]:
    """Points on two arms r = t, angle = 2 pi `revolutions` t, t evenly from 0 to 1, in random order.

    The second arm is the first one turned by half a circle.  `noise` moves the angles: a normal standard deviation in
    radians.

    **Shapes** points f64[n, 2] in the unit disc; labels i64[n], 0 on the first arm (n // 2 points) and 1 on the second.
    **Raises** ArgumentError for fewer than two points or negative noise.

    >>> points, labels = two_arm_spiral(4, 1.0, 0.0, generator=np.random.default_rng(0))
    >>> points.shape, int(labels.sum()), float(np.hypot(*points.T).max())
    ((4, 2), 2, 1.0)
    """
    if n < 2 or not noise >= 0:
        fault = f"n={n}, noise={noise}"
        raise ArgumentError(explain("two_arm_spiral", fault, expected="at least 2 points and noise of at least 0"))
    counts = [n // 2, n - n // 2]
    radius = np.concatenate([np.linspace(0.0, 1.0, count) for count in counts])
    labels = np.repeat([0, 1], counts)
    angle = (
        2.0 * np.pi * revolutions * radius
        + np.pi * labels
        + draw.normal(n, 0.0, noise, dtype=np.float64, generator=generator)
    )
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    order = draw.permutation(n, generator=generator)
    return points[order], labels[order]
