"""Values of every transform: closed forms, complex step, differences, PyTorch and JAX."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.ops import linalg, reductions
from tests.oracle.peers import peer
from tests.transforms.formulas import complex_step, difference, mixture, rosenbrock, sum_of

RNG = np.random.default_rng(0)
X, V, CT = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 4)), RNG.normal(size=(2, 3))


def value(x):
    return mixture(cr.tensor(x)).data


def test_gradient_is_the_difference_quotient():
    assert np.vdot(cr.grad(sum_of(mixture))(X), V) == pytest.approx(
        difference(lambda x: value(x).sum(), X, V), rel=1e-8
    )


def test_jvp_is_the_difference_quotient():
    y, t = cr.jvp(mixture, (X,), (V,))
    np.testing.assert_array_equal(y, value(X))
    np.testing.assert_allclose(t, difference(value, X, V), rtol=1e-7, atol=1e-8)


def test_tangents_and_cotangents_agree():
    """<ct, jvp t> = <vjp ct, t>."""
    y, pullback = cr.vjp(mixture, X)
    (g,) = pullback(CT)
    _, linear = cr.linearize(mixture, X)
    np.testing.assert_array_equal(y, value(X))
    assert np.vdot(CT, cr.jvp(mixture, (X,), (V,))[1]) == pytest.approx(np.vdot(g, V), rel=1e-12)
    assert np.vdot(CT, linear(V)) == pytest.approx(np.vdot(g, V), rel=1e-12)


def test_pullback_and_linear_map_are_linear():
    pullback, linear = cr.vjp(mixture, X)[1], cr.linearize(mixture, X)[1]
    ct2, v2 = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 4))
    np.testing.assert_allclose(pullback(2 * CT - 3 * ct2)[0], 2 * pullback(CT)[0] - 3 * pullback(ct2)[0], rtol=1e-11)
    np.testing.assert_allclose(linear(2 * V - 3 * v2), 2 * linear(V) - 3 * linear(v2), rtol=1e-11)


def test_complex_step_is_met_to_the_last_digits():
    def f(xp, x):
        return xp.exp(x[0] * x[1]) * xp.sin(x[1]) / (x[2] * x[2] + 1.0)

    x, v = np.array([0.3, -0.7, 1.2]), np.array([1.0, 2.0, -0.5])
    expected = complex_step(lambda z: f(np, z), x, v)
    assert cr.jvp(lambda t: f(cr, t), (x,), (v,))[1] == pytest.approx(expected, rel=1e-14)
    assert cr.grad(lambda t: f(cr, t))(x) @ v == pytest.approx(expected, rel=1e-14)


def test_forward_over_reverse_over_forward():
    """Four ways to H v, and third derivatives from any order of modes."""
    f = sum_of(mixture)
    slope = difference(cr.grad(f), X, V)
    ways = [
        cr.hvp(f, X, V),
        cr.jvp(cr.grad(f), (X,), (V,))[1],
        cr.grad(lambda x: cr.jvp(f, (x,), (V,))[1])(X),
        cr.grad(lambda x: reductions.sum(cr.grad(f)(x) * V))(X),
        (cr.hessian(f)(X).reshape(8, 8) @ V.ravel()).reshape(2, 4),
    ]
    for way in ways:
        np.testing.assert_allclose(way, slope, rtol=1e-6, atol=1e-8)
    second = cr.jvp(lambda x: cr.jvp(f, (x,), (V,))[1], (X,), (V,))[1]
    assert second == pytest.approx(np.vdot(V, slope), rel=1e-7)


def test_third_derivatives_in_all_eight_modes():
    def d_reverse(f):
        return lambda x: cr.grad(f)(x)

    def d_forward(f):
        return lambda x: cr.jvp(f, (x,), (1.0,))[1]

    for modes in range(8):
        f = lambda x: cr.exp(x * x) * cr.sin(x)
        for k in range(3):
            f = (d_reverse, d_forward)[modes >> k & 1](f)
        z = 0.3  # Leibniz: (e^(z^2))''' sin + 3 (..)'' cos - 3 (..)' sin - (..) cos
        e = np.exp(z * z)
        e1, e2, e3 = 2 * z * e, (4 * z * z + 2) * e, (8 * z**3 + 12 * z) * e
        expected = e3 * np.sin(z) + 3 * e2 * np.cos(z) - 3 * e1 * np.sin(z) - e * np.cos(z)
        assert f(z) == pytest.approx(expected, rel=1e-12), modes


def test_perturbations_are_not_confused():
    """d/dx x * d/dy (x + y) = 1; d/dx (d/dy x y^2 at y = x) = 4x: all nestings of the two modes."""
    d = [lambda f: lambda x: cr.grad(f)(x), lambda f: lambda x: cr.jvp(f, (x,), (1.0,))[1]]
    for outer in d:
        for inner in d:
            assert outer(lambda x, inner=inner: x * inner(lambda y: x + y)(1.0))(1.0) == 1.0
            assert outer(lambda x, inner=inner: x * inner(lambda y: x + y)(x))(1.0) == 1.0
            assert outer(lambda x, inner=inner: inner(lambda y: x * y * y)(x))(3.0) == 12.0
            assert outer(lambda x, inner=inner: inner(lambda y: x * y)(2.0) * x)(3.0) == 6.0


def test_jacobian_of_wide_and_of_tall_functions():
    """One walk per entry of whatever is smaller, and the same numbers."""
    A = RNG.normal(size=(5, 3))
    x, y = RNG.normal(size=3), RNG.normal(size=5)
    np.testing.assert_allclose(
        cr.jacobian(lambda x: cr.tanh(linalg.matmul(A, x)))(x), (1 - np.tanh(A @ x) ** 2)[:, None] * A
    )
    np.testing.assert_allclose(
        cr.jacobian(lambda y: cr.tanh(linalg.matmul(y, A)))(y), (1 - np.tanh(y @ A) ** 2)[:, None] * A.T
    )
    np.testing.assert_allclose(
        cr.jacobian(mixture)(X).reshape(6, 8) @ V.ravel(), difference(value, X, V).ravel(), atol=1e-7
    )


def test_jacobian_shapes_are_those_of_y_then_x():
    j = cr.jacobian(lambda x: linalg.matmul(np.ones((5, 2)), x))(np.zeros((2, 3)))
    assert j.shape == (5, 3, 2, 3)
    np.testing.assert_array_equal(j, np.einsum("ik,jl->ijkl", np.ones((5, 2)), np.eye(3)))
    assert cr.jacobian(lambda x: x * np.ones(4))(2.0).shape == (4,)
    assert cr.jacobian(lambda x: x * x)(2.0) == 4.0
    assert cr.jacobian(lambda x: x[:0])(np.ones(3)).shape == (0, 3)


def test_hessian_of_a_quadratic_form_and_its_symmetry():
    A = RNG.normal(size=(4, 4))
    h = cr.hessian(lambda x: linalg.matmul(x, linalg.matmul(A, x)))(RNG.normal(size=4))
    np.testing.assert_allclose(h, A + A.T, rtol=1e-12)
    full = cr.hessian(sum_of(mixture))(X).reshape(8, 8)
    np.testing.assert_allclose(full, full.T, rtol=1e-10, atol=1e-12)


def test_hessian_blocks_of_trees_and_of_several_arguments():
    h = cr.hessian(lambda p: p["a"] * p["a"] * reductions.sum(p["b"]))({"a": 3.0, "b": np.array([1.0, 2.0]), "n": 7})
    assert h["a"]["a"] == 6.0
    assert h["a"]["n"] is None
    assert h["n"] is None
    np.testing.assert_array_equal(h["a"]["b"], [6.0, 6.0])
    np.testing.assert_array_equal(h["b"]["a"], [6.0, 6.0])
    np.testing.assert_array_equal(h["b"]["b"], np.zeros((2, 2)))
    assert cr.hessian(lambda x, y: x * x * y, (0, 1))(2.0, 5.0) == ((10.0, 4.0), (4.0, 0.0))


def test_a_linear_function_has_a_zero_hessian():
    np.testing.assert_array_equal(cr.hessian(lambda x: reductions.sum(2.0 * x))(np.ones(3)), np.zeros((3, 3)))
    np.testing.assert_array_equal(cr.hvp(reductions.sum, np.ones(3), np.ones(3)), np.zeros(3))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # by PyTorch, about itself
def test_torch_agrees():
    torch = peer("torch")

    def g(x):
        return (
            torch.tanh(x @ torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)) * torch.exp(x[:, :3])
        ).sum()

    def f(x):
        return reductions.sum(cr.tanh(linalg.matmul(x, np.linspace(-1, 1, 12).reshape(4, 3))) * cr.exp(x[:, :3]))

    x, v = torch.tensor(X), torch.tensor(V)
    np.testing.assert_allclose(cr.grad(f)(X), torch.func.grad(g)(x), rtol=1e-12)
    np.testing.assert_allclose(cr.hessian(f)(X), torch.func.hessian(g)(x), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(cr.hvp(f, X, V), torch.func.jvp(torch.func.grad(g), (x,), (v,))[1], rtol=1e-11)


def test_jax_agrees():
    jax = peer("jax")
    jnp = jax.numpy

    def g(x):
        return (jnp.sin(x[0] * x[1]) + jnp.logaddexp(x[1], x[2]) * jnp.sqrt(x[0])).sum()

    def f(x):
        return cr.sin(x[0] * x[1]) + cr.logaddexp(x[1], x[2]) * cr.sqrt(x[0])

    x = np.array([0.8, -0.3, 0.6])
    with jax.enable_x64(True):
        np.testing.assert_allclose(cr.grad(f)(x), jax.grad(g)(x), rtol=1e-12)
        np.testing.assert_allclose(cr.hessian(f)(x), jax.hessian(g)(x), rtol=1e-12, atol=1e-15)
        third = cr.jacobian(cr.hessian(f))(x)
        np.testing.assert_allclose(third, jax.jacfwd(jax.hessian(g))(x), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "Newton-CG", "trust-ncg", "trust-exact", "CG"])
def test_scipy_takes_the_functions_as_they_stand(method):
    optimize = pytest.importorskip("scipy.optimize")
    x0 = np.where(np.arange(50) % 2, 1.0, -1.2)
    how = {}
    if method in ("Newton-CG", "trust-ncg"):
        how["hessp"] = lambda x, v: cr.hvp(rosenbrock, x, v)
    if method == "trust-exact":
        how["hess"] = cr.hessian(rosenbrock)
    found = optimize.minimize(
        cr.value_and_grad(rosenbrock), x0, jac=True, method=method, tol=1e-8, options={"maxiter": 2000}, **how
    )
    # from this start the function has a second, local minimum with x[0] near -1 (value about 3.99)
    assert np.max(np.abs(cr.grad(rosenbrock)(found.x))) < 1e-3
    assert np.all(np.linalg.eigvalsh(cr.hessian(rosenbrock)(found.x)) > 0)
    assert found.fun == pytest.approx(0.0, abs=1e-6) or found.fun == pytest.approx(3.98, abs=0.05)


def test_rosenbrock_against_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    x, v = RNG.normal(size=50), RNG.normal(size=50)
    y, g = cr.value_and_grad(rosenbrock)(x)
    assert y == pytest.approx(optimize.rosen(x), rel=1e-13)
    np.testing.assert_allclose(g, optimize.rosen_der(x), rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(cr.hessian(rosenbrock)(x), optimize.rosen_hess(x), rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(cr.hvp(rosenbrock, x, v), optimize.rosen_hess_prod(x, v), rtol=1e-11, atol=1e-9)
