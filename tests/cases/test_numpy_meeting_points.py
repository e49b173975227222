"""H: where tensors meet NumPy's scalars and arrays, kinds that go in and come out, printing."""

import copy
import operator
import pickle

import numpy as np
import pytest

import chainrule as cr
from chainrule import modes
from tests.cases.ways import derivatives_are, leaf

FLOATS = [np.float16, np.float32, np.float64]
BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "**": operator.pow, "//": operator.floordiv,
    "%": operator.mod, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
OTHERS = {
    "bool": True, "int": 2, "float": 2.0, "np.bool": np.True_, "np.int8": np.int8(2), "np.int64": np.int64(2), "np.uint8": np.uint8(2),
    "np.float16": np.float16(2), "np.float32": np.float32(2), "np.float64": np.float64(2),
    "array0d": np.array(2.0), "array0d_int": np.array(2), "array32": np.full(2, 2.0, np.float32), "array64": np.full(2, 2.0),
    "array_int": np.full(2, 2), "array_bool": np.ones(2, bool), "matrix": np.full((3, 2), 2.0), "list": [2.0, 2.0],
}  # fmt: skip


# ---------------------------------------------------------------- H1
@pytest.mark.parametrize("scalar", [np.float64(2), np.float32(2), np.float16(2), np.int64(2), np.int8(2), 2, 2.0, True])
def test_h1_numpy_scalar_on_the_left(scalar):
    t = leaf(np.ones(2, np.float32))
    left, right = scalar * t, t * scalar
    assert type(left) is type(right) is cr.Tensor
    assert left.dtype == right.dtype == np.result_type(np.float32, scalar)
    for y in (left, right):
        g = cr.gradients(y.sum(), t)
        assert g.dtype == np.float32
        assert g.tolist() == [float(scalar)] * 2
    derivatives_are(lambda t: (scalar * t * t).sum(), np.ones(2), 2.0 * float(scalar), 2.0 * float(scalar) * np.eye(2))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("sign", BINARY)
def test_h1_every_operator_both_ways_as_numpy(sign, other, dtype):
    """Value, dtype and shape are NumPy's, the type is Tensor, in both orders."""
    operation, value = BINARY[sign], OTHERS[other]
    x = np.array([0.5, 3.0], dtype)
    numpys = np.array(value) if other == "list" else value
    for ours, theirs in (
        (lambda t: operation(t, value), lambda x: operation(x, numpys)),
        (lambda t: operation(value, t), lambda x: operation(numpys, x)),
    ):
        expected = theirs(x)
        for t in (leaf(x), cr.tensor(x)):
            got = ours(t)
            assert type(got) is cr.Tensor
            assert got.dtype == expected.dtype
            assert got.shape == expected.shape
            np.testing.assert_array_equal(got.data, expected)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "**"])
def test_h1_the_gradient_is_of_the_leafs_dtype_and_the_same_as_with_a_tensor(sign, other):
    operation, value = BINARY[sign], OTHERS[other]
    for dtype in FLOATS:
        x = np.array([0.5, 3.0], dtype)
        for both in (lambda a, b: operation(a, b), lambda a, b: operation(b, a)):
            t, u = leaf(x), leaf(x)
            y = both(t, value)
            z = both(u, cr.tensor(np.array(value, y.dtype)))
            a, b = cr.gradients(y.sum(), t), cr.gradients(z.sum(), u)
            assert a.dtype == dtype
            assert a.shape == x.shape
            np.testing.assert_allclose(
                a.astype(np.float64), b.astype(np.float64), rtol=5e-3 if dtype == np.float16 else 1e-5
            )


@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "arctan2", "hypot", "logaddexp"]
)
def test_h1_ufuncs_with_scalars_and_arrays_on_either_side(name):
    ufunc = getattr(np, name)
    x = np.array([0.5, 3.0], np.float32)
    for value in (2.0, np.float64(2), np.float32(2), np.full(2, 2.0), np.full((3, 1), 2.0, np.float32)):
        for f in (lambda t, v=value: ufunc(t, v), lambda t, v=value: ufunc(v, t)):
            got, expected = f(leaf(x)), f(x)
            assert type(got) is cr.Tensor
            assert got.requires_grad
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got.data, expected, rtol=1e-6)


def test_h1_comparisons_and_truth():
    t = leaf([1.0, 2.0])
    assert (np.float64(1.5) < t).tolist() == [False, True]
    assert (t == np.array([1.0, 5.0])).tolist() == [True, False]
    assert bool(leaf(2.0))
    with pytest.raises(cr.errors.ShapeError):
        bool(t)
    assert len({t, t, leaf([1.0, 2.0])}) == 2


@pytest.mark.parametrize(
    "bad", ["a", None, object(), {}, np.array(["a"]), np.array([object()]), [1, "a"], np.datetime64("2020")]
)
def test_h1_what_is_no_number_raises_and_never_becomes_an_object_array(bad):
    t = leaf([1.0, 2.0])
    for operation in (operator.add, operator.mul, operator.pow):
        with pytest.raises(TypeError):
            operation(t, bad)
        with pytest.raises(TypeError):
            operation(bad, t)


def test_h1_python_numbers_are_weak_and_numpy_scalars_strong():
    t = cr.tensor(np.ones(2, np.float32))
    assert (t * 2.0).dtype == (2.0 * t).dtype == np.float32
    assert (t * np.float64(2)).dtype == (np.float64(2) * t).dtype == np.float64
    assert (t ** np.float64(2)).dtype == np.float64
    assert (t**2).dtype == np.float32
    assert cr.where(t > 0, t, 0.0).dtype == np.float32
    assert cr.clip(t, 0.0, 1.0).dtype == cr.maximum(t, 0.0).dtype == np.float32
    i = cr.tensor([1, 2])
    assert (i * 2).dtype == np.int64
    assert (i * 2.0).dtype == (i / 2).dtype == np.float64


# ---------------------------------------------------------------- H3
def test_h3_plain_int_argument():
    f = lambda x: x * x
    for ask in (
        lambda: cr.grad(f)(2), lambda: cr.value_and_grad(f)(2), lambda: cr.jacobian(f)(2), lambda: cr.hessian(f)(2),
        lambda: cr.vjp(f, 2), lambda: cr.jvp(f, (2,), (1,)), lambda: cr.hvp(f, 2, 1), lambda: cr.linearize(f, 2),
        lambda: cr.grad(f)(np.int64(2)), lambda: cr.grad(f)(np.array(2)), lambda: cr.grad(f)(True), lambda: cr.grad(cr.grad(f))(2),
        lambda: cr.grad(f)(cr.tensor(2)), lambda: cr.tensor(2, requires_grad=True), lambda: cr.tensor([1, 2], requires_grad=True),
    ):  # fmt: skip
        with pytest.raises(cr.errors.DTypeError, match=r"2\.0"):
            ask()
    assert cr.grad(f)(2.0) == 4.0
    assert cr.grad(lambda x, n: x**n)(3.0, 2) == 6.0  # an integer beside it is welcome


KINDS = [
    (2.0, float), (np.float64(2.0), np.float64), (np.float32(2.0), np.float32), (np.float16(2.0), np.float16),
    (np.array(2.0), np.ndarray), (np.array(2.0, np.float32), np.ndarray), (np.array([2.0]), np.ndarray),
]  # fmt: skip


@pytest.mark.parametrize(("x", "kind"), KINDS, ids=lambda v: repr(v))
def test_h3_what_goes_in_comes_out(x, kind):
    f = lambda x: (x * x * x).sum()
    for derivative, value in (
        (cr.grad(f), 12.0),
        (lambda x: cr.value_and_grad(f)(x)[1], 12.0),
        (lambda x: cr.hvp(f, x, np.ones_like(x)), 12.0),
    ):
        g = derivative(x)
        assert type(g) is kind
        assert np.asarray(g).dtype == np.asarray(x).dtype
        assert np.shape(g) == np.shape(x)
        np.testing.assert_allclose(g, value)
    if np.shape(x) == ():
        assert type(cr.grad(cr.grad(f))(x)) is kind
    t = cr.tensor(x)
    assert type(cr.grad(f)(t)) is cr.Tensor
    assert cr.grad(f)(t).dtype == t.dtype


def test_h3_trees_and_several_arguments():
    f = lambda p, x: (p["w"] * x).sum() + p["b"] * p["n"]
    p = {"w": np.array([1.0, 2.0]), "b": 3.0, "n": 2}
    g = cr.grad(f)(p, np.array([5.0, 6.0]))
    assert list(g) == ["w", "b", "n"]
    assert g["w"].tolist() == [5.0, 6.0]
    assert g["b"] == 2.0
    assert type(g["b"]) is float
    assert g["n"] is None
    both = cr.grad(f, argnums=(0, 1))(p, np.array([5.0, 6.0]))
    assert type(both) is tuple
    assert both[1].tolist() == [1.0, 2.0]


def test_h3_a_result_that_lost_the_graph_raises():
    import math

    for f in (lambda x: math.sin(x), lambda x: float(x) * 2, lambda x: x.item(), lambda x: x.data * 2.0, lambda x: 3.0):
        with pytest.raises(cr.errors.LostGraphError):
            cr.grad(f)(2.0)
    assert cr.grad(lambda x: cr.tensor(3.0))(2.0) == 0.0


# ---------------------------------------------------------------- H5
def test_h5_array_built_from_traced_scalars_with_a_dtype():
    build = lambda th: cr.tensor([[th[0], th[1]], [th[2], th[3]]], dtype=np.float64)
    th = np.array([1.0, 2.0, 3.0, 4.0])
    assert cr.jacobian(build)(th).tolist() == np.eye(4).reshape(2, 2, 4).tolist()
    derivatives_are(lambda th: (build(th) ** 3).sum(), th, 3 * th**2, np.diag(6 * th))
    for dtype in (np.float32, np.float16):
        made = cr.tensor([[leaf(1.0), 2.0]], dtype=dtype)
        assert made.dtype == dtype
        assert made.requires_grad


@pytest.mark.parametrize(
    "make",
    [np.array, np.asarray, np.stack, np.asanyarray, lambda x: np.array(x, dtype=object), lambda x: np.array(x, float)],
)
@pytest.mark.parametrize("nested", [
    lambda th: th, lambda th: [th[0], th[1]], lambda th: [[th[0], th[1]], [th[2], th[3]]], lambda th: [th[:2], th[2:]], lambda th: [1.0, th[0]],
    lambda th: th[0], lambda th: (th[0],),
])  # fmt: skip
def test_h5_the_same_given_to_numpy_raises_or_keeps_the_graph(make, nested):
    """Never dtype=object, never a silent copy."""
    th = leaf([1.0, 2.0, 3.0, 4.0])
    try:
        made = make(nested(th))
    except cr.errors.ChainruleError:
        return
    assert isinstance(made, cr.Tensor), f"{type(made)} of {getattr(made, 'dtype', None)}"
    assert made.requires_grad


@pytest.mark.parametrize("nested", [
    lambda a: [a, a], lambda a: [[a], [a]], lambda a: [a, 1.0], lambda a: (a, 2), lambda a: [[a, 0], [0, a * a]], lambda a: [np.float64(1), a],
    lambda a: [cr.tensor(1.0), a], lambda a: [cr.stack([a, a]), np.ones(2)], lambda a: [[1, 2], [3, a]], lambda a: [np.array(1.0), a],
    lambda a: [cr.stack([a, a]), [1.0, a]],
])  # fmt: skip
def test_h5_nested_lists_of_tensors_numbers_and_arrays(nested):
    a = leaf(2.0)
    made = cr.tensor(nested(a))
    assert made.dtype == np.float64
    made.sum().backward()
    assert a.grad > 0
    h = cr.grad(cr.grad(lambda a: (cr.tensor(nested(a)) ** 3).sum()))(2.0)
    assert h > 0


def test_h5_ragged_lists_name_the_operation():
    a = leaf(2.0)
    for nested in ([[a, a], [a]], [a, [a]], [[a], "b"], [a, None]):
        with pytest.raises(cr.errors.ChainruleError):
            cr.tensor(nested)


def test_h5_asarray_and_numpy_of_a_tensor():
    t = leaf([1.0])
    with pytest.raises(cr.errors.GraphError, match="detach"):
        np.asarray(t)
    with pytest.raises(cr.errors.GraphError, match="detach"):
        t.numpy()
    d = t.detach()
    assert np.shares_memory(np.asarray(d), d.data)
    c = cr.tensor([1.0, 2.0])
    assert np.asarray(c) is c.data
    assert np.array(c) is not c.data
    assert np.asarray(c, np.float32).dtype == np.float32


# ---------------------------------------------------------------- copies
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_h7_copies_keep_value_wish_and_gradient(way):
    t = leaf([1.0, 2.0])
    (t * t).sum().backward()
    again = way(t)
    assert again.tolist() == t.tolist()
    assert again.requires_grad
    assert again.grad.tolist() == [2.0, 4.0]
    assert not np.shares_memory(again.data, t.data)
    assert not np.shares_memory(again.grad, t.grad)
    activation = way(t * t)
    assert not activation.requires_grad
    assert activation.tolist() == [1.0, 4.0]
    assert way({"a": [t, t * t]})["a"][1].tolist() == [1.0, 4.0]


# ---------------------------------------------------------------- H9
@pytest.fixture
def subclass():
    """A subclass of the tensor, taken back afterwards: while it counts, every call of the process takes the slow path."""
    before = modes.unusual

    class Named(cr.Tensor):
        __slots__ = ("name",)

    yield Named
    modes.add_unusual(before - modes.unusual)


def test_h9_printing_shows_values_dtype_and_whether_a_gradient_is_wanted():
    x = leaf([1.5, 2.5])
    (x * x).sum().backward()
    assert "3." in str(x.grad)
    assert "5." in str(x.grad)
    for show in (str, repr, lambda t: f"{t}", lambda t: f"{t!r}", lambda t: f"{t!s}"):
        text = show(x)
        assert "1.5" in text
        assert "requires_grad=True" in text
    assert "requires_grad" not in repr(x.detach())
    assert "float32" in repr(cr.tensor(np.ones(2, np.float32)))
    assert "float64" not in repr(x)
    x = leaf(1.0)
    (x * x).backward(create_graph=True)
    assert "2." in str(x.grad)


@pytest.mark.parametrize(("spec", "text"), [
    (".2f", "3.14"), ("8.3f", "   3.142"), (".1e", "3.1e+00"), ("g", "3.14159"), (">10.2f", "      3.14"), ("+.1f", "+3.1"), (".1%", "314.2%"),
])  # fmt: skip
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("wants", [True, False])
def test_h9_format_of_one_element(spec, text, shape, wants, subclass):
    t = cr.tensor(np.full(shape, 3.14159265), requires_grad=wants)
    assert f"{t:{spec}}" == text
    assert f"{t.sum():{spec}}" == text
    assert format(subclass(t.data), spec) == text
    assert f"{subclass(t.data, requires_grad=wants) * 1.0:{spec}}" == text


def test_h9_integers_booleans_and_rounding():
    assert f"{cr.tensor(7):03d}" == "007"
    assert f"{cr.tensor(7):x}" == "7"
    assert f"{cr.tensor(True)}" == "tensor(True)"
    assert round(leaf(2.567), 2) == 2.57
    assert round(leaf(2.567)) == 3
    assert int(leaf(2.9)) == 2
    assert float(leaf([2.5])) == 2.5
    assert leaf([[2.5]]).item() == 2.5
    assert [10, 20, 30][cr.tensor(1)] == 20


@pytest.mark.parametrize("ask", [lambda t: f"{t:.2f}", float, int, lambda t: t.item(), round, bool])
def test_h9_many_elements_are_no_number_and_the_message_says_how_many(ask):
    for t in (leaf([1.0, 2.0]), leaf(np.zeros((0, 3)))):
        with pytest.raises(cr.errors.ShapeError) as caught:
            ask(t)
        assert f"{t.size} elements" in str(caught.value)
        assert f"f64{list(t.shape)}" in str(caught.value)


@pytest.mark.parametrize("data", [
    0.0, -0.0, np.inf, np.nan, [], [[]], np.zeros((2, 0, 3)), np.arange(10_000.0), np.ones((2, 3, 4)), [True, False], [1, 2], np.float16(1), np.uint8(3),
])  # fmt: skip
def test_h9_everything_prints(data, subclass):
    t = cr.tensor(data)
    for text in (str(t), repr(t), f"{t}"):
        assert text.startswith("tensor(")
    u = subclass(data)
    assert repr(u)
    assert str(u)
    if t.dtype.kind == "f":
        assert "requires_grad=True" in repr(leaf(data))
        assert repr(leaf(data) * 2.0)


def test_h9_subclasses_stay_subclasses_and_differentiate(subclass):
    n = subclass([1.0, 2.0], requires_grad=True)
    y = n * 2.0
    assert type(y) is subclass
    assert type(2.0 * n) is subclass
    assert type(np.exp(n)) is subclass
    assert type(n.detach()) is subclass
    y.sum().backward()
    assert n.grad.tolist() == [2.0, 2.0]
    assert cr.hessian(lambda t: (t**3).sum())(subclass([1.0])).tolist() == [[6.0]]
    assert type(copy.deepcopy(n)) is subclass
