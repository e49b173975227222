"""`chainrule train fashion`: the pictures of clothes of Fashion-MNIST, by a perceptron or by convolutions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from chainrule import data, nn, random
from chainrule.training.classifier import ClassifierSettings, report, task
from chainrule.training.loop import Task
from chainrule.training.program import Program
from chainrule.training.settings import COUNT, FRACTION, Choice, Location, option

CLASSES = 10


@dataclass(frozen=True)
class FashionSettings(ClassifierSettings):
    """A perceptron 784-256-128-10, or two layers of convolutions, on the 60,000 pictures; 10,000 are held out."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "mlp": {"epochs": 15, "learning_rate": 1e-3, "weight_decay": 0.05, "dropout": 0.2},
        "cnn": {"epochs": 8, "learning_rate": 2e-3, "weight_decay": 0.05, "dropout": 0.3},
    }
    PRESET: ClassVar[str] = "model"

    model: str = option("mlp", Choice(("mlp", "cnn")), "a perceptron, or convolutions")
    folder: str = option(
        "",
        Location("the name of a folder"),
        "where the four IDX files are (default: where Debian's dataset-fashion-mnist puts them)",
        "DIR",
        moves=True,
    )
    batch: int = option(128, COUNT, "examples in a step", "N")
    dropout: float = option(0.2, FRACTION, "the part of the numbers before the last layer dropped in training", "P")


def perceptron(pixels: int, generator: np.random.Generator, dtype: Any, dropout: float) -> Any:
    """784-256-128-10 with ReLU between."""
    made: dict[str, Any] = {"generator": generator, "dtype": dtype}
    hidden: list[Any] = [
        nn.Flatten(),
        nn.Linear(pixels * pixels, 256, **made),
        nn.ReLU(),
        nn.Linear(256, 128, **made),
        nn.ReLU(),
    ]
    return nn.Sequential(*hidden, nn.Dropout(dropout), nn.Linear(128, CLASSES, **made))


def convolutions(pixels: int, generator: np.random.Generator, dtype: Any, dropout: float) -> Any:
    """Two convolutions of 3x3 with normalisation, each halved, and a hidden layer."""
    made: dict[str, Any] = {"generator": generator, "dtype": dtype}

    def layer(before: int, after: int) -> list[Any]:
        return [
            nn.Conv2d(before, after, 3, padding=1, bias=False, **made),
            nn.BatchNorm2d(after, dtype=dtype),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]

    left = pixels // 2 // 2
    head: list[Any] = [nn.Flatten(), nn.Linear(32 * left * left, 64, **made), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layer(1, 16), *layer(16, 32), *head, nn.Linear(64, CLASSES, **made))


MODELS = {"mlp": perceptron, "cnn": convolutions}


def build(settings: FashionSettings) -> Task:
    """The task that the settings describe."""
    training, test = data.fashion(settings.folder or None, dtype=settings.dtype)
    pixels = training[0].shape[1]
    parts = [(pictures[:, None], labels) for pictures, labels in (training, test)]
    model = MODELS[settings.model](pixels, random.generator(settings.seed, 0), settings.dtype, settings.dropout)
    made = task(settings, model, *parts)
    marks = hashlib.sha256(training[1].tobytes() + test[1].tobytes()).hexdigest()
    return replace(made, notes={"labels": marks})


PROGRAM = Program(
    name="fashion",
    title="a network that tells clothes apart",
    settings=FashionSettings,
    task=build,
    report=report,
)
