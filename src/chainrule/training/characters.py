"""`chainrule train chars`: the character transformer learns which character comes next in a text."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import chainrule as cr
from chainrule import data, io, nn, optim, random
from chainrule.errors import ArgumentError, explain
from chainrule.training.folder import CHECKPOINT, read
from chainrule.training.loop import Check, Task
from chainrule.training.program import Program
from chainrule.training.rates import falling
from chainrule.training.settings import (
    COUNT,
    FRACTION,
    NATURAL,
    NOT_NEGATIVE,
    POSITIVE,
    Choice,
    Location,
    Settings,
    Switch,
    follows,
    option,
    refused,
)
from chainrule.training.sources import Windows, consecutive
from chainrule.training.transformer import Transformer
from chainrule.types import Array

HELD_OUT = 0.1
"""The part of the text, its end, that is held out; as in nanoGPT's preparation of characters."""
SUBSET = 240
"""How many windows the evaluations on the way look at: as many as nanoGPT's, which draws 20 batches of 12."""
AT_ONCE = 4096
"""How many characters an evaluation puts through the model at once."""
BETAS = (0.9, 0.99)
"""Of AdamW, as in nanoGPT for few characters a step."""


@dataclass(frozen=True)
class CharacterSettings(Settings):
    """The character transformer, its text, and how it is trained."""

    # Widths and schedules of `cpu` and `baby` are nanoGPT's: its README, "I only have a macbook", and config/train_shakespeare_char.py.
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {
            "layers": 2, "heads": 4, "width": 64, "block": 64, "batch": 16, "dropout": 0.0, "iterations": 1000,
            "initial_std": 0.08, "learning_rate": 8e-3, "evaluate_every": 100,
        },
        "cpu": {
            "layers": 4, "heads": 4, "width": 128, "block": 64, "batch": 12, "dropout": 0.0, "iterations": 2000,
            "initial_std": 0.08, "learning_rate": 1e-3, "evaluate_every": 250,
        },
        "baby": {
            "layers": 6, "heads": 6, "width": 384, "block": 256, "batch": 64, "dropout": 0.2, "iterations": 5000,
            "initial_std": 0.02, "learning_rate": 1e-3, "evaluate_every": 250,
        },
    }  # fmt: skip

    preset: str = option(
        "tiny",
        Choice(tuple(PRESETS)),
        "tiny: seconds; cpu: nanoGPT's setting for a CPU, minutes; baby: its baby GPT, hours",
    )
    text: str = option(
        "",
        Location("the name of a file"),
        "what to learn from (default: Python's reference manual)",
        "FILE",
        moves=True,
    )
    layers: int = option(2, COUNT, "blocks", "N")
    heads: int = option(4, COUNT, "heads of attention in each", "N")
    width: int = option(64, COUNT, "numbers that stand for a character", "N")
    block: int = option(64, COUNT, "characters that the model sees at once", "N")
    dropout: float = option(0.0, FRACTION, "the part of the numbers that is dropped in training", "P")
    untied: bool = option(False, Switch(), "a head with weights of its own, not those of the embedding")
    bias: bool = option(False, Switch(), "with biases in the linear and normalising layers")
    initial_std: float = option(0.08, POSITIVE, "standard deviation of the initial weights; GPT-2's is 0.02", "X")
    batch: int = option(16, COUNT, "windows of text in a step", "N")
    iterations: int = option(1000, COUNT, "steps", "N", grows=True)
    learning_rate: float = option(8e-3, POSITIVE, "the highest rate", "RATE")
    final_rate: float = option(None, NOT_NEGATIVE, "the last rate, to which a cosine leads", "RATE", said="a tenth")
    warm_up: int = option(None, NATURAL, "steps in which the rate rises", "N", said="100, at most a tenth of all")
    decay_iterations: int = option(None, COUNT, "the step that has the last rate", "N", said="the last")
    weight_decay: float = option(0.1, NOT_NEGATIVE, "of AdamW, on matrices only", "X")
    clip: float = option(1.0, NOT_NEGATIVE, "the largest norm of the gradient; 0: any", "X")
    evaluate_every: int = option(100, COUNT, "steps between two evaluations", "N")

    def check(self) -> None:
        # Of a run that is given more steps, these stay what they were.
        warm_up = min(100, self.iterations // 10)
        follows(self, final_rate=self.learning_rate / 10, warm_up=warm_up, decay_iterations=self.iterations)
        if self.width % self.heads:
            width = self.heads * math.ceil(self.width / self.heads)
            raise refused(f"--heads {self.heads} does not divide --width {self.width}", remedy=f"--width {width}")
        if self.final_rate > self.learning_rate:
            raise refused(f"--final-rate {self.final_rate:g} is above --learning-rate {self.learning_rate:g}")
        if self.warm_up >= self.decay_iterations:
            raise refused(f"--warm-up {self.warm_up} leaves nothing of {self.decay_iterations} steps")


def build(settings: CharacterSettings) -> Task:
    """The task that the settings describe."""
    text = data.read_text(settings.text) if settings.text else data.default_text()
    vocabulary, training, validation = data.characters(text, HELD_OUT, block=settings.block)
    made = model(settings, len(vocabulary))
    optimizer = adamw(made, settings)
    some, every_one = consecutive(validation, settings.block, SUBSET), consecutive(validation, settings.block)

    def clip() -> None:
        optim.clip_grad_norm_(made.parameters(), settings.clip)

    def batch_loss(x: Array, y: Array) -> Any:
        return loss(made, x, y)

    def total(x: Array, y: Array) -> Any:
        return loss(made, x, y, "sum")

    look = total if settings.no_jit else cr.jit(total)

    def evaluate(check: Check) -> dict[str, float]:
        return {"validation_loss": mean_loss(look, *some, check)}

    def conclude(check: Check) -> dict[str, Any]:
        count = sum(parameter.size for parameter in made.parameters())
        return {"validation_loss": mean_loss(look, *every_one, check), "parameters": count}

    return Task(
        settings=settings,
        model=made,
        optimizer=optimizer,
        schedule=schedule(optimizer, settings),
        source=Windows(training, settings.block, settings.batch, random.generator(settings.seed, 1)),
        generator=random.generator(settings.seed, 2),
        steps=settings.iterations,
        evaluate_every=settings.evaluate_every,
        measures=("validation_loss",),
        loss=batch_loss,
        evaluate=evaluate,
        conclude=conclude,
        clip=clip if settings.clip else None,
        notes={"characters": vocabulary.characters, "text": digest(text)},
    )


def digest(text: str) -> str:
    """What tells one text from another."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def adamw(model: Transformer, settings: CharacterSettings) -> optim.AdamW:
    """AdamW, which lets matrices decay and nothing else."""
    groups = [
        {"params": model.matrices, "weight_decay": settings.weight_decay},
        {"params": model.vectors, "weight_decay": 0.0},
    ]
    return optim.AdamW(groups, lr=settings.learning_rate, betas=BETAS)


def schedule(optimizer: optim.AdamW, settings: CharacterSettings) -> Any:
    """Warm-up and cosine."""
    rate, last = settings.learning_rate, settings.final_rate
    return falling(optimizer, rate, settings.decay_iterations, settings.warm_up, last)


def model(settings: CharacterSettings, characters: int) -> Transformer:
    """The model that the settings describe, with its initial weights."""
    return Transformer(
        characters,
        layers=settings.layers,
        heads=settings.heads,
        width=settings.width,
        block=settings.block,
        dropout=settings.dropout,
        bias=settings.bias,
        initial_std=settings.initial_std,
        tied=not settings.untied,
        dtype=settings.dtype,
        generator=random.generator(settings.seed, 0),
    )


def loss(model: Transformer, x: Array, y: Array, reduction: str = "mean") -> Any:
    """Cross-entropy of the characters that came next, in nats."""
    logits = model(x)
    return nn.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1), reduction=reduction)


def mean_loss(look: Callable[[Array, Array], Any], x: Array, y: Array, check: Check) -> float:
    """The mean over all characters of windows, a few windows at once; `look` gives the sum of the losses."""
    rows, total = max(1, AT_ONCE // x.shape[1]), 0.0
    for start in range(0, len(x), rows):
        check()
        total += float(look(x[start : start + rows], y[start : start + rows]).item())
    return total / y.size


def load(folder: str) -> tuple[Transformer, data.Vocabulary]:
    """The model in the folder of a run, ready for use, and the characters that it knows.

    **Raises** ArgumentError for a folder that holds no such run, CheckpointError for a checkpoint that is damaged or foreign.
    """
    about = read(folder, "sample")["about"]
    if about["program"] != PROGRAM.name:
        fault = f"{folder} holds a run of `chainrule train {about['program']}`, which writes no text"
        raise ArgumentError(explain("sample", fault, expected="one of `chainrule train chars`"))
    vocabulary = data.Vocabulary(about["notes"]["characters"])
    made = model(CharacterSettings(**about["settings"]), len(vocabulary))
    io.load_checkpoint(f"{folder}/{CHECKPOINT}", model=made)
    return made.eval(), vocabulary


def report(outcome: Mapping[str, Any]) -> str:
    """The outcome in words."""
    return f"validation loss {outcome['validation_loss']:.4f} · {outcome['parameters']:,} parameters"


PROGRAM = Program(
    name="chars",
    title="a transformer that writes text, character by character",
    settings=CharacterSettings,
    task=build,
    report=report,
    afterwards="to write text with it: chainrule sample {folder}",
)
