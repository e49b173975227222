"""What a transform refuses, and what it says then."""

import math

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, DTypeError, LostGraphError, ShapeError
from chainrule.ops import reductions


def square_sum(x):
    return reductions.sum(x * x)


def test_integers_are_refused_and_told_2_0():
    for transform in (cr.grad, cr.jacobian, cr.hessian, cr.value_and_grad):
        for x in (2, True, np.int64(2), np.array([1, 2]), cr.tensor([1, 2]), [1, 2]):
            with pytest.raises(DTypeError, match=r"2\.0"):
                transform(lambda x: x * x)(x)
    with pytest.raises(DTypeError, match=r"2\.0"):
        cr.jvp(lambda x: x * x, (2,), (1.0,))


def test_complex_is_refused():
    with pytest.raises(DTypeError, match="complex"):
        cr.grad(lambda x: x)(1j * np.ones(2))


def test_a_result_without_graph_is_refused():
    for f in (lambda x: math.sin(x), lambda x: float(x), lambda x: x.data, lambda x: 1.0, lambda x: None):
        for transform in (cr.grad(f), cr.value_and_grad(f)):
            with pytest.raises((LostGraphError, ShapeError), match="result"):
                transform(1.0)
    with pytest.raises(LostGraphError, match=r"math\.sin"):
        cr.vjp(lambda x: math.sin(x), 1.0)
    with pytest.raises(LostGraphError, match=r"math\.sin"):
        cr.jvp(lambda x: (x, 1.0), (1.0,), (1.0,))


def test_a_result_that_is_no_scalar_is_refused():
    with pytest.raises(ShapeError, match=r"jacobian.*vjp"):
        cr.grad(lambda x: x * x)(np.ones(3))
    with pytest.raises(ShapeError, match="no scalar"):
        cr.grad(lambda x: x * x)(np.ones(1))
    with pytest.raises(ShapeError, match="tree"):
        cr.grad(lambda x: (x, x))(1.0)


def test_shapes_and_numbers_of_directions_are_checked():
    x = np.ones(3)
    with pytest.raises(ShapeError, match="tangent"):
        cr.jvp(lambda x: x, (x,), (np.ones(2),))
    with pytest.raises(ShapeError, match="cotangent"):
        cr.vjp(lambda x: x, x)[1](1.0)
    with pytest.raises(ArgumentError, match="2 tangents for 1"):
        cr.jvp(lambda x: x, (x,), (x, x))
    with pytest.raises(ArgumentError, match="tuples"):
        cr.jvp(lambda x: x, x, x)
    with pytest.raises(ArgumentError, match="argument 1"):
        cr.grad(lambda x: x, 1)(1.0)
    with pytest.raises(ShapeError):
        cr.hvp(square_sum, x, np.ones(2))
    with pytest.raises(DTypeError, match="tangent"):
        cr.jvp(lambda x: x, (1.0,), ("a",))


@pytest.mark.parametrize("argnums", [(0, 0), (0, -2), [1, 0, -1]])
def test_an_argument_named_twice_is_refused(argnums):
    for transform in (cr.grad, cr.value_and_grad, cr.jacobian, cr.hessian):
        with pytest.raises(ArgumentError, match="twice"):
            transform(lambda x, y: (x * y).sum(), argnums=argnums)(np.ones(2), np.ones(2))
