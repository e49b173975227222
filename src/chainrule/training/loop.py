"""The one loop of all programs: a `Task` says what is trained, a `Run` trains it, step by step, and can be saved between any two.

A run is a function of its settings: resumed from what was saved, it goes on bit for bit as if it had never stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

import chainrule as cr
from chainrule.errors import ArgumentError, explain
from chainrule.training.history import History
from chainrule.training.settings import Settings

Check = Callable[[], None]
"""Called now and then inside evaluations; raises where one is to be given up."""


def go_on() -> None:
    """The check that never raises."""


class Source(Protocol):
    """Where batches come from: an iterator without end that knows where it stands."""

    def __next__(self) -> tuple[Any, ...]: ...
    def state_dict(self) -> Mapping[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any], /) -> object: ...


@dataclass
class Task:
    """What is trained, and how.

    `loss(*batch)` is recorded; `evaluate(check)` gives the measures of `measures`, and `conclude(check)` the outcome of the
    whole run; neither of the two may change anything or draw random numbers.  `schedule` sets the optimiser's
    rate, `clip()` bounds the gradients, `generator` is what dropout draws from, `notes` what a checkpoint keeps beside all this, as JSON.
    """

    settings: Settings
    model: Any
    optimizer: Any
    schedule: Any
    source: Source
    generator: np.random.Generator
    steps: int
    evaluate_every: int
    measures: tuple[str, ...]
    loss: Callable[..., Any]
    evaluate: Callable[[Check], dict[str, float]]
    conclude: Callable[[Check], dict[str, Any]]
    clip: Callable[[], Any] | None = None
    notes: dict[str, Any] = field(default_factory=dict[str, Any])


class Run:
    """A task on its way."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.history = History(task.measures)
        self.outcome: dict[str, Any] | None = None
        self.seconds = 0.0  # spent in steps and evaluations, over all sittings; no part of what is compared bit for bit
        self._update = self._updating if task.settings.no_jit else cr.jit(self._updating)

    @property
    def step(self) -> int:
        """How many updates have been done."""
        return self.history.steps

    @property
    def is_finished(self) -> bool:
        return self.outcome is not None

    @property
    def is_measure_due(self) -> bool:
        last = self.step == self.task.steps
        return self.step not in self.history.measured and (last or self.step % self.task.evaluate_every == 0)

    @contextmanager
    def _evaluating(self) -> Generator[None]:
        """Layers as they are in use, nothing recorded."""
        self.task.model.eval()
        try:
            with cr.set_default_dtype(np.dtype(self.task.settings.dtype)), cr.no_grad():
                yield
        finally:
            self.task.model.train()

    def measure(self, check: Check = go_on) -> dict[str, float]:
        """Evaluate the model as it is now.  Whatever `check` raises leaves the run as it was."""
        with self._evaluating():
            found = self.task.evaluate(check)
        self.history.measured[self.step] = found
        return found

    def conclude(self, check: Check = go_on) -> dict[str, Any]:
        """The outcome of the whole run."""
        with self._evaluating():
            self.outcome = self.task.conclude(check)
        return self.outcome

    def _updating(self, *batch: Any) -> Any:
        """Loss, gradients and update for a batch: what is compiled."""
        task = self.task
        task.optimizer.zero_grad()
        loss = task.loss(*batch)
        loss.backward()
        if task.clip is not None:
            task.clip()
        task.optimizer.step()
        return loss

    def advance(self) -> float:
        """One step; give back its loss.  **Raises** ArgumentError if that is no number any more."""
        task = self.task
        rate = float(task.optimizer.param_groups[0]["lr"])
        with cr.set_default_dtype(np.dtype(task.settings.dtype)), cr.random.use(task.generator):
            value = float(self._update(*next(task.source)).item())
            if not math.isfinite(value):
                fault = f"the loss is {value} at step {self.step + 1}"
                raise ArgumentError(explain("train", fault, remedy="a new run with a lower --learning-rate"))
            task.schedule.step()
        self.history.add(rate, value)
        return value

    def finish(self) -> dict[str, Any]:
        """All steps that are left, and the outcome."""
        for _ in self.events():
            pass
        return self.conclude()

    def events(self, check: Check = go_on) -> Iterator[str]:
        """Go on to the last step, giving back control after each "step" and each "measure"."""
        while True:
            if self.is_measure_due:
                check()
                self.measure(check)
                yield "measure"
            if self.step >= self.task.steps:
                return
            check()
            self.advance()
            yield "step"

    def extend(self) -> None:
        """After loading: a run that was given more steps forgets what only its former last step brought about."""
        if self.step < self.task.steps:
            self.outcome = None
            measured = self.history.measured
            self.history.measured = {k: v for k, v in measured.items() if k % self.task.evaluate_every == 0}

    # ---- what is saved

    def parts(self) -> dict[str, Any]:
        """The things that a checkpoint holds, each of which can be loaded again."""
        task = self.task
        return {
            "model": task.model,
            "optimizer": task.optimizer,
            "schedule": task.schedule,
            "source": task.source,
            "generator": task.generator,
            "history": self.history,
        }
