"""Suite: training loops, pinned to closed forms and to the same loop written by hand in NumPy, backward pass included."""

# Tables of formulas: lambdas of any number of parameters leave a type checker nothing to infer.
# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import scalar
from chainrule.verify.suites import Check

Arrays = list[Any]


# ------------------------------------------------------------------------------------------------- least squares (C1)
@cache
def _least_squares() -> dict[str, Any]:
    """Gradient descent at 1/L, L the largest eigenvalue of the Hessian, beside `numpy.linalg.solve`."""
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=(40, 5)), rng.normal(size=40)
    solution = np.linalg.solve(a.T @ a, a.T @ b)
    rate = 1.0 / np.linalg.eigvalsh(2.0 * a.T @ a).max()
    w, by_hand, losses = cr.tensor(np.zeros(5), requires_grad=True), np.zeros(5), []
    drift = 0.0
    for _ in range(600):
        w.grad = None
        loss = ((a @ w - b) ** 2).sum()
        loss.backward()
        losses.append(loss.item())
        by_hand = by_hand - rate * (2.0 * a.T @ (a @ by_hand - b))
        with cr.no_grad():
            w -= rate * w.grad
        drift = max(drift, float(np.abs(w.data - by_hand).max()))
    at = cr.tensor(solution, requires_grad=True)
    ((a @ at - b) ** 2).sum().backward()
    residual = float(((a @ solution - b) ** 2).sum())
    rises = sum(later > earlier * (1 + 1e-14) for earlier, later in pairwise(losses))
    return {
        "w": w.data,
        "solution": solution,
        "loss": losses[-1],
        "residual": residual,
        "gradient": at.grad,
        "rises": rises,
        "drift": drift,
        "hessian": cr.hessian(lambda t: ((a @ t - b) ** 2).sum())(np.zeros(5)),
        "2 aᵀ a": 2.0 * a.T @ a,
    }


def _checks_of_least_squares() -> Iterator[Check]:
    def pair(given: str, expected: Any) -> Callable[[], tuple[Any, Any]]:
        return lambda: (_least_squares()[given], _least_squares()[expected] if isinstance(expected, str) else expected)

    yield Check("least squares lands on numpy.linalg.solve", pair("w", "solution"), 1e-14)
    yield Check("its last loss is the residual of the closed form", pair("loss", "residual"), 1e-14)
    yield Check("the gradient at the solution is 0 to rounding", pair("gradient", np.zeros(5)), 1e-12)
    yield Check("the loss never rises at a rate of 1/L", pair("rises", 0), 0.0)
    yield Check("600 steps equal those by hand", pair("drift", 0.0), 1e-13)
    yield Check("the Hessian is 2 aᵀ a", pair("hessian", "2 aᵀ a"), 1e-13)


# -------------------------------------------------------------------------------------------- a network by hand (A6)
def moons(count: int = 60) -> tuple[Any, Any]:
    """Two interleaved half circles with some noise, and labels of -1 and 1."""
    rng = np.random.default_rng(3)
    angle = np.linspace(0.0, np.pi, count // 2)
    outer = np.stack([np.cos(angle), np.sin(angle)], 1)
    inner = np.stack([1.0 - np.cos(angle), 0.5 - np.sin(angle)], 1)
    x = np.concatenate([outer, inner]) + rng.normal(0.0, 0.1, (2 * (count // 2), 2))
    return x, np.repeat([-1.0, 1.0], count // 2)


def _start(sizes: tuple[int, ...]) -> Arrays:
    rng = np.random.default_rng(11)
    shapes = list(pairwise(sizes))
    return [a for i, o in shapes for a in (rng.uniform(-1.0, 1.0, (i, o)), rng.uniform(-0.1, 0.1, o))]


def _hinge(parameters: Any, x: Any, y: Any) -> Any:
    """max(0, 1 - y s), averaged, plus 1e-4 |w|²; relu between the layers."""
    h = x
    for k in range(0, len(parameters), 2):
        h = h @ parameters[k] + parameters[k + 1]
        h = cr.relu(h) if k < len(parameters) - 2 else h
    margin = cr.relu(1.0 - y * h.reshape(-1)).sum() / len(y)
    return margin + 1e-4 * sum((p * p).sum() for p in parameters)


def _hinge_by_hand(parameters: Arrays, x: Any, y: Any) -> tuple[float, Arrays]:
    """The same loss and its gradients in plain NumPy."""
    hidden = [x]
    for k in range(0, len(parameters), 2):
        z = hidden[-1] @ parameters[k] + parameters[k + 1]
        hidden.append(np.maximum(z, 0.0) if k < len(parameters) - 2 else z)
    margins = 1.0 - y * hidden[-1][:, 0]
    loss = np.maximum(margins, 0.0).mean() + 1e-4 * sum(float((p * p).sum()) for p in parameters)
    delta = (np.where(margins > 0, -y, 0.0) / len(y))[:, None]
    gradients: Arrays = []
    for k in range(len(parameters) - 2, -1, -2):
        below = hidden[k // 2]
        gradients[:0] = [below.T @ delta + 2e-4 * parameters[k], delta.sum(0) + 2e-4 * parameters[k + 1]]
        delta = (delta @ parameters[k].T) * (below > 0)
    return loss, gradients


@cache
def _network(dtype: str) -> tuple[list[float], list[float], Arrays, Arrays]:
    """20 steps of plain gradient descent, by the engine and by hand: losses and last parameters of both."""
    x, y = (a.astype(dtype) for a in moons())
    start = [a.astype(dtype) for a in _start((2, 16, 16, 1))]
    ours = [cr.tensor(a, requires_grad=True) for a in start]
    hand, losses, expected = [a.copy() for a in start], [], []
    for step in range(20):
        rate = 1.0 - 0.9 * step / 100.0
        loss = _hinge(ours, x, y)
        loss.backward()
        losses.append(loss.item())
        with cr.no_grad():
            for k, p in enumerate(ours):
                ours[k] -= rate * p.grad
                p.grad = None
        value, gradients = _hinge_by_hand(hand, x, y)
        expected.append(float(value))
        hand = [(p - rate * g).astype(dtype) for p, g in zip(hand, gradients, strict=True)]
    return losses, expected, [p.data for p in ours], hand


def _checks_of_networks() -> Iterator[Check]:
    for step in (0, 1, 5, 10, 19):
        yield Check(
            f"hinge network: loss at step {step} equals NumPy by hand",
            lambda step=step: (_network("float64")[0][step], _network("float64")[1][step]),
            1e-12,
        )
    for k, name in enumerate(("w0", "b0", "w1", "b1", "w2", "b2")):
        yield Check(
            f"hinge network: {name} after 20 steps equals NumPy by hand",
            lambda k=k: (_network("float64")[2][k], _network("float64")[3][k]),
            1e-12,
        )
    yield Check("hinge network in float32: losses", lambda: _network("float32")[:2], 1e-4)
    yield Check("hinge network in float32: dtype", lambda: (_network("float32")[2][0].dtype == np.float32, True), 0.0)
    yield Check("hinge network: both engines, one step", _both_engines, 1e-13)


def _both_engines() -> tuple[Any, Any]:
    """Loss and all gradients of one small network, node by number and node by array."""
    x, y = (a[::6] for a in moons())
    parameters = _start((2, 4, 1))
    tensors = [cr.tensor(p, requires_grad=True) for p in parameters]
    loss = _hinge(tensors, x, y)
    loss.backward()
    w0, b0, w1, b1 = (np.vectorize(scalar.Value, otypes=[object])(p) for p in parameters)
    total = scalar.Value(0.0)
    for point, label in zip(x, y, strict=True):
        hidden = [scalar.relu(w0[0, j] * point[0] + w0[1, j] * point[1] + b0[j]) for j in range(4)]
        score = sum((h * w for h, w in zip(hidden, w1[:, 0], strict=True)), b1[0])
        total = total + scalar.relu(1.0 - score * label) * (1.0 / len(y))
    values = [v for p in (w0, b0, w1, b1) for v in p.ravel()]
    total = total + 1e-4 * sum((v * v for v in values), scalar.Value(0.0))
    total.backward()
    given = [loss.item(), *np.concatenate([t.grad.ravel() for t in tensors])]
    return np.array(given), np.array([total.data, *(v.grad for v in values)])


# ------------------------------------------------------------------------------------------------------ other loops
def _line() -> tuple[Any, Any]:
    """Y = x - 1 on 1,000 points, both divided by 1,000 (A7): Newton's one step from the engine's gradient and Hessian."""
    x = np.arange(1000.0) / 1000.0
    y = (np.arange(1000.0) - 1.0) / 1000.0

    def loss(p: Any) -> Any:
        return ((p[0] * x + p[1] - y) ** 2).sum() / 1000.0

    start = np.array([0.3, 0.8])
    return start - np.linalg.solve(cr.hessian(loss)(start), cr.grad(loss)(start)), np.array([1.0, -1e-3])


def _momentum() -> tuple[Any, Any]:
    """Heavy ball on a quadratic: 20 steps of the engine's gradients beside the linear recurrence, iterated as a matrix."""
    h = np.array([[3.0, 0.5], [0.5, 1.0]])
    w = cr.tensor(np.array([1.0, -2.0]), requires_grad=True)
    v: Any = np.zeros(2)
    for _ in range(20):
        w.grad = None
        (0.5 * (w @ (h @ w))).backward()
        v = 0.9 * v + w.grad
        with cr.no_grad():
            w -= 0.1 * v
    step = np.block([[np.eye(2) - 0.1 * h, -0.09 * np.eye(2)], [h, 0.9 * np.eye(2)]])
    return w.data, (np.linalg.matrix_power(step, 20) @ np.array([1.0, -2.0, 0.0, 0.0]))[:2]


@cache
def _logistic() -> tuple[Any, Any, Any]:
    """Logistic regression by Newton's method: the engine's weights, those of reweighted least squares, the gradient there."""
    rng = np.random.default_rng(13)
    x = np.column_stack([np.ones(50), rng.normal(size=(50, 2))])
    y = (rng.random(50) < 1.0 / (1.0 + np.exp(-x @ np.array([0.3, 1.0, -1.5])))).astype(float)

    def loss(w: Any) -> Any:
        return (cr.softplus(x @ w) - y * (x @ w)).sum()

    ours, hand = np.zeros(3), np.zeros(3)
    for _ in range(8):
        ours = ours - np.linalg.solve(cr.hessian(loss)(ours), cr.grad(loss)(ours))
        p = 1.0 / (1.0 + np.exp(-x @ hand))
        weights = p * (1.0 - p)
        target = x @ hand + (y - p) / weights
        root = np.sqrt(weights)
        hand = np.linalg.lstsq(x * root[:, None], target * root, rcond=None)[0]
    return ours, hand, cr.grad(loss)(hand)


def _accumulated() -> tuple[Any, Any]:
    """Gradients of two halves of a batch, accumulated, are those of the whole."""
    x, y = moons()
    parameters = _start((2, 8, 1))
    leaves = [cr.tensor(p, requires_grad=True) for p in parameters]
    for half in (slice(0, None, 2), slice(1, None, 2)):
        (0.5 * _hinge(leaves, x[half], y[half])).backward()
    expected = _hinge_by_hand(parameters, x, y)[1]
    return np.concatenate([t.grad.ravel() for t in leaves]), np.concatenate([g.ravel() for g in expected])


def checks() -> Iterator[Check]:
    """All checks of the suite."""
    yield from _checks_of_least_squares()
    yield from _checks_of_networks()
    yield Check("a line by one step of Newton", _line, 1e-12)
    yield Check("momentum on a quadratic equals its recurrence", _momentum, 1e-13)
    yield Check("logistic regression by Newton equals reweighted least squares", lambda: _logistic()[:2], 1e-11)
    yield Check("the gradient is 0 at its solution", lambda: (_logistic()[2], np.zeros(3)), 1e-11)
    yield Check("gradients of two halves add up to those of the batch", _accumulated, 1e-14)
