"""`chainrule train chars`: a transformer that learns which character comes next.

Model, initial weights and training are GPT-2's and nanoGPT's at the size of a CPU: token and learned position embeddings,
pre-norm blocks with causal attention and GELU, a last normalisation, a head that shares the embedding's weights or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chainrule import data, nn, optim, random
from chainrule.errors import ArgumentError, explain
from chainrule.training.loop import Check, Task
from chainrule.training.program import Program
from chainrule.training.progress import in_words
from chainrule.training.settings import COUNT, FRACTION, NATURAL, NOT_NEGATIVE, POSITIVE, Choice, Location, Settings, Switch, option
from chainrule.training.sources import Windows, consecutive
from chainrule.types import Array

HELD_OUT = 0.1
"""The part of the text, its end, that is held out; as in nanoGPT's preparation of characters."""
SUBSET = 240
"""How many windows the evaluations on the way look at: as many as nanoGPT's, which draws 20 batches of 12."""
STD = 0.02
"""Of the initial weights. Radford and others, Language Models are Unsupervised Multitask Learners, 2019, and its code."""


@dataclass(frozen=True)
class CharacterSettings(Settings):
    """The character transformer, its text, and how it is trained."""

    # Widths and schedules of `cpu` and `baby` are nanoGPT's: its README, "I only have a macbook", and config/train_shakespeare_char.py.
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {
            "layers": 2, "heads": 4, "width": 64, "block": 64, "batch": 16, "dropout": 0.0, "iterations": 600,
            "learning_rate": 4e-3, "evaluate_every": 100,
        },
        "cpu": {
            "layers": 4, "heads": 4, "width": 128, "block": 64, "batch": 12, "dropout": 0.0, "iterations": 2000,
            "learning_rate": 1e-3, "evaluate_every": 250,
        },
        "baby": {
            "layers": 6, "heads": 6, "width": 384, "block": 256, "batch": 64, "dropout": 0.2, "iterations": 5000,
            "learning_rate": 1e-3, "evaluate_every": 250,
        },
    }  # fmt: skip

    preset: str = option("tiny", Choice(tuple(PRESETS)), "a size, from seconds over minutes to hours")
    text: str = option("", Location("the name of a file"), "what to learn from (default: Python's reference manual)", "FILE", moves=True)
    layers: int = option(2, COUNT, "blocks", "N")
    heads: int = option(4, COUNT, "heads of attention in each", "N")
    width: int = option(64, COUNT, "numbers that stand for a character", "N")
    block: int = option(64, COUNT, "characters that the model sees at once", "N")
    dropout: float = option(0.0, FRACTION, "the part of the numbers that is dropped in training", "P")
    untied: bool = option(False, Switch(), "a head with weights of its own, not those of the embedding")
    bias: bool = option(False, Switch(), "with biases in the linear and normalising layers")
    batch: int = option(16, COUNT, "windows of text in a step", "N")
    iterations: int = option(600, COUNT, "steps", "N", grows=True)
    learning_rate: float = option(4e-3, POSITIVE, "the highest rate", "RATE")
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
