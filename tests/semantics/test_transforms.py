"""DESIGN 3: what goes in comes out; transforms.

| sentence | test |
|--|--|
| operations on arrays return arrays (no graph, NumPy speed); on tensors, tensors | test_operations_give_back_what_they_were_given |
| creation functions return tensors | test_creation_functions_return_tensors |
| `cr.tensor` of nested lists that hold tensors stacks them differentiably | test_lists_of_tensors_are_stacked_differentiably, test_lists_of_tensors_keep_dtype_and_wishes |
| a tensor as a fill value keeps its graph | test_a_tensor_as_fill_value_keeps_its_graph |
| `f` receives tensors at the floating leaves of its arguments | test_f_receives_tensors_at_floating_leaves |
| `grad(f)(x)` gives back x's kind: float -> float, array or NumPy scalar -> the same, Tensor -> Tensor | test_grad_gives_back_the_kind_of_x |
| tree -> the same tree with `None` where nothing floats | test_trees_with_none_where_nothing_floats |
| tuple of `argnums` -> tuple | test_argnums |
| the value of `value_and_grad` likewise | test_value_and_grad_gives_values_of_the_same_kind, test_has_aux |
| `jvp(f, xs, ts) -> (y, t)` | test_jvp |
| `vjp(f, *xs) -> (y, pullback)` | test_vjp |
| `linearize(f, *xs) -> (y, linear)` | test_linearize |
| a Jacobian has shape `y.shape + x.shape` | test_shapes_of_jacobians, test_hessian_and_hvp |
| each transform gives its arguments identity nodes of their own, which keeps nested perturbations apart | test_nested_perturbations_stay_apart |
| the result is recorded when x, or a tensor that `f` closes over, wants a gradient | test_the_result_is_recorded_when_x_wants_a_gradient, test_the_result_is_recorded_when_a_closure_wants_a_gradient |
| and not otherwise | test_the_result_is_recorded_when_x_wants_a_gradient |
| transforms never touch `.grad` | test_transforms_never_touch_grad |
| a tensor that does not depend on x gives zeros | test_a_result_that_does_not_depend_on_x_gives_zeros |
| a result that is no tensor raises (`math.sin(x)` lost the graph) | test_a_result_that_is_no_tensor_raises |
| an integer x raises and says `2.0` | test_an_integer_raises_and_says_so |
| a scalar is asked for | test_a_scalar_is_asked_for |
| results share memory with nothing | test_results_share_memory_with_nothing |
| signatures of the public face | test_signatures |
"""

import inspect
import math
from collections import namedtuple

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, DTypeError, LostGraphError, ShapeError


def leaf(*values, dtype=np.float64):
    return cr.tensor(np.array(values, dtype), requires_grad=True)


def squares(x):
    return (x * x).sum()


def test_operations_give_back_what_they_were_given():
    a, t = np.array([[1.0, 2.0], [3.0, 4.0]]), cr.tensor([[1.0, 2.0], [3.0, 4.0]])
    for f in (
        cr.exp, cr.relu, cr.sigmoid, cr.sum, cr.mean, cr.max, cr.softmax, cr.var, cr.flip, cr.sort, cr.matrix_transpose,
        lambda x: cr.add(x, 1.0), lambda x: cr.where(x > 2.0, x, 0.0), lambda x: cr.concat([x, x]),
        lambda x: cr.stack([x, x]), lambda x: cr.unstack(x)[0], lambda x: cr.reshape(x, (4,)), lambda x: cr.clip(x, 1.5, 3.0),
        lambda x: cr.cumulative_sum(x, axis=0), lambda x: cr.argmax(x, axis=0), lambda x: cr.pow(x, 2), cr.isfinite,
    ):  # fmt: skip
        raw, wrapped = f(a), f(t)
        assert isinstance(raw, (np.ndarray, np.generic))
        assert isinstance(wrapped, cr.Tensor)
        assert not wrapped.requires_grad
        assert np.array_equal(raw, wrapped.data)
    assert isinstance(cr.exp(2.0), np.floating)
    assert isinstance(cr.exp([1.0, 2.0]), np.ndarray)
    assert isinstance(cr.add(a, t), cr.Tensor)


def test_creation_functions_return_tensors():
    like = np.zeros((2, 3), np.float32)
    made = {
        "zeros": cr.zeros((2, 3)), "ones": cr.ones(3), "full": cr.full((2,), 7.0), "empty": cr.empty((2, 2)),
        "arange": cr.arange(3), "linspace": cr.linspace(0.0, 1.0, 5), "eye": cr.eye(2), "zeros_like": cr.zeros_like(like),
        "ones_like": cr.ones_like(cr.tensor(like)), "full_like": cr.full_like(like, 2), "empty_like": cr.empty_like(like),
        "asarray": cr.asarray(like), "tensor": cr.tensor(like),
    }  # fmt: skip
    for name, t in made.items():
        assert isinstance(t, cr.Tensor), name
        assert not t.requires_grad
    assert made["ones_like"].dtype == made["full_like"].dtype == np.float32
    assert made["arange"].dtype.kind == "i"
    for make in (cr.zeros, cr.ones, cr.empty):
        assert make((2,), requires_grad=True).requires_grad
        assert make((2,), np.float32, True).dtype == np.float32
    assert cr.arange(1.0, 2.0, 0.5, requires_grad=True).tolist() == [1.0, 1.5]


def test_lists_of_tensors_are_stacked_differentiably():
    a, b = cr.tensor(2.0, requires_grad=True), cr.tensor(3.0, requires_grad=True)
    t = cr.tensor([[a, a * b], (1.0, b)])
    assert t.tolist() == [[2.0, 6.0], [1.0, 3.0]]
    (t * np.array([[1.0, 10.0], [100.0, 1000.0]])).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == (31.0, 1020.0)
    row = leaf(1.0, 2.0)
    assert cr.tensor([row, [3.0, 4.0], np.array([5.0, 6.0])]).tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    with pytest.raises(DTypeError, match="would lose its graph"):
        cr.tensor(row)
    with pytest.raises(ShapeError):
        cr.tensor([row, [1.0]])


def test_lists_of_tensors_keep_dtype_and_wishes():
    narrow, plain = cr.tensor(np.float32(2.0), requires_grad=True), cr.tensor(1.0)
    assert cr.tensor([narrow, 1.0]).dtype == np.float32  # Python numbers are weak here too
    assert cr.tensor([[narrow, narrow], [1, 0.5]]).dtype == np.float32
    assert cr.tensor([narrow, np.float64(1.0)]).dtype == np.float64
    made = cr.tensor([plain, plain], np.float32, requires_grad=True)
    assert made.requires_grad
    assert made.is_leaf
    assert made.dtype == np.float32


def test_a_tensor_as_fill_value_keeps_its_graph():
    a = cr.tensor(2.0, requires_grad=True)
    total = cr.full((2, 3), a).sum() + cr.full_like(np.zeros(4, np.float32), a).sum()
    total.backward()
    assert a.grad == 10.0


def test_f_receives_tensors_at_floating_leaves():
    seen = []

    def f(*args):
        seen.extend(args)
        return args[0]["w"].sum() + args[2] * 1.0

    cr.grad(f, argnums=(0, 2))({"w": np.ones(2), "n": 3, "name": "layer"}, np.ones(2), 2.0)
    tree, other, number = seen
    assert isinstance(tree["w"], cr.Tensor)
    assert tree["w"].requires_grad
    assert (tree["n"], tree["name"]) == (3, "layer")
    assert isinstance(number, cr.Tensor)
    assert isinstance(other, np.ndarray)  # not asked for


def test_grad_gives_back_the_kind_of_x():
    g = cr.grad(squares)
    assert type(g(3.0)) is float
    assert type(g(np.float32(3.0))) is np.float32
    assert type(g(np.float64(3.0))) is np.float64
    assert type(g(np.array(3.0))) is np.ndarray
    array = g(np.ones((2, 3), np.float32))
    assert (type(array), array.dtype, array.shape) == (np.ndarray, np.float32, (2, 3))
    tensor = g(cr.tensor([1.0, 2.0]))
    assert type(tensor) is cr.Tensor
    assert not tensor.requires_grad
    assert tensor.tolist() == [2.0, 4.0]


def test_trees_with_none_where_nothing_floats():
    Pair = namedtuple("Pair", "a b")  # noqa: PYI024
    given = {"p": Pair(2.0, 3), "list": [np.ones(2), "text", None, True], "t": (cr.tensor([1.0]), np.arange(2))}
    g = cr.grad(lambda d: d["p"].a * d["list"][0].sum() * d["t"][0].sum())(given)
    assert type(g["p"]) is Pair
    assert g["p"] == Pair(2.0, None)
    assert g["list"][0].tolist() == [2.0, 2.0]
    assert g["list"][1:] == [None, None, None]
    assert isinstance(g["t"][0], cr.Tensor)
    assert g["t"][1] is None
    assert cr.grad(lambda d: d["a"] * 1.0)({"a": 1.0, "b": np.ones(2)})["b"].tolist() == [0.0, 0.0]


def test_argnums():
    def f(a, b, c=1.0):
        return a * b * b * c

    assert cr.grad(f, argnums=1)(2.0, 3.0) == 12.0
    assert cr.grad(f, argnums=(0, 1))(2.0, 3.0) == (9.0, 12.0)
    assert cr.grad(f, argnums=(1,))(2.0, 3.0) == (12.0,)
    assert cr.grad(f, argnums=-1)(2.0, 3.0) == 12.0
    assert cr.grad(f)(2.0, 3.0, c=2.0) == 18.0
    for odd in (2, -3, "a", 1.0):
        with pytest.raises(ArgumentError, match="argnums"):
            cr.grad(f, argnums=odd)(2.0, 3.0)


def test_value_and_grad_gives_values_of_the_same_kind():
    f = cr.value_and_grad(squares)
    value, g = f(3.0)
    assert (type(value), value, g) == (float, 9.0, 6.0)
    value, _ = f(np.float32(3.0))
    assert type(value) is np.float32
    value, _ = f(np.ones(2))
    assert type(value) is np.float64
    value, _ = f(cr.tensor([1.0]))
    assert type(value) is cr.Tensor


def test_has_aux():
    (value, aux), g = cr.value_and_grad(lambda x: (x * x, {"twice": x * 2.0, "n": 3}), has_aux=True)(3.0)
    assert (value, aux, g) == (9.0, {"twice": 6.0, "n": 3}, 6.0)
    assert cr.grad(lambda x: (x * x, "note"), has_aux=True)(3.0) == (6.0, "note")
    with pytest.raises(ArgumentError, match="has_aux"):
        cr.grad(lambda x: x * x, has_aux=True)(3.0)


def test_jvp():
    assert cr.jvp(lambda a, b: a * b, (2.0, 5.0), (1.0, 10.0)) == (10.0, 25.0)
    assert cr.jvp(lambda a, b: a * b, (2.0, 5.0), (None, 10.0)) == (10.0, 20.0)
    y, t = cr.jvp(
        lambda d: {"s": d["x"].sum(), "p": d["x"] * 2.0}, ({"x": np.ones(2)},), ({"x": np.array([1.0, 10.0])},)
    )
    assert (float(t["s"]), t["p"].tolist()) == (11.0, [2.0, 20.0])
    assert y["p"].tolist() == [2.0, 2.0]
    with pytest.raises(ShapeError, match="tangent"):
        cr.jvp(squares, (np.ones(2),), (np.ones(3),))
    with pytest.raises(ArgumentError, match="as tuples"):
        cr.jvp(squares, 2.0, 1.0)
    with pytest.raises(ArgumentError, match="1 tangents for 2 arguments"):
        cr.jvp(lambda a, b: a * b, (2.0, 5.0), (1.0,))


def test_vjp():
    y, pullback = cr.vjp(lambda a, b: a * b, 2.0, np.array([5.0, 6.0]))
    assert y.tolist() == [10.0, 12.0]
    for _ in range(2):
        ga, gb = pullback(np.array([1.0, 10.0]))
        assert type(ga) is float
        assert (ga, gb.tolist()) == (65.0, [2.0, 20.0])
    with pytest.raises(ShapeError, match="cotangent"):
        pullback(1.0)
    (y, z), pullback = cr.vjp(lambda a: (a * 2.0, a * 3.0), 1.0)
    assert (y, z, pullback((1.0, 10.0)), pullback((None, 1.0))) == (2.0, 3.0, (32.0,), (3.0,))


def test_linearize():
    ran = []
    y, linear = cr.linearize(lambda x: ran.append(1) or x * x, 3.0)
    assert (y, linear(1.0), linear(10.0), len(ran)) == (9.0, 6.0, 60.0, 1)


@pytest.mark.parametrize("x", [2.0, np.ones(2), np.ones((2, 3)), np.ones((0, 2))])
@pytest.mark.parametrize("shape", [(), (4,), (2, 2)])
def test_shapes_of_jacobians(x, shape):
    j = cr.jacobian(lambda v: v.sum() * np.ones(shape))(x)
    assert np.shape(j) == shape + np.shape(x)
    assert np.all(np.asarray(j) == 1.0)


def test_hessian_and_hvp():
    x = np.array([1.0, 2.0, 3.0])
    h = cr.hessian(lambda v: (v**3).sum() + v[0] * v[1])(x)
    expected = np.diag(6.0 * x) + np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert np.allclose(h, expected)
    assert np.allclose(
        cr.hvp(lambda v: (v**3).sum() + v[0] * v[1], x, np.array([1.0, 10.0, 100.0])), h @ [1.0, 10.0, 100.0]
    )
    assert type(cr.hessian(lambda v: v**3)(2.0)) is float
    pairs = cr.hessian(lambda a, b: a * b * b, argnums=(0, 1))(2.0, 3.0)
    assert pairs == ((0.0, 6.0), (6.0, 4.0))


def test_nested_perturbations_stay_apart():
    assert cr.grad(lambda x: x * cr.grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert cr.jvp(lambda x: x * cr.jvp(lambda y: x * y, (1.0,), (1.0,))[1], (3.0,), (1.0,)) == (9.0, 6.0)
    assert cr.grad(lambda x: cr.grad(lambda y: y * x)(x))(5.0) == 1.0  # d/dx of x, not of 2x
    assert cr.grad(lambda x: cr.jvp(lambda y: y * y * x, (x,), (1.0,))[1])(3.0) == 12.0
    x = cr.tensor(2.0, requires_grad=True)
    assert cr.grad(lambda y: y * x)(x).item() == 2.0


def test_the_result_is_recorded_when_x_wants_a_gradient():
    x = leaf(1.0, 2.0)
    cube = cr.grad(lambda v: (v**3).sum())
    results = {
        "grad": cube(x),
        "value": cr.value_and_grad(lambda v: (v**3).sum())(x)[0],
        "jvp": cr.jvp(lambda v: v**3, (x,), (np.ones(2),))[1],
        "vjp": cr.vjp(lambda v: v**3, x)[1](np.ones(2))[0],
        "jacobian": cr.jacobian(lambda v: v**3)(x),
        "hessian": cr.hessian(lambda v: (v**3).sum())(x),
        "hvp": cr.hvp(lambda v: (v**3).sum(), x, np.ones(2)),
    }
    slopes = {"value": [3.0, 12.0], "hessian": [6.0, 6.0], "hvp": [6.0, 6.0]}
    for name, result in results.items():
        assert result.requires_grad, name
        assert cr.gradients(result.sum(), [x])[0].tolist() == slopes.get(name, [6.0, 12.0]), name
    plain = cr.tensor([1.0, 2.0])
    assert not cube(plain).requires_grad
    assert not cr.jvp(lambda v: v**3, (plain,), (plain,))[1].requires_grad


def test_the_result_is_recorded_when_a_closure_wants_a_gradient():
    w, a = leaf(3.0, 4.0), np.array([1.0, 2.0])
    g = cr.grad(lambda v: (w * w * v).sum())(a)
    assert isinstance(g, cr.Tensor)
    assert cr.gradients(g.sum(), [w])[0].tolist() == [6.0, 8.0]
    value, _ = cr.value_and_grad(lambda v: (w * v).sum())(a)
    assert cr.gradients(value, [w])[0].tolist() == [1.0, 2.0]
    tangent = cr.jvp(lambda v: w * v * v, (a,), (np.ones(2),))[1]
    assert cr.gradients(tangent.sum(), [w])[0].tolist() == [2.0, 4.0]
    with cr.no_grad():
        assert isinstance(cr.grad(lambda v: (w * v).sum())(a), np.ndarray)


def test_transforms_never_touch_grad():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)

    def f(v):
        return (v * v * w).sum()

    cr.grad(f)(x)
    cr.value_and_grad(f)(x)
    cr.jvp(f, (x,), (x,))
    cr.vjp(f, x)[1](1.0)
    cr.hessian(f)(x)
    cr.hvp(f, x, x)
    cr.grad(cr.checkpoint(f))(x)
    assert x.grad is None
    assert w.grad is None


def test_a_result_that_does_not_depend_on_x_gives_zeros():
    constant = cr.tensor(1.0)
    a = np.ones(2, np.float32)
    g = cr.grad(lambda _: constant)(a)
    assert (g.tolist(), g.dtype) == ([0.0, 0.0], np.float32)
    assert cr.jvp(lambda _: constant, (a,), (a,))[1] == 0.0
    assert cr.jacobian(lambda _: cr.ones(3))(a).tolist() == np.zeros((3, 2)).tolist()
    assert cr.hessian(squares)(a).dtype == np.float32
    assert cr.hessian(cr.sum)(np.ones(2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert cr.hvp(cr.sum, np.ones(2), np.ones(2)).tolist() == [0.0, 0.0]
    assert cr.vjp(lambda _: constant, a)[1](1.0)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("f", [math.sin, float, lambda x: x.item(), lambda x: x.data, lambda x: 3.0, lambda x: None])
def test_a_result_that_is_no_tensor_raises(f):
    for transform in (
        lambda: cr.grad(f)(2.0),
        lambda: cr.value_and_grad(f)(2.0),
        lambda: cr.hessian(f)(2.0),
        lambda: cr.hvp(f, 2.0, 1.0),
    ):
        with pytest.raises((LostGraphError, ShapeError)):
            transform()
    if f(cr.tensor(2.0)) is not None:  # None is a tree without leaves
        for transform in (
            lambda: cr.grad(f)(2.0),
            lambda: cr.jvp(f, (2.0,), (1.0,)),
            lambda: cr.vjp(f, 2.0),
            lambda: cr.jacobian(f)(2.0),
        ):
            with pytest.raises(LostGraphError, match="the result is no tensor, so it carries no graph"):
                transform()


@pytest.mark.parametrize("x", [2, np.int64(2), np.arange(3), cr.tensor([1, 2]), True, {"n": 1}])
def test_an_integer_raises_and_says_so(x):
    for transform in (cr.grad(squares), cr.value_and_grad(squares), cr.jacobian(squares), cr.hessian(squares)):
        with pytest.raises(DTypeError, match=r"only floating numbers have derivatives .* try 2\.0 for 2"):
            transform(x)
    with pytest.raises(DTypeError, match=r"try 2\.0 for 2"):
        cr.jvp(squares, (x,), (x,))


def test_a_scalar_is_asked_for():
    with pytest.raises(
        ShapeError, match=r"the result is no scalar · result f64\[2\], expected shape \(\) · try cr.jacobian"
    ):
        cr.grad(lambda x: x * x)(np.ones(2))
    with pytest.raises(ShapeError):
        cr.grad(lambda x: (x * x).reshape(1, 1))(np.ones(1))
    with pytest.raises(ShapeError, match="tree"):
        cr.grad(lambda x: (x, x))(1.0)


def test_results_share_memory_with_nothing():
    a, ct = np.ones(2), np.ones(2)
    results = [
        cr.grad(cr.sum)(a), *cr.vjp(lambda v: +v, a)[1](ct), cr.vjp(lambda v: +v, a)[0], *cr.jvp(lambda v: +v, (a,), (ct,)),
        *cr.grad(lambda p, q: (p + q).sum(), argnums=(0, 1))(a, a), cr.jacobian(lambda v: v.reshape(2, 1))(a),
    ]  # fmt: skip
    for k, one in enumerate(results):
        assert one.flags.writeable
        for other in (a, ct, *results[:k]):
            assert not np.shares_memory(one, other)


def test_signatures():
    expected = {
        "grad": {"f": inspect.Parameter.empty, "argnums": 0, "has_aux": False},
        "value_and_grad": {"f": inspect.Parameter.empty, "argnums": 0, "has_aux": False},
        "jacobian": {"f": inspect.Parameter.empty, "argnums": 0},
        "hessian": {"f": inspect.Parameter.empty, "argnums": 0},
        "hvp": dict.fromkeys(["f", "x", "v"], inspect.Parameter.empty),
        "checkpoint": {"f": inspect.Parameter.empty},
        "stop_gradient": {"x": inspect.Parameter.empty},
        "set_default_dtype": {"dtype": inspect.Parameter.empty},
        "tensor": {"data": inspect.Parameter.empty, "dtype": None, "requires_grad": False},
        "asarray": {"data": inspect.Parameter.empty, "dtype": None},
    }
    for name, parameters in expected.items():
        found = inspect.signature(getattr(cr, name)).parameters
        assert {key: p.default for key, p in found.items()} == parameters, name
    for name in ("jvp", "vjp", "linearize"):
        assert next(iter(inspect.signature(getattr(cr, name)).parameters)) == "f"
