"""Where batches come from, without end, and where that stands: passes over arrays, or windows of a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from chainrule import data
from chainrule.types import Array


class Passes:
    """The batches of one pass after the other."""

    def __init__(self, batches: data.Batches) -> None:
        self.batches = batches
        self._pass: Iterator[tuple[Array, ...]] | None = None

    def __next__(self) -> tuple[Array, ...]:
        while True:
            self._pass = self._pass or iter(self.batches)
            for batch in self._pass:
                return batch
            self._pass = None

    def state_dict(self) -> Mapping[str, Any]:
        return self.batches.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.batches.load_state_dict(state)
        self._pass = None


class Windows:
    """Batches of `batch` windows from anywhere in a text: `block` characters, and the same moved on by one."""

    def __init__(self, numbers: Array, block: int, batch: int, generator: np.random.Generator) -> None:
        self.numbers = numbers
        self.block = block
        self.batch = batch
        self.generator = generator

    def __next__(self) -> tuple[Array, Array]:
        return data.windows(self.numbers, self.block, self.batch, generator=self.generator)

    def state_dict(self) -> Mapping[str, Any]:
        return {"generator": self.generator}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.generator.bit_generator.state = state["generator"].bit_generator.state


def consecutive(numbers: Array, block: int, most: int | None = None) -> tuple[Array, Array]:
    """Windows one after the other, each with what comes next; what is left at the end, less than a block, is not looked at.

    At most `most` of them, spread evenly over the text.

    >>> consecutive(np.arange(8), 3)
    (array([[0, 1, 2],
           [3, 4, 5]]), array([[1, 2, 3],
           [4, 5, 6]]))
    """
    starts = np.arange((len(numbers) - 1) // block) * block
    if most is not None and len(starts) > most:
        starts = starts[np.linspace(0, len(starts) - 1, most).round().astype(np.int64)]
    found = numbers[starts[:, None] + np.arange(block + 1)]
    return found[:, :-1], found[:, 1:]
