"""DESIGN 3, the public face: every name and argument exists, has that signature, and works.

| sentence | test |
|--|--|
| `cr.tensor(data, dtype=None, requires_grad=False)` copies | test_tensor_copies |
| `x.data, x.grad, x.shape, x.dtype, x.ndim, x.size, x.T, x.mT, x.requires_grad` | test_attributes |
| `x.detach(), x.item(), x.tolist(), x.numpy()` | test_values_out |
| the names of the first milestone are there | test_names_are_there |
| the usual ones also as methods | test_the_usual_operations_are_methods |
| (NumPy's methods too, and gradients flow through `copy`) | test_a_numpy_program_finds_its_methods, test_a_copy_has_memory_of_its_own_and_is_not_detached |
| `x.sum(axis=, keepdims=)` | test_reductions_take_axis_and_keepdims |
| `x.reshape(2, 3)` and `x.reshape((2, 3))` | test_reshape_takes_numbers_or_a_shape |
| `x[...]` | test_reading_by_index |
| `hash` by identity | test_hash_is_by_identity |
| `==` elementwise | test_equality_is_elementwise |
| `len`, iteration (rows, differentiable) | test_len_and_iteration |
| `bool` only for one element | test_bool_of_one_element |
| `float`, `int`, `format`, `round` for one element | test_numbers_of_one_element, test_format, test_an_integer_tensor_indexes |
| `copy`, `deepcopy`, `pickle` keep value, `requires_grad` and `.grad` | test_copies_keep_value_wish_and_gradient |
| (a non-leaf becomes a detached value) | test_a_copy_of_a_non_leaf_is_a_detached_value |
| repr shows values, dtype and whether a gradient is wanted | test_repr |
| operators and their reflected forms | test_operators |
| a subclass is welcome | test_a_subclass_is_welcome |
"""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, DTypeError, ShapeError


def leaf(*values, dtype=np.float64):
    return cr.tensor(np.array(values, dtype), requires_grad=True)


def test_tensor_copies():
    a = np.ones(2)
    x = cr.tensor(a)
    assert not np.shares_memory(x.data, a)
    assert not np.shares_memory(cr.tensor(x).data, x.data)
    assert cr.tensor(data=[1, 2], dtype=np.float64, requires_grad=True).requires_grad
    for odd, error in ((["a"], DTypeError), (None, DTypeError), ([[1.0], [2.0, 3.0]], ArgumentError), ({}, DTypeError)):
        with pytest.raises(error, match="tensor: "):
            cr.tensor(odd)


def test_attributes():
    x = cr.tensor(np.arange(6.0).reshape(1, 2, 3), requires_grad=True)
    assert type(x.data) is np.ndarray
    assert x.grad is None
    assert (x.shape, x.dtype, x.ndim, x.size, x.requires_grad) == ((1, 2, 3), np.float64, 3, 6, True)
    assert x.T.shape == (3, 2, 1)
    assert x.mT.shape == (1, 3, 2)
    assert x.T.requires_grad
    assert x.mT.requires_grad
    matrix = leaf([1.0, 2.0], [3.0, 4.0])
    (matrix.T @ np.ones(2)).sum().backward()
    assert matrix.T.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert cr.tensor([1.0, 2.0]).T.tolist() == [1.0, 2.0]
    with pytest.raises(ShapeError):
        cr.tensor([1.0]).mT
    with pytest.raises(AttributeError):
        x.shape = (6,)


def test_values_out():
    x = leaf(1.0, 2.0)
    d = x.detach()
    assert not d.requires_grad
    assert d.tolist() == [1.0, 2.0]
    assert type(x[0].item()) is float
    assert type(cr.tensor([[3]]).item()) is int
    assert type((x[0] > 0).item()) is bool
    assert x.reshape(2, 1).tolist() == [[1.0], [2.0]]
    assert type(cr.tensor(1.0).tolist()) is float
    assert type(d.numpy()) is np.ndarray
    with pytest.raises(ShapeError, match="item: a tensor of 2 elements"):
        x.item()


def test_names_are_there():
    names = """
    tensor asarray gradients grad value_and_grad vjp jvp linearize jacobian hessian hvp checkpoint no_grad stop_gradient
    set_default_dtype zeros ones full empty arange linspace eye zeros_like ones_like full_like empty_like Tensor debug
    errors linalg verify scalar draw operation
    add subtract multiply divide pow negative abs sign exp expm1 log log1p log2 log10 sqrt square sin cos tan asin acos atan
    atan2 sinh cosh tanh asinh acosh atanh sigmoid log_sigmoid softplus relu logaddexp sinc maximum minimum clip where floor
    ceil round equal not_equal less less_equal greater greater_equal logical_and logical_or logical_not logical_xor isfinite
    isnan isinf sum mean max min prod var std logsumexp softmax log_softmax cumulative_sum cumulative_prod argmax argmin any
    all sort argsort reshape permute_dims broadcast_to squeeze expand_dims concat stack unstack split flip roll repeat tile
    pad tril triu diagonal matmul tensordot einsum outer take scatter_add astype
    """
    assert [name for name in names.split() if not hasattr(cr, name)] == []
    assert cr.linalg.vector_norm(np.array([3.0, 4.0])) == 5.0
    assert cr.scalar.Value(2.0).data == 2.0


def test_the_usual_operations_are_methods():
    x = cr.tensor([[0.5, 1.5], [2.5, 0.25]], requires_grad=True)
    names = """
        exp log sqrt square abs sign sin cos tan tanh sigmoid relu softplus round floor ceil sum mean max min prod var std
        argmax argmin all any logsumexp squeeze transpose flatten softmax log_softmax
    """
    for name in names.split():
        method = getattr(x, name)()
        if name not in ("flatten", "transpose", "softmax", "log_softmax"):
            assert np.allclose(method.data, getattr(cr, name)(x).data), name
        assert isinstance(method, cr.Tensor)
    assert x.softmax(axis=0).sum().item() == pytest.approx(2.0)
    assert np.allclose(x.log_softmax(0).exp().sum(0).data, 1.0)
    assert x.permute_dims(1, 0).tolist() == x.permute_dims((1, 0)).tolist() == x.T.tolist()
    assert x.transpose(1, 0).tolist() == x.T.tolist()
    assert x.astype(np.float32).dtype == np.float32
    assert x.clip(1.0, 2.0).tolist() == x.clip(min=1.0, max=2.0).tolist() == [[1.0, 1.5], [2.0, 1.0]]
    assert x.cumulative_sum(axis=0).shape == (2, 2)
    assert x.cumulative_prod(axis=1).shape == (2, 2)
    assert x.broadcast_to((3, 2, 2)).shape == (3, 2, 2)
    assert x.expand_dims(0).shape == (1, 2, 2)
    assert x.take([0], axis=1).shape == (2, 1)
    assert len(x.unstack(axis=1)) == 2
    assert x.norm().item() == pytest.approx(np.linalg.norm(x.data))
    assert x.dot(x).tolist() == (x @ x).tolist()


@pytest.mark.parametrize(
    "method",
    [
        lambda x: x.copy(), lambda x: x.ravel(), lambda x: x.swapaxes(0, 2), lambda x: x.repeat(2, axis=1), lambda x: x.repeat(2),
        lambda x: x.diagonal(), lambda x: x.diagonal(1, 1, 2), lambda x: x.cumsum(), lambda x: x.cumsum(1), lambda x: x.cumprod(),
        lambda x: x.cumprod(axis=2), np.copy, lambda x: x[0].argsort() * 1.0 + x,
    ],
)  # fmt: skip
def test_a_numpy_program_finds_its_methods(method):
    """The oracle is ndarray's own method, and the chain of differences that `check` takes."""
    a = np.random.default_rng(0).normal(size=(2, 3, 4))
    assert np.allclose(method(cr.tensor(a)).data, method(a), rtol=1e-14)
    cr.verify.check(method, a)


def test_a_copy_has_memory_of_its_own_and_is_not_detached():
    x = leaf(1.0, 2.0)
    for y in (x.copy(), np.copy(x), (x * x).copy()):
        assert not np.shares_memory(y.data, x.data)
        y[0] = 0.0
        assert y.requires_grad
        assert x.tolist() == [1.0, 2.0]


def test_reductions_take_axis_and_keepdims():
    a = np.arange(24.0).reshape(2, 3, 4)
    x = cr.tensor(a, requires_grad=True)
    for name in ("sum", "mean", "max", "min", "prod", "var", "std", "all", "any"):
        for axis in (None, 0, -1, (0, 2), ()):
            for keepdims in (False, True):
                found = getattr(x, name)(axis=axis, keepdims=keepdims)
                expected = getattr(np, name)(a, axis=axis, keepdims=keepdims)
                assert found.shape == np.shape(expected), (name, axis)
                assert np.allclose(found.data, expected), (name, axis)
    assert x.sum(0).shape == (3, 4)
    assert x.sum(1, True).shape == (2, 1, 4)
    assert x.argmax(axis=1, keepdims=True).shape == (2, 1, 4)
    for odd in (3, (0, 0), "a", 1.5):
        with pytest.raises(ArgumentError):
            x.sum(axis=odd)


def test_reshape_takes_numbers_or_a_shape():
    x = leaf(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    for shaped in (x.reshape(2, 3), x.reshape((2, 3)), x.reshape([2, -1]), x.reshape(-1, 3), cr.reshape(x, (2, 3))):
        assert shaped.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert x.reshape(6).shape == x.reshape(-1).shape == (6,)
    assert x[:1].reshape(()).shape == x[:1].reshape().shape == ()
    with pytest.raises(ShapeError, match=r"6 elements do not fill the shape \(4, 2\)"):
        x.reshape(4, 2)


def test_reading_by_index():
    a = np.arange(12.0).reshape(3, 4)
    x = cr.tensor(a, requires_grad=True)
    for index in (
        0,
        -1,
        slice(1, None),
        (1, 2),
        (slice(None), 1),
        ...,
        None,
        (..., 0),
        [0, 2],
        a > 5,
        ([0, 1], [1, 1]),
    ):
        found = x[index]
        assert isinstance(found, cr.Tensor)
        assert np.array_equal(found.data, a[index])
        assert found.requires_grad
    assert x[cr.tensor([2, 0])].tolist() == a[[2, 0]].tolist()
    assert x[x > 5.0].tolist() == a[a > 5.0].tolist()
    assert 5.0 in x
    assert 50.0 not in x


def test_hash_is_by_identity():
    x, same = leaf(1.0), leaf(1.0)
    assert hash(x) == hash(x)
    assert len({x, same, x}) == 2
    assert {x: "a"}[x] == "a"
    x.data = np.array([2.0])
    assert x in {x, same}


def test_equality_is_elementwise():
    x = leaf(1.0, 2.0)
    assert (x == np.array([1.0, 3.0])).tolist() == [True, False]
    assert (x != 1.0).tolist() == [False, True]
    assert (x == x).dtype == np.bool_
    assert isinstance(x == x, cr.Tensor)
    assert not (x == x).requires_grad


def test_len_and_iteration():
    x = leaf([1.0, 2.0], [3.0, 4.0])
    assert len(x) == 2
    total = 0.0
    for k, row in enumerate(x):
        assert row.shape == (2,)
        total = total + row.sum() * 10.0**k
    first, second = x
    (total + first @ second).backward()
    assert x.grad.tolist() == [[4.0, 5.0], [11.0, 12.0]]
    assert list(cr.zeros((0, 3))) == []
    for ask in (len, iter, list):
        with pytest.raises(TypeError if ask is None else ShapeError, match="a tensor without axes"):
            ask(cr.tensor(1.0))


def test_bool_of_one_element():
    assert bool(cr.tensor(2.0))
    assert not cr.tensor([[0.0]])
    assert bool(leaf(1.0) > 0.5)
    for odd in (leaf(1.0, 2.0), cr.zeros(0)):
        with pytest.raises(ShapeError, match="no single number"):
            bool(odd)


def test_numbers_of_one_element():
    x = leaf(1.75)
    assert (float(x), int(x), round(x), round(x, 1)) == (1.75, 1, 2, 1.8)
    assert type(int(x)) is int
    assert type(round(x)) is int
    for ask in (float, int, round):
        with pytest.raises(ShapeError, match="no single number"):
            ask(leaf(1.0, 2.0))


def test_format():
    x = leaf(1.23456)
    assert f"{x:.2f} {x[0]:8.3f}|{cr.tensor(3):03d}" == "1.23    1.235|003"
    assert f"{cr.tensor([1.0, 2.0])}" == str(cr.tensor([1.0, 2.0]))
    with pytest.raises(ShapeError):
        f"{leaf(1.0, 2.0):.2f}"


def test_an_integer_tensor_indexes():
    assert [10, 20, 30][cr.tensor(1)] == 20
    assert list(range(cr.tensor(3))) == [0, 1, 2]
    for odd in (cr.tensor(1.0), cr.tensor([1])):
        with pytest.raises(DTypeError):
            [10, 20][odd]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_keep_value_wish_and_gradient(duplicate):
    for x in (
        leaf(1.0, 2.0, dtype=np.float32),
        cr.tensor([1.0, 2.0]),
        cr.tensor(3.0, requires_grad=True),
        cr.tensor([1]),
    ):
        if x.requires_grad:
            (x * x).sum().backward()
        y = duplicate(x)
        assert type(y) is cr.Tensor
        assert y is not x
        assert (y.tolist(), y.dtype, y.requires_grad) == (x.tolist(), x.dtype, x.requires_grad)
        assert not np.shares_memory(y.data, x.data)
        if x.requires_grad:
            assert np.array_equal(y.grad, x.grad)
            assert not np.shares_memory(y.grad, x.grad)
            y.grad = None
            (y * 3.0).sum().backward()
            assert np.all(y.grad == 3.0)
        else:
            assert y.grad is None
    twice = copy.deepcopy({"a": (x := leaf(1.0)), "b": [x]})
    assert twice["a"] is twice["b"][0]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_non_leaf_is_a_detached_value(duplicate):
    x = leaf(1.0, 2.0)
    y = duplicate(x * 2.0)
    assert y.tolist() == [2.0, 4.0]
    assert not y.requires_grad
    y += 1.0
    assert y.is_leaf


def test_repr():
    assert repr(cr.tensor([1.0, 2.5])) == "tensor([1. , 2.5])"
    assert repr(cr.tensor(2.0)) == "tensor(2.)"
    assert repr(leaf(1.0, dtype=np.float32)) == "tensor([1.], dtype=float32, requires_grad=True)"
    assert repr(leaf(1.0) * 2.0) == "tensor([2.], requires_grad=True)"
    assert repr(cr.tensor([1, 2], np.int8)) == "tensor([1, 2], dtype=int8)"
    assert repr(cr.tensor([True])) == "tensor([ True])"
    assert repr(cr.zeros(0)) == "tensor([], dtype=float64)"
    assert repr(cr.tensor([[1.0, 2.0], [3.0, 4.0]])) == "tensor([[1., 2.],\n        [3., 4.]])"


def test_operators():
    a, b = np.array([5.0, 7.0]), np.array([2.0, 3.0])
    x, y = cr.tensor(a), cr.tensor(b)
    for f in (
        lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p / q, lambda p, q: p // q,
        lambda p, q: p % q, lambda p, q: p**q, lambda p, q: p @ q, lambda p, q: p < q, lambda p, q: p <= q,
        lambda p, q: p > q, lambda p, q: p >= q, lambda p, q: p == q, lambda p, q: p != q, lambda p, q: -p, lambda p, q: +p,
        lambda p, q: abs(-p),
    ):  # fmt: skip
        for left, right in ((x, y), (x, b), (a, y)):
            assert np.allclose(
                f(left, right).data if isinstance(f(left, right), cr.Tensor) else f(left, right), f(a, b)
            )
    for f in (
        lambda p: 2 + p,
        lambda p: 2 - p,
        lambda p: 2 * p,
        lambda p: 2 / p,
        lambda p: 2 // p,
        lambda p: 2 % p,
        lambda p: 2**p,
    ):
        assert np.allclose(f(x).data, f(a))
    m, n = cr.tensor([True, False]), cr.tensor([True, True])
    assert ((m & n).tolist(), (m | n).tolist(), (m ^ n).tolist(), (~m).tolist()) == (
        [True, False],
        [True, True],
        [False, True],
        [False, True],
    )


def test_a_subclass_is_welcome():
    """In a process of its own: a subclass sends every later call to the slow path."""
    program = """
import numpy as np, chainrule as cr, copy, pickle
class Labelled(cr.Tensor):
    pass
x = Labelled([1.0, 2.0], requires_grad=True)
y = x * 2.0
assert type(y) is Labelled and type(y[0]) is Labelled and type(y.detach()) is Labelled
y += x
y.sum().backward()
assert x.grad.tolist() == [3.0, 3.0]
assert type(copy.deepcopy(x)) is Labelled
assert type(cr.grad(lambda v: (v * v).sum())(x)) in (Labelled, cr.Tensor)
z = cr.tensor([1.0], requires_grad=True)
(z * z).sum().backward()
assert z.grad.tolist() == [2.0]
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
