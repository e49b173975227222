"""Functions with known derivatives, and the two ways to differentiate numerically."""

import numpy as np

import chainrule as cr
from chainrule.ops import linalg, reductions


def mixture(x):
    """Of a 2x4 matrix: products, selections, broadcasting, a reduction, repeated reads."""
    weights = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
    h = cr.tanh(linalg.matmul(x, weights)) * cr.exp(x[:, :3]) / (cr.sigmoid(x[:, 1:]) + 2.0)
    return h + reductions.sum(x) - cr.sqrt(x[:1, :3] * x[:1, :3] + 1.0) * cr.maximum(h, x[:, :3])


def sum_of(f):
    return lambda *xs: reductions.sum(f(*xs))


def complex_step(f, x, v, h=1e-30):
    """The derivative of an analytic f in the direction v, to the last digit: Im f(x + ihv) / h."""
    return np.imag(f(x + 1j * h * v)) / h


def difference(f, x, v, h=1e-5):
    """Central difference in the direction v."""
    return (np.asarray(f(x + h * v)) - np.asarray(f(x - h * v))) / (2 * h)


def rosenbrock(x):
    a, b = x[:-1], x[1:]
    d = b - a * a
    return reductions.sum(100.0 * d * d + (1.0 - a) * (1.0 - a))
