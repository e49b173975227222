"""Suite: tensor gradients and broadcasting adjoints, entry by entry, against differences and the complex step."""

# Tables of formulas: lambdas of any number of parameters leave a type checker nothing to infer.
# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.verify.differences import Arrays, basis, inner, slopes
from chainrule.verify.suites import Check

Function = Callable[..., Any]
UNARY: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("exp", "expm1", "square", "sin", "cos", "sinh", "cosh", "tanh", "atan", "asinh"), (-1.5, 1.5)),
    **dict.fromkeys(("sigmoid", "log_sigmoid", "softplus", "sinc", "negative"), (-1.5, 1.5)),
    **dict.fromkeys(("log", "log1p", "log2", "log10", "sqrt", "reciprocal", "relu", "abs"), (0.3, 2.0)),
    **dict.fromkeys(("asin", "acos", "atanh", "tan"), (-0.8, 0.8)),
    "acosh": (1.2, 3.0),
}
BINARY: dict[str, Function] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
    "maximum": lambda x, y: cr.maximum(x, y),
    "where": lambda x, y: cr.where(np.array([True, False, True]), x, y),
}
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((2, 3), (2, 1)),
    ((2, 3), ()),
    ((1, 3), (2, 1)),
    ((1,), (4, 3)),
    ((2, 1, 3), (4, 1)),
]
MATRICES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (3, 4)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (3,)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((2, 1, 2, 3), (5, 3, 2)),
]
ONE: dict[str, Function] = {
    "sum": lambda x: x.sum(),
    "sum over an axis": lambda x: x.sum(axis=1),
    "sum over two axes, kept": lambda x: x.sum(axis=(0, 2), keepdims=True),
    "mean": lambda x: x.mean(axis=0),
    "max": lambda x: x.max(axis=1),
    "min": lambda x: x.min(axis=2),
    "prod": lambda x: x.prod(axis=1),
    "var": lambda x: x.var(axis=1),
    "std": lambda x: x.std(axis=2),
    "logsumexp": lambda x: cr.logsumexp(x, axis=1),
    "cumulative_sum": lambda x: cr.cumulative_sum(x, axis=1),
    "cumulative_prod": lambda x: cr.cumulative_prod(x, axis=1),
    "vector_norm": lambda x: cr.linalg.vector_norm(x, axis=1),
    "sort": lambda x: cr.sort(x, axis=1),
    "reshape": lambda x: x.reshape(3, -1),
    "permute_dims": lambda x: cr.permute_dims(x, (2, 0, 1)),
    "broadcast_to": lambda x: cr.broadcast_to(x, (2, 2, 3, 4)),
    "concat": lambda x: cr.concat([x, 2.0 * x], axis=1),
    "stack": lambda x: cr.stack([x, x * x], axis=1),
    "flip": lambda x: cr.flip(x, axis=1),
    "roll": lambda x: cr.roll(x, 1, axis=2),
    "tile": lambda x: cr.tile(x, (2, 1, 2)),
    "pad": lambda x: cr.pad(x, ((0, 0), (1, 2), (0, 1))),
    "triu": lambda x: cr.triu(x),
    "a slice": lambda x: x[:, 1:, ::2],
    "rows, one of them twice": lambda x: x[[0, 1, 0]],
    "arrays split by a slice": lambda x: x[0, :, [1, 2]],
    "a mask": lambda x: x[np.arange(24).reshape(2, 3, 4) % 3 == 0],
    "einsum": lambda x: cr.einsum("ijk,ijl->ikl", x, x),
    "tensordot": lambda x: cr.tensordot(x, x, axes=((0, 2), (0, 2))),
}


def _forward(f: Function, *xs: Any) -> Arrays:
    return [np.asarray(f(*[cr.asarray(x) for x in xs]).data)]


def _compare(f: Function, xs: Arrays) -> tuple[Any, Any]:
    """All entries of all gradients, by the engine and by slopes of <w, f> along each entry."""
    weights = [np.cos(np.arange(1.0, out.size + 1)).reshape(out.shape) for out in _forward(f, *xs)]
    leaves = [cr.tensor(x, requires_grad=True) for x in xs]
    f(*leaves).backward(weights[0])
    for leaf, x in zip(leaves, xs, strict=True):
        if leaf.grad.shape != x.shape:
            raise AssertionError(f"gradient of shape {leaf.grad.shape} for an operand of shape {x.shape}")
    given = np.concatenate([leaf.grad.ravel() for leaf in leaves])
    expected = [inner(weights, slopes(lambda *of: _forward(f, *of), xs, ts)[0]) for _, _, ts in basis(xs)]
    return given, np.array(expected)


def _draw(seed: int, *shapes: tuple[int, ...], low: float = 0.4, high: float = 2.0) -> Arrays:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(low, high, shape)) for shape in shapes]


def checks() -> Iterator[Check]:
    """All checks of the suite."""
    for name, (low, high) in UNARY.items():
        xs = _draw(1, (2, 3), low=low, high=high)
        yield Check(name, lambda name=name, xs=xs: _compare(getattr(cr, name), xs), 1e-8)
    for name, f in BINARY.items():
        for a, b in SHAPES:
            yield Check(f"{name} {a} {b}", lambda f=f, a=a, b=b: _compare(f, _draw(2, a, b)), 1e-8)
    for a, b in MATRICES:
        yield Check(f"matmul {a} {b}", lambda a=a, b=b: _compare(lambda x, y: x @ y, _draw(3, a, b)), 1e-8)
    for name, f in ONE.items():
        yield Check(name, lambda f=f: _compare(f, _draw(4, (2, 3, 4))), 1e-8)
