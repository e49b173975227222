"""A8: all derivatives of a function cost a small constant times the function, however many inputs it has."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.scalar import Value
from chainrule.scalar import tanh as scalar_tanh
from chainrule.walkthrough.measurement import Measurement, collector_paused

SIZES = (10, 100, 1_000, 10_000, 100_000)
SMALL_CONSTANT = 10.0


@dataclass(frozen=True)
class Cost:
    """Seconds of the forward and the backward pass by number of inputs, a row per engine."""

    sizes: tuple[int, ...]
    forward: dict[str, list[float]]
    backward: dict[str, list[float]]

    def ratios(self, engine: str) -> list[float]:
        return [b / f for f, b in zip(self.forward[engine], self.backward[engine], strict=True)]


def scalar_passes(numbers: list[float]) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """The forward and the backward pass of the sum of tanh(x[i] x[i+1]) on the scalar engine."""
    inputs = [Value(number) for number in numbers]

    def forward() -> Value:
        total = Value(0.0)
        for left, right in pairwise(inputs):
            total = total + scalar_tanh(left * right)
        return total

    return forward, Value.backward


def tensor_passes(numbers: list[float]) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """The same on the tensor engine."""
    x = cr.tensor(numbers, requires_grad=True)
    return lambda: cr.tanh(x[:-1] * x[1:]).sum(), lambda y: y.backward()


def time_passes(forward: Callable[[], Any], backward: Callable[[Any], None], rounds: int) -> tuple[float, float]:
    """The fastest of the rounds, which other programs disturbed least; each round makes the graph anew."""
    seconds: list[tuple[float, float]] = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = forward()
        between = time.perf_counter()
        backward(result)
        seconds.append((between - start, time.perf_counter() - between))
    return min(f for f, _ in seconds), min(b for _, b in seconds)


def measure(seed: int, quick: bool, advance: Callable[[float], None]) -> Cost:
    """Time both engines on all sizes."""
    generator = np.random.default_rng(seed)
    cost = Cost(SIZES, {"scalar": [], "tensor": []}, {"scalar": [], "tensor": []})
    budget, fewest = (10_000, 2) if quick else (200_000, 4)
    with collector_paused():
        for place, size in enumerate(SIZES):
            numbers = generator.normal(size=size).tolist()
            rounds = {"scalar": max(fewest, min(100, budget // size)), "tensor": 100}
            for engine, passes in (("scalar", scalar_passes), ("tensor", tensor_passes)):
                forward, backward = time_passes(*passes(numbers), rounds[engine])
                cost.forward[engine].append(forward)
                cost.backward[engine].append(backward)
            advance((place + 1) / len(SIZES))
    return cost


def ratio(cost: Cost) -> Measurement:
    """A8: the ratio of the two passes."""
    measured: dict[str, float] = {}
    for engine in ("scalar", "tensor"):
        for size, value in zip(cost.sizes, cost.ratios(engine), strict=True):
            measured[f"{engine}_{size}"] = value
    worst = max(measured.values())
    spans = [
        f"{engine} {min(cost.ratios(engine)):.2f} to {max(cost.ratios(engine)):.2f}" for engine in ("scalar", "tensor")
    ]
    return Measurement(
        "A8",
        "backward pass over forward pass, 10 to 100,000 inputs",
        "; ".join(spans),
        "a small constant, whatever the number of inputs",
        measured,
        {"small_constant": SMALL_CONSTANT},
        worst <= SMALL_CONSTANT,
        firm=False,
        note="One pass gives all derivatives; differences would take a forward pass per input. "
        "f is the sum of tanh(x[i] x[i+1]); each time is the fastest of several.",
    )
