"""`chainrule train spiral`: two spiral arms, told apart by a perceptron of two hidden layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chainrule import data, nn, random
from chainrule.training.classifier import ClassifierSettings, report, task
from chainrule.training.loop import Task
from chainrule.training.program import Program
from chainrule.training.settings import COUNT, POSITIVE, option
from chainrule.types import Array

POINTS, HELD_OUT = 500, 150
REVOLUTIONS, NOISE = 2.5, 0.5
SCALE = 4.0
"""The radius of the spiral as the perceptron sees it: its first layer begins with kinks as far apart as the arms then are."""


@dataclass(frozen=True)
class SpiralSettings(ClassifierSettings):
    """The perceptron on the spiral: Adam on all points at once."""

    epochs: int = option(900, COUNT, "passes over the training part", "N", grows=True)
    batch: int = option(350, COUNT, "points in a step", "N")
    learning_rate: float = option(0.03, POSITIVE, "the first rate; a cosine leads to a hundredth of it", "RATE")


def points(seed: int, dtype: Any) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """500 points, 350 to train on and 150 held out.

    The two points in the middle are left out: there the arms meet, and one place has both labels.
    """
    generator = random.generator(seed, 2)
    places, labels = data.two_arm_spiral(POINTS + 2, REVOLUTIONS, NOISE, generator=generator)
    apart = places.any(axis=1)
    places, labels = (SCALE * places[apart]).astype(dtype), labels[apart]
    return (places[HELD_OUT:], labels[HELD_OUT:]), (places[:HELD_OUT], labels[:HELD_OUT])


def perceptron(generator: np.random.Generator, dtype: Any) -> Any:
    """2-64-64-2, with SiLU between."""
    made: dict[str, Any] = {"generator": generator, "dtype": dtype}
    return nn.Sequential(
        nn.Linear(2, 64, **made), nn.SiLU(), nn.Linear(64, 64, **made), nn.SiLU(), nn.Linear(64, 2, **made)
    )


def build(settings: SpiralSettings) -> Task:
    """The task that the settings describe."""
    training, test = points(settings.seed, settings.dtype)
    model = perceptron(random.generator(settings.seed, 0), settings.dtype)
    return task(settings, model, training, test, measure_every=20)


PROGRAM = Program(
    name="spiral",
    title="a perceptron that tells two spiral arms apart",
    settings=SpiralSettings,
    task=build,
    report=report,
)
