"""What a suite is, and which there are. A check is a name and two numbers or arrays: given by the engine, and expected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np


class Check(NamedTuple):
    """`measure()` gives what the engine says and what is right.

    `tolerance` is relative to the larger of 1 and the largest entry; None asks for equality to one unit in the last
    place of each entry.
    """

    name: str
    measure: Callable[[], tuple[Any, Any]]
    tolerance: float | None = 1e-12

    def fault(self) -> str:
        """What is wrong; empty when nothing is."""
        given, expected = (np.asarray(a) for a in self.measure())
        if given.shape != expected.shape:
            return f"shape {given.shape}, expected {expected.shape}"
        error = np.abs(given.astype(np.float64) - expected.astype(np.float64))
        if self.tolerance is None:
            allowed = np.spacing(np.maximum(np.abs(given), np.abs(expected)))
        else:
            allowed = self.tolerance * max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        if np.all(error <= allowed):
            return ""
        worst = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        entry = f", entry {tuple(int(k) for k in worst)}" if error.ndim else ""
        return f"given {given[worst]!r}, expected {expected[worst]!r}{entry}"


class Suite(NamedTuple):
    """Checks of one kind; they live in the module of the suite's name."""

    name: str
    title: str
    reference: int
    """How many checks the reference system has."""
    needs: str = ""
    """A library without which the suite is skipped."""

    def checks(self) -> Iterable[Check]:
        """All checks, made but not measured."""
        return import_module(f"chainrule.verify.{self.name}").checks()

    def missing(self) -> str:
        """Why the suite cannot run; empty when it can."""
        if not self.needs or find_spec(self.needs) is not None:
            return ""
        return f"{self.needs} is not installed · try: pip install 'chainrule[oracle]'"


SUITES = {
    suite.name: suite
    for suite in (
        Suite("scalars", "scalar gradients", 17),
        Suite("tensors", "tensor gradients and broadcasting adjoints", 79),
        Suite("hessians", "higher order, analytic Hessians", 40),
        Suite("softmax", "softmax and cross-entropy, closed forms", 26),
        Suite("training", "training loops, pinned", 18),
        Suite("pytorch", "PyTorch as oracle", 30, "torch"),
    )
}
