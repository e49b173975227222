"""What a person sees in the terminal: a progress bar on the error stream, the summary table on the output."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from chainrule.training.interrupt import Interruption
from chainrule.walkthrough.measurement import Measurement


class Reporter:
    """How far the run is, told on the error stream: a bar in a terminal, a line a stage elsewhere, or nothing."""

    def __init__(self, weights: Sequence[float], show: bool, interruption: Interruption) -> None:
        self._weights = weights
        self._show = show
        self._interruption = interruption
        self._stage = -1
        self._started = time.perf_counter()
        self._console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=self._console, disable=not show or not self._console.is_terminal)
        self._task = self._bar.add_task("starting", total=sum(weights))

    @contextmanager
    def open(self) -> Generator[None]:
        with self._bar:
            yield

    def begin(self, title: str) -> None:
        """The next stage begins."""
        self._interruption.check()
        self._stage += 1
        self._bar.update(self._task, completed=sum(self._weights[: self._stage]), description=title)
        if self._show and not self._console.is_terminal:
            seconds = time.perf_counter() - self._started
            place = f"{self._stage + 1}/{len(self._weights)}"
            print(f"[{place}] {seconds:5.1f} s  {title}", file=sys.stderr, flush=True)

    def advance(self, fraction: float) -> None:
        """So much of the stage is done; here, too, a signal takes effect."""
        self._interruption.check()
        done = sum(self._weights[: self._stage]) + fraction * self._weights[self._stage]
        self._bar.update(self._task, completed=done)

    def finish(self) -> None:
        self._bar.update(self._task, completed=sum(self._weights), description="done")


def print_table(measurements: Sequence[Measurement]) -> None:
    """The summary: row, what, measured, reference, and whether they agree."""
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=140)
    table = Table(title="What was measured, beside what it should be", show_lines=True)
    for name, ratio in (("row", 1), ("what", 8), ("measured", 12), ("reference", 9), ("agrees", 2)):
        table.add_column(name, ratio=ratio, min_width=4 if ratio == 1 else 8 if ratio == 2 else None)
    for m in measurements:
        table.add_row(m.row, m.what, m.found, m.expected, m.mark)
    console.print(table)
