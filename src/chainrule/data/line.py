"""Points on a straight line, without noise, so that the fit has a closed form to land on."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, explain


def line(n: int = 100_000) -> tuple[Any, Any]:
    """The points y = x - 1 at x = 0 ... n - 1, both columns divided by n, so that y = 1 x - 1/n exactly.

    **Shapes** two arrays f64[n]: x and y.  **Raises** ArgumentError below two points, which fix no line.

    >>> x, y = line(4)
    >>> x.tolist(), y.tolist()
    ([0.0, 0.25, 0.5, 0.75], [-0.25, 0.0, 0.25, 0.5])
    """
    if n < 2:
        raise ArgumentError(explain("line", f"{n} points fix no line", expected="at least 2"))
    x = np.arange(n, dtype=np.float64)
    return x / n, (x - 1.0) / n
