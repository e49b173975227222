"""Where boxes and arrows go: a layered drawing, every arrow leading down.

Four steps, each a plain loop: layers and their order (`order.py`), columns (`columns.py`), and here the heights and the
routes.  All arrows that leave one box share one line and peel off where they arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chainrule.draw.columns import columns
from chainrule.draw.order import Arrow, Levels, make_levels, order

if TYPE_CHECKING:
    from collections.abc import Sequence

Point = tuple[float, float]

LAYER_GAP, WIDEST_LAYER_GAP = 26.0, 72.0  # points between layers: at least, and at most where arrows go far aside
MARGIN = 10.0  # points around the picture
PORT_GAP = 14.0  # points between arrows that enter one box
SAME = 1e-6  # points: a difference that is rounding


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


def arrange(sizes: Sequence[tuple[float, float]], arrows: Sequence[Arrow]) -> Layout:
    """Place boxes of the given sizes (width, height, in points) and route the arrows between them.

    No two boxes overlap, every arrow leads down, and no arrow passes through a box.

    **Raises** ArgumentError where the arrows form a cycle.

    >>> arrange([(40, 20), (40, 20)], [(0, 1)]).centres
    ((30.0, 20.0), (30.0, 66.0))
    """
    levels = make_levels(len(sizes), arrows)
    order(levels)
    widths = [width for width, _ in sizes] + [0.0] * (len(levels.layer) - len(sizes))
    x = columns(levels, widths)
    left = min((x[box] - widths[box] / 2 for box in range(len(x))), default=0.0) - MARGIN
    x = [value - left for value in x]
    tops, bottoms = _bands(levels, x, [height for _, height in sizes])
    centres = tuple((x[box], (tops[levels.layer[box]] + bottoms[levels.layer[box]]) / 2) for box in range(len(sizes)))
    width = max((x[box] + widths[box] / 2 for box in range(len(x))), default=0.0) + MARGIN
    routes = _routes(levels, arrows, sizes, x, centres, (tops, bottoms))
    return Layout(width, (bottoms[-1] if bottoms else 0.0) + MARGIN, centres, routes)


def _bands(levels: Levels, x: list[float], heights: Sequence[float]) -> tuple[list[float], list[float]]:
    """Top and bottom of each layer; where arrows go far aside the gap above is wider, so that they stay steep."""
    tops: list[float] = []
    bottoms: list[float] = []
    y = MARGIN
    for row in levels.rows:
        if bottoms:
            aside = max((abs(x[box] - x[tail]) for box in row for tail in levels.above[box]), default=0.0)
            y += min(max(LAYER_GAP, aside / 5), WIDEST_LAYER_GAP)
        tops.append(y)
        y += max((heights[box] for box in row if box < levels.boxes), default=0.0)
        bottoms.append(y)
    return tops, bottoms


def _routes(
    levels: Levels,
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
        start, end = centres[tail][1] + sizes[tail][1] / 2, centres[head][1] - sizes[head][1] / 2
        route = [(x[tail], start)]
        if bottoms[first] > start + SAME:
            route.append((x[tail], bottoms[first]))
        for place in levels.chains[tail][: last - first - 1]:
            layer = levels.layer[place]
            route += [(x[place], tops[layer]), (x[place], bottoms[layer])]
        if tops[last] < end - SAME:
            route.append((port, tops[last]))
        routes.append((*route, (port, end)))
    return tuple(routes)


def _ports(
    levels: Levels, arrows: Sequence[Arrow], sizes: Sequence[tuple[float, float]], x: list[float]
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
