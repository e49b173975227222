"""The picture of a run: loss of each step, running mean, and what evaluations found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from chainrule.training.history import History
from chainrule.training.style import BLUE, DPI, GREEN, GREY, ORANGE, PURPLE, SETTINGS, VERMILLION

LOOKS = ((BLUE, "o", "solid"), (VERMILLION, "s", "dashed"), (GREEN, "^", "dashdot"), (PURPLE, "D", "dotted"))


def picture(runs: Sequence[tuple[str, History]], file: IO[bytes]) -> None:
    """Write the curves of runs, each with its name, as a PNG."""
    library: Any = mpl
    accuracy = [name for name in runs[0][1].names if name.endswith("accuracy")]
    with library.rc_context(SETTINGS):
        made: Any = Figure(figsize=(7.2, 3.4 if not accuracy else 5.2), layout="constrained")
        panels: Any = np.atleast_1d(made.subplots(1 + bool(accuracy), sharex=True))
        _losses(panels[0], runs)
        if accuracy:
            _accuracies(panels[1], runs, accuracy)
        panels[-1].set_xlabel("step")
        made.savefig(file, format="png", dpi=DPI)


def _losses(axes: Any, runs: Sequence[tuple[str, History]]) -> None:
    highest = 0.0
    for (title, history), (colour, marker, dashes) in zip(runs, LOOKS, strict=False):
        if history.loss:
            steps, mean = smoothed(history.loss)
            if len(runs) == 1:
                axes.plot(np.arange(1, history.steps + 1), history.loss, color=GREY, linewidth=0.5, alpha=0.5)
            axes.plot(steps, mean, color=colour, linestyle=dashes, linewidth=1.2, label=f"{title}: training")
            highest = max(highest, *mean)
        for name in history.names:
            if name.endswith("loss"):
                at, values = history.curve(name)
                axes.plot(
                    at,
                    values,
                    marker,
                    color=ORANGE if len(runs) == 1 else colour,
                    markersize=5,
                    label=f"{title}: {name.removesuffix('_loss')}",
                )
                highest = max(highest, *values, 0.0)
    axes.set_ylim(0.0, 1.05 * highest if highest else 1.0)
    axes.set_ylabel("loss")
    axes.legend()


def _accuracies(axes: Any, runs: Sequence[tuple[str, History]], names: Sequence[str]) -> None:
    for title, history in runs:
        for name, (colour, marker, dashes) in zip(names, LOOKS, strict=False):
            at, values = history.curve(name)
            axes.plot(
                at,
                values,
                color=colour,
                marker=marker,
                markersize=3,
                linestyle=dashes,
                label=f"{title}: {name.replace('_', ' ')}",
            )
    axes.set_ylabel("accuracy")
    axes.legend()


def smoothed(losses: Sequence[float]) -> tuple[Any, Any]:
    """Means over stretches of a hundredth of all steps, each at its middle: as many numbers as a picture can show.

    >>> smoothed([4.0, 2.0])
    (array([1., 2.]), array([4., 2.]))
    """
    width = max(1, len(losses) // 100)
    whole = len(losses) // width * width
    means = np.asarray(losses[:whole]).reshape(-1, width).mean(axis=1)
    return np.arange(len(means)) * width + (width + 1) / 2, means
