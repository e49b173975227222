"""`chainrule sample`: text from a trained character transformer, one character after the other.

What the model has computed for the characters before is kept, so each new one costs one column of attention.  Positions are
learned, for a block and no further: when it is full, the oldest quarter is forgotten and the rest is read again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import data
from chainrule.types import Array


def write(folder: str, prompt: str, tokens: int, temperature: float, top_k: int | None, seed: int) -> int:
    """The command: print `prompt` and `tokens` characters more, as they come; give back the exit code.

    **Raises** ArgumentError for a folder without such a model or a prompt with a character that it does not know.
    """
    from chainrule.training.characters import load

    model, vocabulary = load(folder)
    beginning = vocabulary.encode(prompt or start_of_line(vocabulary))
    _print(prompt)
    for number in characters(model, beginning, tokens, temperature, top_k, cr.random.generator(seed)):
        _print(vocabulary.characters[number])
    _print("\n")
    return 0


def start_of_line(vocabulary: data.Vocabulary) -> str:
    """What stands before a text of its own: the end of a line, where there are lines."""
    return "\n" if "\n" in vocabulary.characters else vocabulary.characters[0]


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class Reading:
    """A text that is read character by character: `logits` for what comes next.

    `is_cached=False` reads everything anew each time, for comparison.
    """

    def __init__(self, model: Any, text: Array, is_cached: bool = True) -> None:
        self.model = model
        self.is_cached = is_cached
        self.window: list[int] = []
        self._memory: Any = None
        self.logits = self._read(text[-model.block :].tolist())

    def append(self, number: int) -> Array:
        """One more character; the logits for the next."""
        if len(self.window) == self.model.block:
            kept = self.window[-max(1, self.model.block * 3 // 4) :] if self.model.block > 1 else []
            self.window = []
            self.logits = self._read([*kept, number][-self.model.block :])
        else:
            self.logits = self._read([number])
        return self.logits

    def _read(self, numbers: list[int]) -> Array:
        if not self.window:
            self._memory = self.model.memory() if self.is_cached else None
        self.window += numbers
        given = numbers if self.is_cached else self.window
        return self.model.next_logits(np.array([given]), self._memory)[0]


def characters(
    model: Any, text: Array, count: int, temperature: float = 1.0, top_k: int | None = None, generator: Any = None
) -> Iterator[int]:
    """The numbers of `count` characters after `text`, each drawn by its probability at that temperature, among the `top_k` likeliest."""
    reading = Reading(model, text)
    for k in range(count):
        number = choose(reading.logits, temperature, top_k, generator)
        yield number
        if k + 1 < count:
            reading.append(number)


def choose(logits: Array, temperature: float, top_k: int | None, generator: np.random.Generator) -> int:
    """A class drawn by softmax(logits / temperature) among the `top_k` largest; the first largest at temperature 0.

    >>> choose(np.array([0.0, 2.0, 1.0]), 0.0, None, np.random.default_rng(0))
    1
    """
    order = np.argsort(-logits, kind="stable")[:top_k]
    if temperature == 0.0:
        return int(order[0])
    with np.errstate(over="ignore"):  # a difference over a tiny temperature is minus infinity, and its weight 0
        weights = np.exp((logits[order].astype(np.float64) - float(logits[order[0]])) / temperature)
    total = np.cumsum(weights)
    return int(order[np.searchsorted(total, generator.random() * total[-1], side="right")])
