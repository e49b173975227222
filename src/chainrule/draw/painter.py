"""The built-in picture: the layered layout, painted by matplotlib's object-oriented interface.

pyplot and its global state are never touched, so a picture can be made in any thread and beside any other figure.
"""

from __future__ import annotations

import importlib
import io
import math
from itertools import pairwise
from typing import Any

from chainrule.draw.graph import ARROW_COLOUR, FONT_SIZE, LOOKS, Box, Graph, printable
from chainrule.draw.layout import Layout, Point, arrange
from chainrule.errors import MissingExtraError

DPI = 160.0  # dots per inch of a PNG, unless it would become too large
MOST_DOTS, LONGEST_SIDE = 4e7, 32_000  # of a PNG; Agg itself stops at 65,536 a side
LINE_HEIGHT = 1.28  # of the font size
PADDING = (8.0, 5.0)  # points between text and border
HEAD = (3.0, 6.5)  # points: half width and length of an arrow head
FONT = "DejaVu Sans"  # comes with matplotlib


def paint(graph: Graph, formats: list[str]) -> dict[str, bytes]:
    """The picture in each of `formats` (`png`, `svg`).

    **Raises** MissingExtraError without matplotlib.
    """
    matplotlib = _matplotlib()
    texts = [[line for text in box.lines for line in printable(text).split("\n")] for box in graph.boxes]
    layout = arrange(
        [_size(matplotlib, box, lines) for box, lines in zip(graph.boxes, texts, strict=True)], graph.arrows
    )
    return {format: _picture(matplotlib, graph, texts, layout, format) for format in formats}


def _matplotlib() -> Any:
    """The parts of matplotlib used here, as one untyped namespace: matplotlib's own types are incomplete."""
    parts = ("figure", "font_manager", "patches", "path", "text", "textpath", "transforms")
    try:
        root = importlib.import_module("matplotlib")
        for part in (*parts, "backends.backend_agg", "backends.backend_svg"):
            importlib.import_module(f"matplotlib.{part}")
    except ImportError as error:
        raise MissingExtraError.of("draw without Graphviz's dot", "matplotlib", "walkthrough") from error
    return root


def _font(matplotlib: Any, bold: bool) -> Any:
    weight = "bold" if bold else "normal"
    return matplotlib.font_manager.FontProperties(family=FONT, size=FONT_SIZE, weight=weight)


def _size(matplotlib: Any, box: Box, lines: list[str]) -> tuple[float, float]:
    """Width and height of a box around its text, in points."""
    measure = matplotlib.textpath.text_to_path.get_text_width_height_descent
    widths = [measure(line, _font(matplotlib, box.headed and row == 0), False)[0] for row, line in enumerate(lines)]
    text_height = len(lines) * FONT_SIZE * LINE_HEIGHT
    return max([*widths, 2 * FONT_SIZE]) + 2 * PADDING[0], text_height + 2 * PADDING[1]


def _picture(matplotlib: Any, graph: Graph, texts: list[list[str]], layout: Layout, format: str) -> bytes:
    width, height = layout.width, layout.height
    figure = matplotlib.figure.Figure(figsize=(width / 72, height / 72), dpi=_dpi(width, height), facecolor="white")
    points = matplotlib.transforms.Affine2D().scale(1 / width, -1 / height).translate(0, 1) + figure.transFigure
    for patch in _arrows(matplotlib, layout):
        _add(figure, patch, points)
    for box, lines, (x, y) in zip(graph.boxes, texts, layout.centres, strict=True):
        wide, high = _size(matplotlib, box, lines)
        _add(figure, _outline(matplotlib, box, x - wide / 2, y - high / 2, wide, high), points)
        for row, line in enumerate(lines):
            middle = y + (row - (len(lines) - 1) / 2) * FONT_SIZE * LINE_HEIGHT
            font = _font(matplotlib, box.headed and row == 0)
            options = {"ha": "center", "va": "center_baseline", "color": "black", "parse_math": False, "usetex": False}
            _add(figure, matplotlib.text.Text(x, middle, line, fontproperties=font, **options), points)
    return _encode(matplotlib, figure, format)


def _dpi(width: float, height: float) -> float:
    longest = LONGEST_SIDE / (max(width, height) / 72)
    return min(DPI, longest, math.sqrt(MOST_DOTS / (width * height / 72**2)))


def _add(figure: Any, artist: Any, transform: Any) -> None:
    artist.set_transform(transform)
    figure.add_artist(artist)


def _outline(matplotlib: Any, box: Box, left: float, top: float, width: float, height: float) -> Any:
    look = LOOKS[box.kind]
    style = matplotlib.patches.BoxStyle("Round", pad=0, rounding_size=8 if look.rounded else 1)
    line = (0, (4, 3)) if look.dashed else "solid"
    options: dict[str, Any] = {"boxstyle": style, "linewidth": look.border_width, "linestyle": line}
    options |= {"facecolor": look.fill, "edgecolor": look.border}
    return matplotlib.patches.FancyBboxPatch((left, top), width, height, **options)


def _arrows(matplotlib: Any, layout: Layout) -> list[Any]:
    """All lines as one patch, all heads as another."""
    Path = matplotlib.path.Path
    segments: dict[tuple[Point, Point], None] = {}  # each once, where arrows run together
    heads: list[tuple[Point, int]] = []
    for route in layout.routes:
        x, y = route[-1]
        segments |= dict.fromkeys(pairwise([*route[:-1], (x, y - HEAD[1] / 2)]))
        heads += [((x - HEAD[0], y - HEAD[1]), Path.MOVETO), ((x + HEAD[0], y - HEAD[1]), Path.LINETO)]
        heads += [((x, y), Path.LINETO), ((x, y), Path.CLOSEPOLY)]
    lines: list[tuple[Point, int]] = []
    for (x0, y0), (x1, y1) in segments:
        bend = (y0 + y1) / 2  # upright at both ends
        lines += [
            ((x0, y0), Path.MOVETO),
            ((x0, bend), Path.CURVE4),
            ((x1, bend), Path.CURVE4),
            ((x1, y1), Path.CURVE4),
        ]
    if not lines:
        return []
    plain: dict[str, Any] = {"facecolor": "none", "edgecolor": ARROW_COLOUR, "linewidth": 0.9}
    filled: dict[str, Any] = {"facecolor": ARROW_COLOUR, "edgecolor": "none"}
    return [
        matplotlib.patches.PathPatch(Path(*map(list, zip(*drawn, strict=True))), **options)
        for drawn, options in ((lines, plain), (heads, filled))
    ]


def _encode(matplotlib: Any, figure: Any, format: str) -> bytes:
    """Straight from the canvas: `savefig` would add whatever the user's settings say."""
    backends, buffer = matplotlib.backends, io.BytesIO()
    if format == "png":
        backends.backend_agg.FigureCanvasAgg(figure).print_png(buffer)
    else:
        backends.backend_svg.FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
    return buffer.getvalue()
