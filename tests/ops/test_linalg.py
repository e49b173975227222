"""Products, against differences, closed forms, NumPy's einsum and PyTorch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule.backends.abstract import Abstract
from chainrule.core.equations import tracing
from chainrule.errors import ArgumentError, ShapeError
from chainrule.ops.linalg import cross, kron, outer, tensordot, trace, vecdot
from tests.ops import derivatives
from tests.ops.derivatives import gradient, hessian

A = np.arange(6.0).reshape(2, 3)
B = np.array([1.0, 2.0, 3.0])
RNG = np.random.default_rng(0)


def agrees(f, x, theirs=None):
    if np.size(x):
        return derivatives.agrees(f, x, theirs)
    expected = (theirs or f)(x)
    np.testing.assert_array_equal(f(cr.tensor(x)).data, expected)
    assert f(cr.tensor(x)).shape == np.shape(expected)
    assert gradient(f, x).shape == x.shape
    return None


# ---------------------------------------------------------------------------------------------------- matmul
def pair(f, x, y):
    x, y = cr.tensor(x, requires_grad=True), cr.tensor(y, requires_grad=True)
    return [g.tolist() for g in cr.gradients(f(x, y).sum(), [x, y])]


def test_l1_matrix_and_vector():
    assert pair(cr.matmul, A, B) == [[[1, 2, 3], [1, 2, 3]], [3, 5, 7]]
    assert pair(cr.matmul, [1.0, 2.0], A) == [[3, 12], [[1, 1, 1], [2, 2, 2]]]
    assert gradient(lambda b: b @ b, B).tolist() == [2, 4, 6]
    assert np.array_equal(hessian(lambda b: b @ b, B), 2 * np.eye(3))
    assert np.array_equal(hessian(lambda b: (A @ b) ** 2, B), 2 * A.T @ A)
    assert np.array_equal(hessian(lambda b: (b @ A) ** 2, np.array([1.0, 2.0])), 2 * A @ A.T)
    np.testing.assert_allclose(hessian(lambda a: (a @ B) ** 2, A), 2 * np.kron(np.eye(2), np.outer(B, B)))


SHAPES = [
    ((2, 3), (3, 4)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)), ((5, 2, 3), (5, 3, 2)), ((2, 3), (5, 3, 2)), ((2, 1, 2, 3), (4, 3, 2)), ((1, 2, 3), (4, 3, 2)),
    ((2, 2, 2, 3), (3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0,), (0,)), ((2, 0), (0,)), ((4, 0, 3), (3, 2)),
    ((0, 2, 3), (3, 2)), ((0, 2, 3), (0, 3, 2)), ((2, 3), (3, 0)), ((5, 2, 0), (0,)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_matmul(a, b):
    x, y = RNG.normal(size=a), RNG.normal(size=b)
    agrees(lambda x: x @ y, x)
    agrees(lambda y: x @ y, y)
    with tracing():
        assert cr.matmul(Abstract(a, x.dtype), Abstract(b, x.dtype)).shape == (x @ y).shape


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((64, 128), (64, 10), r"matmul: inner dimensions differ · x f64\[64, 128\] · y f64\[64, 10\], expected y f64\[128, ...\] · try x.mT"),
        ((2, 3), (4, 3), r"· x f64\[2, 3\] · y f64\[4, 3\], expected y f64\[3, ...\] · try y.mT"),
        ((2, 3), (2,), r"inner dimensions differ · x f64\[2, 3\] · y f64\[2\], expected y f64\[3\] · try x.mT"),
        ((4,), (2, 3), r"inner dimensions differ · x f64\[4\] · y f64\[2, 3\], expected y f64\[4, ...\]"),
        ((4,), (3,), r"inner dimensions differ · x f64\[4\] · y f64\[3\], expected y f64\[4\]"),
        ((5, 2, 3), (4, 3, 2), r"do not broadcast · x f64\[5, 2, 3\] · y f64\[4, 3, 2\], expected y f64\[5, 3, 2\]"),
        ((5, 2, 3), (4, 2), r"inner dimensions differ · x f64\[5, 2, 3\] · y f64\[4, 2\], expected y f64\[3, ...\]"),
        ((), (2, 3), r"a number is no matrix · x f64\[\] · y f64\[2, 3\] · try `\*`"),
    ],
)  # fmt: skip
def test_matmul_names_what_was_given(a, b, message):
    for x, y in (
        (cr.ones(a), cr.ones(b)),
        (cr.ones(a), np.ones(b)),
        (np.ones(a), cr.ones(b)),
        (np.ones(a), np.ones(b)),
    ):
        with pytest.raises(ShapeError, match=message):
            cr.matmul(x, y)


def test_matmul_in_float32_and_of_lists():
    x = cr.tensor(np.ones((2, 3), np.float32), requires_grad=True)
    y = x @ np.ones(3, np.float32)
    assert y.dtype == cr.gradients(y.sum(), x).dtype == np.float32
    assert cr.matmul([[1.0, 2.0]], [3.0, 4.0]).tolist() == [11.0]


# ---------------------------------------------------------------------------------------------------- the others
@pytest.mark.parametrize(("a", "b", "axis"), [((3,), (3,), -1), ((2, 3), (3,), -1), ((4, 1, 3), (2, 3), -1), ((3, 2), (3, 1), 0), ((2, 0), (0,), -1)])  # fmt: skip
def test_vecdot(a, b, axis):
    x, y = RNG.normal(size=a), RNG.normal(size=b)
    theirs = lambda x, y: np.sum(x * y, axis=axis)
    agrees(lambda x: vecdot(x, y, axis=axis), x, lambda x: theirs(x, y))
    agrees(lambda y: vecdot(x, y, axis=axis), y, lambda y: theirs(x, y))


def test_outer_trace_cross_kron():
    x, y = RNG.normal(size=3), RNG.normal(size=4)
    agrees(lambda x: outer(x, y), x, lambda x: np.outer(x, y))
    agrees(lambda x: outer(x, x), x, lambda x: np.outer(x, x))
    m = RNG.normal(size=(3, 4, 2))
    agrees(trace, m, np.trace)
    agrees(lambda m: trace(m, offset=1, axis1=1, axis2=2), m, lambda m: np.trace(m, 1, 1, 2))
    u, v = RNG.normal(size=(2, 3)), RNG.normal(size=3)
    agrees(lambda u: cross(u, v), u, lambda u: np.cross(u, v))
    agrees(lambda u: cross(v, u.T, axis=0) if u.ndim == 1 else cross(v, u), u, lambda u: np.cross(v, u))
    p, q = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 2))
    agrees(lambda p: kron(p, q), p, lambda p: np.kron(p, q))
    agrees(lambda p: kron(p[0], q), p, lambda p: np.kron(p[0], q))


@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [
        ((2, 3, 4), (3, 4, 5), 2), ((2, 3), (3, 2), 1), ((2, 3), (4,), 0), ((2, 3), (2, 3), 2), ((), (2,), 0),
        ((2, 3, 4), (4, 2, 5), ([0, 2], [1, 0])), ((2, 3), (3, 2), (1, 0)), ((2, 3), (3, 2), ([-1], [-2])), ((2, 0), (0, 3), 1),
    ],
)  # fmt: skip
def test_tensordot(a, b, axes):
    x, y = RNG.normal(size=a), RNG.normal(size=b)
    agrees(lambda x: tensordot(x, y, axes), x, lambda x: np.tensordot(x, y, axes))
    agrees(lambda y: tensordot(x, y, axes), y, lambda y: np.tensordot(x, y, axes))


def test_errors_of_the_others():
    x = cr.ones((2, 3))
    with pytest.raises(ShapeError, match="tensordot: axis 1 of x and axis 0 of y differ in length"):
        tensordot(x, x, 1)
    with pytest.raises(ArgumentError, match="3 axes are more than there are"):
        tensordot(x, x, 3)
    with pytest.raises(ArgumentError, match="are no pairs"):
        tensordot(x, x, ([0, 1], [0]))
    with pytest.raises(ArgumentError, match="named twice"):
        tensordot(x, x, ([0, 0], [0, 1]))
    with pytest.raises(ShapeError, match=r"outer: both operands are vectors · x f64\[2, 3\]"):
        outer(x, x)
    with pytest.raises(ShapeError, match="vecdot: lengths along axis -1 differ"):
        vecdot(x, cr.ones(2))
    with pytest.raises(ShapeError, match="three components"):
        cross(cr.ones(2), cr.ones(2))


# ---------------------------------------------------------------------------------------------------- einsum
def test_l3_several_axes_summed_away():
    g = gradient(lambda x: cr.einsum("abcd->bd", x) ** 2, np.arange(8.0).reshape(2, 2, 2, 1))
    assert g.ravel().tolist() == [20, 20, 36, 36, 20, 20, 36, 36]


def test_l5_outer_product():
    x, y = np.ones(3), np.full(4, 2.0)
    assert gradient(lambda y: cr.einsum("i,j->ij", x, y), y).tolist() == [3, 3, 3, 3]
    z = cr.einsum("i,j->ij", x, cr.tensor(y, requires_grad=True))
    with pytest.raises(ShapeError, match=r"try y.sum\(\), or an upstream gradient"):
        z.backward()


STRINGS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ba", (2, 3)), ("ii", (3, 3)), ("ii->i", (3, 3)), ("iij->j", (2, 2, 3)),
    ("iii->i", (2, 2, 2)), ("iijj->ij", (2, 2, 3, 3)), ("ijij", (2, 3, 2, 3)), ("ij->", (2, 3)), ("i,i", (3,), (3,)), ("i,i->i", (3,), (3,)),
    ("i,j,k->kji", (2,), (3,), (2,)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("ij,ij,ij->j", (2, 3), (2, 3), (2, 3)),
    ("ii,ij->j", (2, 2), (2, 3)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)), ("...ij,...jk->...ik", (4, 1, 2, 3), (2, 3, 2)),
    ("...i->...", (2, 3)), ("i...->...i", (2, 3, 2)), ("...,...", (2, 3), (3,)), ("...ii->...i", (3, 2, 2)), ("bhqd,bhkd->bhqk", (2, 1, 2, 3), (2, 1, 4, 3)),
    ("ij,k->ij", (2, 3), (4,)), ("ij,j->i", (2, 3), (1,)), ("ij,ij->ij", (2, 1), (1, 3)), ("i->i", (0,)), ("ij,jk->ik", (2, 0), (0, 3)),
    (" i j , j k -> i k ", (2, 3), (3, 2)), ("Ab,bA->A", (2, 3), (3, 2)), (",->", (), ()), ("i,->i", (3,), ()), ("ab,bc,ca->", (2, 3), (3, 2), (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("case", STRINGS, ids=lambda case: f"{case[0]}-{case[1:]}".replace("[", "").replace("]", ""))
def test_einsum(case):
    text, *shapes = case
    xs = [RNG.normal(size=shape) for shape in shapes]
    for k, x in enumerate(xs):
        others = xs[:k], xs[k + 1 :]
        agrees(
            lambda x, o=others: cr.einsum(text, *o[0], x, *o[1]),
            x,
            lambda x, o=others: np.einsum(text, *o[0], x, *o[1]),
        )
    with tracing():
        assert cr.einsum(text, *(Abstract(x.shape, x.dtype) for x in xs)).shape == np.einsum(text, *xs).shape


def test_one_operand_many_times():
    x = RNG.normal(size=(3, 3))
    agrees(lambda x: cr.einsum("ij,jk,ki->", x, x, x), x, lambda x: np.einsum("ij,jk,ki->", x, x, x))


def test_einsum_keeps_dtypes_and_kinds():
    for dtype in (np.float32, np.int32, np.int64):
        x = np.ones((2, 3), dtype)
        assert cr.einsum("ij->i", x).dtype == cr.einsum("ij,kj->ik", cr.tensor(x), x).dtype == dtype
    assert isinstance(cr.einsum("ij->i", np.ones((2, 3))), np.ndarray)
    assert cr.einsum("ij,j", [[1.0, 2.0]], [3.0, 4.0]).tolist() == [11.0]


@pytest.mark.parametrize(
    ("text", "shapes", "kind", "message"),
    [
        ("ij,jk->ik", [(2, 3), (4, 2)], ShapeError, r"label 'j' has length 3, but 4 in operand 1 · subscripts 'ij,jk->ik' · operand 0 \(2, 3\)"),
        ("ii", [(2, 3)], ShapeError, "label 'i' has length 2, but 3 in operand 0"),
        ("...i,...i", [(2, 3), (4, 3)], ShapeError, r"label `...` \(axis -1\) has length 2, but 4 in operand 1"),
        ("ij->ik", [(2, 3)], ArgumentError, "the output label 'k' is in no operand"),
        ("i->i", [(2, 3)], ShapeError, "operand 0 has 2 axes, 'i' names 1"),
        ("ijk", [(2, 3)], ShapeError, "operand 0 has 2 axes, 'ijk' names 3"),
        ("ij,jk", [(2, 3)], ArgumentError, "1 operands for 2 terms"),
        ("i,i->ii", [(2,), (2,)], ArgumentError, "a label comes twice in the output"),
        ("i1->i", [(2, 3)], ArgumentError, "subscripts are letters"),
        ("i->j->k", [(2,)], ArgumentError, "subscripts are letters"),
        ("...i->i", [(2, 3)], ArgumentError, "the output has to hold the axes of `...`"),
        ("i.j->i", [(2, 3)], ArgumentError, "subscripts are letters"),
    ],
)  # fmt: skip
def test_errors_of_einsum(text, shapes, kind, message):
    with pytest.raises(kind, match=message):
        cr.einsum(text, *map(np.ones, shapes))


def test_einsum_needs_its_subscripts():
    with pytest.raises(ArgumentError, match="the subscripts come first"):
        cr.einsum(np.ones(2), "i")


def test_the_cheapest_pair_meets_first():
    """A chain that ends in a vector must not multiply its matrices: 10^9 multiplications against 2 * 10^6."""
    a = np.ones((1000, 1000))
    assert cr.einsum("ij,jk,k->i", a, a, np.ones(1000))[0] == 1e6


SIZES = dict(zip("abcde", (2, 3, 1, 2, 4), strict=True))


@st.composite
def subscripts(draw):
    terms = draw(st.lists(st.text("abcde", max_size=3), min_size=1, max_size=3))
    present = sorted(set("".join(terms)))
    output = draw(st.permutations(present).flatmap(lambda p: st.integers(0, len(p)).map(lambda n: p[:n])))
    return ",".join(terms) + draw(st.sampled_from(["", "->" + "".join(output)]))


@settings(deadline=None)  # the first import of PyTorch
@given(subscripts())
def test_any_einsum(text):
    terms = text.partition("->")[0].split(",")
    rng = np.random.default_rng(len(text))
    xs = [rng.normal(size=[SIZES[label] for label in term]) for term in terms]
    expected = np.einsum(text, *xs)
    ts = [cr.tensor(x, requires_grad=True) for x in xs]
    y = cr.einsum(text, *ts)
    np.testing.assert_allclose(y.data, expected, rtol=1e-12, atol=1e-13)
    torch = pytest.importorskip("torch")
    theirs = [torch.tensor(x, requires_grad=True) for x in xs]
    w = rng.normal(size=expected.shape)
    if not expected.shape and all(not x.shape for x in xs):
        return  # torch.einsum has no operands without axes
    (torch.einsum(text, *theirs) * torch.tensor(w)).sum().backward()
    for g, t in zip(cr.gradients((y * w).sum(), ts), theirs, strict=True):
        np.testing.assert_allclose(g, t.grad.numpy(), rtol=1e-11, atol=1e-12)
