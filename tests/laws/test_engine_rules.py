"""Laws of rules that come from outside the library: what they give is looked at, where they give it.

No fixtures: the mutants call these functions as they stand.
"""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import RuleError
from chainrule.ops.families import unary
from tests.laws.written import leaf, same


def declared(name, rules, forward, family="GENERAL", **how):
    """The same operation through the slow path and through generated code."""
    from chainrule.core.primitive import PRIMITIVES, primitive
    from chainrule.ops import families

    yield primitive(name, getattr(families, family), rules, forward=forward, listed=False, **how)
    try:
        yield primitive(name, getattr(families, family), rules, forward=forward, **how)
    finally:
        PRIMITIVES.pop(name, None)


def test_a_result_that_is_no_real_array_is_an_error_at_the_rule():
    for wrong in (None, "text", [1.0, 1.0], np.array(["a", "b"]), 1j * np.ones(2)):
        for odd in declared("odd", [lambda ct, wrong=wrong: wrong], lambda x: x + 0.0):
            with pytest.raises(RuleError, match=r"odd: the rule for x gives no array of numbers"):
                odd(leaf([1.0, 2.0])).sum().backward()


def test_a_result_of_another_shape_is_an_error_at_the_rule():
    said = r"odd: the rule for x gives another shape"
    for given in ((3,), (2, 2), (5, 2), (1,), ()):
        for odd in declared("odd", [lambda ct, given=given: np.ones(given)], lambda x: x + 0.0):
            x = leaf([1.0, 2.0])
            with pytest.raises(RuleError, match=said):
                odd(x).sum().backward()
            assert x.grad is None
    for total in declared("odd", [lambda ct: ct], lambda x: x.sum()):  # forgot to spread
        with pytest.raises(RuleError, match=said):
            total(leaf([1.0, 2.0])).backward()
    forgot_to_sum = [lambda ct, y: ct * y, lambda ct, x: ct * x]
    for dot in declared("odd", forgot_to_sum, lambda x, y: (x * y).sum(), inputs="x y"):
        with pytest.raises(RuleError, match=said):
            dot(leaf(2.0), cr.tensor(np.ones(3))).backward()


def test_broadcasting_and_numbers_are_the_engine_s_affair():
    x, y = np.array([[1.0], [2.0]]), np.array([1.0, 10.0, 100.0])
    rules = [lambda ct, y: ct * y, lambda ct, x: ct * x]
    for family in ("GENERAL", "ELEMENTWISE"):
        for product in declared("product", rules, lambda x, y: x * y, family, inputs="x y"):
            a, b = leaf(x), leaf(y)
            product(a, b).sum().backward()
            same(a.grad, np.full((2, 1), 111.0))
            same(b.grad, np.full(3, 3.0))
            tangent = cr.jvp(lambda v, product=product: product(v, cr.tensor(y)), (x,), (np.ones_like(x),))[1]
            same(tangent, np.broadcast_to(y, (2, 3)))
    for flat in declared("flat", [lambda ct: 0.0], lambda x: np.sign(x)):
        z = leaf(2.0, np.float32)
        (flat(z) + z).backward()
        same(z.grad, 1.0)
        assert z.grad.dtype == np.float32


def test_a_rule_gets_what_it_reads():
    rule = lambda ct, x, out, x_type, n: ct * n * out / x * np.ones(x_type.shape)
    for power in declared("power", [rule], lambda x, n: x**n, parameters="n"):
        x = leaf([2.0, 3.0])
        power(x, 3).sum().backward()
        same(x.grad, [12.0, 27.0])


def test_every_rule_from_outside_is_looked_at():
    """Also beside an input that has none, or one that is the library's own."""
    from chainrule.core.primitive import PRIMITIVES

    ours = PRIMITIVES["multiply"].rules[0]
    for others in (None, ours):
        for odd in declared("odd", [lambda ct: "wrong", others], lambda x, y: x * y, inputs="x y"):
            with pytest.raises(RuleError, match="the rule for x"):
                odd(leaf([1.0]), cr.tensor([2.0])).sum().backward()


def test_users_operations_stay_out_of_the_library_s_table():
    from chainrule.core.primitive import PRIMITIVES

    before = dict(PRIMITIVES)
    exp = cr.operation(lambda ct: ct)(lambda x: x)
    assert before == PRIMITIVES
    assert cr.grad(exp)(1.0) == 1.0


def test_a_rule_from_outside_that_promotes_gives_a_gradient_of_the_leaf_s_dtype():
    from chainrule.core.primitive import PRIMITIVES

    try:
        doubled = unary("doubled", lambda ct, x: ct * np.float64(2.0), forward=lambda x: x * 2)
        x = cr.tensor(np.ones(3, np.float32), requires_grad=True)
        doubled(x).sum().backward()
    finally:
        PRIMITIVES.pop("doubled", None)
    assert x.grad.dtype == np.float32
    assert x.grad.tolist() == [2.0] * 3
