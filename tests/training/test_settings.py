"""Settings: what an option takes, what a preset fills in, and what may change when a run goes on."""

import argparse
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from chainrule.errors import ArgumentError
from chainrule.training.settings import (
    COUNT,
    FRACTION,
    NATURAL,
    NOT_NEGATIVE,
    POSITIVE,
    SEED,
    Choice,
    Location,
    Settings,
    Switch,
    add_options,
    follows,
    option,
)


@dataclass(frozen=True)
class Example(Settings):
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {"small": {"width": 4}, "large": {"width": 400}}

    preset: str = option("small", Choice(("small", "large")), "a size")
    width: int = option(4, COUNT, "how wide", "N")
    steps: int = option(10, COUNT, "how long", "N", grows=True)
    last: int = option(None, NATURAL, "until when", "N", said="the end")
    text: str = option("", Location(), "a file", "FILE", moves=True)
    flat: bool = option(False, Switch(), "no hills")

    def check(self) -> None:
        follows(self, last=self.steps)


def parsed(*words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_options(parser, Example)
    return vars(parser.parse_args(words))


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (COUNT, ["1", "7"], ["0", "-1", "1.5", "x", "", "1e99", "nan"]),
        (NATURAL, ["0"], ["-1", "0.5"]),
        (SEED, ["0", "4294967295"], ["4294967296", "-1"]),
        (POSITIVE, ["1e-9", "3"], ["0", "-1", "inf", "nan", "x"]),
        (NOT_NEGATIVE, ["0", "0.5"], ["-0.1", "inf", "nan"]),
        (FRACTION, ["0", "0.999"], ["1", "-0.1", "nan"]),
        (Choice(("a", "b")), ["a"], ["c", ""]),
        (Location(), ["x"], ["", "a\0b"]),
    ],
)
def test_an_option_takes_what_it_says(kind, right, wrong):
    for text in right:
        assert kind.takes(kind(text))
    for text in wrong:
        with pytest.raises(argparse.ArgumentTypeError, match="expected"):
            kind(text)


def test_what_is_not_given_leaves_no_trace():
    assert parsed() == {}
    assert parsed("--steps", "3", "--flat") == {"steps": 3, "flat": True}


def test_a_preset_fills_in_what_was_not_given():
    assert Example.made().width == 4
    assert Example.made(preset="large").width == 400
    assert Example.made(preset="large", width=7).width == 7


def test_what_follows_from_others():
    assert Example.made(steps=30).last == 30
    assert Example.made(steps=30, last=5).last == 5
    assert Example.made(steps=30).resumed({"steps": 40}).last == 30


@pytest.mark.parametrize(
    "given",
    [{"width": 0}, {"width": 1.5}, {"width": True}, {"dtype": "int8"}, {"seed": -1}, {"flat": 1}, {"steps": None}],
)
def test_values_out_of_range_are_refused_in_python_too(given):
    with pytest.raises(ArgumentError, match=f"--{next(iter(given))}.*expected"):
        Example(**given)


def test_a_run_goes_on_with_its_own_settings():
    before = Example.made(preset="large", seed=3)
    assert before.resumed({}) == before
    assert before.resumed({"seed": 3, "width": 400}) == before
    assert before.resumed({"steps": 11, "text": "elsewhere"}).steps == 11


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"width": 5}, "--width 5 contradicts the run's 4"),
        ({"flat": True}, "--flat contradicts the run, which was begun without it"),
        ({"steps": 9}, "--steps 9 is less than the run's 10"),
        ({"preset": "large"}, "--preset large contradicts the run's small"),
    ],
)
def test_what_contradicts_the_run_is_refused(given, said):
    with pytest.raises(ArgumentError, match=said):
        Example().resumed(given)
