"""`cr.verify.check` accepts right derivatives and names what is wrong with wrong ones."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, ChainruleError, LostGraphError, VerificationError
from chainrule.ops.families import unary

X = np.array([[0.3, -0.8, 1.2], [0.7, 0.1, -0.4]])


@pytest.fixture
def wrong():
    """Operations with a wrong first, and a wrong second derivative; gone after the test."""
    from chainrule.core.primitive import PRIMITIVES

    before = set(PRIMITIVES)
    made = {
        "first": unary("wrong_first", lambda ct, x: ct * x * x, forward=lambda x: x**3),
        "second": unary("wrong_second", lambda ct, x: ct * 3.0 * cr.stop_gradient(x) ** 2, forward=lambda x: x**3),
        "entry": unary("wrong_entry", lambda ct, x: ct * np.where(x == X[1, 2], 5.0, 2.0), forward=lambda x: x + x),
    }
    yield made
    for name in set(PRIMITIVES) - before:
        del PRIMITIVES[name]


def test_counts_every_entry():
    report = cr.verify.check(lambda x, y: cr.sin(x) * y, X, 2.0)
    assert [(row.derivative, row.compared) for row in report.rows] == [("vjp", 8), ("jvp", 6), ("order 2", 8)]
    assert report.compared == 22
    assert max(row.worst for row in report.rows) < 1e-10
    assert str(report).splitlines()[0].startswith("vjp: 8 compared, worst error ")


def test_third_order():
    assert [row.derivative for row in cr.verify.check(cr.tanh, X, order=3).rows] == ["vjp", "jvp", "order 2", "order 3"]
    assert [row.derivative for row in cr.verify.check(cr.tanh, X, order=1).rows] == ["vjp", "jvp"]


def test_several_outputs_and_arguments_held_fixed():
    report = cr.verify.check(lambda x, k, y: (x**k, cr.sum(x * y)), X, 3, np.float32(0.5))
    assert [row.compared for row in report.rows] == [8, 7, 8]


def test_functions_that_take_no_complex_arrays():
    assert cr.verify.check(lambda x: cr.maximum(x, 0.05) + cr.abs(x), X).compared == 7 + 6 + 7


def test_tensors_are_arguments_and_stay_untouched():
    x = cr.tensor(X, requires_grad=True)
    cr.verify.check(lambda t: (t * t).sum(), x)
    assert x.grad is None
    np.testing.assert_array_equal(x.data, X)


def test_float32():
    assert cr.verify.check(lambda x: cr.exp(x).sum(), X.astype(np.float32)).compared


def test_large_arguments_are_sampled():
    report = cr.verify.check(lambda x: (x * x).sum(), np.linspace(0.1, 1.0, 1000), order=1)
    assert report.rows[0].compared == 61


def test_wrong_first_derivative(wrong):
    with pytest.raises(
        VerificationError,
        match=r"vjp of call, argument 0, entry \(0, 0\), random cotangent: given 0\.\d+, expected 0\.\d+ to",
    ):
        cr.verify.check(_named("call", wrong["first"]), X)


def test_the_entry_is_named(wrong):
    with pytest.raises(
        VerificationError, match=r"argument 0, entry \(1, 2\), random cotangent: given .*, expected .*"
    ) as raised:
        cr.verify.check(wrong["entry"], X, order=1)
    assert "entry (1, 2)" in str(raised.value)


def test_wrong_second_derivative(wrong):
    assert cr.verify.check(wrong["second"], X, order=1)
    with pytest.raises(VerificationError, match="order 2 of wrong_second, argument 0, entry"):
        cr.verify.check(wrong["second"], X)


def test_a_lost_graph_is_found():
    with pytest.raises(VerificationError, match="vjp of"):
        cr.verify.check(lambda x: cr.stop_gradient(x) * x, X)


def test_wrong_in_one_direction_of_many_entries():
    """Entries that are not sampled are covered by a direction through all of them."""
    x = np.linspace(0.1, 1.0, 1000)
    keep = np.ones(1000, bool)
    keep[3] = False
    with pytest.raises(VerificationError, match="a direction through all entries"):
        cr.verify.check(lambda t: cr.where(keep, t, cr.stop_gradient(t)).sum(), x, order=1)


def test_tolerances_can_be_given(wrong):
    assert cr.verify.check(wrong["first"], X, order=1, rtol=10.0, atol=10.0)


@pytest.mark.parametrize(
    ("f", "x", "error"),
    [
        (lambda x: x * 2, 2, ArgumentError),
        (lambda x: x > 0, X, ArgumentError),
        (lambda x: np.float64(3.0), X, LostGraphError),
    ],
)
def test_what_cannot_be_checked(f, x, error):
    with pytest.raises(error):
        cr.verify.check(f, x)


def test_error_is_ours_and_an_assertion():
    assert issubclass(VerificationError, ChainruleError)
    assert issubclass(VerificationError, AssertionError)


def _named(name, f):
    g = lambda x: f(x)
    g.__name__ = name
    return g
