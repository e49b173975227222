"""Users' own operations: declaring, differentiating in every mode, and what is wrong with a rule, said at the rule."""

import gc
import weakref

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.primitive import PRIMITIVES
from chainrule.errors import ArgumentError, DTypeError, RuleError
from chainrule.ops import reductions
from tests.transforms.formulas import difference

RNG = np.random.default_rng(2)


@cr.operation(lambda ct, x: ct * np.cos(x))
def my_sin(x):
    """The sine."""
    assert isinstance(x, (np.ndarray, np.generic))
    return np.sin(x)


@cr.operation(lambda ct, x, y, k: ct * y * k, lambda ct, x, out, y: ct * out / y)
def product(x, y, k=1.0):
    return x * y * k


def test_in_every_mode_and_order():
    x = RNG.normal(size=3)
    total = lambda x: reductions.sum(my_sin(x) * x)
    exact = lambda x: reductions.sum(cr.sin(x) * x)
    np.testing.assert_allclose(cr.grad(total)(x), cr.grad(exact)(x), rtol=1e-14)
    np.testing.assert_allclose(cr.hessian(total)(x), cr.hessian(exact)(x), rtol=1e-13)
    np.testing.assert_allclose(cr.jvp(total, (x,), (x,))[1], cr.jvp(exact, (x,), (x,))[1], rtol=1e-14)
    np.testing.assert_allclose(
        cr.grad(lambda x: reductions.sum(cr.hvp(total, x, x)))(x),
        cr.grad(lambda x: reductions.sum(cr.hvp(exact, x, x)))(x),
    )


def test_on_arrays_tensors_and_numbers():
    assert my_sin(np.zeros(2)).tolist() == [0.0, 0.0]
    assert type(my_sin(np.zeros(2))) is np.ndarray
    assert type(my_sin(cr.tensor([0.0]))) is cr.Tensor
    assert my_sin(0.0) == 0.0
    assert (my_sin.__name__, my_sin.__doc__) == ("my_sin", "The sine.")
    x = cr.tensor([0.0, 1.0], requires_grad=True)
    reductions.sum(my_sin(x)).backward()
    np.testing.assert_allclose(x.grad, np.cos([0.0, 1.0]))


def test_several_arguments_parameters_and_broadcasting():
    x, y = RNG.normal(size=(2, 1)), RNG.normal(size=3)
    g = cr.grad(lambda x, y: reductions.sum(product(x, y, k=3.0)), (0, 1))(x, y)
    assert [v.shape for v in g] == [(2, 1), (3,)]
    np.testing.assert_allclose(g[0], np.full((2, 1), 3 * y.sum()))
    np.testing.assert_allclose(g[1], np.full(3, 3 * x.sum()))
    assert cr.grad(product)(2.0, y=5.0, k=2.0) == 10.0
    assert cr.grad(product, 1)(2.0, 5.0, 2.0) == 4.0
    assert cr.jvp(lambda y: product(2.0, y), (5.0,), (1.0,)) == (10.0, 2.0)


def test_types_none_and_keyword_only_parameters():
    @cr.operation(lambda ct, x_type, axis: np.zeros(x_type.shape) + np.expand_dims(ct, axis), None)
    def total(x, mask, *, axis=0):
        return (x * mask).sum(axis)

    x = RNG.normal(size=(2, 3))
    np.testing.assert_array_equal(cr.grad(lambda x: reductions.sum(total(x, np.ones(3), axis=1)))(x), np.ones((2, 3)))
    mask = cr.tensor(np.ones(3), requires_grad=True)
    assert not total(x, mask, axis=1).requires_grad


def test_the_table_of_records_stays_the_library_s_own():
    before = dict(PRIMITIVES)

    @cr.operation(lambda ct: ct)
    def exp(x):
        return x

    assert before == PRIMITIVES
    assert cr.grad(exp)(1.0) == 1.0


def test_arguments_may_be_called_anything():
    @cr.operation(lambda ct, t, node: ct * node, lambda ct, t: ct * t)
    def f(t, node, primitive=1):
        return t * node

    assert cr.grad(f, (0, 1))(2.0, 5.0) == (5.0, 2.0)
    assert cr.hessian(f, (0, 1))(2.0, 5.0) == ((0.0, 1.0), (1.0, 0.0))


def test_the_result_never_shares_the_argument_s_memory():
    same = cr.operation(lambda ct: ct)(lambda x: x)
    x = cr.tensor([1.0], requires_grad=True)
    y = same(x)
    with cr.no_grad():
        x += 1.0
    assert y.tolist() == [1.0]


def test_chosen_rule_without_relation_to_the_function():
    """A straight-through estimator, and a surrogate checked against differences of what it stands for."""
    hard = cr.operation(lambda ct: ct)(lambda x: np.round(x))
    assert cr.grad(lambda x: hard(x) * 3.0)(1.3) == 3.0
    quad = cr.operation(lambda ct, x: ct * 2.0 * x)(lambda x: x * x)
    assert cr.grad(quad)(1.5) == pytest.approx(difference(lambda x: x * x, 1.5, 1.0))


# ------------------------------------------------------------------------------------------------- at the declaration
@pytest.mark.parametrize(
    ("rules", "f", "message"),
    [
        ((lambda ct, z: ct,), lambda x: x, r"unknown residual 'z'"),
        ((lambda: 1.0,), lambda x: x, "cotangent"),
        ((lambda ct: ct, lambda ct: ct), lambda x: x, "2 rules for 1 arguments"),
        ((lambda ct: ct,), lambda *xs: xs, "names its arguments"),
        ((lambda ct: ct,), lambda out: out, "'out' has a meaning"),
        ((), lambda x: x, "one rule for each"),
        ((3,), lambda x: x, "is no function"),
        ((lambda ct, **rest: ct,), lambda x: x, "unknown residual 'rest'"),
    ],
)
def test_faults_at_the_declaration(rules, f, message):
    with pytest.raises(RuleError, match=message):
        cr.operation(*rules)(f)


def test_a_decorator_without_brackets_is_noticed():
    @cr.operation
    def f(x):
        return x

    with pytest.raises(RuleError, match="@operation"):
        f(1.0)


# ------------------------------------------------------------------------------------------------------- at the rule
@pytest.mark.parametrize("wrong", [None, "text", [1.0], (1.0,), {}, np.array("a"), np.array(None), 1j * np.ones(())])
@pytest.mark.parametrize("mode", ["grad", "jvp", "hessian"])
def test_results_of_a_wrong_type(wrong, mode):
    """Case E5, second half: a bare value where something else is due, and the other way round."""
    f = cr.operation(lambda ct: wrong)(lambda x: x * 2.0)
    f.primitive.name = "twice"
    run = {"grad": cr.grad(f), "hessian": cr.hessian(f), "jvp": lambda x: cr.jvp(f, (x,), (1.0,))}[mode]
    with pytest.raises(RuleError, match=r"the rule for x gives no array of numbers .*given .*expected x f64\[\]"):
        run(1.0)


def test_results_of_a_wrong_shape():
    """Case E5: an operation on a scalar whose rule returns shape (10,)."""

    @cr.operation(lambda ct: ct * np.ones(10))
    def twice(x):
        return x * 2.0

    x = cr.tensor(1.0, requires_grad=True)
    for run in (twice(x).backward, lambda: cr.grad(twice)(1.0), lambda: cr.jvp(twice, (1.0,), (1.0,))):
        with pytest.raises(
            RuleError, match=r"twice: the rule for x gives another shape · given f64\[10\], expected x f64\[\]"
        ):
            run()
    assert x.grad is None
    total = cr.operation(lambda ct: ct)(lambda x: x.sum())  # forgot to spread
    with pytest.raises(RuleError, match=r"expected x f64\[3\]"):
        cr.grad(total)(np.ones(3))


def test_only_the_rule_that_runs_is_looked_at():
    f = cr.operation(lambda ct, y: ct * y, lambda ct: "wrong")(lambda x, y: x * y)
    assert cr.grad(f)(2.0, 3.0) == 3.0
    with pytest.raises(RuleError, match="the rule for y"):
        cr.grad(f, 1)(2.0, 3.0)


def test_functions_that_return_no_array():
    for result in (None, (1.0, 2.0), "text", [1.0]):
        f = cr.operation(lambda ct: ct)(lambda x, result=result: result)
        with pytest.raises(RuleError, match="returns one array"):
            cr.grad(f)(1.0)


def test_arguments_are_bound_as_python_does():
    with pytest.raises(ArgumentError, match="product"):
        product(1.0)
    with pytest.raises(DTypeError, match="'k' is a tensor"):
        product(1.0, 2.0, k=cr.tensor(1.0))


# ------------------------------------------------------------------------------------------------------------- memory
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_inside_a_rule_leaks_nothing(create_graph):
    """Case G5: without the collector, whatever the rule saved is gone after the loop."""
    saved = []

    def rule(ct, x):
        v = cr.tensor(x, requires_grad=True) if not isinstance(x, cr.Tensor) else x * 1.0
        (g,) = cr.gradients(reductions.sum(v * v * v), [v], create_graph=create_graph)
        saved.extend(map(weakref.ref, (v, g)))
        return ct * g if isinstance(ct, cr.Tensor) or not isinstance(g, cr.Tensor) else ct * g.detach().data

    cube = cr.operation(rule)(lambda x: x**3)
    gc.disable()
    try:
        for _ in range(3):
            x = cr.tensor(RNG.normal(size=100), requires_grad=True)
            y = reductions.sum(cube(x))
            saved.append(
                weakref.ref(y.node[2][0][3][0]) if isinstance(y.node[2][0][3][0], np.ndarray) else weakref.ref(y)
            )
            y.backward()
            np.testing.assert_allclose(x.grad, 3 * x.data**2, rtol=1e-12)
        del x, y
        assert len(saved) == 9
        assert all(ref() is None for ref in saved)
    finally:
        gc.enable()
    assert cr.grad(cube)(2.0) == 12.0


def test_grad_inside_a_rule_at_second_order():
    """The outer derivative passes through the inner transform."""
    cube = cr.operation(lambda ct, x: ct * cr.grad(lambda v: v * v * v)(x))(lambda x: x**3)
    assert cr.grad(cube)(2.0) == 12.0
    assert cr.grad(cr.grad(cube))(2.0) == 12.0
    assert cr.jvp(cr.grad(cube), (2.0,), (1.0,)) == (12.0, 12.0)


def test_ufuncs_of_numpy_and_scipy_are_operations():
    special = pytest.importorskip("scipy.special")
    expit = cr.operation(lambda ct, out: ct * out * (1.0 - out))(special.expit)
    assert cr.grad(expit)(0.0) == 0.25
    hypot = cr.operation(lambda ct, x, out: ct * x / out, lambda ct, y, out: ct * y / out)(np.hypot)
    assert cr.grad(hypot, argnums=(0, 1))(3.0, 4.0) == pytest.approx((0.6, 0.8), rel=1e-15)
