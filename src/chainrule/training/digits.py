"""`chainrule train digits`: the handwritten digits of scikit-learn, by a perceptron or by convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chainrule import data, nn, random
from chainrule.random import draw
from chainrule.training.classifier import ClassifierSettings, report, task
from chainrule.training.loop import Task
from chainrule.training.program import Program
from chainrule.training.settings import FRACTION, NOT_NEGATIVE, Choice, option
from chainrule.types import Array

HELD_OUT = 450
CLASSES = 10


@dataclass(frozen=True)
class DigitSettings(ClassifierSettings):
    """A perceptron 64-64-32-10, or three layers of convolutions, on 1,347 of the digits; 450 are held out."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "mlp": {"epochs": 60, "learning_rate": 0.02, "weight_decay": 0.0, "noise": 0.2, "dropout": 0.0},
        "cnn": {"epochs": 20, "learning_rate": 0.01, "weight_decay": 0.01, "noise": 0.0, "dropout": 0.3},
    }
    PRESET: ClassVar[str] = "model"

    model: str = option("mlp", Choice(("mlp", "cnn")), "a perceptron, or convolutions")
    noise: float = option(0.2, NOT_NEGATIVE, "normal noise on the pixels in training, its standard deviation", "X")
    dropout: float = option(0.0, FRACTION, "the part of the numbers before the last layer dropped in training", "P")


def images(seed: int, dtype: Any) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Images f[n, 1, 8, 8] with pixels from 0 to 1 and their labels: to train on, and held out, classes in proportion."""
    pictures, labels = data.digits(dtype=dtype)
    return data.split(pictures[:, None], labels, held_out=HELD_OUT, labels=labels, seed=seed)


def perceptron(generator: np.random.Generator, dtype: Any, dropout: float = 0.0) -> Any:
    """64-64-32-10 with ReLU between: 6,570 parameters."""
    made: dict[str, Any] = {"generator": generator, "dtype": dtype}
    hidden: list[Any] = [nn.Flatten(), nn.Linear(64, 64, **made), nn.ReLU(), nn.Linear(64, 32, **made), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Dropout(dropout), nn.Linear(32, CLASSES, **made))


def convolutions(generator: np.random.Generator, dtype: Any, dropout: float = 0.0) -> Any:
    """Three convolutions of 3x3 with normalisation, halved twice to 2x2 places of 32 numbers: 8,474 parameters."""
    made: dict[str, Any] = {"generator": generator, "dtype": dtype}

    def layer(before: int, after: int) -> list[Any]:
        return [
            nn.Conv2d(before, after, 3, padding=1, bias=False, **made),
            nn.BatchNorm2d(after, dtype=dtype),
            nn.ReLU(),
        ]

    features: list[Any] = [*layer(1, 16), *layer(16, 16), nn.MaxPool2d(2), *layer(16, 32), nn.MaxPool2d(2)]
    return nn.Sequential(*features, nn.Flatten(), nn.Dropout(dropout), nn.Linear(32 * 2 * 2, CLASSES, **made))


MODELS = {"mlp": perceptron, "cnn": convolutions}


def build(settings: DigitSettings) -> Task:
    """The task that the settings describe."""
    training, test = images(settings.seed, settings.dtype)
    model = MODELS[settings.model](random.generator(settings.seed, 0), settings.dtype, settings.dropout)

    def noisy(x: Array) -> Array:
        return x + draw.normal(x.shape, 0.0, settings.noise, dtype=x.dtype)

    alter = noisy if settings.noise else None
    return task(settings, model, training, test, alter=alter)


PROGRAM = Program(
    name="digits",
    title="a network that reads handwritten digits",
    settings=DigitSettings,
    task=build,
    report=report,
)
