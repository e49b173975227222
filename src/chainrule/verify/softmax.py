"""Suite: softmax and cross-entropy against their closed forms, written in NumPy."""

# Tables of formulas: lambdas of any number of parameters leave a type checker nothing to infer.
# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.verify.suites import Check

LOGITS = {
    "small": np.array([0.1, -0.4, 0.9, 0.3]),
    "a tie": np.array([1.0, 1.0, -2.0]),
    "wide": np.array([30.0, -30.0, 0.0, 5.0, 29.0]),
    "1e4": np.array([1e4, -1e4, 9999.0]),
}
BATCH = np.random.default_rng(5).normal(0.0, 2.0, (5, 4))
CLASSES = np.array([1, 3, 0, 0, 2])
ONE_HOT = np.eye(4)[CLASSES]


def _p(z: Any) -> Any:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _gradient(f: Callable[[Any], Any], z: Any, cotangent: Any = None) -> Any:
    t = cr.tensor(z, requires_grad=True)
    f(t).backward(cotangent)
    return t.grad


def _cross_entropy(t: Any) -> Any:
    """Composed of primitives: the log-softmax of the right class, summed over the batch."""
    return -cr.log_softmax(t, axis=-1)[np.arange(len(CLASSES)), CLASSES].sum()


def _one_class(k: int) -> Callable[[Any], Any]:
    return lambda t: -cr.log_softmax(t, axis=-1)[k]


def _one_class_identity(k: int, z: Any) -> tuple[Any, Any]:
    """`p - y` exactly, p written as exp(log p) in NumPy."""
    shifted = z - z.max()
    p = np.exp(shifted - np.log(np.exp(shifted).sum()))
    return _gradient(_one_class(k), z), p - np.eye(len(z))[k]


def _binary(z: Any, y: Any) -> tuple[Any, Any]:
    given = _gradient(lambda t: (cr.softplus(t) - t * y).sum(), z)
    return given, 1.0 / (1.0 + np.exp(-z)) - y


def _checks_of_softmax() -> Iterator[Check]:
    for name, z in LOGITS.items():
        p = _p(z)
        w = np.cos(np.arange(1.0, len(z) + 1))
        yield Check(f"softmax, {name}", lambda z=z, p=p: (cr.softmax(cr.tensor(z), axis=-1).data, p), 1e-15)
        yield Check(
            f"Jacobian of softmax is diag(p) - p pᵀ, {name}",
            lambda z=z, p=p: (cr.jacobian(lambda t: cr.softmax(t, axis=-1))(z), np.diag(p) - np.outer(p, p)),
            1e-15,
        )
        yield Check(
            f"its pullback is p (w - p·w), {name}",
            lambda z=z, p=p, w=w: (_gradient(lambda t: cr.softmax(t, axis=-1), z, w), p * (w - p @ w)),
            1e-15,
        )
        yield Check(
            f"the pullback of log-softmax is w - p sum(w), {name}",
            lambda z=z, p=p, w=w: (_gradient(lambda t: cr.log_softmax(t, axis=-1), z, w), w - p * w.sum()),
            1e-14,
        )
        yield Check(
            f"the gradient of logsumexp is softmax, {name}",
            lambda z=z, p=p: (_gradient(lambda t: cr.logsumexp(t, axis=-1), z), p),
            1e-15 * max(1.0, float(np.abs(z).max())),  # the value itself is rounded at that size
        )


def _checks_of_cross_entropy() -> Iterator[Check]:
    for name, z in LOGITS.items():
        for k in range(len(z)):
            yield Check(
                f"cross-entropy: p - y to one unit in the last place, {name}, class {k}",
                lambda k=k, z=z: _one_class_identity(k, z),
                None,
            )
            yield Check(f"cross-entropy: p - y by NumPy, {name}, class {k}", lambda k=k, z=z: _by_numpy(k, z), 4e-15)
    p = _p(BATCH)
    value = -np.log(p[np.arange(5), CLASSES]).sum()
    yield Check("cross-entropy of a batch: value", lambda: (_cross_entropy(cr.tensor(BATCH)).data, value), 1e-14)
    yield Check("cross-entropy of a batch: p - y", lambda: (_gradient(_cross_entropy, BATCH), p - ONE_HOT), 4e-15)
    mean = lambda t: _cross_entropy(t) / 5.0
    yield Check("mean over the batch: (p - y) / n", lambda: (_gradient(mean, BATCH), (p - ONE_HOT) / 5.0), 4e-15)
    rows = lambda: (_gradient(_cross_entropy, BATCH).sum(axis=-1), np.zeros(5))
    yield Check("gradients of a row sum to zero", rows, 1e-15)
    hessian = np.diag(_p(BATCH[0])) - np.outer(_p(BATCH[0]), _p(BATCH[0]))
    second = lambda: (cr.hessian(_one_class(2))(BATCH[0]), hessian)
    yield Check("Hessian of cross-entropy is diag(p) - p pᵀ", second, 1e-14)
    shifted = lambda: (_gradient(_cross_entropy, BATCH + 8.0), _gradient(_cross_entropy, BATCH))
    yield Check("adding 8 to all logits changes nothing", shifted, 1e-14)


def _by_numpy(k: int, z: Any) -> tuple[Any, Any]:
    return _gradient(_one_class(k), z), _p(z) - np.eye(len(z))[k]


def checks() -> Iterator[Check]:
    """All checks of the suite."""
    yield from _checks_of_softmax()
    yield from _checks_of_cross_entropy()
    z = np.array([-3.0, -0.2, 0.0, 0.5, 4.0])
    for y in (0.0, 1.0, 0.3):
        yield Check(f"binary cross-entropy: sigmoid(z) - y, y = {y}", lambda y=y: _binary(z, y), 1e-15)
    s = 1.0 / (1.0 + np.exp(-z))
    slope = lambda: (_gradient(lambda t: cr.sigmoid(t).sum(), z), s * (1 - s))
    yield Check("slope of the sigmoid is s (1 - s)", slope, 1e-15)
    logistic = lambda: (_gradient(lambda t: cr.log_sigmoid(t).sum(), z), 1 - s)
    yield Check("slope of the log-sigmoid is 1 - s", logistic, 1e-15)
