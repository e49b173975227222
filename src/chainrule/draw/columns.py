"""The x of everything in a layered drawing whose layers are in order.

Every box wants to stand in the middle of its neighbours, as far as the widths in its layer allow.

Source: the weights of straight chains, Gansner et al., "A technique for drawing directed graphs" (1993), section 4.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.draw.order import Levels

BOX_GAP, PLACE_GAP = 18.0, 12.0  # points between neighbours in a layer: two boxes, or where an arrow passes
SWEEPS = 24  # over all layers


def columns(levels: Levels, widths: Sequence[float]) -> list[float]:
    """The x of each box: sweeps over the layers, each solving one layer exactly while its neighbours stand still."""
    x = [0.0] * len(levels.layer)
    gaps = [_gaps(levels, row, widths) for row in levels.rows]
    for row, row_gaps in zip(levels.rows, gaps, strict=True):
        _place_row(row, row_gaps, [0.0] * len(row), [1.0] * len(row), x)
    for sweep in range(SWEEPS):
        both = sweep >= SWEEPS // 2
        down = sweep % 2 == 0
        for index in range(len(levels.rows)) if down else reversed(range(len(levels.rows))):
            row = levels.rows[index]
            wishes, weights = _wishes(levels, row, x, both or down, both or not down)
            _place_row(row, gaps[index], wishes, weights, x)
        _straighten(levels, gaps, x)
    return x


def _straighten(levels: Levels, gaps: list[list[float]], x: list[float]) -> None:
    """Move each chain of places onto one vertical line where its neighbours leave room for that.

    The sweeps move one layer at a time and would bring a long chain upright only very slowly.
    """
    left: dict[int, tuple[int, float]] = {}
    right: dict[int, tuple[int, float]] = {}
    for row, apart in zip(levels.rows, gaps, strict=True):
        for (one, other), gap in zip(pairwise(row), apart, strict=True):
            left[other], right[one] = (one, gap), (other, gap)
    for chain in levels.chains.values():
        low = max((x[left[p][0]] + left[p][1] for p in chain if p in left), default=-math.inf)
        high = min((x[right[p][0]] - right[p][1] for p in chain if p in right), default=math.inf)
        if chain and low <= high:
            line = min(max(sum(x[place] for place in chain) / len(chain), low), high)
            for place in chain:
                x[place] = line


def _gaps(levels: Levels, row: list[int], widths: Sequence[float]) -> list[float]:
    """The least distance between the centres of neighbours in a layer."""
    found: list[float] = []
    for left, right in pairwise(row):
        gap = BOX_GAP if max(left, right) < levels.boxes else PLACE_GAP
        found.append((widths[left] + widths[right]) / 2 + gap)
    return found


def _wishes(
    levels: Levels, row: list[int], x: list[float], look_up: bool, look_down: bool
) -> tuple[list[float], list[float]]:
    """Where each box would like to be, the mean of its neighbours, and how much."""
    wishes: list[float] = []
    weights: list[float] = []
    for box in row:
        near = (levels.above[box] if look_up else []) + (levels.below[box] if look_down else [])
        pull = [_weight(levels, box, other) for other in near]
        total = sum(pull)
        wishes.append(sum(w * x[other] for w, other in zip(pull, near, strict=True)) / total if near else x[box])
        weights.append(total if near else 0.01)
    return wishes, weights


def _weight(levels: Levels, box: int, other: int) -> float:
    """Links between two places count eight times, so that long arrows are straight."""
    return (1.0, 2.0, 8.0)[(box >= levels.boxes) + (other >= levels.boxes)]


def _place_row(row: list[int], gaps: list[float], wishes: list[float], weights: list[float], x: list[float]) -> None:
    """The positions nearest to the wishes (weighted least squares) that keep the order and the gaps.

    With the gaps taken off the wishes this is monotone regression, which pooling adjacent violators solves exactly.
    **Source**: Barlow et al., "Statistical inference under order restrictions" (1972), chapter 1.
    """
    offsets = [0.0]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    pools: list[tuple[float, float, int]] = []  # mean, weight, length
    for wish, weight, offset in zip(wishes, weights, offsets, strict=False):
        mean, total, length = wish - offset, weight, 1
        while pools and pools[-1][0] >= mean:
            other, heavy, many = pools.pop()
            mean = (mean * total + other * heavy) / (total + heavy)
            total, length = total + heavy, length + many
        pools.append((mean, total, length))
    means = [mean for mean, _, length in pools for _ in range(length)]
    for box, mean, offset in zip(row, means, offsets, strict=False):
        x[box] = mean + offset
