"""A9 and B7: derivatives of derivatives, on numbers and on arrays, against formulas and against PyTorch.

The functions take the engine that they shall run on, so scalar engine, tensor engine and PyTorch run the same text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import scalar
from chainrule.walkthrough.measurement import Measurement, significant

Function = Callable[[Any, Any], Any]
"""f(engine, x): `engine` has sin, exp, tanh, log; x is a vector, or a tuple of numbers."""

TOLERANCE = 1e-12


def worked(engine: Any, x: Any) -> Any:
    """The function of A9."""
    return x[0] ** 2 * x[1] + engine.sin(x[0]) * x[1] ** 3


def rosenbrock(engine: Any, x: Any) -> Any:
    """The curved valley in five variables."""
    return sum(100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2 for i in range(4))


def soft_maximum(engine: Any, x: Any) -> Any:
    """log of the sum of exponentials of four variables."""
    return engine.log(engine.exp(x[0]) + engine.exp(x[1]) + engine.exp(x[2]) + engine.exp(x[3]))


def neuron_pair(engine: Any, x: Any) -> Any:
    """Two neurons and a product, in six variables."""
    return engine.tanh(x[0] * x[1] + x[2]) * engine.tanh(x[3] * x[4] - x[5]) + x[0] / (2.0 + x[5] ** 2)


FUNCTIONS: dict[str, tuple[Function, int]] = {
    "x²y + sin(x) y³": (worked, 2),
    "Rosenbrock": (rosenbrock, 5),
    "log-sum-exp": (soft_maximum, 4),
    "two neurons": (neuron_pair, 6),
}


def points(size: int, count: int, seed: int) -> list[list[float]]:
    """Points in the cube [-2, 2]**size."""
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (count, size)).tolist()


def scalar_hessian(f: Function, x: list[float]) -> Any:
    return np.array(scalar.hessian(lambda *xs: f(scalar, xs))(*x))


def tensor_hessian(f: Function, x: list[float]) -> Any:
    of_vector: Callable[[Any], Any] = lambda v: f(cr, v)
    return cr.hessian(of_vector)(np.array(x))


def torch_hessian(f: Function, x: list[float]) -> Any:
    import torch  # pyright: ignore[reportMissingImports]

    engine: Any = torch
    of_vector: Callable[[Any], Any] = lambda v: f(engine, v)
    return engine.autograd.functional.hessian(of_vector, engine.tensor(x, dtype=engine.float64)).numpy()


def formula_hessian(x: list[float]) -> Any:
    """All second derivatives of the function of A9, by hand."""
    a, b = x
    mixed = 2 * a + 3 * math.cos(a) * b**2
    return np.array([[2 * b - math.sin(a) * b**3, mixed], [mixed, 6 * math.sin(a) * b]])


def difference(found: Any, right: Any) -> float:
    """The largest difference, relative where numbers are large."""
    return float(np.max(np.abs(found - right)) / max(1.0, float(np.max(np.abs(right)))))


def exact_orders(seed: int) -> Measurement:
    """A9: first and second derivative equal the formulas to the last bit; full Hessians to rounding."""
    f: Callable[[Any, Any], Any] = lambda x, y: worked(scalar, (x, y))
    first_gap = second_gap = hessian_gap = 0.0
    places = points(2, 50, seed)
    for x, y in places:
        first, second = scalar.grad(f)(x, y), scalar.grad(scalar.grad(f))(x, y)
        first_gap = max(first_gap, abs(first - (2 * x * y + math.cos(x) * y**3)))
        second_gap = max(second_gap, abs(second - (2 * y - math.sin(x) * y**3)))
        hessian_gap = max(hessian_gap, difference(scalar_hessian(worked, [x, y]), formula_hessian([x, y])))
    return Measurement(
        "A9",
        "scalar engine, f = x²y + sin(x) y³: df/dx, d²f/dx², the full Hessian",
        f"at {len(places)} points, largest differences from the formulas: {first_gap:g}, {second_gap:g}, {significant(hessian_gap, 2)}",
        "2xy + cos(x) y³ and 2y - sin(x) y³ exact to 0.0; the analytic Hessian",
        {
            "points": len(places),
            "largest_first_difference": first_gap,
            "largest_second_difference": second_gap,
            "largest_hessian_difference": hessian_gap,
        },
        {"largest_first_difference": 0.0, "largest_second_difference": 0.0, "largest_hessian_difference": 1e-14},
        first_gap == second_gap == 0.0 and hessian_gap < 1e-14,
    )


def tensor_hessians(seed: int) -> Measurement:
    """B7: the tensor engine's Hessians equal the scalar engine's, the formula, and PyTorch's."""
    with_torch = find_spec("torch") is not None
    gaps = {"scalar": 0.0, "formula": 0.0, "pytorch": 0.0}
    count = 0
    for f, size in FUNCTIONS.values():
        for x in points(size, 10, seed):
            count += 1
            found = tensor_hessian(f, x)
            gaps["scalar"] = max(gaps["scalar"], difference(found, scalar_hessian(f, x)))
            if f is worked:
                gaps["formula"] = max(gaps["formula"], difference(found, formula_hessian(x)))
            if with_torch:
                gaps["pytorch"] = max(gaps["pytorch"], difference(found, torch_hessian(f, x)))
    if not with_torch:
        del gaps["pytorch"]
    said = ", ".join(f"{name} {significant(gap, 2)}" for name, gap in gaps.items())
    return Measurement(
        "B7",
        f"tensor engine: Hessians of {', '.join(FUNCTIONS)}",
        f"{count} Hessians, largest relative difference from: {said}"
        + ("" if with_torch else "; PyTorch skipped: not installed"),
        "PyTorch's, to 1e-12",
        {"hessians": count, **{f"largest_difference_{name}": gap for name, gap in gaps.items()}},
        {"largest_difference_pytorch": TOLERANCE},
        False if max(gaps.values()) > TOLERANCE else True if with_torch else None,
        note="" if with_torch else "PyTorch is not installed, so the comparison with it was skipped.",
    )


def curves(orders: int = 5) -> tuple[Any, list[Any], list[Any]]:
    """x, the derivatives of f(x, 1.2) in x from order 0 on, by the scalar engine, and the same by hand."""
    x, y = np.linspace(-math.pi, math.pi, 61), 1.2
    engine = [
        np.array([scalar.derivative(lambda v: worked(scalar, (v, y)), n)(float(p)) for p in x]) for n in range(orders)
    ]
    polynomial = [x**2 * y, 2 * x * y, np.full_like(x, 2 * y), np.zeros_like(x), np.zeros_like(x)]
    hand = [polynomial[n] + np.sin(x + n * math.pi / 2) * y**3 for n in range(orders)]
    return x, engine, hand
