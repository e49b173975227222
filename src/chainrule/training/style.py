"""How the figures look: one size, one type, colours that colour-blind readers and print without colour keep apart.

Everything is drawn on `Figure` objects; there is no current figure, and no setting outlives a `with figure(...)` block.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Okabe and Ito, "Color Universal Design" (2008).
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, GREY, BLACK = "#56B4E9", "#CC79A7", "#7F7F7F", "#000000"
SCALAR, TENSOR = ORANGE, BLUE
"""The two engines, in every figure."""

DPI = 160
"""Dots per inch of a PNG."""

SETTINGS: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "chainrule",  # so that equal figures are equal files
}


@contextmanager
def figure(folder: Path, name: str, size: tuple[float, float] = (7.2, 3.4)) -> Generator[Any]:
    """A figure of `size` in inches, written as `name`.png and `name`.svg into `folder` at the end of the block."""
    library: Any = mpl
    with library.rc_context(SETTINGS):
        made: Any = Figure(figsize=size, layout="constrained")
        yield made
        made.savefig(folder / f"{name}.png", dpi=DPI)
        made.savefig(folder / f"{name}.svg", metadata={"Date": None})
