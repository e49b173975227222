"""The Rosenbrock function, f(x) = sum 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2, float64."""

from collections.abc import Callable
from typing import Any

import numpy as np


def start(n: int) -> np.ndarray:
    """Near the customary start (-1.2, 1, -1.2, ...), every entry different."""
    return np.where(np.arange(n) % 2, 1.0, -1.2) + 0.01 * np.sin(np.arange(n))


def direction(n: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=n)


def rosenbrock(total: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """f, given the library's sum."""

    def f(x: Any) -> Any:
        a, b = x[:-1], x[1:]
        d = b - a * a
        e = 1.0 - a
        return total(100.0 * d * d + e * e)

    return f
