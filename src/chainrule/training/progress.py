"""How far a run is, told on the error stream: a bar where rich is and a terminal listens, a line now and then elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Self

EVERY = 10.0  # seconds between two lines
REDRAW = 0.1  # seconds between two looks of the bar
WINDOW = 20.0  # seconds over which the speed is averaged


class Pace:
    """Steps per second over the last `WINDOW` seconds, time outside of steps included."""

    def __init__(self, step: int, now: float) -> None:
        self._seen: deque[tuple[float, int]] = deque([(now, step)])

    def look(self, step: int, now: float) -> None:
        self._seen.append((now, step))
        while len(self._seen) > 2 and self._seen[1][0] < now - WINDOW:
            self._seen.popleft()

    @property
    def steps_per_second(self) -> float:
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        return (last - first) / (end - start) if end > start else 0.0

    def seconds_left(self, steps: int) -> float | None:
        """How long `steps` will take; None while nothing can be said."""
        speed = self.steps_per_second
        return steps / speed if speed else None


class Silence:
    """Says nothing; and what all reporters can be told."""

    def __init__(self, total: int, step: int = 0) -> None:
        self.total = total
        self.loss: float | None = None
        self.rate = 0.0
        self.began = time.perf_counter()
        self._pace = Pace(step, self.began)
        self._looked = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stepped(self, step: int, loss: float, rate: float) -> None:
        """A step was done.  The loss that is shown is a running mean."""
        self.loss = loss if self.loss is None else 0.95 * self.loss + 0.05 * loss
        self.rate = rate
        now = time.perf_counter()
        if now - self._looked >= REDRAW:
            self._looked = now
            self._pace.look(step, now)
            self.show(step, now)

    def show(self, step: int, now: float) -> None:
        """Draw."""

    def measured(self, step: int, measures: Mapping[str, float]) -> None:
        """An evaluation was done."""

    def say(self, text: str) -> None:
        """A line that is worth knowing."""

    def details(self, step: int) -> list[str]:
        """What is known, in words."""
        loss = "" if self.loss is None else f"loss {self.loss:.4g}"
        pace = self._pace.steps_per_second
        speed = f"{pace:.3g} steps/s" if pace else ""
        left = self._pace.seconds_left(self.total - step)
        rate = f"rate {self.rate:.3g}" if loss else ""
        return [part for part in (loss, rate, speed, "" if left is None else f"{clock(left)} left") if part]


class Lines(Silence):
    """A line at each evaluation, and one every `EVERY` seconds."""

    def __init__(self, total: int, step: int = 0) -> None:
        super().__init__(total, step)
        self._said = self.began

    def show(self, step: int, now: float) -> None:
        if now - self._said >= EVERY:
            self._line(step, self.details(step))

    def measured(self, step: int, measures: Mapping[str, float]) -> None:
        self._line(step, [in_words(measures), *self.details(step)])

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def _line(self, step: int, parts: list[str]) -> None:
        self._said = time.perf_counter()
        self.say(" · ".join([f"step {step:,} of {self.total:,}", *parts]))


class Bar(Silence):
    """A bar, and above it a line for each evaluation."""

    def __init__(self, total: int, step: int = 0) -> None:
        super().__init__(total, step)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        # All of it fits into 80 columns.
        columns = (BarColumn(bar_width=10), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task: Any = self._bar.add_task("starting", total=total, completed=step)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, step: int, now: float) -> None:
        self._bar.update(self._task, completed=step, description=" · ".join(self.details(step)))

    def measured(self, step: int, measures: Mapping[str, float]) -> None:
        self.say(f"step {step:,} · {in_words(measures)}")

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)


def in_words(measures: Mapping[str, float]) -> str:
    """Measures for people.

    >>> in_words({"validation_loss": 2.345678, "validation_accuracy": 0.97777})
    'validation loss 2.346 · validation accuracy 97.78%'
    """
    return " · ".join(f"{name.replace('_', ' ')} {one(name, value)}" for name, value in measures.items())


def one(name: str, value: float) -> str:
    """A measure for people; accuracies are fractions, and shown in percent."""
    return f"{value:.2%}" if name.endswith("accuracy") else f"{value:.4g}"


def clock(seconds: float) -> str:
    """A time for people.

    >>> clock(7.4), clock(83), clock(7322)
    ('7 s', '1 min 23 s', '2 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def reporter(total: int, step: int, show: bool) -> Silence:
    """What tells the progress of a run of `total` steps from `step` on."""
    if not show:
        return Silence(total, step)
    return Bar(total, step) if find_spec("rich") and sys.stderr.isatty() else Lines(total, step)
