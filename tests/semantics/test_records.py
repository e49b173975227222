"""DESIGN 2, the record of a primitive: what a rule reads, what is kept, who fits and accumulates.

| sentence | test |
|--|--|
| one statement declares an operation; no second table, enum or export list mentions it | test_one_statement_declares_an_operation |
| a rule's parameter names are its residuals | test_parameter_names_are_the_residuals |
| first `ct`, then any of `out`, an input's name, `<input>_type`, keyword parameters | test_a_rule_may_read_every_kind_of_residual |
| the engine keeps exactly those | test_the_engine_keeps_exactly_what_rules_name, test_a_residual_that_no_rule_will_read_is_not_kept |
| an unknown name is an error at import | test_an_unknown_residual_is_an_error_at_the_declaration, test_a_rule_needs_its_cotangent, test_one_rule_for_each_input |
| one rule per input, so unneeded cotangents are never computed | test_a_cotangent_that_nobody_needs_is_not_computed |
| `None` says "no gradient, on purpose" | test_none_says_no_gradient_on_purpose |
| the same rule runs on raw arrays in a first-order pass, where no tensor is made | test_first_order_runs_rules_on_raw_arrays |
| and on tensors when the derivative is itself to be differentiated | test_a_recorded_pass_runs_rules_on_tensors |
| rules are pure: one may run twice | test_rules_may_run_twice |
| no broadcasting, accumulation or casting inside a rule: the engine fits a cotangent once | test_the_engine_fits_shape_and_dtype, test_mixed_dtypes_are_fitted_once, test_the_engine_accumulates |
| a rule whose result cannot be fitted raises at the rule | test_a_result_that_does_not_fit_raises_at_the_rule |
| an entry whose cotangent is zero and whose pullback would be NaN gets zero | test_a_zero_cotangent_stays_zero |
| so `where` never leaks NaN from the branch not taken, in higher order too | test_where_never_leaks_nan |
| finite results are untouched | test_finite_results_are_untouched |
| `where` looks for NaN that was there before | test_where_looks_for_nan_that_was_there_before |
| at kinks | test_kinks, test_ties_share_evenly, test_norm_and_std_where_they_vanish, test_prod_without_division |
| arguments are normalised at the door | test_arguments_are_normalised_at_the_door |
| Python scalars are weak, NumPy scalars strong | test_python_scalars_are_weak_numpy_scalars_strong |
| NumPy's 0-d results are scalars, so no path may test for `ndarray` | test_zero_dimensional_results_are_scalars |
| a composite has no rule | test_a_composite_has_no_record |
| a primitive may have several outputs | test_several_outputs, test_a_missing_cotangent_of_several_stays_none |
| names follow the Python array API standard | test_names_are_those_of_the_standard |
| while the counter is zero, NumPy runs with no other check | test_the_counter_is_zero_where_nothing_unusual_is_open |
"""

import weakref

import numpy as np
import pytest

import chainrule as cr
from chainrule import modes
from chainrule.core.primitive import PRIMITIVES, primitive
from chainrule.errors import RuleError
from chainrule.ops.families import ELEMENTWISE, GENERAL


def leaf(*values, dtype=np.float64):
    return cr.tensor(np.array(values, dtype), requires_grad=True)


def record(name, rules, forward, **how):
    """An operation of this test alone: not listed among the library's."""
    return primitive(name, how.pop("family", ELEMENTWISE), rules, forward=forward, listed=False, **how)


def kept(t):
    """The residuals of the node of a tensor, by the names that rules read."""
    return dict(zip(t.node[1].keeps, t.node[3], strict=True))


def test_one_statement_declares_an_operation():
    from chainrule.ops.families import unary

    try:
        triple = unary("triple", lambda ct: 3.0 * ct, forward=lambda x: 3.0 * x, standard=lambda xp, x: 3.0 * x)
        x = leaf(1.0, 2.0)
        triple(x).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]
        assert cr.jvp(triple, (2.0,), (10.0,)) == (6.0, 30.0)
    finally:
        PRIMITIVES.pop("triple", None)


def test_parameter_names_are_the_residuals():
    assert PRIMITIVES["exp"].keeps == ("out",)
    assert PRIMITIVES["log"].keeps == ("x",)
    assert PRIMITIVES["multiply"].keeps == ("x", "y")
    assert PRIMITIVES["divide"].keeps == ("y", "out")
    assert PRIMITIVES["add"].keeps == ()
    assert PRIMITIVES["sum"].keeps == ()  # x_type is read from the parent's node, no array is kept for it


def test_a_rule_may_read_every_kind_of_residual():
    seen = {}

    def rule(ct, x, out, x_type, y_type, n):
        seen.update(x=x, out=out, x_type=x_type, y_type=y_type, n=n)
        return ct

    shift = record("shift", [rule, lambda ct: ct], lambda x, y, n: x + y + n, inputs="x y", parameters="n")
    x = leaf(1.0, 2.0)
    shift(x, leaf(3.0, 4.0), 10).sum().backward()
    assert np.array_equal(seen["x"], [1.0, 2.0])
    assert np.array_equal(seen["out"], [14.0, 16.0])
    assert (seen["x_type"].shape, seen["x_type"].dtype) == ((2,), np.float64)
    assert seen["y_type"].shape == (2,)
    assert seen["n"] == 10


def test_the_engine_keeps_exactly_what_rules_name():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    out = cr.exp(x)
    assert kept(out) == {"out": out.data} if out.size == 1 else kept(out)["out"] is out.data
    assert kept(cr.log(x))["x"] is x.data
    assert kept(x * y)["x"] is x.data
    assert kept(x * y)["y"] is y.data
    assert (x + y).node[3] == ()
    assert x.sum().node[3] == ()
    assert x.reshape(2, 1).node[3] == ()


def test_a_residual_that_no_rule_will_read_is_not_kept():
    x, constant = leaf(1.0, 2.0), cr.tensor([3.0, 4.0])
    product = x * constant
    assert kept(product)["x"] is None
    assert kept(product)["y"] is constant.data
    big = cr.tensor(np.ones(5))
    watch = weakref.ref(big.data)
    total = x[0] + big  # an addition keeps nothing
    del big
    assert watch() is None
    assert total.requires_grad


def test_an_unknown_residual_is_an_error_at_the_declaration():
    with pytest.raises(RuleError, match=r"odd: a rule reads the unknown residual 'z', expected some of"):
        record("odd", [lambda ct, z: ct * z], lambda x: x)


def test_a_rule_needs_its_cotangent():
    with pytest.raises(RuleError, match="at least the cotangent"):
        record("odd", [lambda: 1.0], lambda x: x)


def test_one_rule_for_each_input():
    with pytest.raises(RuleError, match="1 rules for 2 inputs"):
        record("odd", [lambda ct: ct], lambda x, y: x, inputs="x y")


def test_a_cotangent_that_nobody_needs_is_not_computed():
    ran = []
    product = record(
        "product",
        [lambda ct, y: ran.append("x") or ct * y, lambda ct, x: ran.append("y") or ct * x],
        lambda x, y: x * y,
        inputs="x y",
    )
    product(leaf(2.0), cr.tensor([3.0])).sum().backward()
    assert ran == ["x"]
    ran.clear()
    x, y = leaf(2.0), leaf(3.0)
    cr.gradients(product(x, y), [y], cotangent=[1.0])
    assert ran == ["y"]


def test_none_says_no_gradient_on_purpose():
    x = leaf(1.5, -2.5)
    assert not cr.floor(x).requires_grad
    assert not (x > 0).requires_grad
    half = record("half", [lambda ct: 0.5 * ct, None], lambda x, y: 0.5 * x, inputs="x y")
    y = leaf(1.0, 1.0)
    half(x, y).sum().backward()
    assert x.grad.tolist() == [0.5, 0.5]
    assert y.grad is None


def test_first_order_runs_rules_on_raw_arrays():
    seen = []
    same = record("same", [lambda ct, x: seen.append((type(ct), type(x))) or ct], lambda x: x + 0.0)
    same(leaf(1.0)).sum().backward()
    assert seen == [(np.ndarray, np.ndarray)]


def test_a_recorded_pass_runs_rules_on_tensors():
    seen = []
    cube = record("cube", [lambda ct, x: seen.append((type(ct), type(x))) or ct * 3.0 * x * x], lambda x: x**3)
    x = leaf(2.0)
    (slope,) = cr.gradients(cube(x), [x], cotangent=[1.0], create_graph=True)
    assert seen == [(cr.Tensor, cr.Tensor)]
    assert cr.gradients(slope, [x], cotangent=[1.0])[0].tolist() == [12.0]


def test_rules_may_run_twice():
    x = leaf(0.0, 4.0)
    y = cr.sqrt(x) * cr.tensor([0.0, 1.0])  # 0/0 at the first entry: the rule is repeated
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.5]


def test_the_engine_fits_shape_and_dtype():
    row, column = cr.ones((1, 3), requires_grad=True), cr.ones((2, 1), np.float32, requires_grad=True)
    scalar = cr.tensor(2.0, requires_grad=True)
    (row * column * scalar).sum().backward()
    assert (row.grad.shape, column.grad.shape, scalar.grad.shape) == ((1, 3), (2, 1), ())
    assert (row.grad.dtype, column.grad.dtype) == (np.float64, np.float32)
    assert row.grad.tolist() == [[4.0, 4.0, 4.0]]
    assert column.grad.tolist() == [[6.0], [6.0]]
    assert scalar.grad == 6.0


def test_mixed_dtypes_are_fitted_once():
    """A float32 leaf used three times beside float64: its cotangents add up as float32, each cast once."""
    seen = []

    def rule(ct, y):
        seen.append(ct.dtype)
        return ct * y

    product = record("product", [rule, None], lambda x, y: x * y, inputs="x y")
    x, wide = leaf(1.0, 2.0, dtype=np.float32), cr.tensor([3.0, 4.0])
    (product(x, wide) + product(x, wide)).sum().backward()
    assert seen == [np.float64, np.float64]
    assert x.grad.dtype == np.float32
    assert x.grad.tolist() == [6.0, 8.0]


def test_the_engine_accumulates():
    x = leaf(3.0)
    (x * x + x + x).sum().backward()
    assert x.grad.tolist() == [8.0]


def test_a_result_that_does_not_fit_raises_at_the_rule():
    bad = record("bad", [lambda ct: np.ones(3)], lambda x: x + 0.0, family=GENERAL)
    x = leaf(1.0, 2.0)
    with pytest.raises(RuleError, match=r"the rule for x gives another shape .* f64\[3\], expected x f64\[2\]"):
        bad(x).sum().backward()
    assert x.grad is None


def test_a_zero_cotangent_stays_zero():
    x = leaf(0.0, 1.0)
    (cr.sqrt(x) * np.array([0.0, 1.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 0.5]
    with np.errstate(divide="ignore"):
        assert cr.grad(lambda v: cr.log(v)[1] * 1.0)(np.array([0.0, 2.0])).tolist() == [0.0, 0.5]


def test_where_never_leaks_nan():
    def f(v):
        return cr.where(v > 0.0, cr.sqrt(v) * cr.log(v), 0.0).sum()

    x = np.array([-1.0, 0.0, 1.0])
    with np.errstate(all="ignore"):
        assert cr.grad(f)(x).tolist() == [0.0, 0.0, 1.0]
        assert np.isfinite(cr.hessian(f)(x)).all()
        tangent = cr.jvp(f, (x,), (np.ones(3),))[1]
    assert tangent == 1.0


def test_finite_results_are_untouched():
    """k log(x) at k = 0: the cotangent of log is zero, its derivative by k is not."""
    k, x = cr.tensor(0.0, requires_grad=True), cr.tensor(2.0, requires_grad=True)
    (slope,) = cr.gradients(k * cr.log(x), [x], create_graph=True)
    assert slope.item() == 0.0
    assert cr.gradients(slope, [k])[0] == 0.5


def test_where_looks_for_nan_that_was_there_before():
    x = leaf(np.nan, 2.0)
    cr.where(np.array([False, True]), x * x, 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, 4.0]


def test_kinks():
    zero = 0.0
    assert cr.grad(cr.abs)(zero) == 0.0
    assert cr.grad(cr.relu)(zero) == 0.0
    assert not cr.sign(leaf(0.0)).requires_grad
    assert cr.grad(lambda v: cr.maximum(v, 0.0))(zero) == 0.5
    assert cr.grad(lambda v: cr.minimum(v, 0.0))(zero) == 0.5
    assert [cr.grad(lambda v: cr.clip(v, -1.0, 1.0))(at) for at in (-1.0, 0.0, 1.0, 1.5)] == [1.0, 1.0, 1.0, 0.0]
    assert cr.grad(lambda v: (cr.sort(v) * np.array([1.0, 2.0, 3.0])).sum())(np.array([5.0, 5.0, 1.0])).tolist() == [
        2.0,
        3.0,
        1.0,
    ]


def test_ties_share_evenly():
    x = np.array([3.0, 1.0, 3.0])
    assert cr.grad(cr.max)(x).tolist() == [0.5, 0.0, 0.5]
    assert cr.grad(cr.min)(-x).tolist() == [0.5, 0.0, 0.5]
    a, b = leaf(1.0, 2.0), leaf(1.0, 5.0)
    cr.maximum(a, b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([0.5, 0.0], [0.5, 1.0])


def test_norm_and_std_where_they_vanish():
    zeros = np.zeros(3)
    norm = cr.ops.norms.vector_norm
    assert cr.grad(norm)(zeros).tolist() == [0.0, 0.0, 0.0]
    assert cr.grad(cr.std)(np.ones(3)).tolist() == [0.0, 0.0, 0.0]
    assert np.allclose(cr.hessian(lambda v: norm(v) ** 2)(zeros), 2.0 * np.eye(3))  # smooth, and right to second order


def test_prod_without_division():
    assert cr.grad(cr.prod)(np.array([0.0, 2.0, 3.0])).tolist() == [6.0, 0.0, 0.0]
    assert cr.grad(cr.prod)(np.array([0.0, 0.0, 3.0])).tolist() == [0.0, 0.0, 0.0]
    assert cr.hessian(cr.prod)(np.array([0.0, 0.0, 3.0]))[0, 1] == 3.0
    assert np.isfinite(cr.jacobian(lambda v: cr.cumulative_prod(v))(np.array([0.0, 2.0, 0.0]))).all()


def test_arguments_are_normalised_at_the_door():
    x = cr.ones((2, 3), requires_grad=True)
    assert x.sum(axis=-1).node[4] == ((1,), False)
    assert x.sum(axis=[1, 0], keepdims=np.True_).node[4] == ((0, 1), True)
    assert x.mean().shape == ()
    assert x.reshape(-1).node[4] == ((6,),)
    assert x.reshape((3, -1)).shape == (3, 2)
    assert cr.permute_dims(x, (-1, 0)).node[4] == ((1, 0),)


def test_python_scalars_are_weak_numpy_scalars_strong():
    x = leaf(1.0, dtype=np.float32)
    for weak in (x * 2.0, 2.0 * x, x + 1, x - True, x**2, x**0.5, 1 / x, cr.maximum(x, 0.0), cr.where(True, x, 0.0)):
        assert weak.dtype == np.float32, weak
    for strong in (x * np.float64(2), np.float64(2) * x, x + np.array(1.0), x ** np.float64(2.0), x - [1.0]):
        assert strong.dtype == np.float64, strong
    assert (cr.tensor([1, 2]) * 0.5).dtype == np.float64
    assert (cr.tensor([1, 2], np.int8) + 1).dtype == np.int8


def test_zero_dimensional_results_are_scalars():
    x = cr.tensor(2.0, requires_grad=True)
    y = x * x
    assert isinstance(y.data, np.generic)
    for f in (cr.exp, cr.sum, cr.max, lambda v: v.reshape(1)[0], lambda v: cr.where(v > 0, v, 0.0), lambda v: v[...]):
        (g,) = cr.gradients(f(y), [x])
        assert isinstance(g, np.ndarray)
        assert g.shape == ()
    y += 1.0
    y.backward()
    assert x.grad == 4.0
    with cr.no_grad():
        x += 1.0
    assert x.item() == 3.0


def test_a_composite_has_no_record():
    for name in ("mean", "var", "std", "clip", "flatten"):
        assert name not in PRIMITIVES
    x = leaf(1.0, 2.0, 6.0)
    assert cr.mean(x).node[1].name in PRIMITIVES


def test_several_outputs():
    x = cr.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    first, second = cr.unstack(x)
    (first * 10.0 + second).sum().backward()
    assert x.grad.tolist() == [[10.0, 10.0], [1.0, 1.0]]


def test_a_missing_cotangent_of_several_stays_none():
    seen = []

    def rule(ct):
        seen.append(list(ct))
        return sum(g for g in ct if g is not None)

    twice = record("twice", [rule], lambda x: (x + 0.0, x + 1.0), family=GENERAL, multiple=True)
    x = leaf(1.0)
    _, second = twice(x)
    second.sum().backward()
    assert seen[0][0] is None
    assert np.array_equal(seen[0][1], [1.0])
    assert x.grad.tolist() == [1.0]


def test_names_are_those_of_the_standard():
    for name in ("concat", "permute_dims", "acos", "pow", "expand_dims", "matrix_transpose", "cumulative_sum", "atan2"):
        assert callable(getattr(cr, name))
    for name in ("concatenate", "arccos", "power", "cumsum"):
        assert not hasattr(cr, name)


def test_the_counter_is_zero_where_nothing_unusual_is_open():
    before = modes.unusual
    with cr.debug():
        assert modes.unusual == before + 1
    assert modes.unusual == before
    with pytest.raises(ZeroDivisionError), cr.debug():
        1 / 0
    assert modes.unusual == before
