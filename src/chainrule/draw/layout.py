"""Where boxes and arrows go: a layered drawing in four steps, each a plain loop.

Layers by longest path, so that every arrow leads down; a chain of empty places for each arrow that skips layers; an
order inside each layer with few crossings; coordinates that put every box as near to the middle of its neighbours as
their widths allow.  All arrows that leave one box share its chain and peel off where they arrive.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures" (1981); the
weights of straight chains: Gansner et al., "A technique for drawing directed graphs" (1993), section 4.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from chainrule.errors import ArgumentError, explain

Point = tuple[float, float]
Arrow = tuple[int, int]

BOX_GAP, PLACE_GAP = 18.0, 12.0  # points between neighbours in a layer: two boxes, or where an arrow passes
LAYER_GAP, STEEPEST_GAP = 26.0, 72.0  # points between layers: at least, and at most where arrows go far aside
MARGIN = 10.0  # points around the picture
PORT_GAP = 14.0  # points between arrows that enter one box
ORDER_SWEEPS, PATIENCE, PLACE_SWEEPS = 24, 6, 24  # sweeps at most, sweeps without gain, sweeps


@dataclass(frozen=True)
class Layout:
    """A finished drawing, in points, with y pointing down.

    `centres` has one point per box, `routes` one line per arrow: its points are joined by straight lines where they lie
    above each other, and by S-curves that leave and arrive upright elsewhere.
    """

    width: float
    height: float
    centres: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]


@dataclass
class _Levels:
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


def arrange(sizes: Sequence[tuple[float, float]], arrows: Sequence[Arrow]) -> Layout:
    """Place boxes of the given sizes (width, height, in points) and route the arrows between them.

    No two boxes overlap, every arrow leads down, and no arrow passes through a box.

    **Raises** ArgumentError where the arrows form a cycle.

    >>> arrange([(40, 20), (40, 20)], [(0, 1)]).centres
    ((30.0, 20.0), (30.0, 66.0))
    """
    levels = _levels(len(sizes), arrows)
    _first_order(levels)
    _reduce_crossings(levels)
    widths = [width for width, _ in sizes] + [0.0] * (len(levels.layer) - len(sizes))
    x = _columns(levels, widths)
    left = min((x[box] - widths[box] / 2 for box in range(len(x))), default=0.0) - MARGIN
    x = [value - left for value in x]
    tops, bottoms = _bands(levels, x, [height for _, height in sizes])
    centres = tuple((x[box], (tops[levels.layer[box]] + bottoms[levels.layer[box]]) / 2) for box in range(len(sizes)))
    width = max((x[box] + widths[box] / 2 for box in range(len(x))), default=0.0) + MARGIN
    routes = _routes(levels, arrows, sizes, x, centres, (tops, bottoms))
    return Layout(width, (bottoms[-1] if bottoms else 0.0) + MARGIN, centres, routes)


def _levels(count: int, arrows: Sequence[Arrow]) -> _Levels:
    """Layers, with a chain of places under each box down to the layer above its farthest head."""
    levels = _Levels(count, layers(count, arrows))
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


def _first_order(levels: _Levels) -> None:
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


def _reduce_crossings(levels: _Levels) -> None:
    """Sort each layer by the mean position of its neighbours, down and up in turn, and mend what swaps of two can mend.

    The best order met is kept.
    """
    best, fewest, idle = [row[:] for row in levels.rows], _crossings(levels), 0
    for sweep in range(ORDER_SWEEPS):
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


def _swap_neighbours(levels: _Levels) -> None:
    """Swap two that stand side by side wherever fewer of their own links cross afterwards, once through all layers."""
    place = {box: position for row in levels.rows for position, box in enumerate(row)}
    for row in levels.rows:
        for left in range(len(row) - 1):
            one, other = row[left], row[left + 1]
            gain = 0
            for links in (levels.above, levels.below):
                for a in links[one]:
                    for b in links[other]:
                        gain += (place[a] > place[b]) - (place[a] < place[b])
            if gain > 0:
                row[left], row[left + 1] = other, one
                place[one], place[other] = left + 1, left


def _crossings(levels: _Levels) -> int:
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


def _columns(levels: _Levels, widths: Sequence[float]) -> list[float]:
    """The x of each box: sweeps over the layers, each solving one layer exactly while its neighbours stand still."""
    x = [0.0] * len(levels.layer)
    gaps = [_gaps(levels, row, widths) for row in levels.rows]
    for row, row_gaps in zip(levels.rows, gaps, strict=True):
        _place_row(row, row_gaps, [0.0] * len(row), [1.0] * len(row), x)
    for sweep in range(PLACE_SWEEPS):
        both = sweep >= PLACE_SWEEPS // 2
        down = sweep % 2 == 0
        for index in range(len(levels.rows)) if down else reversed(range(len(levels.rows))):
            row = levels.rows[index]
            wishes, weights = _wishes(levels, row, x, both or down, both or not down)
            _place_row(row, gaps[index], wishes, weights, x)
        _straighten(levels, gaps, x)
    return x


def _straighten(levels: _Levels, gaps: list[list[float]], x: list[float]) -> None:
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


def _gaps(levels: _Levels, row: list[int], widths: Sequence[float]) -> list[float]:
    """The least distance between the centres of neighbours in a layer."""
    found: list[float] = []
    for left, right in pairwise(row):
        gap = BOX_GAP if max(left, right) < levels.boxes else PLACE_GAP
        found.append((widths[left] + widths[right]) / 2 + gap)
    return found


def _wishes(
    levels: _Levels, row: list[int], x: list[float], look_up: bool, look_down: bool
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


def _weight(levels: _Levels, box: int, other: int) -> float:
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


def _bands(levels: _Levels, x: list[float], heights: Sequence[float]) -> tuple[list[float], list[float]]:
    """Top and bottom of each layer; where arrows go far aside the gap above is wider, so that they stay steep."""
    tops: list[float] = []
    bottoms: list[float] = []
    y = MARGIN
    for row in levels.rows:
        if bottoms:
            aside = max((abs(x[box] - x[tail]) for box in row for tail in levels.above[box]), default=0.0)
            y += min(max(LAYER_GAP, aside / 5), STEEPEST_GAP)
        tops.append(y)
        y += max((heights[box] for box in row if box < levels.boxes), default=0.0)
        bottoms.append(y)
    return tops, bottoms


def _routes(
    levels: _Levels,
    arrows: Sequence[Arrow],
    sizes: Sequence[tuple[float, float]],
    x: list[float],
    centres: Sequence[Point],
    bands: tuple[list[float], list[float]],
) -> tuple[tuple[Point, ...], ...]:
    """Each arrow from the lower edge of its tail through its places, upright inside layers, to a port of its head."""
    tops, bottoms = bands
    ports = _ports(levels, arrows, sizes, x)
    routes: list[tuple[Point, ...]] = []
    for (tail, head), port in zip(arrows, ports, strict=True):
        first, last = levels.layer[tail], levels.layer[head]
        route = [(x[tail], centres[tail][1] + sizes[tail][1] / 2), (x[tail], bottoms[first])]
        for place in levels.chains[tail][: last - first - 1]:
            layer = levels.layer[place]
            route += [(x[place], tops[layer]), (x[place], bottoms[layer])]
        route += [(port, tops[last]), (port, centres[head][1] - sizes[head][1] / 2)]
        routes.append(tuple(point for i, point in enumerate(route) if i == 0 or point != route[i - 1]))
    return tuple(routes)


def _ports(
    levels: _Levels, arrows: Sequence[Arrow], sizes: Sequence[tuple[float, float]], x: list[float]
) -> list[float]:
    """Where each arrow enters its head: side by side along the upper edge, in the order in which they come."""

    def source(place: int) -> float:
        tail, head = arrows[place]
        steps = levels.layer[head] - levels.layer[tail] - 1
        return x[levels.chains[tail][steps - 1]] if steps else x[tail]

    entering: dict[int, list[int]] = {}
    for place, (_, head) in enumerate(arrows):
        entering.setdefault(head, []).append(place)
    ports = [0.0] * len(arrows)
    for head, places in entering.items():
        gap = min(PORT_GAP, 0.7 * sizes[head][0] / len(places))
        for rank, place in enumerate(sorted(places, key=source)):
            ports[place] = x[head] + (rank - (len(places) - 1) / 2) * gap
    return ports
