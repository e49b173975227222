"""DESIGN 1 and 2: recording on abstract arrays, which have a shape and a dtype and no numbers.

| sentence | test |
|--|--|
| on abstract arrays a call leaves an equation (arguments, parameters) | test_a_call_leaves_an_equation |
| the hinge step, backward included, records on abstract arrays | test_the_hinge_step_records |
| every operation on abstract arrays makes one, so backward passes and optimiser steps are traced | test_an_optimiser_step_is_traced |
| one reachability: what nothing needs never shows up | test_what_nothing_needs_never_shows_up |
| no numbers: a value that is asked for raises BranchError | test_a_value_that_is_asked_for_raises |
| transforms run on them | test_transforms_run_on_abstract_arrays |
| NumPy's protocols and creation functions run on them | test_numpy_and_creation_run_on_abstract_arrays |
| shape and dtype are those that NumPy gives | test_shapes_and_dtypes_are_numpys |
| shape errors are those of numbers | test_errors_are_those_of_numbers |
| copies are boxes of their own | test_copies_are_boxes_of_their_own |
| outside a trace they are refused | test_outside_a_trace_they_are_refused |
"""

import copy
import pickle

import numpy as np
import pytest

import chainrule as cr
from chainrule.backends.abstract import Abstract, reach_equations
from chainrule.core.equations import tracing
from chainrule.errors import BranchError, ShapeError, TraceError

F64, F32 = np.dtype(np.float64), np.dtype(np.float32)


@pytest.fixture
def trace():
    with tracing():
        yield


def abstract(*shape, dtype=F64, requires_grad=True):
    return cr.Tensor(Abstract(shape, dtype), requires_grad=requires_grad)


def names(*results):
    """The operations that results come from, oldest first."""
    reached = reach_equations([getattr(r, "data", r).equation for r in results])
    return [getattr(e.primitive, "name", e.primitive) for e in reached if e.primitive is not None]


def hinge_step(parameters, x, y, lr):
    """Two hidden layers, the hinge loss with weight decay, backward and a step of gradient descent."""
    h = x
    for k in range(0, len(parameters), 2):
        h = h @ parameters[k] + parameters[k + 1]
        h = cr.relu(h) if k < len(parameters) - 2 else h
    loss = cr.mean(cr.relu(1.0 - y * h))
    for p in parameters:
        loss = loss + 1e-4 * (p * p).sum()
    loss.backward()
    with cr.no_grad():
        for p in parameters:
            p -= lr * p.grad  # noqa: PLW2901 - in place, as a user would write it
    return loss


SHAPES = [(2, 16), (16,), (16, 16), (16,), (16, 1), (1,)]


def test_a_call_leaves_an_equation(trace):
    x, y = Abstract((3, 1), F64), Abstract((4,), F32)
    out = cr.add(x, y)
    assert isinstance(out, Abstract)
    assert (out.shape, out.dtype, out.ndim, out.size) == ((3, 4), F64, 2, 12)
    assert out.equation.primitive.name == "add"
    assert out.equation.arguments == (x.equation, y.equation)
    assert cr.sum(out, axis=1, keepdims=True).equation.parameters == ((1,), True)
    t = cr.exp(abstract(2, 3))
    assert isinstance(t, cr.Tensor)
    assert (t.shape, t.requires_grad) == ((2, 3), True)


def test_the_hinge_step_records(trace):
    parameters = [abstract(*shape) for shape in SHAPES]
    x, y = abstract(200, 2, requires_grad=False), abstract(200, 1, requires_grad=False)
    loss = hinge_step(parameters, x, y, 0.1)
    assert loss.shape == ()
    for p, shape in zip(parameters, SHAPES, strict=True):
        assert (p.shape, p.dtype) == (shape, F64)
        assert isinstance(p.grad, Abstract)
        assert p.grad.shape == shape
    recorded = names(loss, *parameters)
    assert recorded.count("matmul") == 3 + 5  # forward; backward, where the input wants no gradient
    assert recorded.count("relu") == 3
    assert recorded.count("subtract") == 1 + len(parameters)


def test_an_optimiser_step_is_traced(trace):
    p = abstract(3)
    box, before = p.data, p.data.equation
    (p * p).sum().backward()
    with cr.no_grad():
        p -= 0.1 * p.grad
    assert p.data.equation is not before
    assert p.requires_grad
    assert {"multiply", "subtract"} <= set(names(p))
    assert box.shape == (3,)


def test_what_nothing_needs_never_shows_up(trace):
    x = abstract(3)
    cr.exp(x)
    y = cr.sin(x)
    assert names(y) == ["sin"]


def test_a_value_that_is_asked_for_raises(trace):
    x, number = abstract(3, requires_grad=False), abstract(requires_grad=False)
    for ask in (
        lambda: bool(number), lambda: float(number), lambda: int(number), lambda: number.item(), lambda: x.tolist(),
        lambda: x.numpy(), lambda: np.asarray(x), lambda: round(number), lambda: f"{number:.2f}", lambda: 1.0 in x,
        lambda: [1, 2][abstract(dtype=np.dtype(np.int64), requires_grad=False)], lambda: pickle.dumps(x),
        lambda: x.data.__bool__(), lambda: np.asarray(x.data), lambda: np.allclose(x, 1.0), lambda: bool(number > 0),
        lambda: repr(x), lambda: f"{number}", lambda: str(x.data),
    ):  # fmt: skip
        with pytest.raises(BranchError, match="the value of an abstract array was asked for"):
            print(ask())


def test_transforms_run_on_abstract_arrays(trace):
    a = Abstract((3,), F64)

    def f(v):
        return (cr.tanh(v) * v * v).sum()

    assert cr.grad(f)(a).shape == (3,)
    value, slope = cr.value_and_grad(f)(cr.Tensor(a))
    assert (value.shape, slope.shape) == ((), (3,))
    assert cr.jvp(f, (a,), (Abstract((3,), F64),))[1].shape == ()
    assert cr.hvp(f, a, np.ones(3)).shape == (3,)
    assert cr.vjp(cr.softmax, a)[1](np.ones(3))[0].shape == (3,)
    assert cr.jacobian(lambda v: v * v)(a).shape == (3, 3)
    assert cr.grad(cr.checkpoint(f))(a).shape == (3,)


def test_numpy_and_creation_run_on_abstract_arrays(trace):
    x = abstract(2, 3, dtype=F32)
    for result, shape in (
        (np.exp(x), (2, 3)),
        (np.mean(x, axis=0), (3,)),
        (np.ones((4, 2), np.float32) @ x, (4, 3)),
        (np.float32(2) * x, (2, 3)),
        (np.concatenate([x, x]), (4, 3)),
        (np.exp(x.data), (2, 3)),
    ):
        assert (result.shape, result.dtype) == (shape, F32)
    for made in (cr.zeros_like(x), cr.ones_like(x), cr.full_like(x, 2.0), np.zeros_like(x)):
        assert isinstance(made.data, np.ndarray)  # their numbers are known
        assert (made.shape, made.dtype) == ((2, 3), F32)
    box = np.ones_like(x.data)  # an array, which code may write to
    assert isinstance(box, Abstract)
    assert box.equation.source.tolist() == [[1.0] * 3] * 2
    assert [row.shape for row in x] == [(3,), (3,)]
    assert len(x) == 2


FUNCTIONS = [
    lambda x, y: x + y, lambda x, y: x * 2, lambda x, y: x > y, lambda x, y: cr.where(x > 0, x, y), lambda x, y: x / y,
    lambda x, y: cr.mean(x, axis=0), lambda x, y: cr.argmax(x, axis=1), lambda x, y: cr.softmax(x), lambda x, y: cr.std(x),
    lambda x, y: x @ cr.matrix_transpose(y), lambda x, y: cr.concat([x, y], axis=1), lambda x, y: x[0], lambda x, y: x[:, ::2],
    lambda x, y: cr.astype(x, np.float16), lambda x, y: cr.cumulative_sum(x, axis=0), lambda x, y: x // 2,
    lambda x, y: cr.max(x, keepdims=True), lambda x, y: x**2, lambda x, y: x**0.5, lambda x, y: -x, lambda x, y: cr.sort(x),
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("kinds", [(F64, F64), (F32, F32), (F32, F64), (np.dtype(np.int64), F32)])
def test_shapes_and_dtypes_are_numpys(f, kinds, trace):
    boxes = [Abstract((2, 3), kind) for kind in kinds]
    found, expected = f(*boxes), f(*[np.ones((2, 3), kind) for kind in kinds])
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)


def test_errors_are_those_of_numbers(trace):
    x, y = abstract(64, 128), abstract(64, 10)
    for wrong in (lambda: x @ y, lambda: x + y, lambda: x.reshape(5, 5), lambda: cr.concat([x, abstract(3)])):
        with pytest.raises(ShapeError) as raised:
            wrong()
        assert "f64[64, 128]" in str(raised.value)


def test_copies_are_boxes_of_their_own(trace):
    x = abstract(3)
    for twin in (copy.copy(x), x.detach(), x.data.copy()):
        box = getattr(twin, "data", twin)
        assert box is not x.data
        assert box.equation is x.data.equation
    y, w = abstract(3), abstract(3)
    (y + w).sum().backward()
    assert y.grad is not w.grad


def test_outside_a_trace_they_are_refused():
    left_over = Abstract((2,), F64)
    for use in (
        lambda: cr.exp(left_over),
        lambda: np.exp(left_over),
        lambda: cr.exp(cr.Tensor(left_over)),
        lambda: left_over + 1.0,
        lambda: cr.Tensor(left_over) * 2.0,
        lambda: np.mean(left_over),
    ):
        with pytest.raises(TraceError, match="left over from a trace"):
            use()
