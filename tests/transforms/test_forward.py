"""The forward walk by itself: families, zero tangents, many inputs and outputs, long chains."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.graph import next_number, reach_newer
from chainrule.core.primitive import PRIMITIVES, Primitive, primitive
from chainrule.errors import GraphError
from chainrule.ops import families, linalg, reductions, views
from chainrule.walks import forward, reverse
from tests.transforms.formulas import difference

RNG = np.random.default_rng(3)


def tangent(f, x, t):
    with np.errstate(divide="ignore"):
        return cr.jvp(f, (x,), (t,))[1]


def test_a_zero_tangent_stays_zero():
    """No 0/0 and no 0*inf, where the reverse walk gives zero, too; and the entries beside are right."""
    assert tangent(cr.sqrt, np.array([0.0, 4.0]), np.array([0.0, 1.0])).tolist() == [0.0, 0.25]
    assert tangent(cr.log, np.array([0.0, 4.0]), np.array([0.0, 1.0])).tolist() == [0.0, 0.25]
    assert tangent(lambda x: 1.0 / x, np.array([0.0, 2.0]), np.array([0.0, 1.0])).tolist() == [0.0, -0.25]
    assert np.isinf(tangent(cr.sqrt, 0.0, 1.0))


W_CASES = [
    # W1: overflow in the branch not taken; W3-like: a root at 0 that is not selected; logarithm of a negative number
    (lambda a: cr.where(a <= 0, cr.exp(a), 1.0 + a), [1000.0, -1.0], [1.0, np.exp(-1.0)], [0.0, np.exp(-1.0)]),
    (lambda a: cr.where(a > 0.5, cr.sqrt(a), 1.0), [4.0, 0.0], [0.25, 0.0], [-1 / 32, 0.0]),
    (lambda a: cr.where(a > 0.0, cr.log(cr.sqrt(a)), a * 3.0), [-1.0, 4.0], [3.0, 0.125], [0.0, -1 / 32]),
    (lambda a: cr.where(a > 2.0, cr.log(a), 2.0 * a), [0.0, 3.0], [2.0, 1 / 3], [0.0, -1 / 9]),
    # K10: the absolute value at both zeros
    (cr.abs, [0.0, -0.0, -2.0], [0.0, 0.0, -1.0], [0.0, 0.0, 0.0]),
]


@pytest.mark.parametrize(("f", "x", "first", "second"), W_CASES)
def test_branches_not_taken_in_every_mode_and_to_second_order(f, x, first, second):
    x = np.array(x)
    one = np.ones_like(x)
    total = lambda x: reductions.sum(f(x))
    with np.errstate(all="ignore"):
        ways_1 = [cr.grad(total)(x), tangent(f, x, one)]
        ways_2 = [
            cr.hvp(total, x, one),
            tangent(cr.grad(total), x, one),
            tangent(lambda x: tangent(f, x, one), x, one),
            cr.grad(lambda x: reductions.sum(tangent(f, x, one)))(x),
            cr.grad(lambda x: reductions.sum(cr.grad(total)(x)))(x),
        ]
    for way in ways_1:
        np.testing.assert_allclose(way, first, rtol=1e-14)
    for way in ways_2:
        np.testing.assert_allclose(way, second, rtol=1e-14)


def test_norm_of_rows_then_where_second_order():
    """Case W3: the last row is zero and replaced by 1; Hessian x/n: (I - x x'/n^2)/n for the others."""
    x = np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]])

    def f(x):
        n = cr.sqrt(reductions.sum(x * x, axis=1))
        return reductions.sum(cr.where(n > 0.5, n, 1.0))

    n = np.linalg.norm(x, axis=1, keepdims=True)
    expected = np.zeros((3, 2, 3, 2))
    for k in range(2):
        expected[k, :, k] = (np.eye(2) - np.outer(x[k], x[k]) / n[k] ** 2) / n[k]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(cr.grad(f)(x), np.where(n > 0.5, x / np.where(n > 0, n, 1), 0.0), rtol=1e-15)
        np.testing.assert_allclose(cr.hessian(f)(x), expected, rtol=1e-12, atol=1e-15)


def test_an_accidental_zero_keeps_its_derivative():
    """d/dk of sum d/dx k log x = sum 1/x at k = 0, where the cotangent of log is zero."""
    slope = lambda k: reductions.sum(cr.grad(lambda x: reductions.sum(k * cr.log(x)))(np.array([2.0, 4.0])))
    assert cr.grad(slope)(0.0) == 0.75
    assert tangent(slope, 0.0, 1.0) == 0.75


def test_tangents_take_shape_and_dtype_of_the_value():
    t = tangent(lambda x: x + np.zeros((3, 2)), np.float32(1.0), np.float32(2.0))
    np.testing.assert_array_equal(t, np.full((3, 2), 2.0))
    assert t.dtype == np.float64
    t = tangent(lambda x: views.astype(x * 2.0, np.float32), np.ones(2), np.ones(2))
    assert t.dtype == np.float32
    assert (
        tangent(lambda x: views.astype(x, np.float64) * 2.0, np.ones(2, np.float32), np.ones(2, np.float32)).dtype
        == np.float64
    )


def test_integer_results_have_zero_tangents():
    t = tangent(lambda x: cr.floor(x) + cr.sign(x), np.array([1.5, -2.5]), np.ones(2))
    assert t.tolist() == [0.0, 0.0]


def test_a_chain_of_a_hundred_thousand():
    def f(x):
        for _ in range(100_000):
            x = x + 1.0
        return x * x

    assert tangent(f, 1.0, 1.0) == 2 * 100_001.0


@pytest.fixture
def record():
    """Declare records of all kinds; nothing is left in the table of the library."""
    return lambda *of, **how: primitive(f"test_{next_number()}", *of, **how, listed=False)


def test_general_family_pushes_by_transposition(record):
    def rule(ct, out):  # softmax over the last axis
        return out * (ct - reductions.sum(ct * out, axis=-1, keepdims=True))

    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    op = record(families.ALONG_AXIS, [rule], forward=lambda x, axis: softmax(x), parameters="axis")
    x, t = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))
    np.testing.assert_allclose(tangent(lambda x: op(x, -1), x, t), difference(softmax, x, t), atol=1e-9)
    composed = lambda x: cr.exp(x) / reductions.sum(cr.exp(x), axis=-1, keepdims=True)
    weigh = lambda f: lambda x: reductions.sum(f(x) * np.arange(6.0).reshape(2, 3))
    np.testing.assert_allclose(
        cr.hessian(weigh(lambda x: op(x, -1)))(x), cr.hessian(weigh(composed))(x), rtol=1e-10, atol=1e-12
    )


def test_transposition_does_not_walk_the_whole_graph(monkeypatch):
    """Residuals are tied to everything before: a recorded chain of n would take n^2 steps."""
    op = primitive("test_chain", families.GENERAL, [lambda ct, out: ct * out], forward=np.exp, listed=False)
    passed = []

    def counted(roots, since):
        nodes = reach_newer(roots, since)
        passed.append(len(nodes))
        return nodes

    monkeypatch.setattr(reverse, "reach_newer", counted)

    def f(x):
        for _ in range(50):
            x = op(x) * 0.1
        return x

    cr.grad(lambda x: tangent(f, x, 1.0))(0.5)
    assert len(passed) >= 50
    assert max(passed) <= 2


def test_several_inputs_linear_bilinear_and_variadic(record):
    def rule(ct, index):
        return ct * (index + 1.0)

    weighted = lambda *xs: sum((k + 1.0) * x for k, x in enumerate(xs))
    many = record(families.LINEAR, [rule], inputs="*xs", forward=lambda xs: weighted(*xs))
    xs, ts = RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2))
    np.testing.assert_allclose(cr.jvp(lambda *xs: many(xs), tuple(xs), tuple(ts))[1], weighted(*ts))
    np.testing.assert_allclose(cr.jvp(lambda a, b: many([a, b, xs[2]]), tuple(xs[:2]), (None, ts[1]))[1], 2 * ts[1])
    one = lambda ct: ct
    subtract = record(families.LINEAR, [one, lambda ct: -ct], inputs="x y", forward=np.subtract)
    assert cr.jvp(subtract, (5.0, 3.0), (1.0, 10.0)) == (2.0, -9.0)
    assert cr.jvp(subtract, (5.0, 3.0), (None, 10.0)) == (2.0, -10.0)
    assert cr.jvp(lambda x: subtract(4.0, x), (3.0,), (10.0,)) == (1.0, -10.0)
    a, b, ta, tb = RNG.normal(size=(4, 3, 3))
    np.testing.assert_allclose(cr.jvp(linalg.matmul, (a, b), (ta, tb))[1], ta @ b + a @ tb)
    np.testing.assert_allclose(cr.jvp(linalg.matmul, (a, b), (None, tb))[1], a @ tb)
    np.testing.assert_allclose(cr.jvp(lambda a: linalg.matmul(a, a), (a,), (ta,))[1], ta @ a + a @ ta)
    np.testing.assert_allclose(cr.jvp(linalg.matmul, (a, np.stack([b, b])), (ta, None))[1], np.stack([ta @ b, ta @ b]))


def test_several_outputs_linear_and_general(record):
    halves = record(
        families.LINEAR,
        [lambda ct: _joined(ct, 2)],
        forward=lambda x: (x[:2], x[2:]),
        multiple=True,
    )
    x, t = np.arange(4.0), RNG.normal(size=4)
    y, s = cr.jvp(lambda x: halves(x), (x,), (t,))
    np.testing.assert_array_equal(np.concatenate(s), t)
    assert [v.tolist() for v in y] == [[0.0, 1.0], [2.0, 3.0]]
    np.testing.assert_array_equal(tangent(lambda x: halves(x)[1] * 3.0, x, t), 3 * t[2:])
    np.testing.assert_array_equal(cr.grad(lambda x: reductions.sum(halves(x)[1] * 3.0))(x), [0.0, 0.0, 3.0, 3.0])

    def rule(ct, x, out):  # (x^2, e^x)
        square = 0.0 if ct[0] is None else ct[0] * 2.0 * x
        return square if ct[1] is None else square + ct[1] * cr.exp(x)

    both = record(families.GENERAL, [rule], forward=lambda x: (x * x, np.exp(x)), multiple=True)
    assert cr.jvp(both, (3.0,), (2.0,))[1] == (12.0, 2 * np.exp(3.0))
    assert tangent(lambda x: both(x)[1], 3.0, 2.0) == 2 * np.exp(3.0)
    assert cr.hessian(lambda x: both(x)[0] * both(x)[1])(1.0) == pytest.approx(7 * np.e, rel=1e-14)  # (x^2 e^x)''


def _joined(cts, n):
    rows = [np.eye(2 * n)[:n], np.eye(2 * n)[n:]]
    pieces = [linalg.matmul(ct, r) for ct, r in zip(cts, rows, strict=True) if ct is not None]
    return pieces[0] if len(pieces) == 1 else pieces[0] + pieces[1]


def test_linearize_runs_the_function_once():
    calls = []

    def f(x):
        calls.append(1)
        return cr.sin(x) * x

    _, linear = cr.linearize(f, 0.5)
    assert linear(1.0) * 2 == linear(2.0) == pytest.approx(2 * (np.cos(0.5) * 0.5 + np.sin(0.5)))
    assert len(calls) == 1


def test_every_family_says_how_it_pushes():
    assert {p.family.push for p in PRIMITIVES.values()} <= set(forward._PUSHES)
    assert all(isinstance(p, Primitive) for p in PRIMITIVES.values())


def test_case_g1_reused_values():
    def f(a):
        b = a + a
        return b + b

    assert (cr.grad(f)(1.0), cr.jvp(f, (1.0,), (1.0,))[1]) == (4.0, 4.0)
    assert (cr.grad(lambda x: x * x + x)(2.0), cr.jvp(lambda x: x * x + x, (2.0,), (1.0,))[1]) == (5.0, 5.0)


def test_case_h5_an_array_built_from_entries():
    f = lambda th: cr.tensor([[th[0], th[1]], [th[2], th[3]]], dtype=np.float64)
    th = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(cr.jacobian(f)(th), np.eye(4).reshape(2, 2, 4))
    np.testing.assert_array_equal(cr.jvp(f, (th,), (2 * th,))[1], 2 * th.reshape(2, 2))
    with pytest.raises(GraphError, match="detach"):
        cr.grad(lambda th: reductions.sum(np.array([[th[0], th[1]], [th[2], th[3]]])))(th)
