"""A line search: how far to go along a direction so that the loss falls enough and the slope flattens enough.

First the step grows until a stretch is found that holds such a point; then the stretch shrinks around it, by the
minimum of the cubic through its ends, kept from creeping along one end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

LESS = 1e-4  # of the fall that the slope at the start promises, at least this fraction
FLATTER = 0.9  # of the slope at the start, at most this fraction
TRIALS = 25  # at most, beyond the first
NARROW = 1e-9  # a stretch along which no entry moves farther is not looked into


class Point(NamedTuple):
    """A place on the line: how far it is, the loss there, the gradient, and the loss's slope along the line."""

    t: float
    loss: float
    gradient: Any
    slope: float


class Search:
    """One search along a line from `start`.

    `evaluate(t)` gives the point at t, at most `trials` times beyond the first; `reach` is the largest entry of the
    direction.

    **Source** Nocedal and Wright, Numerical optimization (2006), algorithms 3.5 and 3.6, with the safeguards of
    Schmidt's minFunc (2005), which are PyTorch's too.
    """

    def __init__(self, evaluate: Callable[[float], Point], start: Point, reach: float, trials: int) -> None:
        self._evaluate = evaluate
        self._start = start
        self._reach = reach
        self._left = min(trials, TRIALS)
        self._used = 0

    def _falls_too_little(self, point: Point) -> bool:
        return point.loss > self._start.loss + LESS * point.t * self._start.slope

    def _is_flat(self, point: Point) -> bool:
        return abs(point.slope) <= -FLATTER * self._start.slope

    def run(self, t: float) -> Point:
        """A point that satisfies the strong Wolfe conditions, or the best one found; the first guess is `t`."""
        before, point = self._start, self._evaluate(t)
        while self._used < self._left:
            if self._falls_too_little(point) or (self._used > 1 and point.loss >= before.loss):
                return self._narrow([before, point])
            if self._is_flat(point):
                return point
            if point.slope >= 0:
                return self._narrow([before, point])
            farther = cubic_minimum(before, point, point.t + 0.01 * (point.t - before.t), 10 * point.t)
            before, point = point, self._evaluate(farther)
            self._used += 1
        return self._narrow([self._start, point])

    def _narrow(self, ends: list[Point]) -> Point:
        """The stretch between two points, of which the lower one is kept, shrunk around a point that will do."""
        low = 0 if ends[0].loss <= ends[1].loss else 1
        crept = False
        while self._used < self._left:
            first, last = sorted((ends[0].t, ends[1].t))
            if (last - first) * self._reach < NARROW:
                break
            t = cubic_minimum(ends[0], ends[1], first, last)
            margin = 0.1 * (last - first)
            near = min(last - t, t - first) < margin
            if near and (crept or t >= last or t <= first):  # twice at the same end: well inside
                t = last - margin if abs(t - last) < abs(t - first) else first + margin
                near = False
            crept = near
            point = self._evaluate(t)
            self._used += 1
            if self._falls_too_little(point) or point.loss >= ends[low].loss:
                ends[1 - low] = point
                low = 0 if ends[0].loss <= ends[1].loss else 1
                continue
            if self._is_flat(point):
                return point
            if point.slope * (ends[1 - low].t - ends[low].t) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = point
        return ends[low]


def cubic_minimum(a: Point, b: Point, lower: float, upper: float) -> float:
    """Where the cubic with the losses and slopes of two points is lowest, kept between two bounds.

    **Source** Nocedal and Wright, formula 3.59.
    """
    if a.t > b.t:
        a, b = b, a
    try:
        d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
        d2 = (d1 * d1 - a.slope * b.slope) ** 0.5
        t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    except ZeroDivisionError:  # one point, or a straight line
        return (lower + upper) / 2
    if isinstance(t, complex):  # no minimum
        return (lower + upper) / 2
    return min(max(t, lower), upper)
