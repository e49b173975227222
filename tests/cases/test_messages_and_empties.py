"""E: what messages say; empty and 0-d arrays through everything."""

import re

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.primitive import PRIMITIVES
from tests.cases.ways import derivatives_are, leaf, reverse_over_reverse

# ---------------------------------------------------------------- E1
PAIRS = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "pow",
    "maximum",
    "minimum",
    "atan2",
    "hypot",
    "logaddexp",
    "remainder",
    "less",
    "equal",
    "copysign",
]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    ("p", "q"), [((2, 4), (2,)), ((2,), (2, 4)), ((3,), (4,)), ((2, 3), (3, 2)), ((1, 2, 3), (2, 2))]
)
@pytest.mark.parametrize("kinds", ["tensors", "array right", "array left", "arrays"])
def test_e1_shapes_as_given_and_the_operation(name, p, q, kinds):
    x, y = np.ones(p), np.ones(q)
    a = leaf(x) if kinds in ("tensors", "array right") else x
    b = leaf(y) if kinds in ("tensors", "array left") else y
    with pytest.raises(cr.errors.ShapeError) as caught:
        getattr(cr, name)(a, b)
    text = str(caught.value)
    assert text.startswith(f"{name}:")
    assert f"f64{list(p)}" in text
    assert f"f64{list(q)}" in text
    assert isinstance(caught.value, ValueError)


def test_e1_the_reported_one_by_operator():
    for write in (
        lambda a, b: a + b, lambda a, b: a + b.data, lambda a, b: a.data + b, lambda a, b: np.add(a, b),
    ):  # fmt: skip
        with pytest.raises(cr.errors.ShapeError, match=r"^add: .*f64\[2, 4\].*f64\[2\]"):
            write(leaf(np.ones((2, 4))), leaf(np.ones(2)))


x23, x3 = np.ones((2, 3)), np.ones(3)
# what is called; what the message must hold
FAULTS = {
    "sum_axis": (lambda t: cr.sum(t, axis=2), ["sum", "axis 2"]),
    "sum_axis_twice": (lambda t: cr.sum(t, axis=(0, -2)), ["sum", "twice"]),
    "mean_axis": (lambda t: t.mean(axis=-3), ["mean", "axis -3"]),
    "max_axis": (lambda t: cr.max(t, axis=5), ["max", "axis 5"]),
    "cumulative_axis": (lambda t: cr.cumulative_sum(t), ["cumulative_sum", "axis"]),
    "softmax_axis": (lambda t: cr.softmax(t, axis=2), ["softmax", "axis 2"]),
    "sort_axis": (lambda t: cr.sort(t, axis=2), ["sort", "axis 2"]),
    "reshape": (lambda t: t.reshape(4, 2), ["reshape", "6 elements", "f64[2, 3]"]),
    "reshape_unknown": (lambda t: t.reshape(4, -1), ["reshape", "6 elements", "f64[2, 3]"]),
    "reshape_two_unknown": (lambda t: t.reshape(-1, -1), ["reshape"]),
    "permute": (lambda t: cr.permute_dims(t, (0, 0)), ["permute_dims", "f64[2, 3]"]),
    "squeeze": (lambda t: cr.squeeze(t, 0), ["squeeze", "f64[2, 3]"]),
    "broadcast_to": (lambda t: cr.broadcast_to(t, (3, 2)), ["broadcast_to", "f64[2, 3]"]),
    "concat": (lambda t: cr.concat([t, np.ones((2, 4))]), ["concat", "f64[2, 3]", "f64[2, 4]"]),
    "concat_nothing": (lambda t: cr.concat([]), ["concat"]),
    "stack": (lambda t: cr.stack([t, np.ones((2, 4))]), ["stack", "f64[2, 3]", "f64[2, 4]"]),
    "split": (lambda t: cr.split(t, 4), ["split", "f64[2, 3]"]),
    "matmul": (lambda t: t @ np.ones((2, 3)), ["matmul", "f64[2, 3]", "inner"]),
    "matmul_vector": (lambda t: t @ np.ones(2), ["matmul", "f64[2, 3]", "f64[2]"]),
    "matmul_number": (lambda t: t @ cr.tensor(1.0), ["matmul", "f64[]"]),
    "tril": (lambda t: cr.tril(t[0]), ["tril", "f64[3]"]),
    "index": (lambda t: t[2], ["f64[2, 3]"]),
    "index_many": (lambda t: t[0, 0, 0], ["f64[2, 3]"]),
    "take": (lambda t: cr.take(t, [5], axis=0), ["take"]),
    "where": (lambda t: cr.where(np.ones(4, bool), t, 0.0), ["where", "f64[2, 3]", "bool[4]"]),
    "clip": (lambda t: cr.clip(t, np.zeros(4), None), ["f64[2, 3]", "f64[4]"]),
    "backward": (lambda t: t.backward(), ["backward", "f64[2, 3]", "cotangent"]),
    "backward_cotangent": (lambda t: t.backward(np.ones(3)), ["backward", "f64[2, 3]", "f64[3]"]),
    "backward_lost": (lambda t: t.detach().sum().backward(), ["backward", "requires_grad"]),
    "grad_of_vector": (lambda t: cr.grad(lambda x: x)(x23), ["grad", "f64[2, 3]", "cr.jacobian"]),
    "jvp_tangent": (lambda t: cr.jvp(lambda x: x, (x23,), (x3,)), ["jvp", "f64[2, 3]", "f64[3]"]),
    "vjp_cotangent": (lambda t: cr.vjp(lambda x: x, x23)[1](x3), ["vjp", "f64[2, 3]", "f64[3]"]),
    "hvp_tangent": (lambda t: cr.hvp(lambda x: x.sum(), x23, x3), ["hvp", "f64[2, 3]", "f64[3]"]),
    "item": (lambda t: t.item(), ["item", "6 elements", "f64[2, 3]"]),
    "len": (lambda t: len(t[0, 0]), ["len", "f64[]"]),
    "iteration": (lambda t: list(t[0, 0]), ["iteration", "f64[]"]),
    "dtype": (lambda t: t.astype("nonsense"), ["astype", "nonsense"]),
    "unmapped": (lambda t: np.nancumprod(t), ["np.nancumprod", "try"]),
    "keyword": (lambda t: np.sum(t, where=np.ones((2, 3), bool)), ["sum", "where"]),
    "ragged": (lambda t: cr.tensor([[1.0], [1.0, 2.0]]), ["tensor"]),
    "norm_order": (lambda t: t.norm(ord="fro"), ["norm", "'fro'"]),
    "pad": (lambda t: cr.pad(t, ((1, 1), (1, 1), (1, 1))), ["pad", "f64[2, 3]"]),
    "moveaxis": (lambda t: cr.moveaxis(t, 0, 2), ["moveaxis", "axis 2"]),
    "repeat": (lambda t: cr.repeat(t, -1, axis=0), ["repeat"]),
    "diagonal": (lambda t: cr.diagonal(t, axis1=0, axis2=0), ["diagonal"]),
    "flip": (lambda t: cr.flip(t, axis=2), ["flip", "axis 2"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_e1_every_message_names_the_operation_and_the_operands(name):
    call, parts = FAULTS[name]
    with pytest.raises(cr.errors.ChainruleError) as caught:
        call(leaf(x23))
    text = str(caught.value)
    for part in parts:
        assert part in text
    assert "\n" not in text


# ---------------------------------------------------------------- E3
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod", "np.cumsum", "np.cumprod"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 0), 1), ((2, 0), 0), ((0, 2), 0), ((0,), 0), ((2, 0, 3), 1), ((2, 0, 3), 2)]
)
def test_e3_empty_cumulative(name, shape, axis):
    f = getattr(np, name[3:]) if name.startswith("np.") else getattr(cr, name)
    derivatives_are(lambda x: f(x, axis=axis).sum(), np.zeros(shape), 0.0, 0.0)
    derivatives_are(lambda x: (f(x, axis=axis) ** 2).sum(), np.zeros(shape), 0.0, 0.0)


EMPTY = {
    "sum": cr.sum, "prod": cr.prod, "sum_axis": lambda x: cr.sum(x, axis=0), "prod_axis": lambda x: cr.prod(x, axis=-1),
    "exp": cr.exp, "add": lambda x: x + 1.0, "multiply": lambda x: x * x, "where": lambda x: cr.where(x > 0, x, 0.0),
    "clip": lambda x: cr.clip(x, 0.0, 1.0), "sort": lambda x: cr.sort(x, axis=0), "flip": lambda x: cr.flip(x), "reshape": lambda x: x.reshape(-1),
    "concat": lambda x: cr.concat([x, x]), "stack": lambda x: cr.stack([x, x]), "transpose": lambda x: x.T, "softmax": lambda x: cr.softmax(x, axis=0),
    "log_softmax": lambda x: cr.log_softmax(x, axis=-1), "norm": cr.Tensor.norm, "tile": lambda x: cr.tile(x, (2, 2)), "repeat": lambda x: cr.repeat(x, 3, axis=0),
    "pad": lambda x: cr.pad(x, 1), "roll": lambda x: cr.roll(x, 1), "index": lambda x: x[:0], "index_list": lambda x: x[[]], "mask": lambda x: x[x > 0],
    "matmul": lambda x: x @ x.T, "outer": lambda x: cr.outer(x.reshape(-1), x.reshape(-1)), "einsum": lambda x: cr.einsum("ij,ij->i", x, x),
    "einsum_sum": lambda x: cr.einsum("ij->", x), "split": lambda x: cr.split(x, 1)[0], "squeeze": lambda x: cr.expand_dims(x, 0),
    "logaddexp": lambda x: cr.logaddexp(x, x), "tril": cr.tril, "take": lambda x: cr.take(x, np.array([], int), axis=0), "astype": lambda x: x.astype(np.float32),
    "unstack": lambda x: cr.concat([x[None], *[r[None] for r in cr.unstack(x[None])]]), "pow": lambda x: x**3, "abs": abs, "tensordot": lambda x: cr.tensordot(x, x, ((0, 1), (0, 1))),
    "broadcast": lambda x: cr.broadcast_to(x, (3, *x.shape)), "logsumexp": lambda x: cr.where(True, 0.0, 0.0 * cr.sum(x)),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("name", EMPTY)
def test_e3_everything_empty(name, shape):
    f = EMPTY[name]
    with np.errstate(all="ignore"):
        derivatives_are(lambda x: f(x).sum(), np.zeros(shape), 0.0, 0.0)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_e3_extremes_of_nothing_say_so(name):
    with pytest.raises(cr.errors.ShapeError, match=name):
        getattr(cr, name)(leaf(np.zeros((0, 3))))
    assert getattr(cr, name)(leaf(np.zeros((3, 0))), axis=0).shape == (0,)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_e3_means_of_nothing_are_nan_as_in_numpy():
    for f in (cr.mean, cr.var, cr.std):
        x = leaf(np.zeros((0, 3)))
        y = f(x)
        assert np.isnan(y.item())
        y.backward()
        assert x.grad.shape == (0, 3)


@pytest.mark.parametrize("x", [0.75, np.float64(0.75), np.array(0.75), np.float32(0.75)], ids=repr)
@pytest.mark.parametrize("name", [
    "sum", "prod", "mean", "max", "min", "var", "std", "logsumexp", "norm", "exp", "sin", "tanh", "sqrt", "log", "abs", "relu", "sigmoid", "square",
    "reshape", "T", "index", "ellipsis", "none", "where", "stack", "flatten", "expand", "squeeze", "broadcast", "clip", "astype", "any",
])  # fmt: skip
def test_e3_everything_0_d(name, x):
    """NumPy's 0-d results are scalars; a gradient is an array of the leaf's shape and dtype nevertheless."""
    forms = {
        "norm": cr.Tensor.norm, "reshape": lambda t: t.reshape(()), "T": lambda t: t.T, "index": lambda t: t[()], "ellipsis": lambda t: t[...],
        "none": lambda t: t[None], "where": lambda t: cr.where(True, t, 0.0), "stack": lambda t: cr.stack([t, t]), "flatten": lambda t: t.flatten(),
        "expand": lambda t: cr.expand_dims(t, 0), "squeeze": lambda t: cr.squeeze(t), "broadcast": lambda t: cr.broadcast_to(t, (2,)),
        "clip": lambda t: cr.clip(t, 0.0, 1.0), "astype": lambda t: t.astype(np.float64), "any": lambda t: t * cr.any(t > 0),
    }  # fmt: skip
    f = forms.get(name) or getattr(cr, name)
    t = leaf(x)
    (f(t) * 1.0).sum().backward()
    assert type(t.grad) is np.ndarray
    assert t.grad.shape == ()
    assert t.grad.dtype == np.asarray(x).dtype
    assert t.grad.flags.writeable
    g = cr.grad(lambda t: (f(t) * 1.0).sum())(x)
    assert type(g) is (np.ndarray if isinstance(x, np.ndarray) else type(x))
    h = reverse_over_reverse(lambda t: (f(t) ** 3).sum(), np.asarray(x))
    step = 1e-3
    if np.asarray(x).dtype == np.float64:
        v = lambda z: float((f(cr.tensor(z)) ** 3).sum().data)
        np.testing.assert_allclose(h, (v(x + step) - 2 * v(x) + v(x - step)) / step**2, rtol=1e-4, atol=1e-4)


def test_e3_empty_arguments_of_transforms():
    x = np.zeros((0, 2))
    assert cr.grad(lambda x: x.sum())(x).shape == (0, 2)
    assert cr.jacobian(lambda x: x)(x).shape == (0, 2, 0, 2)
    assert cr.hessian(lambda x: (x**2).sum())(x).shape == (0, 2, 0, 2)
    assert cr.hvp(lambda x: (x**2).sum(), x, x).shape == (0, 2)
    assert cr.jvp(lambda x: x * 2.0, (x,), (x,))[1].shape == (0, 2)
    assert cr.jacobian(lambda x: x.sum(axis=0))(x).shape == (2, 0, 2)
    assert cr.jacobian(lambda x: x[:0])(np.ones(3)).shape == (0, 3)


# ---------------------------------------------------------------- E5
def one(rule, name="scaled"):
    def f(x):
        return 2.0 * x

    f.__name__ = name
    return cr.operation(rule)(f)


WRONG = {
    "shape": (lambda ct: np.ones(10), "f64[10]"),
    "shape_of_more_axes": (lambda ct: np.ones((2, 2, 2)), "f64[2, 2, 2]"),
    "tuple": (lambda ct: (ct, ct), "("),
    "list": (lambda ct: [2.0], "given [2.0]"),
    "none": (lambda ct: None, "None"),
    "text": (lambda ct: "a", "'a'"),
    "complex": (lambda ct: ct * 2j, "c128"),
    "object": (lambda ct: np.array([object()]), "object"),
}


@pytest.mark.parametrize("x", [1.5, np.array([1.0, 2.0, 3.0])], ids=["scalar", "vector"])
@pytest.mark.parametrize("name", WRONG)
def test_e5_wrong_rule_output_raises_at_the_rule(name, x):
    rule, given = WRONG[name]
    f = one(rule)
    shape = f"f64{list(np.shape(x))}"
    for ask in (
        lambda: f(leaf(x)).sum().backward(),
        lambda: cr.grad(lambda x: f(x).sum())(x),
        lambda: cr.hessian(lambda x: f(x).sum())(x),
        lambda: cr.jvp(f, (x,), (x,)),
    ):
        with pytest.raises(cr.errors.RuleError) as caught:
            ask()
        text = str(caught.value)
        assert "scaled" in text
        assert re.search(r"\bx\b", text)
        assert given in text
        assert shape in text
    t = leaf(x)
    with pytest.raises(cr.errors.RuleError):
        f(t).sum().backward()
    assert t.grad is None


def test_e5_wrong_arity_and_unknown_residuals_raise_at_the_declaration():
    for rules in ([lambda: 1.0], [lambda ct, nonsense: ct], [lambda ct: ct, lambda ct: ct], [3.0]):
        with pytest.raises(cr.errors.RuleError):
            cr.operation(*rules)(lambda x: x)
    with pytest.raises(cr.errors.RuleError):
        cr.operation()(lambda x: x)


def test_e5_an_operation_that_returns_no_array():
    for result in (None, "a", (1.0, 2.0), [1.0]):
        f = cr.operation(lambda ct: ct)(lambda x, result=result: result)
        with pytest.raises((cr.errors.RuleError, cr.errors.DTypeError)):
            f(leaf(1.0))


def test_e5_of_two_arguments_the_wrong_one_is_named():
    @cr.operation(lambda ct, y: ct * y, lambda ct, x: np.ones(7))
    def product(x, y):
        return x * y

    with pytest.raises(cr.errors.RuleError, match=r"product: .*\by\b") as caught:
        product(leaf([1.0, 2.0]), leaf([3.0, 4.0])).sum().backward()
    assert "f64[7]" in str(caught.value)
    t = leaf([1.0, 2.0])
    product(t, np.array([3.0, 4.0])).sum().backward()  # the wrong rule is not asked
    assert t.grad.tolist() == [3.0, 4.0]


def test_e5_right_rules_broadcast_and_go_to_any_order():
    @cr.operation(lambda ct, x, n: ct * n * x ** (n - 1), lambda ct: ct)
    def power_plus(x, y, n=3):
        return x**n + y

    derivatives_are(lambda x: power_plus(x, np.ones((2, 2))).sum(), [1.0, 2.0], [6.0, 24.0], np.diag([12.0, 24.0]))
    y = leaf(0.0)
    power_plus(np.ones((2, 2)), y).sum().backward()
    assert y.grad == 4.0
    assert "power_plus" not in PRIMITIVES
