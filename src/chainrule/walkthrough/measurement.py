"""What a row of the walkthrough found, beside what it should find; and how seconds are measured."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One row: numbers for measurements.json, and the same in words for the table and the page.

    `agrees` is None where nothing could be compared.  A row that is not `firm` rests on a random draw or on the speed
    of the machine, so a miss is shown and does not fail the run.
    """

    row: str
    what: str
    found: str
    expected: str
    measured: dict[str, Any]
    reference: Any
    agrees: bool | None = True
    firm: bool = True
    note: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def mark(self) -> str:
        """One word for the last column of the table."""
        return "skipped" if self.agrees is None else "yes" if self.agrees else "NO" if self.firm else "not here"

    def as_json(self) -> dict[str, Any]:
        """The entry of measurements.json; seconds are those of the whole group that the row belongs to."""
        entry = {"what": self.what, "measured": self.measured, "reference": self.reference, "agrees": self.agrees}
        words = {"found": self.found, "expected": self.expected, "note": self.note}
        return {**entry, **words, "seconds": round(self.seconds, 3)}


@contextmanager
def collector_paused() -> Generator[None]:
    """No garbage collection inside: graphs of Values have no cycles, and looking for some takes as long as making them."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def median_seconds(f: Callable[[], object], rounds: int, inner: int = 1) -> float:
    """The median over `rounds` of the seconds that one call of `f` takes, each round timing `inner` calls."""
    samples: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(inner):
            f()
        samples.append((time.perf_counter() - start) / inner)
    return statistics.median(samples)


def significant(x: float, digits: int = 3) -> str:
    """A number for people: `digits` significant digits, thousands apart.

    >>> significant(0.0123456), significant(65077.0), significant(0.0), significant(1.5e-12)
    ('0.0123', '65,077', '0', '1.5e-12')
    """
    if x == round(x) and abs(x) < 1e15:
        return f"{x:,.0f}"
    return f"{x:,.0f}" if abs(x) >= 10**digits else f"{x:.{digits}g}"
