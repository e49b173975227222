"""The figures of what is trained; as in `figures`, every one is given what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import PercentFormatter

from chainrule.training import digits, spiral
from chainrule.training.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, figure
from chainrule.walkthrough import classifiers
from chainrule.walkthrough.characters import Characters
from chainrule.walkthrough.classifiers import Trained
from chainrule.walkthrough.least_squares import Seed
from chainrule.walkthrough.optimizers import THRESHOLD, Sweep

LOOKS = [
    (ORANGE, "s", "solid"),
    (VERMILLION, "^", "dashed"),
    (BLUE, "o", "solid"),
    (GREEN, "v", "dashed"),
    (PURPLE, "D", "dashdot"),
    (SKY, "P", "solid"),
    (BLACK, "X", "dashdot"),
    (GREY, "h", "solid"),
]
"""Colour, marker and line of each optimiser: no two differ by colour alone."""


def least_squares(folder: Path, seeds: list[Seed]) -> str:
    """Distance from the closed form by step, for descent and for Adam at a fixed and at a falling rate."""
    with figure(folder, "least_squares", (7.2, 3.1)) as made:
        left, right = made.subplots(1, 2, sharey=True, width_ratios=[2, 3])
        for s in seeds:
            left.plot(s.descent.distances, color=ORANGE, linewidth=1.0, alpha=0.8)
        left.set_yscale("log")
        left.set_ylim(5e-17, 3.0)
        left.set_xlabel("step")
        left.set_ylabel("relative distance from the closed form")
        left.set_title("gradient descent, rate 1/L")
        fixed, annealed = seeds[0].fixed.distances, seeds[0].annealed.distances
        steps = np.arange(0, len(fixed), 20)
        right.plot(steps, fixed[steps], color=VERMILLION, linewidth=0.9, label="Adam, rate 0.05")
        right.plot(annealed, color=BLUE, label="Adam, rate falling to 0")
        right.set_xlabel("step")
        right.set_title("Adam, first of five problems")
        right.legend(fontsize=8.5, loc="center right")
    return "least_squares"


def optimizers(folder: Path, found: dict[str, Sweep]) -> str:
    """Left the sweeps, right the losses at the best rate, as mean over seeds with their range."""
    with figure(folder, "optimizers", (7.2, 3.9)) as made:
        left, right = made.subplots(1, 2)
        for (name, s), (colour, marker, line) in zip(found.items(), LOOKS, strict=False):
            rates, final = np.array(list(s.final)), np.array(list(s.final.values()))
            left.plot(rates, final, color=colour, linestyle=line, marker=marker, markersize=4.5, linewidth=1.2)
            left.plot([s.best], [s.final[s.best]], marker=marker, color=colour, markersize=9, markeredgecolor=BLACK)
            right.plot(s.losses.mean(axis=0), color=colour, linestyle=line, linewidth=1.5, label=name)
            low, high = s.losses.min(axis=0), s.losses.max(axis=0)
            right.fill_between(np.arange(len(low)), low, high, color=colour, alpha=0.15, linewidth=0)
        for axes in (left, right):
            axes.set_yscale("log")
            axes.set_ylim(3e-3, 3.0)
        left.set_xscale("log")
        left.set_xlabel("rate · large: the best one, tried on 5 seeds")
        left.set_title("final loss by rate")
        right.axhline(THRESHOLD, color=GREY, linestyle="dotted", linewidth=1.2)
        right.set_xlabel("step · lines: mean of 5 seeds, shades: range")
        right.set_title("loss at the best rate")
        _legend_below(made, right, 4)
    return "optimizers"


def _legend_below(made: Any, axes: Any, columns: int) -> None:
    handles, names = axes.get_legend_handles_labels()
    made.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=8.5)


def arms(folder: Path, runs: list[Trained]) -> str:
    """The boundary that the first seed learned, and accuracy by epoch on all seeds."""
    axis, points = classifiers.grid()
    with figure(folder, "arms", (7.2, 3.6)) as made:
        left, right = made.subplots(1, 2)
        margins = classifiers.margins(runs[0], points).reshape(len(axis), len(axis))
        left.contourf(axis, axis, margins, levels=[-1e9, 0.0, 1e9], colors=["#FBE6D8", "#DDEBF6"])
        left.contour(axis, axis, margins, levels=[0.0], colors=[BLACK], linewidths=1.0)
        (seen, labels), (held, held_labels) = spiral.points(runs[0].seed, np.float32)
        for label, marker, colour in ((0, "o", VERMILLION), (1, "^", BLUE)):
            left.scatter(*seen[labels == label].T, marker=marker, s=9, color=colour, linewidths=0)
            chosen = held[held_labels == label]
            left.scatter(*chosen.T, marker=marker, s=20, facecolors="white", edgecolors=colour, linewidths=1.1)
        left.set_aspect("equal")
        left.grid(False)
        left.set_title("filled: learned from · hollow: held out")
        _accuracies(right, runs, (BLUE, "solid"), "seeds")
        right.set_title("held-out accuracy")
    return "arms"


def handwriting(folder: Path, found: dict[str, list[Trained]]) -> str:
    """Held-out accuracy by epoch of both models, and which digits the convolutions take for which."""
    with figure(folder, "digits", (7.2, 3.4)) as made:
        left, right = made.subplots(1, 2, width_ratios=[5, 4])
        _accuracies(left, found["mlp"], (ORANGE, "dashed"), "perceptron")
        _accuracies(left, found["cnn"], (BLUE, "solid"), "convolutions")
        left.set_ylim(0.9, 1.001)
        left.set_title("held-out accuracy")
        left.legend(loc="lower right")
        table = np.sum([run.outcome["confusion"] for run in found["cnn"]], axis=0)
        right.imshow(np.sqrt(table), cmap="Blues")
        for shown in range(digits.CLASSES):
            for taken in range(digits.CLASSES):
                if count := int(table[shown, taken]):
                    colour = "white" if shown == taken else BLACK
                    right.text(taken, shown, str(count), ha="center", va="center", fontsize=7.5, color=colour)
        right.set_xticks(range(digits.CLASSES))
        right.set_yticks(range(digits.CLASSES))
        right.grid(False)
        right.set_xlabel("taken for")
        right.set_ylabel("shown")
        right.set_title("convolutions, all seeds")
    return "digits"


def _accuracies(axes: Any, runs: list[Trained], look: tuple[str, str], name: str) -> None:
    """Mean and range over seeds of the held-out accuracy, by epoch."""
    colour, line = look
    steps = runs[0].history.curve("test_accuracy")[0]
    epochs = np.array(steps) * runs[0].epochs / runs[0].history.steps
    curves = np.array([run.history.curve("test_accuracy")[1] for run in runs])
    axes.fill_between(epochs, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.2, linewidth=0)
    axes.plot(epochs, curves.mean(axis=0), color=colour, linestyle=line, label=name)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("epoch · line: mean over seeds, shade: range")


def characters(folder: Path, found: Characters) -> str:
    """The transformer's loss, between what counting characters and counting pairs gives."""
    with figure(folder, "characters", (7.2, 3.2)) as made:
        axes: Any = made.subplots()
        axes.plot(
            np.arange(1, len(found.losses) + 1), found.losses, color=SKY, linewidth=0.8, label="each step's batch"
        )
        steps, losses = zip(*found.validation, strict=True)
        axes.plot(steps, losses, "o-", color=BLUE, markersize=5, label="text held out")
        for level, line, name in (
            (found.single, "dashed", "single characters"),
            (found.pairs, "dotted", "pairs of characters"),
        ):
            axes.axhline(level, color=BLACK, linestyle=line, linewidth=1.2, label=f"entropy of {name}: {level:.2f}")
        axes.set_xlabel("step")
        axes.set_ylabel("nats per character")
        axes.legend(fontsize=9)
    return "characters"
