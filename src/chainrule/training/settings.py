"""What a run was told: frozen dataclasses, whose fields are at once arguments in Python, options of the command and entries of a checkpoint.

A field says by `option(...)` which values it takes, and whether a run that is resumed may be given another one.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from chainrule.errors import ArgumentError, explain


@dataclass(frozen=True)
class Number:
    """The numbers that an option takes: from `least` to `most`, whole ones or not, the ends included or not."""

    words: str
    least: float = 0.0
    most: float = math.inf
    is_whole: bool = False
    with_least: bool = True
    with_most: bool = True

    def takes(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int,) if self.is_whole else (int, float)):
            return False
        if not math.isfinite(value):
            return False
        above = value >= self.least if self.with_least else value > self.least
        return above and (value <= self.most if self.with_most else value < self.most)

    def __call__(self, text: str) -> Any:
        """The number that an option's text stands for, for argparse."""
        try:
            value = int(text) if self.is_whole else float(text)
        except ValueError:
            value = None
        if not self.takes(value):
            raise argparse.ArgumentTypeError(f"{text!r} given, expected {self.words}")
        return value


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    choices: tuple[str, ...]

    @property
    def words(self) -> str:
        return " or ".join(self.choices)

    def takes(self, value: Any) -> bool:
        return value in self.choices

    def __call__(self, text: str) -> str:
        if text not in self.choices:
            raise argparse.ArgumentTypeError(f"{text!r} given, expected {self.words}")
        return text


@dataclass(frozen=True)
class Location:
    """The name of a file or folder; empty where there is none."""

    words: str = "a path"

    def takes(self, value: Any) -> bool:
        return isinstance(value, str) and "\0" not in value

    def __call__(self, text: str) -> str:
        if not text or "\0" in text:
            raise argparse.ArgumentTypeError(f"{text!r} given, expected {self.words}")
        return os.path.abspath(text)  # noqa: PTH100 - links stay: the run may be resumed from another folder


@dataclass(frozen=True)
class Switch:
    """Given or not."""

    words: str = "True or False"

    def takes(self, value: Any) -> bool:
        return isinstance(value, bool)


SEED = Number(f"a whole number from 0 to {2**32 - 1}", 0, 2**32 - 1, is_whole=True)
COUNT = Number("a whole number from 1 on", 1, 2**53, is_whole=True)
NATURAL = Number("a whole number from 0 on", 0, 2**53, is_whole=True)
POSITIVE = Number("a number above 0", with_least=False)
NOT_NEGATIVE = Number("a number from 0 on")
FRACTION = Number("a number from 0 to below 1", most=1.0, with_most=False)

Kind = Number | Choice | Location | Switch


def option(
    default: Any, kind: Kind, text: str, metavar: str = "", *, said: str = "", grows: bool = False, moves: bool = False
) -> Any:
    """A field of `Settings`, with `said` for a default that follows from others.

    A run that is resumed may be given more of what `grows`, and another of what `moves`.
    """
    about = {"kind": kind, "help": text, "metavar": metavar, "said": said, "grows": grows, "moves": moves}
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class Settings:
    """What every program is told.  **Raises** ArgumentError for values that an option does not take."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}
    PRESET: ClassVar[str] = "preset"
    """The field that names one of `PRESETS`."""

    seed: int = option(0, SEED, "where everything random starts", "N")
    dtype: str = option("float32", Choice(("float32", "float64")), "the numbers that the model computes with", "DTYPE")
    no_jit: bool = option(False, Switch(), "run every step as it is written, not as one compiled program")

    def __post_init__(self) -> None:
        for entry in dataclasses.fields(self):
            value, kind = getattr(self, entry.name), kind_of(entry)
            if not kind.takes(value) and not (value is None and entry.default is None):
                raise refused(f"{flag(entry.name)} {value!r}", kind.words)
        self.check()

    def check(self) -> None:
        """What must hold between the values, and those that follow from others.  **Raises** ArgumentError."""

    @classmethod
    def made(cls, **given: Any) -> Self:
        """The settings for what was given: the rest comes from the preset that it names, or is the default."""
        known = {entry.name: entry.default for entry in dataclasses.fields(cls)}
        preset = {**known, **given}.get(cls.PRESET)
        return cls(**{**cls.PRESETS.get(str(preset), {}), **given})

    def resumed(self, given: Mapping[str, Any]) -> Self:
        """The settings of a run that goes on, with what was given now.

        **Raises** ArgumentError if that contradicts them; only what grows may be more than it was, and what moves another.
        """
        changed: dict[str, Any] = {}
        for entry in dataclasses.fields(self):
            before, now = getattr(self, entry.name), given.get(entry.name, getattr(self, entry.name))
            if now == before:
                continue
            if not entry.metadata["grows"] and not entry.metadata["moves"]:
                given_now = f"{flag(entry.name)} {shown(now)} contradicts the run's {shown(before)}"
                if isinstance(before, bool):
                    given_now = f"{flag(entry.name)} contradicts the run, which was begun without it"
                raise refused(given_now, remedy="without it")
            if entry.metadata["grows"] and now < before:
                fault = f"{flag(entry.name)} {shown(now)} is less than the run's {shown(before)}"
                raise refused(fault, f"at least {shown(before)}")
            changed[entry.name] = now
        return dataclasses.replace(self, **changed)


def refused(fault: str, expected: str = "", remedy: str = "") -> ArgumentError:
    """The error about an option."""
    return ArgumentError(explain("train", fault, expected=expected, remedy=remedy))


def shown(value: Any) -> str:
    """A value as it is typed."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def flag(name: str) -> str:
    """How a field is spelled on the command line.

    >>> flag("weight_decay")
    '--weight-decay'
    """
    return "--" + name.replace("_", "-")


def follows(settings: Settings, **values: Any) -> None:
    """Give fields that were left None the values that follow from others."""
    for name, value in values.items():
        if getattr(settings, name) is None:
            object.__setattr__(settings, name, value)


def kind_of(entry: dataclasses.Field[Any]) -> Kind:
    return entry.metadata["kind"]


def add_options(parser: argparse.ArgumentParser, settings: type[Settings]) -> None:
    """An option for each field; those that are not given leave no trace in what is parsed."""
    for entry in dataclasses.fields(settings):
        add: Callable[..., Any] = parser.add_argument
        kind, text, default = kind_of(entry), entry.metadata["help"], entry.default
        if isinstance(kind, Switch):
            add(flag(entry.name), action="store_true", default=argparse.SUPPRESS, help=text)
            continue
        varies = entry.name in {name for preset in settings.PRESETS.values() for name in preset}
        usual = f"that of the {settings.PRESET}" if varies else shown(default)
        said = entry.metadata["said"] or usual
        more = f"{text} (default: {said})" if said else text
        metavar = entry.metadata["metavar"] or ("|".join(kind.choices) if isinstance(kind, Choice) else None)
        add(flag(entry.name), type=kind, default=argparse.SUPPRESS, metavar=metavar, help=more)
