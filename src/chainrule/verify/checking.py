"""`check`: whether the derivatives of a function are right, against derivatives that owe nothing to the engine.

Each order is tied to the one below: the gradient to slopes of the values, the second order to slopes of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule.core.calls import is_tensor, raw, wrap
from chainrule.core.graph import leaf_node
from chainrule.errors import ArgumentError, LostGraphError, VerificationError, explain
from chainrule.transforms import jvp
from chainrule.verify.differences import Arrays, basis, inner, is_real, slopes
from chainrule.walks.reverse import reverse

ENTRIES = 60  # of each argument; larger ones are sampled, and one direction through all entries covers the rest


@dataclass
class Row:
    """One derivative: how many numbers were compared, and the worst relative error."""

    derivative: str
    compared: int = 0
    worst: float = 0.0


@dataclass(repr=False)
class Report:
    """What `check` compared, all of which agreed; prints as one line for each derivative."""

    rows: list[Row] = field(default_factory=list[Row])

    @property
    def compared(self) -> int:
        """How many numbers were compared."""
        return sum(row.compared for row in self.rows)

    def __str__(self) -> str:
        return "\n".join(f"{row.derivative}: {row.compared} compared, worst error {row.worst:.1e}" for row in self.rows)

    __repr__ = __str__


class _Checker:
    """`f` as a function of its floating arguments alone, and the tolerances."""

    def __init__(self, f: Callable[..., Any], given: tuple[Any, ...], rtol: float | None, atol: float | None) -> None:
        self.f = f
        self.name = getattr(f, "__name__", type(f).__name__)
        self.arguments: list[Any] = [raw(x) if is_tensor(x) else x for x in given]
        numeric: dict[int, Any] = {k: x for k, x in enumerate(self.arguments) if not isinstance(x, (bool, int, str))}
        arrays: dict[int, Any] = {k: np.asarray(x) for k, x in numeric.items()}
        self.floating = [k for k, a in arrays.items() if a.dtype.kind == "f"]
        if not self.floating:
            raise ArgumentError(explain("check", "no argument holds floating-point numbers", remedy="2.0 for 2"))
        self.xs: Arrays = [np.array(arrays[k]) for k in self.floating]
        self.rtol, self.atol = rtol, atol
        self.rng = np.random.default_rng(0)

    def outputs(self, *xs: Any) -> list[Any]:
        """The real outputs for tensors in place of the floating arguments, as tensors."""
        arguments = list(self.arguments)
        for k, x in zip(self.floating, xs, strict=True):
            arguments[k] = x
        out = self.f(*arguments)
        outs: list[Any] = list(out) if isinstance(out, (tuple, list)) else [out]  # pyright: ignore[reportUnknownArgumentType]
        if not all(is_tensor(y) for y in outs):
            fault = "the function does not return tensors"
            raise LostGraphError(explain("check", fault, remedy="chainrule's functions, which NumPy's reach too"))
        return outs

    def values(self, *xs: Any) -> Arrays:
        return [np.asarray(y.data) for y in self.outputs(*[wrap(x, None) for x in xs])]

    def draw(self, like: Arrays) -> Arrays:
        """Random arrays of the shapes and dtypes of these."""
        drawn: list[Any] = [self.rng.normal(size=a.shape) for a in like]
        return [np.asarray(d).astype(a.dtype) for d, a in zip(drawn, like, strict=True)]

    def compare(self, row: Row, what: str, given: float, expected: float, known: float, scale: float) -> None:
        """One number; `known`: how well the expectation is known, `scale`: how large the numbers behind it are."""
        rtol = 10.0 * known if self.rtol is None else self.rtol
        atol = rtol * max(scale, 1.0) if self.atol is None else self.atol
        error = abs(given - expected)
        row.compared += 1
        row.worst = max(row.worst, error / max(abs(expected), scale, 1.0))
        if not (error <= atol + rtol * abs(expected) or given == expected):
            expectation = f"{expected:.12g} to {atol + rtol * abs(expected):.1g}"
            raise VerificationError(
                f"check: {row.derivative} of {self.name}, {what}: given {given:.12g}, expected {expectation}"
            )


def _leaf(x: Any) -> Any:
    tensor = wrap(np.array(x), None)
    tensor.node = leaf_node(tensor)
    return tensor


def _pull(f: Callable[..., list[Any]], xs: list[Any], weights: Arrays, graph: bool) -> list[Any]:
    """The gradient of the inner product of `f(*xs)` and `weights`; zeros where nothing depends on an x."""
    roots = [
        (y.node, wrap(w, None) if graph else w) for y, w in zip(f(*xs), weights, strict=True) if y.node is not None
    ]
    found = {node[0]: g for node, g in reverse(roots, graph, {x.node[0] for x in xs})}
    zeros = [np.zeros(x.shape, x.dtype) for x in xs]
    return [found.get(x.node[0], wrap(z, None) if graph else z) for x, z in zip(xs, zeros, strict=True)]


def check(
    f: Callable[..., Any], *xs: Any, order: int = 2, rtol: float | None = None, atol: float | None = None
) -> Report:
    """Check the derivatives of `f` at `xs`: vjp and jvp against differences, or the complex step where `f` takes complex
    arrays; then each order up to `order` against differences of the one below.

    **Shapes** `xs`: floats, arrays or tensors of any shape; integers and others are held fixed. `f` returns a tensor or
    several. A number passes within `atol + rtol * |expected|`; by default both follow from how well the expectation is
    known (1e-12 by complex step, 1e-7 by differences, in float64).
    **Raises** VerificationError naming derivative, argument, entry, what was given and what was expected, for a random
    cotangent of the result, so that a rule that forgets its cotangent is found too. At a kink all of it may disagree.

    >>> import chainrule as cr
    >>> cr.verify.check(lambda x, y: cr.sin(x) * y, 0.5, np.array([1.0, 2.0])).compared
    10
    """
    checker = _Checker(f, xs, rtol, atol)
    outs = checker.values(*checker.xs)
    if not any(is_real(y) for y in outs):
        raise ArgumentError(explain("check", "no output holds floating-point numbers"))
    report = Report()
    if order < 1:
        return report
    weights = checker.draw(outs)
    report.rows.append(
        _check_gradient(checker, "vjp", checker.values, _raw_gradient(checker.outputs, weights), weights)
    )
    report.rows.append(_check_jvp(checker))
    below: Callable[..., list[Any]] = _gradient(checker.outputs, weights)
    for n in range(2, order + 1):
        weights = checker.draw(checker.xs)
        row = _check_gradient(checker, f"order {n}", _on_arrays(below), _raw_gradient(below, weights), weights)
        report.rows.append(row)
        below = _gradient(below, weights)
    return report


def _gradient(f: Callable[..., list[Any]], weights: Arrays) -> Callable[..., list[Any]]:
    return lambda *xs: _pull(f, list(xs), weights, graph=True)


def _raw_gradient(f: Callable[..., list[Any]], weights: Arrays) -> Callable[..., Arrays]:
    return lambda *xs: _pull(f, [_leaf(x) for x in xs], weights, graph=False)


def _on_arrays(f: Callable[..., list[Any]]) -> Callable[..., Arrays]:
    return lambda *xs: [np.asarray(raw(y)) for y in f(*[_leaf(x) for x in xs])]


def _check_gradient(
    checker: _Checker, derivative: str, f: Callable[..., Arrays], gradient: Callable[..., Arrays], weights: Arrays
) -> Row:
    """Entry by entry, and along one direction through all entries."""
    row = Row(derivative)
    alone = len(weights) == 1 and not weights[0].shape
    given = gradient(*checker.xs)
    for k, (g, x) in enumerate(zip(given, checker.xs, strict=True)):
        if (g.shape, g.dtype) != (x.shape, x.dtype):
            what = f"argument {checker.floating[k]}: given {g.dtype} {g.shape}, expected {x.dtype} {x.shape}"
            raise VerificationError(f"check: {derivative} of {checker.name}, {what}")
    directions = [*basis(checker.xs, ENTRIES, checker.rng), (None, None, checker.draw(checker.xs))]
    for k, entry, ts in directions:
        expected, known = slopes(f, checker.xs, ts)
        where = "a direction through all entries" if k is None else f"argument {checker.floating[k]}, entry {entry}"
        where += f", cotangent {weights[0]:.6g}" if alone else ", random cotangent"
        scale = inner([np.abs(w) for w in weights], [np.abs(s) for s in expected])
        checker.compare(row, where, inner(given, ts), inner(weights, expected), known, scale)
    return row


def _check_jvp(checker: _Checker) -> Row:
    row = Row("jvp")
    ts = checker.draw(checker.xs)
    _, pushed = jvp(lambda *xs: tuple(checker.outputs(*xs)), tuple(checker.xs), tuple(ts))
    expected, known = slopes(checker.values, checker.xs, ts)
    for k, (t, slope) in enumerate(zip(pushed, expected, strict=True)):
        given = np.asarray(raw(t))
        if given.shape != slope.shape:
            what = f"output {k}: given shape {given.shape}, expected {slope.shape}"
            raise VerificationError(f"check: jvp of {checker.name}, {what}")
        scale = float(np.max(np.abs(slope), initial=0.0))
        for entry in np.ndindex(slope.shape):
            checker.compare(row, f"output {k}, entry {entry}", float(given[entry]), float(slope[entry]), known, scale)
    return row
