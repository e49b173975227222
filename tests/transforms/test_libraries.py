"""Transforms on arrays of another library, and on abstract arrays."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.backends.abstract import Abstract, reach_equations
from chainrule.core.equations import tracing
from chainrule.ops import linalg, reductions


def f(x):
    return reductions.sum(cr.tanh(linalg.matmul(x, x)) * cr.exp(x) / (x * x + 2.0))


X, V = np.random.default_rng(0).normal(size=(2, 3, 3))


def test_another_library_of_the_array_api():
    xp = pytest.importorskip("array_api_strict")
    x, v = xp.asarray(X), xp.asarray(V)
    g = lambda x: cr.tanh(linalg.matmul(x, x)) * x
    pairs = [
        (cr.grad(f)(x), cr.grad(f)(X)),
        (cr.hvp(f, x, v), cr.hvp(f, X, V)),
        (cr.jvp(g, (x,), (v,))[1], cr.jvp(g, (X,), (V,))[1]),
        (cr.vjp(g, x)[1](v)[0], cr.vjp(g, X)[1](V)[0]),
        (cr.jacobian(g)(x), cr.jacobian(g)(X)),
        (cr.hessian(f)(x), cr.hessian(f)(X)),
        (cr.grad(lambda x: reductions.sum(cr.checkpoint(g)(x)))(x), cr.grad(lambda x: reductions.sum(g(x)))(X)),
    ]
    for theirs, ours in pairs:
        assert type(theirs) is type(x)
        np.testing.assert_allclose(np.from_dlpack(theirs), ours, rtol=1e-12)


def test_integers_of_another_library_are_refused():
    xp = pytest.importorskip("array_api_strict")
    with pytest.raises(TypeError, match=r"2\.0"):
        cr.grad(f)(xp.asarray([1, 2]))


def test_abstract_arrays_leave_equations():
    x, v = Abstract((3, 3), np.dtype(np.float32)), Abstract((3, 3), np.dtype(np.float32))
    with tracing():
        value, g = cr.value_and_grad(f)(x)
        h = cr.hvp(f, x, v)
        _, t = cr.jvp(lambda x: cr.checkpoint(f)(x) * x, (x,), (v,))
    for out, shape in ((value, ()), (g, (3, 3)), (h, (3, 3)), (t, (3, 3))):
        assert isinstance(out, Abstract)
        assert (out.shape, out.dtype) == (shape, np.float32)
        assert x.equation in reach_equations([out.equation])
