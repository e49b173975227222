"""What the programs that tell classes apart share: the loss, accuracy and confusion matrix, and how they are reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import chainrule as cr
from chainrule import data, nn, optim, random
from chainrule.training.loop import Check, Task
from chainrule.training.progress import one
from chainrule.training.rates import falling
from chainrule.training.settings import COUNT, NOT_NEGATIVE, POSITIVE, Settings, follows, option
from chainrule.training.sources import Passes
from chainrule.types import Array

AT_ONCE = 500
"""How many items an evaluation puts through the model at once."""
FINAL = 0.01
"""The last rate, as a part of the first."""

Part = tuple[Array, ...]


@dataclass(frozen=True)
class ClassifierSettings(Settings):
    """What every classifier is told."""

    epochs: int = option(60, COUNT, "passes over the training part", "N", grows=True)
    batch: int = option(64, COUNT, "examples in a step", "N")
    learning_rate: float = option(0.01, POSITIVE, "the first rate; a cosine leads to a hundredth of it", "RATE")
    weight_decay: float = option(0.0, NOT_NEGATIVE, "of AdamW", "X")
    decay_epochs: int = option(None, COUNT, "the epoch in which the rate is at its last", "N", said="the last")

    def check(self) -> None:
        follows(self, decay_epochs=self.epochs)  # of a run that is given more epochs it stays what it was


def task(
    settings: ClassifierSettings,
    model: Any,
    training: Part,
    test: Part,
    *,
    alter: Callable[[Array], Array] | None = None,
    measure_every: int = 1,
) -> Task:
    """The training of `model` on images or points and their labels, with another part held out for the test.

    `alter` changes the examples of a batch at random, drawing through `cr.random`; evaluations come every
    `measure_every` epochs.
    """
    batches = data.Batches(*training, batch_size=min(settings.batch, len(training[0])), seed=settings.seed)
    rate, steps = settings.learning_rate, len(batches)
    optimizer = optim.AdamW(model.parameters(), lr=rate, weight_decay=settings.weight_decay)
    examination = Examination(model, training, test, compiled=not settings.no_jit)

    def loss(x: Array, y: Array) -> Any:
        return nn.cross_entropy(model(alter(x) if alter else x), y)

    return Task(
        settings=settings,
        model=model,
        optimizer=optimizer,
        schedule=falling(optimizer, rate, steps * settings.decay_epochs, last=FINAL * rate),
        source=Passes(batches),
        generator=random.generator(settings.seed, 1),
        steps=steps * settings.epochs,
        evaluate_every=steps * measure_every,
        measures=("test_loss", "test_accuracy"),
        loss=loss,
        evaluate=examination.evaluate,
        conclude=examination.conclude,
    )


def logits_and_loss(model: Any, x: Array, y: Array) -> tuple[Any, Any]:
    """What a model says of examples, and the sum of the losses."""
    logits = model(x)
    return logits, nn.cross_entropy(logits, y, reduction="sum")


class Examination:
    """What a model is measured by."""

    def __init__(self, model: Any, training: Part, test: Part, *, compiled: bool = True) -> None:
        def look(x: Array, y: Array) -> tuple[Any, Any]:
            return logits_and_loss(model, x, y)

        self.look = cr.jit(look) if compiled else look
        self.training = training
        self.test = test

    def evaluate(self, check: Check) -> dict[str, float]:
        """Loss and accuracy on what was held out."""
        found = Evaluation.of(self.look, self.test, check)
        return {"test_loss": found.loss, "test_accuracy": found.accuracy}

    def conclude(self, check: Check) -> dict[str, Any]:
        """The same on both parts, and which class was taken for which."""
        found, learned = (Evaluation.of(self.look, part, check) for part in (self.test, self.training))
        return {
            "training_loss": learned.loss,
            "training_accuracy": learned.accuracy,
            "test_loss": found.loss,
            "test_accuracy": found.accuracy,
            "confusion": found.confusion.tolist(),
        }


class Evaluation(NamedTuple):
    """Mean loss, accuracy as a fraction, and how often each class (rows) was taken for each class (columns)."""

    loss: float
    accuracy: float
    confusion: Array

    @classmethod
    def of(cls, look: Callable[[Array, Array], tuple[Any, Any]], part: Part, check: Check) -> Evaluation:
        """What the model makes of examples and their labels; `look` gives logits and the sum of the losses."""
        losses, predicted, classes = 0.0, list[Array](), 0
        for start in range(0, len(part[0]), AT_ONCE):
            check()
            x, y = (array[start : start + AT_ONCE] for array in part)
            logits, loss = look(x, y)
            classes = int(logits.shape[1])
            losses += float(loss.item())
            predicted.append(np.argmax(logits.detach().data, axis=1))
        labels = part[1]
        table = confusion(np.concatenate(predicted), labels, classes)
        return cls(losses / len(labels), float(np.trace(table)) / len(labels), table)


def confusion(predicted: Array, labels: Array, classes: int) -> Array:
    """How often each class (rows) was taken for each class (columns).

    >>> confusion(np.array([0, 1, 1]), np.array([0, 1, 0]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    return np.bincount(labels * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def report(outcome: Mapping[str, Any]) -> str:
    """The outcome in words; the confusion matrix where there are few classes.

    >>> print(report({"training_accuracy": 1.0, "test_accuracy": 0.75, "confusion": [[2, 1], [0, 1]]}))
    training accuracy 100.00% · test accuracy 75.00%
    what was shown (rows), and what it was taken for (columns):
           0    1
      0    2    1
      1    .    1
    """
    said = [f"{name} accuracy {one('accuracy', outcome[f'{name}_accuracy'])}" for name in ("training", "test")]
    table: list[list[int]] = outcome["confusion"]
    width = max(4, *(len(str(count)) for row in table for count in row)) + 1
    lines = ["   " + "".join(f"{k:{width}}" for k in range(len(table)))]
    lines += [f"{k:3}" + "".join(f"{count or '.':>{width}}" for count in row) for k, row in enumerate(table)]
    return "\n".join([" · ".join(said), "what was shown (rows), and what it was taken for (columns):", *lines])
