"""A1 to A5: one number that remembers how it was made, and what follows from that."""

from __future__ import annotations

import cmath
import math
import time
from collections.abc import Callable
from typing import Any

from chainrule.scalar import MLP, Value
from chainrule.scalar import engine as scalar
from chainrule.walkthrough.measurement import Measurement, significant

DEPTH = 100_000


def worked_example() -> tuple[Value, dict[str, Value]]:
    """The loss ((w x + b) - y)**2 at w = 0.5, x = 2, b = 1, y = 3, before any backward pass, and its inputs."""
    inputs = {"w": Value(0.5, "w"), "x": Value(2.0, "x"), "b": Value(1.0, "b"), "y": Value(3.0, "y")}
    loss = ((inputs["w"] * inputs["x"] + inputs["b"]) - inputs["y"]) ** 2
    loss.name = "loss"
    return loss, inputs


def accumulation() -> Measurement:
    """A1: the gradient of a number that is used twice is the sum of both contributions."""
    x = Value(3.0)
    at_first = x.grad
    y = x * x + x
    y.backward()
    measured = {"grad_at_first": at_first, "grad_used_three_times": x.grad, "parents": len(y.parents)}
    return Measurement(
        "A1",
        "a number used more than once gets the sum of its contributions",
        f"y = x*x + x at 3: dy/dx = {x.grad:g}",
        "2x + 1 = 7",
        measured,
        {"grad_at_first": 0.0, "grad_used_three_times": 7.0},
        (at_first, x.grad) == (0.0, 7.0),
    )


# What is derived from add, multiply and power, and the functions, each with the same formula on complex numbers.
Formula = Callable[[Any], Any]
DERIVED: dict[str, tuple[Formula, Formula]] = {
    "2 - x": (lambda x: 2 - x, lambda z: 2 - z),
    "x - x*x": (lambda x: x - x * x, lambda z: z - z * z),
    "-x": (lambda x: -x, lambda z: -z),
    "x / 3": (lambda x: x / 3, lambda z: z / 3),
    "3 / x": (lambda x: 3 / x, lambda z: 3 / z),
    "x / (1 + x)": (lambda x: x / (1 + x), lambda z: z / (1 + z)),
    "x**3": (lambda x: x**3, lambda z: z**3),
    "x**x": (lambda x: x**x, lambda z: cmath.exp(z * cmath.log(z))),
    "2**x": (lambda x: 2**x, lambda z: cmath.exp(z * math.log(2))),
    "relu": (scalar.relu, lambda z: z),
    "tanh": (scalar.tanh, cmath.tanh),
    "exp": (scalar.exp, cmath.exp),
    "log": (scalar.log, cmath.log),
    "sin": (scalar.sin, cmath.sin),
    "cos": (scalar.cos, cmath.cos),
    "sigmoid": (scalar.sigmoid, lambda z: 1 / (1 + cmath.exp(-z))),
}
POINTS = (0.3, 0.9, 1.7, 2.6)


def derived_operators() -> Measurement:
    """A2: gradients of all operations against the complex step, which shares nothing with the engine."""
    step = 1e-30  # no subtraction, so no cancellation: exact to rounding (Squire and Trapp, 1998)
    worst = 0.0
    for ours, theirs in DERIVED.values():
        for point in POINTS:
            x = Value(point)
            ours(x).backward()
            slope = (theirs(complex(point, step)).imag) / step
            worst = max(worst, abs(x.grad - slope) / max(1.0, abs(slope)))
    count = len(DERIVED) * len(POINTS)
    return Measurement(
        "A2",
        "primitives, and the operators derived from them",
        f"{count} gradients, largest relative error {significant(worst, 2)}",
        "those of the complex step, to 1e-12",
        {"gradients": count, "largest_relative_error": worst},
        {"largest_relative_error": 1e-12},
        worst < 1e-12,
    )


def reverse_order() -> Measurement:
    """A3: the worked example."""
    loss, inputs = worked_example()
    loss.backward()
    measured = {"loss": loss.data, **{f"d{name}": value.grad for name, value in inputs.items()}}
    reference = {"loss": 1.0, "dw": -4.0, "dx": -1.0, "db": -2.0, "dy": 2.0}
    return Measurement(
        "A3",
        "backward() on ((w x + b) - y)**2",
        ", ".join(f"{name} {value:g}" for name, value in measured.items()),
        ", ".join(f"{name} {value:g}" for name, value in reference.items()),
        measured,
        reference,
        measured == reference,
    )


def any_depth() -> Measurement:
    """A4: a chain of 100,000 additions, built, differentiated and dropped without recursion."""
    x = Value(1.0)
    start = time.perf_counter()
    y = x
    for _ in range(DEPTH):
        y = y + x
    y.backward()
    gradient = x.grad
    del y
    seconds = time.perf_counter() - start
    return Measurement(
        "A4",
        "a chain of 100,000 additions",
        f"gradient {gradient:,.0f}, in {seconds:.2f} s with building and dropping the chain",
        f"gradient {DEPTH + 1:,}, and no recursion",
        {"additions": DEPTH, "gradient": gradient, "chain_seconds": seconds},
        {"additions": DEPTH, "gradient": DEPTH + 1.0},
        gradient == DEPTH + 1,
    )


def network() -> Measurement:
    """A5: the multilayer perceptron is made of `Value`s and nothing else."""
    model = MLP(2, [16, 16, 1], seed=0)
    parameters = model.parameters()
    (score,) = model([0.5, -0.5])
    nodes = scalar.reachable(score)
    only_values = all(type(node) is Value for node in (*parameters, *nodes))
    return Measurement(
        "A5",
        "MLP(2, [16, 16, 1])",
        f"{len(parameters)} parameters; one score is a graph of {len(nodes):,} Values",
        "337 parameters, composed only of Values",
        {"parameters": len(parameters), "nodes_of_one_score": len(nodes)},
        {"parameters": 337},
        only_values and len(parameters) == 337,
    )


def rows() -> list[Measurement]:
    return [accumulation(), derived_operators(), reverse_order(), any_depth(), network()]
