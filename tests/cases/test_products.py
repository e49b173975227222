"""L: products of matrices, vectors and stacks of them, and einsum, against loops over NumPy numbers."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from tests.cases.ways import (
    by_backward,
    by_hessian,
    complex_step,
    complex_step_of_differences,
    derivatives_are,
    leaf,
    reverse_over_reverse,
)

RNG = np.random.default_rng(14)


# ---------------------------------------------------------------- L1
def test_l1_matrix_and_vector():
    A, b = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0])
    derivatives_are(lambda A: (A @ b).sum(), A, [[1, 2, 3], [1, 2, 3]], 0.0)
    derivatives_are(lambda b: (A @ b).sum(), b, [3, 5, 7], 0.0)
    c = np.array([1.0, 2.0])
    derivatives_are(lambda A: (c @ A).sum(), A, [[1, 1, 1], [2, 2, 2]], 0.0)
    derivatives_are(lambda c: (c @ A).sum(), c, [3, 12], 0.0)
    derivatives_are(lambda b: b @ b, b, 2 * b, 2 * np.eye(3))
    S = RNG.normal(size=(3, 3))
    derivatives_are(lambda b: b @ S @ b, b, (S + S.T) @ b, S + S.T)
    derivatives_are(lambda b: ((A @ b) ** 2).sum(), b, 2 * A.T @ A @ b, 2 * A.T @ A)


SPELLINGS = {
    "@": lambda a, b: a @ b,
    "matmul": cr.matmul,
    "np.matmul": np.matmul,
    "dot": lambda a, b: a.dot(b) if a.ndim <= 2 and b.ndim <= 2 else a @ b,
    "einsum": lambda a, b: cr.einsum(
        ("i" if a.ndim == 1 else "...mi") + "," + ("i" if b.ndim == 1 else "...in")
        + "->" + "..." + ("" if a.ndim == 1 else "m") + ("" if b.ndim == 1 else "n"), a, b,
    ),
}  # fmt: skip


def products(a, b):
    """The matrix product by a loop over every entry."""
    return np.asarray(np.matmul(a, b))  # NumPy's, in complex numbers: independent of our rules


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    ("p", "q"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2)),
     ((2, 1, 3), (3, 2)), ((1, 3), (2, 3, 1)), ((2, 1, 1, 3), (3, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 2)), ((0,), (0,)),
     ((1, 1), (1, 1)), ((1,), (1,))],
)  # fmt: skip
def test_l1_every_pair_of_kinds(p, q, spelling):
    a, b = RNG.normal(size=p), RNG.normal(size=q)
    product = SPELLINGS[spelling]
    weights = RNG.normal(size=products(a, b).shape)
    n = a.size
    z = np.concatenate([a.ravel(), b.ravel()])
    ours = lambda z: (product(z[:n].reshape(p), z[n:].reshape(q)) * weights).sum()
    raw = lambda z: (products(z[:n].reshape(p), z[n:].reshape(q)) * weights).sum()
    t, u = leaf(a), leaf(b)
    y = product(t, u)
    assert y.shape == weights.shape
    (y * weights).sum().backward()
    expected = complex_step(raw, z)
    np.testing.assert_allclose(t.grad, expected[:n].reshape(p), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(u.grad, expected[n:].reshape(q), rtol=1e-12, atol=1e-14)
    if 0 < z.size < 13:
        second = complex_step_of_differences(raw, z, 1.0)  # exact: the product is bilinear
        derivatives_are(ours, z, expected, second, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtypes", [(np.float32, np.float64), (np.float64, np.float32), (np.float32, np.int64)])
def test_l1_mixed_dtypes_and_plain_arrays_on_either_side(dtypes):
    a, b = np.ones((2, 3), dtypes[0]), np.ones((3, 2), dtypes[1])
    t = leaf(a)
    for y in (t @ b, t @ cr.tensor(b), np.matmul(t, b)):
        assert y.dtype == np.result_type(a, b)
        assert cr.gradients(y.sum(), t).dtype == a.dtype
    u = leaf(a)
    y = b.T @ u.T
    assert isinstance(y, cr.Tensor)
    y.sum().backward()
    assert u.grad.tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize(
    ("p", "q"),
    [((2, 3), (2, 3)), ((3,), (2,)), ((2, 3), (2,)), ((2,), (3, 2)), ((2, 2, 3), (3, 3, 2)), ((), (3,)), ((3,), ())],
)
def test_l1_shapes_that_do_not_fit_are_named(p, q):
    with pytest.raises(ValueError, match="matmul") as caught:
        cr.tensor(np.ones(p)) @ cr.tensor(np.ones(q))
    assert isinstance(caught.value, cr.errors.ShapeError)
    for shape in (p, q):
        assert f"f64{list(shape)}" in str(caught.value)


def test_l1_other_products_with_vectors():
    u, v = RNG.normal(size=3), RNG.normal(size=3)
    derivatives_are(lambda u: cr.outer(u, v).sum(), u, v.sum(), 0.0)
    derivatives_are(
        lambda u: (cr.outer(u, u) ** 2).sum(), u, 4 * u * (u @ u), 4 * ((u @ u) * np.eye(3) + 2 * np.outer(u, u))
    )
    derivatives_are(lambda u: cr.vecdot(u, v), u, v, 0.0)
    derivatives_are(lambda u: cr.vecdot(u, u), u, 2 * u, 2 * np.eye(3))
    derivatives_are(lambda u: cr.tensordot(u, v, axes=1), u, v, 0.0)
    derivatives_are(lambda u: cr.tensordot(u, v, axes=0).sum(), u, v.sum(), 0.0)
    derivatives_are(lambda u: np.dot(u, v), u, v, 0.0)


# ---------------------------------------------------------------- L3
def test_l3_einsum_summing_several_axes_away():
    x = np.arange(8.0).reshape(2, 2, 2, 1)
    f = lambda x: (cr.einsum("abcd->bd", x) ** 2).sum()
    assert by_backward(f, x).ravel().tolist() == [20, 20, 36, 36, 20, 20, 36, 36]
    second = np.array([[2.0 if i // 2 % 2 == j // 2 % 2 else 0.0 for j in range(8)] for i in range(8)])
    derivatives_are(f, x, np.array([20, 20, 36, 36, 20, 20, 36, 36.0]).reshape(x.shape), second)
    derivatives_are(lambda x: (np.einsum("abcd->bd", x) ** 2).sum(), x, by_backward(f, x), second)


ALL = [
    "abc->b", "abc->", "abc->cab", "abc->ca", "abc", "aa->a", "aa->", "aa", "aba->b", "aba->ab", "aab->", "abab->ab", "aaa->a",
    "ab,bc->ac", "ab,bc", "ab,bc->", "ab,ab->ab", "ab,ab->", "ab,ba->a", "a,b->ab", "a,b->ba", "a,b->", "a,b->a", "ab,c->b",
    "aa,a->a", "aa,b->ab", "ab,a->ab", "ab,a->", "abc,abd->acd", "abc,abd->", "...a,ab->...b", "...ab,...b->...a", "a...,a...->...",
    "ab,bc,cd->ad", "a,b,c->abc", "a,b,c->", "a,ab,b->", "ab,ab,ab->a", "a,a,a->", ",a->a", ",->", "a,->a", "ii,ii->i", "aab,ab->b",
]  # fmt: skip
SIZES = {".": 2, "a": 2, "b": 3, "c": 2, "d": 2, "i": 2}


@pytest.mark.parametrize("subscripts", ALL)
def test_l3_every_pattern(subscripts):
    terms = subscripts.split("->")[0].split(",")
    shapes = [tuple(SIZES[m] for m in term.replace("...", ".")) for term in terms]
    xs = [RNG.normal(size=shape) for shape in shapes]
    cuts = np.cumsum([0, *[x.size for x in xs]])
    weights = RNG.normal(size=np.einsum(subscripts, *xs).shape)

    def f(einsum, z):
        parts = [z[i:j].reshape(x.shape) for i, j, x in zip(cuts[:-1], cuts[1:], xs, strict=True)]
        return (einsum(subscripts, *parts) * weights).sum()

    z = np.concatenate([x.ravel() for x in xs])
    raw = lambda z: f(np.einsum, z)
    expected = complex_step(raw, z)
    second = complex_step_of_differences(raw, z, 1e-3)  # at most trilinear: exact up to rounding
    for name, einsum in (("cr", cr.einsum), ("np", np.einsum)):
        got = by_backward(lambda z, e=einsum: f(e, z), z)
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13, err_msg=name)
    np.testing.assert_allclose(reverse_over_reverse(lambda z: f(cr.einsum, z), z), second, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(by_hessian(lambda z: f(cr.einsum, z), z), second, rtol=1e-8, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_l3_any_subscripts(data):
    terms = data.draw(st.lists(st.text("abc", min_size=0, max_size=3), min_size=1, max_size=3))
    letters = sorted(set("".join(terms)))
    output = "".join(data.draw(st.permutations(letters)))[: data.draw(st.integers(0, len(letters)))]
    sizes = {letter: data.draw(st.integers(0, 3)) for letter in letters}
    subscripts = ",".join(terms) + "->" + output
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    xs = [rng.normal(size=tuple(sizes[m] for m in term)) for term in terms]
    weights = rng.normal(size=np.einsum(subscripts, *xs).shape)
    tensors = [leaf(x) for x in xs]
    y = cr.einsum(subscripts, *tensors)
    np.testing.assert_allclose(y.data, np.einsum(subscripts, *xs), rtol=1e-12, atol=1e-13)
    (y * weights).sum().backward()
    for k, t in enumerate(tensors):
        raw = lambda x, k=k: (np.einsum(subscripts, *xs[:k], x, *xs[k + 1 :]) * weights).sum()
        np.testing.assert_allclose(t.grad, complex_step(raw, xs[k]), rtol=1e-11, atol=1e-12)


# ---------------------------------------------------------------- L5
def test_l5_einsum_outer_product():
    a, b = np.ones(3), np.full(4, 2.0)
    derivatives_are(lambda b: cr.einsum("i,j->ij", a, b).sum(), b, 3.0, 0.0)
    derivatives_are(lambda a: cr.einsum("i,j->ij", a, b).sum(), a, 8.0, 0.0)
    derivatives_are(lambda b: (cr.einsum("i,j->ij", a, b) ** 2).sum(), b, 12.0, 6 * np.eye(4))
    for outer in (cr.outer, np.outer, lambda a, b: np.einsum("i,j->ij", a, b)):
        derivatives_are(lambda b, outer=outer: outer(a, b).sum(), b, 3.0, 0.0)
    with pytest.raises(TypeError, match=r"np\.multiply\.outer"):  # not mapped, and never detached
        np.multiply.outer(a, leaf(b))


@pytest.mark.parametrize("ask", [
    lambda y, t: y.backward(), lambda y, t: cr.gradients(y, t), lambda y, t: cr.grad(lambda b: cr.einsum("i,j->ij", np.ones(3), b))(t.data),
])  # fmt: skip
def test_l5_an_output_that_is_no_scalar_asks_for_an_upstream_gradient(ask):
    t = leaf(np.full(4, 2.0))
    y = cr.einsum("i,j->ij", np.ones(3), t)
    with pytest.raises(cr.errors.ShapeError, match=r"f64\[3, 4\].*cotangent"):
        ask(y, t)
    assert t.grad is None
    y.backward(np.ones((3, 4)))
    assert t.grad.tolist() == [3.0] * 4


def test_l5_the_same_operand_twice():
    x = RNG.normal(size=(2, 2))
    derivatives_are(lambda x: cr.einsum("ij,ij->", x, x), x, 2 * x, 2 * np.eye(4))
    trace = lambda x: np.einsum("ij,ji->", x, x)
    derivatives_are(
        lambda x: cr.einsum("ij,ji->", x, x), x, 2 * x.T, complex_step_of_differences(trace, x, 1.0), rtol=1e-9
    )


@pytest.mark.parametrize("arguments", [
    ("ab,bc->ac", (2, 3), (4, 2)), ("ab->abc", (2, 3)), ("ab,b", (2, 3)), ("abc", (2, 3)), ("a->aa", (2,)), ("a$->a", (2, 2)),
    ("aa->a", (2, 3)),
])  # fmt: skip
def test_l5_wrong_subscripts_are_named(arguments):
    subscripts, *shapes = arguments
    with pytest.raises(ValueError, match="einsum") as caught:
        cr.einsum(subscripts, *[cr.tensor(np.ones(s)) for s in shapes])
    assert isinstance(caught.value, cr.errors.ChainruleError)


@settings(max_examples=30, deadline=None)
@given(
    arrays.array_shapes(min_dims=1, max_dims=3, max_side=3),
    arrays.array_shapes(min_dims=1, max_dims=3, max_side=3),
    st.data(),
)
def test_l_tensordot_of_any_axes(p, q, data):
    count = data.draw(st.integers(0, min(len(p), len(q))))
    i = data.draw(st.permutations(range(len(p))))[:count]
    j = data.draw(st.permutations(range(len(q))))[:count]
    q = tuple(p[i[j.index(k)]] if k in j else n for k, n in enumerate(q))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    a, b = rng.normal(size=p), rng.normal(size=q)
    weights = rng.normal(size=np.tensordot(a, b, (i, j)).shape)
    t, u = leaf(a), leaf(b)
    (cr.tensordot(t, u, (i, j)) * weights).sum().backward()
    np.testing.assert_allclose(
        t.grad, complex_step(lambda a: (np.tensordot(a, b, (i, j)) * weights).sum(), a), rtol=1e-11, atol=1e-12
    )
    np.testing.assert_allclose(
        u.grad, complex_step(lambda b: (np.tensordot(a, b, (i, j)) * weights).sum(), b), rtol=1e-11, atol=1e-12
    )
