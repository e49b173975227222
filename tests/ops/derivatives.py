"""What the tests of operations compare with: differences of the function itself on raw NumPy, one entry at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr

Function = Callable[[Any], Any]


def gradient(f: Function, x: Any) -> Any:
    t = cr.tensor(x, requires_grad=True)
    return cr.gradients(cr.sum(f(t)), t)


def hessian(f: Function, x: Any) -> Any:
    """Row by row, reverse over reverse."""
    t = cr.tensor(x, requires_grad=True)
    slope = cr.gradients(cr.sum(f(t)), t, create_graph=True)
    if slope.node is None:
        return np.zeros((t.size, t.size))
    rows = []
    for k in range(t.size):
        one = np.zeros(t.size, t.dtype)
        one[k] = 1
        rows.append(cr.gradients(slope, t, cotangent=one.reshape(t.shape)).ravel())
    return np.array(rows)


def differences(f: Function, x: Any, step: float = 1e-6) -> Any:
    x = np.asarray(x, np.float64)
    out = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[place] += step
        behind[place] -= step
        out[place] = (np.sum(f(ahead)) - np.sum(f(behind))) / (2 * step)
    return out


def second_differences(f: Function, x: Any, step: float = 1e-4) -> Any:
    """The Hessian from values only."""
    x = np.asarray(x, np.float64)
    n = x.size
    shifts = np.eye(n).reshape(n, *x.shape) * step

    def value(move: Any) -> Any:
        return np.sum(f(x + move))

    def entry(a: Any, b: Any) -> Any:
        return (value(a + b) - value(a - b) - value(b - a) + value(-a - b)) / (4 * step * step)

    return np.array([[entry(a, b) for b in shifts] for a in shifts])


def agrees(f: Function, x: Any, theirs: Function | None = None) -> None:
    """Value, gradient and Hessian of the sum of `f`, times fixed weights, against NumPy's function and its differences."""
    theirs = theirs or f
    weights = np.random.default_rng(7).normal(size=np.shape(theirs(x)))
    np.testing.assert_allclose(f(cr.tensor(x)).data, theirs(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(f(x), theirs(x), rtol=1e-12, atol=1e-14)

    def ours(x: Any) -> Any:
        return cr.sum(f(x) * weights)

    def raw(x: Any) -> Any:
        return np.sum(theirs(x) * weights)

    np.testing.assert_allclose(gradient(ours, x), differences(raw, x), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(hessian(ours, x), second_differences(raw, x), rtol=1e-4, atol=1e-5)
