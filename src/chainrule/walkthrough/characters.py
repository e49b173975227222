"""C6: the character transformer on Python's own manual, beside what counting characters gives; a process of its own.

Run as `python -m chainrule.walkthrough.characters SEED QUICK`; prints a line a step, then the result as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.backends.memory import keep_pages
from chainrule.training import characters, writing
from chainrule.training.loop import Run
from chainrule.walkthrough.job import Job
from chainrule.walkthrough.measurement import Measurement

QUICK_STEPS = 150
PROMPT = "The "
LENGTH = 360
TEMPERATURE = 0.7


@dataclass(frozen=True)
class Characters:
    """What one run of `--preset tiny` left, and the text's own entropies, in nats per character."""

    losses: list[float]
    validation: list[Any]
    validation_loss: float
    parameters: int
    distinct: int
    characters: int
    single: float
    pairs: float
    sample: str


def start(seed: int, quick: bool) -> Job:
    """The training, in the background."""
    return Job("chainrule.walkthrough.characters", seed, int(quick))


def steps(quick: bool) -> int:
    """How many lines the job prints before the result."""
    return QUICK_STEPS if quick else int(characters.CharacterSettings.made(preset="tiny").iterations)


def measure(job: Job, quick: bool, advance: Callable[[float], None]) -> Characters:
    """Wait for the job's result."""
    while job.is_running:
        job.wait(0.2)
        advance(min(1.0, len(job.lines) / steps(quick)))
    return Characters(**json.loads(job.result()))


def entropies(text: str) -> tuple[float, float]:
    """Nats per character: of single characters, and of a character after the one before it.

    Both are those of the text's own frequencies, which no model of that kind can beat on it.

    >>> entropies("abab")
    (0.6931471805599453, 0.0)
    """
    numbers = np.unique(np.array(list(text)), return_inverse=True)[1].astype(np.int64)
    pairs = numbers[:-1] * (int(numbers.max()) + 1) + numbers[1:]
    return _entropy(numbers), max(0.0, _entropy(pairs) - _entropy(numbers[:-1]))


def _entropy(symbols: Any) -> float:
    counts = np.unique(symbols, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(-np.sum(shares * np.log(shares)))


def train(seed: int, quick: bool, after_step: Callable[[int], None]) -> Characters:
    """Train, evaluate, and write a little."""
    given: dict[str, Any] = {"iterations": QUICK_STEPS, "evaluate_every": 25} if quick else {}
    run = Run(characters.build(characters.CharacterSettings.made(preset="tiny", seed=seed, **given)))
    for event in run.events():
        if event == "step":
            after_step(run.step)
    outcome = run.conclude()
    text = cr.data.default_text()
    vocabulary = cr.data.characters(text)[0]
    beginning = vocabulary.encode(PROMPT)
    numbers = writing.characters(
        run.task.model.eval(), beginning, LENGTH, TEMPERATURE, generator=cr.random.generator(seed)
    )
    single, pairs = entropies(text)
    at, validation = run.history.curve("validation_loss")
    return Characters(
        run.history.loss,
        list(zip(at, validation, strict=True)),
        float(outcome["validation_loss"]),
        int(outcome["parameters"]),
        len(vocabulary),
        len(text),
        single,
        pairs,
        PROMPT + "".join(vocabulary.characters[number] for number in numbers),
    )


def text(found: Characters) -> Measurement:
    """C6, small: the loss on text held out lies below what pairs of characters tell."""
    return Measurement(
        "C6",
        f"a transformer of {found.parameters:,} parameters learns {found.characters:,} characters of Python's manual, "
        f"{len(found.losses)} steps (chainrule train chars --preset tiny)",
        f"validation loss {found.validation_loss:.3f} nats per character; counting single characters gives {found.single:.3f}, "
        f"pairs {found.pairs:.3f}",
        "below the entropy of pairs; the reference's own figure, 1.8857 on another text, is that of make chars",
        {
            "validation_loss": found.validation_loss,
            "entropy_of_characters": found.single,
            "entropy_after_one_character": found.pairs,
            "parameters": found.parameters,
            "steps": len(found.losses),
        },
        {"below": "entropy_after_one_character"},
        found.validation_loss < found.pairs,
        note=f"What it writes after {PROMPT!r} at temperature {TEMPERATURE}: {found.sample}",
    )


def main() -> None:
    """Print the steps and the result for the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this process
    keep_pages()
    seed, quick = map(int, sys.argv[1:])
    found = train(seed, bool(quick), lambda step: print(step, flush=True))
    print(json.dumps(dataclasses.asdict(found)), flush=True)


if __name__ == "__main__":
    main()
