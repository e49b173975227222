"""Each law fails on a record made wrong for it, so a law that passes says something."""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

import chainrule as cr
import tests.laws.first_order
import tests.laws.higher_order
import tests.laws.values  # noqa: F401 - each adds its laws
from chainrule import modes
from chainrule.core.calls import is_tensor, raw
from chainrule.core.primitive import PRIMITIVES, primitive
from chainrule.ops.families import GENERAL, LINEAR, binary, unary
from tests.laws.registry import LAWS

calls = count(1)


def sine(rule: Any, **how: Any) -> Any:
    return unary("wrong", rule, **{"forward": np.sin, "standard": lambda xp, x: xp.sin(x)} | how)


def product(rule_x: Any, rule_y: Any, **how: Any) -> Any:
    return binary("wrong", rule_x, rule_y, **{"forward": np.multiply, "standard": lambda xp, x, y: x * y} | how)


def cosine_to_second_order() -> Any:
    return unary("wrong_cosine", lambda ct, x: -(ct * cr.sin(cr.stop_gradient(x))), forward=np.cos)


def square_as_linear() -> Any:
    x = np.array([[1.0, 2.0, 3.0]])
    return primitive(
        "wrong",
        LINEAR,
        [lambda ct, x: 2.0 * ct * x],
        forward=np.square,
        shape_rule=lambda x: x.shape,
        samples=lambda _: [((x,), ())],
    )


def product_as_linear() -> Any:
    x = np.array([[1.0, 2.0, 3.0]])
    rules = [lambda ct, y: ct * y, lambda ct, x: ct * x]
    return primitive("wrong", LINEAR, rules, inputs="x y", forward=np.multiply, samples=lambda _: [((x, x + 1.0), ())])


def third(ct: Any, x: Any) -> Any:
    return ct * cosine_to_second_order()(x)


def slope(ct: Any, x: Any) -> Any:
    return ct * cr.cos(x)


WRONG: dict[str, Callable[[], Any]] = {
    "value": lambda: unary("sinh", lambda ct, x: ct, forward=np.cosh),
    "strict_value": lambda: sine(slope, standard=lambda xp, x: xp.cos(x)),
    "strict_gradient": lambda: sine(lambda ct, x: np.asarray(ct) * np.cos(np.asarray(x))),
    "slow_path": lambda: sine(lambda ct, x: ct * cr.cos(x) * (1.0 + modes.unusual)),
    "type_rule": lambda: sine(slope, dtype_rule=lambda x: np.dtype(np.float32)),
    "type_rule_of_pullback": lambda: sine(lambda ct, x: slope(ct, x) if raw(x).max() > 0.0 else ct * 1.0 * cr.cos(x)),
    "precision": lambda: sine(slope, forward=lambda x: np.sin(x.astype(np.float64))),
    "empty_and_scalar_shapes": lambda: sine(lambda ct, x: ct * cr.cos(x) + 0.0 * raw(x).max()),
    "memory_layout": lambda: sine(slope, forward=lambda x: np.sin(np.ravel(x, order="K")).reshape(np.shape(x))),
    "inputs_unchanged": lambda: sine(slope, forward=lambda x: np.sin(x, out=x)),
    "memory_of_its_own": lambda: sine(lambda ct: ct, forward=lambda x: x),
    "numbers_as_operands": lambda: product(
        lambda ct, y: ct * y, lambda ct, x: ct * x, forward=lambda x, y: x * np.float64(y)
    ),
    "vjp": lambda: sine(lambda ct, x: ct * cr.cos(1.001 * x)),
    "vjp_broadcast": lambda: product(lambda ct, x, y: ct * y * (1.0 + (x.shape != y.shape)), lambda ct, x: ct * x),
    "no_rule_means_no_slope": lambda: sine(None),
    "flat_cotangent": lambda: unary("wrong", lambda ct: ct, forward=np.positive, flat=True),
    "linearity": lambda: sine(lambda ct, x: ct * ct * cr.cos(x)),
    "jvp": square_as_linear,
    "jvp_of_one_input": product_as_linear,
    "adjoint": square_as_linear,
    "zero_stays_zero": lambda: sine(lambda ct, x: ct * cr.where(x == 0.0, np.nan, cr.cos(x))),
    "where_hides": lambda: sine(lambda ct, x: ct * cr.cos(x) + 1.0),
    "accumulation": lambda: sine(lambda ct, x: ct * cr.cos(x) * float(next(calls))),
    "second_order": lambda: sine(lambda ct, x: ct * cr.cos(cr.stop_gradient(x))),
    "third_order": lambda: sine(third),
    "symmetric_hessian": lambda: product(lambda ct, y: ct * y, lambda ct, x: ct * cr.stop_gradient(x)),
    "recorded_equals_raw": lambda: sine(lambda ct, x: ct * cr.cos(x) * (2.0 if is_tensor(ct) else 1.0)),
}


@pytest.fixture(autouse=True)
def only_here():
    """Records come and go with a test."""
    before = dict(PRIMITIVES)
    yield
    PRIMITIVES.clear()
    PRIMITIVES.update(before)


@pytest.mark.parametrize("law", LAWS)
def test_law_fails_on_what_breaks_it(law):
    record = WRONG[law]().primitive
    check, applies = LAWS[law]
    assert applies(record)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it raises, it has noticed
        check(record)


@pytest.mark.parametrize("law", LAWS)
def test_law_holds_for_what_is_right(law):
    for record in (sine(slope).primitive, product(lambda ct, y: ct * y, lambda ct, x: ct * x).primitive):
        check, applies = LAWS[law]
        if applies(record):
            check(record)


def test_a_record_without_examples_is_refused():
    from tests.laws.examples import examples

    with pytest.raises(LookupError, match="neither samples nor a domain"):
        examples(primitive("wrong", GENERAL, [slope], forward=np.sin).primitive)
