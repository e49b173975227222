"""The layers of a drawing, and the order inside each: first half of the layered layout.

Layers by longest path, so that every arrow leads down; a chain of empty places for each arrow that skips layers, shared
by all arrows that leave one box; an order with few crossings.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures" (1981).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from chainrule.errors import ArgumentError, explain

if TYPE_CHECKING:
    from collections.abc import Sequence

Arrow = tuple[int, int]

SWEEPS, PATIENCE = 24, 6  # sweeps over all layers: at most, and without gain


@dataclass
class Levels:
    """Boxes and places by layer; whatever is numbered beyond the boxes is a place on the way of a long arrow."""

    boxes: int
    layer: list[int]
    rows: list[list[int]] = field(default_factory=list[list[int]])
    above: list[list[int]] = field(default_factory=list[list[int]])
    below: list[list[int]] = field(default_factory=list[list[int]])
    chains: dict[int, list[int]] = field(default_factory=dict[int, list[int]])


def layers(count: int, arrows: Sequence[Arrow]) -> list[int]:
    """The layer of each box, 0 on top: as low as its lowest arrow allows, so that inputs stand beside their use.

    **Raises** ArgumentError where the arrows form a cycle.

    >>> layers(4, [(0, 1), (1, 2), (0, 2), (3, 2)])
    [0, 1, 2, 1]
    """
    tails: list[list[int]] = [[] for _ in range(count)]
    unmet = [0] * count
    for tail, head in arrows:
        tails[head].append(tail)
        unmet[tail] += 1
    height = [0] * count
    ready = [box for box in range(count) if not unmet[box]]
    for head in ready:  # grows while it is read
        for tail in tails[head]:
            height[tail] = max(height[tail], height[head] + 1)
            unmet[tail] -= 1
            if not unmet[tail]:
                ready.append(tail)
    if len(ready) < count:
        raise ArgumentError(explain("draw", "the arrows form a cycle", expected="a graph without cycles"))
    top = max(height, default=0)
    return [top - own for own in height]


def make_levels(count: int, arrows: Sequence[Arrow]) -> Levels:
    """Layers, with a chain of places under each box down to the layer above its farthest head."""
    levels = Levels(count, layers(count, arrows))
    levels.above, levels.below = [[] for _ in range(count)], [[] for _ in range(count)]

    def link(tail: int, head: int) -> None:
        if tail not in levels.above[head]:
            levels.above[head].append(tail)
            levels.below[tail].append(head)

    for tail, head in arrows:
        chain = levels.chains.setdefault(tail, [])
        while levels.layer[tail] + len(chain) + 1 < levels.layer[head]:
            place = len(levels.layer)
            levels.layer.append(levels.layer[tail] + len(chain) + 1)
            levels.above.append([])
            levels.below.append([])
            link(chain[-1] if chain else tail, place)
            chain.append(place)
        steps = levels.layer[head] - levels.layer[tail] - 1
        link(chain[steps - 1] if steps else tail, head)
    levels.rows = [[] for _ in range(max(levels.layer, default=-1) + 1)]
    return levels


def order(levels: Levels) -> None:
    """Fill the rows with an order in which few arrows cross."""
    _first_order(levels)
    _reduce_crossings(levels)


def _first_order(levels: Levels) -> None:
    """Fill the layers as a walk from the outputs upwards meets boxes: first operands come to stand left."""
    seen: set[int] = set()
    starts = [box for box in range(len(levels.layer)) if not levels.below[box]]
    todo = starts[::-1]
    while todo:
        box = todo.pop()
        if box not in seen:
            seen.add(box)
            levels.rows[levels.layer[box]].append(box)
            todo += reversed(levels.above[box])


def _reduce_crossings(levels: Levels) -> None:
    """Sort each layer by the mean position of its neighbours, down and up in turn, and swap what is better swapped.

    The best order met is kept.
    """
    _swap_neighbours(levels)
    best, fewest, idle = [row[:] for row in levels.rows], _crossings(levels), 0
    for sweep in range(SWEEPS):
        if not fewest or idle == PATIENCE:
            break
        down = sweep % 2 == 0
        _sort_rows(levels.rows if down else levels.rows[::-1], levels.above if down else levels.below)
        _swap_neighbours(levels)
        crossings = _crossings(levels)
        idle += 1
        if crossings < fewest:
            best, fewest, idle = [row[:] for row in levels.rows], crossings, 0
    levels.rows = best


def _sort_rows(rows: list[list[int]], neighbours: list[list[int]]) -> None:
    for fixed, row in pairwise(rows):
        place = {box: position for position, box in enumerate(fixed)}
        own = {box: position * len(fixed) / len(row) for position, box in enumerate(row)}

        def key(box: int, place: dict[int, int] = place, own: dict[int, float] = own) -> float:
            near = neighbours[box]
            return sum(place[other] for other in near) / len(near) if near else own[box]

        row.sort(key=key)


def _swap_neighbours(levels: Levels) -> None:
    """Swap two that stand side by side wherever fewer of their own links cross afterwards, until no swap helps."""
    place = {box: position for row in levels.rows for position, box in enumerate(row)}
    todo = list(range(len(levels.rows)))
    while todo:
        index = todo.pop()
        row, swapped = levels.rows[index], False
        for left in range(len(row) - 1):
            one, other = row[left], row[left + 1]
            if _gain(levels.above, place, one, other) + _gain(levels.below, place, one, other) > 0:
                row[left], row[left + 1] = other, one
                place[one], place[other] = left + 1, left
                swapped = True
        if swapped:  # ends: each swap leaves fewer crossings
            todo += [near for near in (index + 1, index - 1, index) if 0 <= near < len(levels.rows)]


def _gain(neighbours: list[list[int]], place: dict[int, int], one: int, other: int) -> int:
    """How many crossings fewer there are if `one` moves to the right of `other`."""
    pairs = ((place[a], place[b]) for a in neighbours[one] for b in neighbours[other])
    return sum((a > b) - (a < b) for a, b in pairs)


def _crossings(levels: Levels) -> int:
    """How many pairs of links cross: the inversions between the orders of their two ends."""
    total = 0
    for row, following in pairwise(levels.rows):
        place = {box: position for position, box in enumerate(following)}
        met: list[int] = []
        for box in row:
            ends = sorted(place[head] for head in levels.below[box])
            total += sum(len(met) - bisect_right(met, end) for end in ends)
            for end in ends:
                insort(met, end)
    return total
