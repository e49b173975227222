"""The figures, a function each; every one is given what was measured, and measures nothing itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from chainrule.training.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SCALAR,
    SKY,
    TENSOR,
    VERMILLION,
    figure,
)  # fmt: skip
from chainrule.walkthrough import tensors
from chainrule.walkthrough.cost import Cost
from chainrule.walkthrough.line import TOLERANCE, Fits
from chainrule.walkthrough.spiral import Workload
from chainrule.walkthrough.training import COLUMNS, REFERENCE, Moons

SMALLEST = 1e-17
"""Stands for exact zero on logarithmic axes."""


def boundary(folder: Path, moons: Moons) -> str:
    """The decision boundaries of both engines side by side."""
    x, y, _ = moons.problem.grid(COLUMNS)
    with figure(folder, "moons_boundary", (7.2, 2.85)) as made:
        panels: Any = made.subplots(1, 2, sharex=True, sharey=True)
        for axes, title, run in (
            (panels[0], "scalar engine", moons.scalar),
            (panels[1], "tensor engine", moons.tensor),
        ):
            scores = np.reshape(run.scores, (len(y), len(x)))
            axes.contourf(x, y, scores, levels=[-1e9, 0.0, 1e9], colors=["#FBE6D8", "#DDEBF6"])
            axes.contour(x, y, scores, levels=[-1.0, 1.0], colors=[GREY], linestyles="dashed", linewidths=1.0)
            axes.contour(x, y, scores, levels=[0.0], colors=[BLACK], linewidths=1.8)
            for sign, marker, colour in ((-1.0, "o", VERMILLION), (1.0, "^", BLUE)):
                chosen = moons.problem.points[moons.problem.signs == sign]
                axes.scatter(*chosen.T, marker=marker, s=22, color=colour, edgecolors="white", linewidths=0.6, zorder=3)
            axes.set_title(f"{title}: {run.nodes:,} nodes a step")
            axes.set_aspect("equal")
            axes.grid(False)
        made.supxlabel("solid: score 0, the boundary · dashed: scores of −1 and 1, the margin", fontsize=9)
    return "moons_boundary"


def learning(folder: Path, moons: Moons) -> str:
    """Loss by step: both engines on one seed, and the spread over seeds, beside the reference's three points."""
    with figure(folder, "moons_learning", (7.2, 3.4)) as made:
        panels: Any = made.subplots(1, 2)
        _loss_panel(panels[0], moons)
        _accuracy_panel(panels[1], moons)
    return "moons_learning"


def _loss_panel(axes: Any, moons: Moons) -> None:
    losses = moons.runs[0]
    steps = np.arange(int(losses.shape[1]))
    axes.fill_between(
        steps, losses.min(axis=0), losses.max(axis=0), color=SKY, alpha=0.35, linewidth=0, label="5 seeds, range"
    )
    axes.plot(steps, losses.mean(axis=0), color=TENSOR, label="5 seeds, mean")
    axes.plot(
        steps,
        moons.tensor.losses + [np.nan] * (len(steps) - len(moons.tensor.losses)),
        color=BLACK,
        linewidth=1.0,
        label="one seed, tensor engine",
    )
    shown = range(0, len(moons.scalar.losses), 5)
    axes.plot(
        shown,
        [moons.scalar.losses[k] for k in shown],
        "o",
        color=SCALAR,
        markersize=4.5,
        markeredgecolor=BLACK,
        markeredgewidth=0.5,
        label="one seed, scalar engine",
    )
    axes.plot(
        list(REFERENCE),
        [loss for loss, _ in REFERENCE.values()],
        "x",
        color=VERMILLION,
        markersize=8,
        markeredgewidth=2,
        label="reference, one draw",
    )
    axes.set_yscale("log")
    axes.set_xlabel("step")
    axes.set_title("loss")
    axes.legend(fontsize=8, handlelength=1.6)


def _accuracy_panel(axes: Any, moons: Moons) -> None:
    shares = moons.runs[1]
    steps = np.arange(int(shares.shape[1]))
    axes.fill_between(steps, shares.min(axis=0), shares.max(axis=0), color=SKY, alpha=0.35, linewidth=0)
    axes.plot(steps, shares.mean(axis=0), color=TENSOR)
    axes.plot(
        list(REFERENCE),
        [share for _, share in REFERENCE.values()],
        "x",
        color=VERMILLION,
        markersize=8,
        markeredgewidth=2,
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylim(0.0, 1.04)
    axes.set_xlabel("step")
    axes.set_title("points on the right side")


def cost(folder: Path, found: Cost) -> str:
    """Backward over forward, and the seconds of both, by number of inputs."""
    with figure(folder, "cost") as made:
        panels: Any = made.subplots(1, 2)
        left, right = panels
        for engine, colour, marker in (("scalar", SCALAR, "o"), ("tensor", TENSOR, "s")):
            left.plot(found.sizes, found.ratios(engine), color=colour, marker=marker, label=f"{engine} engine")
            total = np.add(found.forward[engine], found.backward[engine])
            right.plot(found.sizes, total, color=colour, marker=marker, label=f"{engine}: all derivatives, one pass")
        differences = np.multiply(found.forward["scalar"], np.add(found.sizes, 1))
        right.plot(found.sizes, differences, color=GREY, linestyle="dotted", label="scalar: by differences (computed)")
        left.set_ylim(0.0, max(5.0, 1.2 * max(max(found.ratios(engine)) for engine in ("scalar", "tensor"))))
        left.set_title("backward pass over forward pass")
        right.set_title("seconds")
        right.set_yscale("log")
        for axes in panels:
            axes.set_xscale("log")
            axes.set_xlabel("inputs")
            axes.legend(fontsize=8)
    return "cost"


def regression(folder: Path, fits: Fits) -> str:
    """How far both engines are from the closed form on the way there."""
    with figure(folder, "line") as made:
        panels: Any = made.subplots(1, 2, sharey=True)
        for axes, path, colour, title in (
            (panels[0], fits.scalar_path, SCALAR, "scalar engine, point by point"),
            (panels[1], fits.tensor_path, TENSOR, "tensor engine, all points at once"),
        ):
            where, far = zip(*path, strict=True)
            axes.plot(where, np.maximum(far, SMALLEST), color=colour)
            axes.axhline(TOLERANCE, color=GREY, linestyle="dashed", linewidth=1.0)
            axes.set_yscale("log")
            axes.set_title(title)
        panels[0].set_xscale("log")
        panels[0].set_xlabel("points seen")
        panels[1].set_xlabel("step")
        panels[0].set_ylabel("distance from w = 1, b = −1e-5")
        panels[1].text(
            0.98,
            TOLERANCE * 1.6,
            "wanted: 1e-6",
            color="#555555",
            fontsize=9,
            ha="right",
            transform=panels[1].get_yaxis_transform(),
        )
    return "line"


def workload(folder: Path, work: Workload) -> str:
    """Nodes and seconds of one step on the spiral, on both engines."""
    pairs = (
        ("graph nodes of one step", (work.scalar_nodes, work.tensor_nodes), "{:,.0f}", (5, 1e6)),
        (
            "milliseconds for one step",
            (work.scalar_seconds * 1e3, work.tensor_seconds * 1e3),
            "{:,.3g} ms",
            (0.02, 2e3),
        ),
    )
    with figure(folder, "spiral", (7.2, 2.3)) as made:
        panels: Any = made.subplots(1, 2)
        for axes, (title, values, form, limits) in zip(panels, pairs, strict=True):
            bars = axes.barh(
                ["scalar", "tensor"], values, color=[SCALAR, TENSOR], height=0.6, edgecolor=BLACK, linewidth=0.6
            )
            axes.bar_label(bars, [form.format(value) for value in values], padding=4, fontsize=9)
            axes.set_xscale("log")
            axes.set_xlim(limits[0], limits[1] * 10)
            axes.invert_yaxis()
            axes.grid(axis="y", visible=False)
            axes.set_title(f"{title}: {values[0] / values[1]:,.0f} to 1")
    return "spiral"


def broadcasting(folder: Path, found: tensors.Broadcasting) -> str:
    """The error of every broadcast pattern, operation by operation."""
    with figure(folder, "broadcasting", (7.2, 3.8)) as made:
        axes: Any = made.subplots()
        rows = np.arange(len(tensors.PATTERNS))
        looks = zip("osD^v", (BLUE, ORANGE, GREEN, VERMILLION, PURPLE), tensors.OPERATIONS, strict=True)
        for column, (marker, colour, name) in enumerate(looks):
            errors = np.maximum(found.errors[:, column], SMALLEST)
            axes.plot(errors, rows + 0.12 * (column - 2), marker, color=colour, markersize=5, label=name)
        axes.axvline(np.finfo(float).eps, color=GREY, linestyle="dashed", linewidth=1.0)
        axes.text(np.finfo(float).eps * 1.1, -0.75, "rounding of 1.0", color="#555555", fontsize=8.5)
        axes.set_xscale("log")
        axes.set_xlim(SMALLEST / 1.6, 1e-14)
        axes.xaxis.set_major_locator(LogLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(FuncFormatter(_power))
        axes.set_yticks(rows, [f"{_shape(a)} with {_shape(b)}" for a, b in tensors.PATTERNS])
        axes.set_ylim(len(rows) - 0.5, -1.1)
        axes.set_xlabel("largest relative error of the gradients")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
    return "broadcasting"


def _power(value: float, _place: Any) -> str:
    return "exact" if value <= SMALLEST * 1.01 else f"{value:.0e}"


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "number"


def cross_entropy(folder: Path, found: tensors.CrossEntropy) -> str:
    """The row of logits that is least sure: its probabilities, and the gradient, probabilities minus the label."""
    row = int(np.argmin(np.ptp(found.logits, axis=1)))
    classes = np.arange(int(found.logits.shape[1]))
    label = int(found.labels[row])
    y = np.eye(len(classes))[label]
    p = np.asarray(found.extended[row] + y, np.float64)
    with figure(folder, "cross_entropy", (7.2, 2.8)) as made:
        panels: Any = made.subplots(1, 2)
        left, right = panels
        left.bar(classes, p, color=SKY, edgecolor=BLACK, linewidth=0.6, label="softmax p")
        left.plot([label], [1.0], "v", color=VERMILLION, markersize=8, label=f"label y: class {label}")
        left.set_title("what the network says")
        right.bar(
            classes, found.gradient[row], color=TENSOR, edgecolor=BLACK, linewidth=0.6, label="gradient by the engine"
        )
        right.plot(classes, p - y, "_", color=ORANGE, markersize=16, markeredgewidth=2.5, label="p − y")
        right.axhline(0.0, color=BLACK, linewidth=0.8)
        right.set_title("what the loss tells the logits")
        for axes in panels:
            axes.set_xlabel("class")
            axes.set_xticks(classes)
            axes.grid(axis="x", visible=False)
            axes.legend(fontsize=8.5)
        left.set_ylim(0.0, 1.12)
    return "cross_entropy"


def higher_orders(folder: Path, curves: tuple[Any, list[Any], list[Any]]) -> str:
    """The function of A9 and its first four derivatives, lines by hand, dots by the engine."""
    x, engine, hand = curves
    with figure(folder, "orders") as made:
        axes: Any = made.subplots()
        looks = zip(
            (BLACK, BLUE, ORANGE, GREEN, PURPLE), "osD^v", ("f", "first", "second", "third", "fourth"), strict=True
        )
        for order, (colour, marker, name) in enumerate(looks):
            axes.plot(x, hand[order], color=colour, linewidth=1.4)
            axes.plot(x[order::5], engine[order][order::5], marker, color=colour, markersize=5, label=name)
        axes.set_xlabel("x")
        axes.set_title("f = x² y + sin(x) y³ at y = 1.2 and its derivatives · dots: engine · lines: formulas")
        axes.legend(ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return "orders"
