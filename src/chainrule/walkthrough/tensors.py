"""B2 to B5: what is new with arrays: broadcasting undone, matrix products, softmax, cross-entropy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.walkthrough.measurement import Measurement, significant

PATTERNS = [
    ((3,), (3,)), ((), (3,)), ((3,), ()), ((1,), (4,)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)),
    ((2, 3), (2, 1)), ((4, 1, 3), (2, 1)), ((1, 1, 1), (2, 3)), ((2, 3, 4), (4,)), ((5, 1, 1), (1, 2, 3)),
]  # fmt: skip
"""Pairs of shapes that broadcast, each way of doing so at least once."""

Operation = Callable[[Any, Any], Any]
OPERATIONS: dict[str, tuple[Operation, Operation]] = {
    "add": (cr.add, np.add),
    "subtract": (cr.subtract, np.subtract),
    "multiply": (cr.multiply, np.multiply),
    "divide": (cr.divide, np.divide),
    "pow": (cr.pow, np.power),
}

TOLERANCE = 1e-13


@dataclass(frozen=True)
class Broadcasting:
    """Per pattern and operation, the largest error of either operand's gradient f[patterns, operations]."""

    errors: Any
    wrong_shapes: int


def complex_step_gradient(f: Callable[[Any], Any], x: Any, ct: Any) -> Any:
    """The gradient of the sum of ct * f(x), entry by entry, without the engine.

    **Source** Squire and Trapp 1998: no subtraction, hence no cancellation.
    """
    gradient = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[place] += 1e-30j
        gradient[place] = np.sum(ct * f(moved)).imag / 1e-30
    return gradient


def measure_broadcasting(seed: int) -> Broadcasting:
    """Gradients of both operands for every pattern and operation, against the complex step, values and shapes."""
    generator = np.random.default_rng(seed)
    errors = np.zeros((len(PATTERNS), len(OPERATIONS)))
    wrong_shapes = 0
    for row, shapes in enumerate(PATTERNS):
        x, y = (generator.uniform(0.5, 2.0, shape) for shape in shapes)
        ct = generator.normal(size=np.broadcast_shapes(*shapes))
        for column, (ours, theirs) in enumerate(OPERATIONS.values()):
            a, b = cr.tensor(x, requires_grad=True), cr.tensor(y, requires_grad=True)
            ours(a, b).backward(ct)
            right_x = complex_step_gradient(lambda z, f=theirs, y=y: f(z, y), np.asarray(x), ct)
            right_y = complex_step_gradient(lambda z, f=theirs, x=x: f(x, z), np.asarray(y), ct)
            for tensor, right in ((a, right_x), (b, right_y)):
                wrong_shapes += tensor.grad.shape != right.shape
                gap = np.max(np.abs(tensor.grad - right)) / max(1.0, np.max(np.abs(right)))
                errors[row, column] = max(errors[row, column], gap)
    return Broadcasting(errors, int(wrong_shapes))


def broadcasting(found: Broadcasting) -> Measurement:
    """B2: the gradient has the operand's shape, and the right values."""
    count, worst = 2 * found.errors.size, float(found.errors.max())
    return Measurement(
        "B2",
        f"broadcasting undone: {len(PATTERNS)} patterns, {len(OPERATIONS)} operations, both operands",
        f"{count} gradients, {found.wrong_shapes} wrong shapes, largest relative error {significant(worst, 2)}",
        "the operand's shape, and the values of the complex step",
        {"gradients": count, "wrong_shapes": found.wrong_shapes, "largest_relative_error": worst},
        {"wrong_shapes": 0, "largest_relative_error": TOLERANCE},
        not found.wrong_shapes and worst < TOLERANCE,
    )


def products(seed: int) -> Measurement:
    """B3: dA = G Bᵀ and dB = Aᵀ G, for vectors, matrices and stacks, and a stack equals its matrices one by one."""
    generator = np.random.default_rng(seed)
    worst = 0.0
    cases = [
        ((4,), (4,)),
        ((4,), (4, 3)),
        ((2, 4), (4,)),
        ((2, 4), (4, 3)),
        ((5, 2, 4), (5, 4, 3)),
        ((5, 2, 4), (4, 3)),
    ]
    for shape_a, shape_b in cases:
        a, b = generator.normal(size=shape_a), generator.normal(size=shape_b)
        g = generator.normal(size=(a @ b).shape)
        x, y = cr.tensor(a, requires_grad=True), cr.tensor(b, requires_grad=True)
        (x @ y).backward(g)
        right_a, right_b = product_gradients(a, b, g)
        worst = max(worst, np.max(np.abs(x.grad - right_a)), np.max(np.abs(y.grad - right_b)))
    unbatched = _stack_against_matrices(generator)
    return Measurement(
        "B3",
        "matrix products of vectors, matrices and stacks",
        f"{2 * len(cases)} gradients, largest error {significant(float(worst), 2)}; stack against single matrices {unbatched:g}",
        "dA = G Bᵀ, dB = Aᵀ G on the last two axes",
        {"gradients": 2 * len(cases), "largest_error": float(worst), "batched_against_unbatched": unbatched},
        {"largest_error": 1e-14, "batched_against_unbatched": 1e-14},
        worst < 1e-14 and unbatched < 1e-14,
    )


def product_gradients(a: Any, b: Any, g: Any) -> tuple[Any, Any]:
    """The formulas, entry by entry by `einsum`: vectors as a row on the left and a column on the right."""
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    upstream = np.reshape(g, (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1]))
    da = np.einsum("...ij,...kj->...ik", upstream, right)
    db = np.einsum("...ki,...kj->...ij", left, upstream)
    if db.ndim > right.ndim:  # one matrix for a whole stack gets the sum
        db = db.sum(axis=0)
    return da.reshape(a.shape), db.reshape(b.shape)


def _stack_against_matrices(generator: np.random.Generator) -> float:
    a, b = generator.normal(size=(5, 2, 4)), generator.normal(size=(5, 4, 3))
    x, y = cr.tensor(a, requires_grad=True), cr.tensor(b, requires_grad=True)
    (x @ y).sum().backward()
    gap = 0.0
    for k in range(5):
        single, other = cr.tensor(a[k], requires_grad=True), cr.tensor(b[k], requires_grad=True)
        (single @ other).sum().backward()
        gap = max(gap, np.max(np.abs(single.grad - x.grad[k])), np.max(np.abs(other.grad - y.grad[k])))
    return float(gap)


def exact_softmax(z: Any) -> Any:
    """The softmax along the last axis in extended precision, where the machine has it."""
    exponentials = np.exp((z - z.max(axis=-1, keepdims=True)).astype(np.longdouble))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def large_logits(seed: int) -> Measurement:
    """B4: no overflow at logits of 1e4, the right cotangent, and memory for vectors only."""
    generator = np.random.default_rng(seed)
    z = 1e4 + generator.normal(size=(4, 6))
    ct = generator.normal(size=z.shape)
    x = cr.tensor(z, requires_grad=True)
    p = cr.softmax(x, axis=-1)
    p.backward(ct)
    right = exact_softmax(z)
    jacobians = right[:, :, None] * (np.eye(6) - right[:, None, :])
    value_gap = float(np.max(np.abs(p.data - right)))
    pullback_gap = float(np.max(np.abs(x.grad - np.einsum("nij,ni->nj", jacobians, ct))))
    peak, full = _peak_bytes(4096), 4096**2 * 8
    finite = bool(np.isfinite(p.data).all() and np.isfinite(x.grad).all())
    return Measurement(
        "B4",
        "softmax at logits of 10,000, and its backward pass",
        f"finite; error {significant(value_gap, 2)}, of the cotangent {significant(pullback_gap, 2)}; "
        f"4,096 logits take {peak / 1e3:,.0f} kB at most, their Jacobian would take {full / 1e6:,.0f} MB",
        "no overflow; the Jacobian is never formed",
        {
            "finite": finite,
            "largest_value_error": value_gap,
            "largest_cotangent_error": pullback_gap,
            "peak_bytes": peak,
            "jacobian_bytes": full,
        },
        {"finite": True, "largest_value_error": 1e-14, "largest_cotangent_error": 1e-14},
        finite and value_gap < 1e-14 and pullback_gap < 1e-14 and peak < full / 100,
    )


def _peak_bytes(size: int) -> int:
    """The most memory that Python and NumPy held at once for a forward and a backward pass of softmax."""
    x = cr.tensor(np.linspace(0.0, 1.0, size), requires_grad=True)
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        cr.softmax(x, axis=-1).backward(np.ones(size))
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()


@dataclass(frozen=True)
class CrossEntropy:
    """Logits f[n, k], labels i[n], the gradient by the engine, and p - y by NumPy and in extended precision."""

    logits: Any
    labels: Any
    gradient: Any
    by_numpy: Any
    extended: Any


def measure_cross_entropy(seed: int) -> CrossEntropy:
    """The gradient of cross-entropy, written as minus the log-softmax at the label, summed over rows."""
    generator = np.random.default_rng(seed)
    z, labels = generator.normal(scale=3.0, size=(50, 10)), generator.integers(0, 10, 50)
    x = cr.tensor(z, requires_grad=True)
    y = np.eye(10)[labels]
    (-(cr.log_softmax(x, axis=-1) * y).sum()).backward()
    p = np.exp(cr.log_softmax(z, axis=-1))
    return CrossEntropy(z, labels, x.grad, p - y, exact_softmax(z) - y)


def cross_entropy(found: CrossEntropy) -> Measurement:
    """B5: the gradient of cross-entropy is p - y."""
    gap = np.abs(found.gradient - found.by_numpy)
    units = float(np.max(gap / np.spacing(np.abs(found.by_numpy))))
    absolute = float(np.max(np.abs(found.gradient - found.extended)))
    return Measurement(
        "B5",
        "cross-entropy composed of primitives: its gradient against p - y",
        f"{gap.size} entries: {float(gap.max()):g} away from p - y, {units:g} units in the last place; "
        f"{significant(absolute, 2)} away from p - y in extended precision",
        "0.0 to one unit in the last place",
        {
            "entries": int(gap.size),
            "largest_difference": float(gap.max()),
            "largest_units_in_the_last_place": units,
            "largest_difference_extended": absolute,
        },
        {"largest_difference": 0.0, "largest_units_in_the_last_place": 1.0},
        units <= 1.0 and absolute < 4e-15,
        note="p is NumPy's exp of the log p that the loss is made of; that log p is right is what extended precision checks.",
    )


def layers(seed: int) -> Measurement:
    """B8: what a transformer needs besides: the look-up of rows, normalisation, the logarithm."""
    generator = np.random.default_rng(seed)
    table, rows = generator.normal(size=(7, 4)), generator.integers(0, 5, size=(3, 6))
    ct = generator.normal(size=(3, 6, 4))
    w = cr.tensor(table, requires_grad=True)
    (cr.nn.embedding(rows, w) * ct).sum().backward()
    counted = np.zeros_like(table)
    for place in np.ndindex(rows.shape):
        counted[rows[place]] += ct[place]
    looked_up = float(np.max(np.abs(w.grad - counted)))

    x, ct = generator.normal(size=(5, 8)), generator.normal(size=(5, 8))

    def weighted(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: (ct * f(x)).sum()

    by_engine = cr.grad(weighted(lambda t: cr.nn.layer_norm(t, 8)))(x)
    normalised = _differences(weighted(_normalised), x, by_engine)
    positive = np.exp(x)
    logarithm = float(np.max(np.abs(cr.grad(weighted(cr.log))(positive) / (ct / positive) - 1.0)))
    return Measurement(
        "B8",
        "embedding look-up with repeated rows, layer normalisation, logarithm: gradients",
        f"scatter-add {significant(looked_up, 2)} from a loop that adds; layer normalisation {significant(normalised, 2)} from "
        f"differences in extended precision; logarithm {significant(logarithm, 2)} from ct/x",
        "needed by C6: equal to rounding, differences to their own error",
        {"scatter_add": looked_up, "layer_norm": normalised, "logarithm": logarithm},
        {"rounding": 1e-15, "differences": 1e-9},
        looked_up < 1e-14 and normalised < 1e-9 and logarithm < 1e-15,
    )


def _normalised(z: Any) -> Any:
    centred = z - z.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.longdouble("1e-5"))


def _differences(f: Callable[[Any], Any], x: Any, gradient: Any, step: float = 1e-6) -> float:
    """The largest difference between a gradient and central differences of f in extended precision."""
    worst = 0.0
    for place in np.ndindex(x.shape):
        moved = np.zeros(x.shape, np.longdouble)
        moved[place] = step
        slope = (f(x + moved) - f(x - moved)) / (2 * np.longdouble(step))
        worst = max(worst, abs(float(slope - gradient[place])))
    return worst
