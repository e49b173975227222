"""Characters as numbers, and windows of a text: what a model of the next character learns from."""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple

import numpy as np

from chainrule.errors import ArgumentError, DTypeError, IndexingError, explain
from chainrule.random import draw
from chainrule.types import Array


class Vocabulary:
    """Characters, sorted by code point, each with its number: 0 for the first.

    **Raises** ArgumentError for no characters, or one that is there twice.

    >>> import chainrule as cr
    >>> vocabulary = cr.data.Vocabulary("abc")
    >>> vocabulary.encode("cab").tolist(), vocabulary.decode([2, 0, 1])
    ([2, 0, 1], 'cab')
    """

    def __init__(self, characters: str) -> None:
        if not characters or len(set(characters)) != len(characters):
            fault = "one of the characters is there twice" if characters else "there are no characters"
            raise ArgumentError(explain("Vocabulary", fault, characters=characters))
        self.characters = "".join(sorted(characters))
        self._codes = _codes(self.characters)

    def __len__(self) -> int:
        return len(self.characters)

    def __repr__(self) -> str:
        return f"Vocabulary({self.characters!r})"

    def encode(self, text: str) -> Array:
        """The numbers of the characters of `text`.

        **Shapes** i64[n].  **Raises** ArgumentError for a character that is not in the vocabulary, naming it and
        where it is.
        """
        codes = _codes(text)
        numbers = self._codes[1:].searchsorted(codes, side="right")  # the last one that is not larger
        unknown = np.flatnonzero(self._codes[numbers] != codes)
        if unknown.size:
            position = int(unknown[0])
            fault = f"the character {text[position]!r} at position {position} is not in the vocabulary"
            raise ArgumentError(explain("encode", fault, vocabulary=self.characters))
        return numbers.astype(np.int64)

    def decode(self, numbers: Any) -> str:
        """The text of which these are the numbers: an array, a tensor or a list, with one axis.

        **Raises** IndexingError for a number that stands for no character, DTypeError for what is no array of integers.
        """
        wanted = np.asarray(numbers)
        if wanted.size == 0:
            return ""
        if wanted.dtype.kind not in "iu" or wanted.ndim != 1:
            raise DTypeError(explain("decode", "these are no integers in a row", numbers=wanted))
        outside = np.flatnonzero((wanted < 0) | (wanted >= len(self)))
        if outside.size:
            position = int(outside[0])
            fault = f"the number {wanted[position]} at position {position} stands for no character"
            raise IndexingError(explain("decode", fault, expected=f"0 to {len(self) - 1}"))
        return "".join(self.characters[number] for number in wanted.tolist())


def _codes(text: str) -> Array:
    """Code points; half of a surrogate pair, which no encoding has a form for, is one like any other."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


class Characters(NamedTuple):
    """A text as numbers, in two parts, and the vocabulary that they come from."""

    vocabulary: Vocabulary
    train: Array
    validation: Array


def characters(text: str, validation: float = 0.1, block: int = 0) -> Characters:
    """The characters of a text as numbers: its beginning to train on, and the share `validation` at its end.

    **Shapes** `train` i64[n], `validation` i64[m].
    **Raises** ArgumentError for an empty text, a share that is not from 0 up to but without 1, or a part that has no
    room for a window of `block` characters and the one after it.

    >>> import chainrule as cr
    >>> text = cr.data.characters("to be or not to be, that is", validation=0.25)
    >>> text.vocabulary.characters, len(text.train), text.vocabulary.decode(text.validation)
    (' ,abehinorst', 20, 'that is')
    """
    if not text:
        raise ArgumentError(explain("characters", "the text is empty"))
    if not 0.0 <= validation < 1.0:
        fault = "no share of a text"
        raise ArgumentError(explain("characters", fault, validation=validation, expected="from 0 up to but without 1"))
    vocabulary = Vocabulary("".join(set(text)))
    numbers = vocabulary.encode(text)
    cut = int((1.0 - validation) * len(numbers))
    found = Characters(vocabulary, numbers[:cut], numbers[cut:])
    if block > 0:
        _room("characters", "train", found.train, block)
        if validation > 0.0:
            _room("characters", "validation", found.validation, block)
    return found


def _room(operation: str, name: str, numbers: Array, block: int) -> None:
    if len(numbers) <= block:
        fault = f"{len(numbers)} characters are too few for a block and the character after it"
        expected = f"at least {block + 1}"
        raise ArgumentError(explain(operation, fault, **{name: numbers}, block=block, expected=expected))


def windows(
    numbers: Any, block: int, count: int, *, generator: np.random.Generator | None = None
) -> tuple[Array, Array]:
    """`count` windows of `block` numbers from anywhere in a text, and the same moved on by one: what comes next.

    **Shapes** numbers i[n] -> two arrays i[count, block].
    **Raises** ArgumentError for a text of no more than `block` numbers.

    >>> import chainrule as cr
    >>> x, y = cr.data.windows(np.arange(100), 4, 2, generator=cr.random.generator(0))
    >>> x.shape, bool((y == x + 1).all())
    ((2, 4), True)
    """
    text = np.asarray(numbers)
    if index(block) < 1 or index(count) < 1:
        raise ArgumentError(explain("windows", "at least 1 each", block=block, count=count))
    _room("windows", "numbers", text, block)
    starts = draw.integers(count, 0, len(text) - block, generator=generator)
    found = text[starts[:, None] + np.arange(block + 1)]
    return np.ascontiguousarray(found[:, :-1]), np.ascontiguousarray(found[:, 1:])
