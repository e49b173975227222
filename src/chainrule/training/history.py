"""What a run has gone through: rate and loss of each step, and what evaluations found.  log.csv is this, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class History:
    """Rate and loss of step k at `[k - 1]`, before its update; `measured[k]`: what an evaluation after k updates found."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.rate: list[float] = []
        self.loss: list[float] = []
        self.measured: dict[int, dict[str, float]] = {}

    @property
    def steps(self) -> int:
        return len(self.loss)

    def add(self, rate: float, loss: float) -> None:
        self.rate.append(rate)
        self.loss.append(loss)

    def curve(self, name: str) -> tuple[list[int], list[float]]:
        """At which steps a measure was taken, and what it was."""
        steps = sorted(self.measured)
        return steps, [self.measured[step][name] for step in steps]

    def state_dict(self) -> dict[str, Any]:
        steps = sorted(self.measured)
        values = [[self.measured[step][name] for name in self.names] for step in steps]
        return {
            "rate": np.array(self.rate, np.float64),
            "loss": np.array(self.loss, np.float64),
            "measured_at": np.array(steps, np.int64),
            "measures": np.array(values, np.float64).reshape(len(steps), len(self.names)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.rate, self.loss = state["rate"].tolist(), state["loss"].tolist()
        rows = zip(state["measured_at"].tolist(), state["measures"].tolist(), strict=True)
        self.measured = {step: dict(zip(self.names, values, strict=True)) for step, values in rows}

    def csv(self) -> str:
        """A row for each step, and one for the start if it was evaluated; nine digits tell any two float32 apart."""
        lines = [",".join(("step", "rate", "loss", *self.names))]
        for step in range(0 if 0 in self.measured else 1, self.steps + 1):
            own = [f"{self.rate[step - 1]:.9g}", f"{self.loss[step - 1]:.9g}"] if step else ["", ""]
            found = self.measured.get(step)
            measures = [f"{found[name]:.9g}" if found else "" for name in self.names]
            lines.append(",".join((str(step), *own, *measures)))
        return "\n".join(lines) + "\n"
