"""Every way to a first and to a second derivative, asked for the same function, compared with what the test expects.

Expectations come from the caller: a closed form, or `differences` and `complex_step` of the function on raw NumPy.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import chainrule as cr

Function = Callable[[Any], Any]
"""From an array of any kind to a scalar of the same kind."""


def units(x: Any) -> Iterator[Any]:
    """All arrays of x's type with a single 1."""
    for place in np.ndindex(x.shape):
        one = np.zeros(x.shape, x.dtype)
        one[place] = 1
        yield one


def leaf(x: Any) -> cr.Tensor:
    return cr.tensor(x, requires_grad=True)


def nothing_like(x: Any) -> cr.Tensor:
    """A tensor that wants a gradient and leaves every x as it is when it is added, the sign of zero included."""
    return leaf(np.full_like(x, -0.0))


def plain(value: Any) -> Any:
    """A tensor as an array: a derivative is a tensor wherever it wants a gradient itself, and only there."""
    return value.data if isinstance(value, cr.Tensor) else value


# ---------------------------------------------------------------- first order
def by_backward(f: Function, x: Any) -> Any:
    t = leaf(x)
    y = f(t)
    if y.requires_grad:  # not of floor(x)
        y.backward()
    return np.zeros_like(x) if t.grad is None else t.grad


def by_recorded_backward(f: Function, x: Any) -> Any:
    t = leaf(x)
    y = f(t)
    if y.requires_grad:
        y.backward(create_graph=True)
    return np.zeros_like(x) if t.grad is None else plain(t.grad)


def by_grad(f: Function, x: Any) -> Any:
    return cr.grad(f)(x)


def by_jvp(f: Function, x: Any) -> Any:
    return np.reshape([cr.jvp(f, (x,), (one,))[1] for one in units(x)], x.shape)


def by_recorded_jvp(f: Function, x: Any) -> Any:
    t = leaf(x)
    return np.reshape([plain(cr.jvp(f, (t,), (one,))[1]) for one in units(x)], x.shape)


def by_grad_with_a_tensor_closed_over(f: Function, x: Any) -> Any:
    w = nothing_like(x)
    return plain(cr.grad(lambda x: f(x + w))(x))


def by_backward_into_the_tensor_closed_over(f: Function, x: Any) -> Any:
    w = nothing_like(x)
    y = f(w + x)
    if y.requires_grad:
        y.backward()
    return np.zeros_like(x) if w.grad is None else w.grad


def by_checkpoint(f: Function, x: Any) -> Any:
    return cr.grad(cr.checkpoint(f))(x)


FIRST = (
    by_backward,
    by_recorded_backward,
    by_grad,
    by_jvp,
    by_recorded_jvp,
    by_grad_with_a_tensor_closed_over,
    by_backward_into_the_tensor_closed_over,
    by_checkpoint,
)


# ---------------------------------------------------------------- second order, as a matrix
def matrix(rows: Any, x: Any) -> Any:
    return np.reshape([np.asarray(plain(row)) for row in rows], (x.size, x.size))


def reverse_over_reverse(f: Function, x: Any) -> Any:
    t = leaf(x)
    y = f(t)
    slope = cr.gradients(y, t, create_graph=True) if y.requires_grad else t.detach()
    if slope.node is None:
        return np.zeros((x.size, x.size))
    return matrix((cr.gradients(slope, t, cotangent=one) for one in units(x)), x)


def by_hessian(f: Function, x: Any) -> Any:
    return matrix([cr.hessian(f)(x)], x)


def by_jacobian_of_grad(f: Function, x: Any) -> Any:
    return matrix([cr.jacobian(cr.grad(f))(x)], x)


def by_hvp(f: Function, x: Any) -> Any:
    return matrix((cr.hvp(f, x, one) for one in units(x)), x)


def by_grad_of_grad(f: Function, x: Any) -> Any:
    return matrix((cr.grad(lambda x, v=one: (cr.grad(f)(x) * v).sum())(x) for one in units(x)), x)


def by_grad_of_jvp(f: Function, x: Any) -> Any:
    return matrix((cr.grad(lambda x, v=one: cr.jvp(f, (x,), (v,))[1])(x) for one in units(x)), x)


def by_jvp_of_jvp(f: Function, x: Any) -> Any:
    def entry(a: Any, b: Any) -> Any:
        return cr.jvp(lambda x: cr.jvp(f, (x,), (a,))[1], (x,), (b,))[1]

    return matrix([[entry(a, b) for b in units(x)] for a in units(x)], x)


def by_hvp_with_a_tensor_closed_over(f: Function, x: Any) -> Any:
    w = nothing_like(x)
    return matrix((plain(cr.hvp(lambda x: f(x + w), x, one)) for one in units(x)), x)


def mixed_with_the_tensor_closed_over(f: Function, x: Any) -> Any:
    w = nothing_like(x)
    slope = cr.grad(lambda x: f(x + w))(x)
    if not isinstance(slope, cr.Tensor):
        return np.zeros((x.size, x.size))
    return matrix((cr.gradients(slope, w, cotangent=one) for one in units(x)), x)


def by_hessian_of_a_checkpoint(f: Function, x: Any) -> Any:
    return matrix([cr.hessian(cr.checkpoint(f))(x)], x)


SECOND = (
    reverse_over_reverse,
    by_hessian,
    by_jacobian_of_grad,
    by_hvp,
    by_grad_of_grad,
    by_grad_of_jvp,
    by_jvp_of_jvp,
    by_hvp_with_a_tensor_closed_over,
    mixed_with_the_tensor_closed_over,
    by_hessian_of_a_checkpoint,
)


FORWARD_FIRST = (by_grad_of_jvp, by_jvp_of_jvp)


def derivatives_are(
    f: Function,
    x: Any,
    first: Any,
    second: Any = None,
    rtol: float = 1e-12,
    atol: float = 1e-13,
    value: Any = None,
    ways: tuple[Any, ...] = SECOND,
) -> None:
    """Assert that all ways give `first`, of x's shape and dtype, and `second`, a matrix.  `second` None: not asked."""
    x = np.array(x)
    for way in FIRST:
        got = way(f, x)
        assert (got.shape, got.dtype) == (x.shape, x.dtype), way.__name__
        np.testing.assert_allclose(got, np.broadcast_to(first, x.shape), rtol, atol, err_msg=way.__name__)
    if value is not None:
        np.testing.assert_allclose(f(cr.tensor(x)).data, value, rtol, atol)
    if second is None:
        return
    second = np.broadcast_to(second, (x.size, x.size))
    for way in ways:
        np.testing.assert_allclose(way(f, x), second, rtol, atol, err_msg=way.__name__)


def reverse_first(f: Function, x: Any, first: Any, second: Any) -> None:
    """As `derivatives_are`, by those ways to second order that begin with a reverse walk."""
    derivatives_are(f, x, first, second, atol=1e-12, ways=tuple(way for way in SECOND if way not in FORWARD_FIRST))


# ---------------------------------------------------------------- expectations from values alone
def differences(f: Function, x: Any, step: float = 1e-6) -> Any:
    """Central differences of a function on raw NumPy."""
    x = np.array(x, np.float64)
    return np.reshape([(f(x + step * one) - f(x - step * one)) / (2 * step) for one in units(x)], x.shape)


def second_differences(f: Function, x: Any, step: float = 1e-4) -> Any:
    x = np.array(x, np.float64)
    moves = [step * one for one in units(x)]

    def entry(a: Any, b: Any) -> Any:
        return (f(x + a + b) - f(x + a - b) - f(x - a + b) + f(x - a - b)) / (4 * step * step)

    return np.reshape([[entry(a, b) for b in moves] for a in moves], (x.size, x.size))


def complex_step(f: Function, x: Any) -> Any:
    """The gradient, exact to rounding, of an analytic function on raw NumPy."""
    x = np.array(x, np.complex128)
    return np.reshape([np.imag(f(x + 1e-30j * one)) / 1e-30 for one in units(x)], x.shape)


def complex_step_of_differences(f: Function, x: Any, step: float = 1e-5) -> Any:
    """The Hessian of an analytic function: differences of complex steps."""
    x = np.array(x, np.float64)
    rows = [(complex_step(f, x + step * one) - complex_step(f, x - step * one)) / (2 * step) for one in units(x)]
    return np.reshape(rows, (x.size, x.size))
