"""Graphs that cannot give the derivative: freed, stale, lost; cotangents; transforms; rules; libraries; traces."""

import sys
from unittest import mock

import numpy as np

import chainrule as cr
from chainrule.backends import registry
from chainrule.backends.abstract import Abstract
from chainrule.core.equations import tracing
from tests.errors.snapshots import case


def leaf(*shape, dtype=np.float64):
    return cr.ones(shape, dtype, requires_grad=True)


# ---------------------------------------------------------------- graphs
@case
def backward_twice():
    y = cr.exp(leaf(2)).sum()
    y.backward()
    y.backward()


@case
def gradients_of_a_freed_graph():
    x = leaf(2)
    h = cr.exp(x)
    h.sum().backward()
    cr.gradients((h * h).sum(), [x])


@case
def write_before_backward():
    w = leaf(2, 3, dtype=np.float32)
    y = (w * w).sum()
    with cr.no_grad():
        w -= 0.1
    y.backward()


@case
def hidden_write_in_debug_mode():
    x = leaf(2)
    with cr.debug():
        y = cr.square(x).sum()
        x.data[0] = 5.0
        y.backward()


@case
def checkpoint_over_another_array():
    w, x = leaf(2), leaf(2)
    y = cr.checkpoint(lambda v: v * w)(x).sum()
    w.data = np.zeros(2)
    y.backward()


@case
def backward_of_a_constant():
    cr.ones(2).sum().backward()


@case
def gradients_of_a_constant():
    x = leaf(2)
    cr.gradients(x.sum(), [x, cr.ones(2)])


@case
def gradients_from_a_number():
    cr.gradients(2.0, [leaf(2)])


@case
def write_into_a_leaf():
    x = leaf(2)
    x += 1.0


@case
def assign_into_a_leaf():
    leaf(2)[0] = 1.0


@case
def requires_grad_of_a_result():
    y = leaf(2) * 2.0
    y.requires_grad = False


@case
def numpy_of_a_leaf():
    leaf(2).numpy()


# ---------------------------------------------------------------- cotangents
@case
def backward_of_many():
    cr.exp(leaf(2)).backward()


@case
def cotangent_of_another_shape():
    cr.exp(leaf(2)).backward(np.ones(3))


@case
def cotangent_that_is_complex():
    cr.exp(leaf(2)).backward(np.array([1j, 1.0]))


@case
def cotangent_of_text():
    cr.exp(leaf(2)).backward("ab")


# ---------------------------------------------------------------- transforms
@case
def grad_of_integers():
    cr.grad(lambda x: (x * x).sum())(np.arange(3))


@case
def grad_of_a_tree():
    cr.grad(lambda x: (x, x))(2.0)


@case
def grad_without_aux():
    cr.grad(lambda x: x * x, has_aux=True)(2.0)


@case
def jvp_tangent_missing():
    cr.jvp(lambda x, y: x * y, (1.0, 2.0), (1.0,))


@case
def vjp_cotangent_of_another_shape():
    cr.vjp(lambda x: x * x, np.ones(2))[1](np.ones(3))


# ---------------------------------------------------------------- rules
@case
def rule_without_cotangent():
    @cr.operation(lambda: 1.0)
    def twice(x):
        return 2.0 * x


@case
def operation_gives_a_list():
    @cr.operation(lambda ct: ct)
    def twice(x):
        return [2.0, x]

    twice(leaf(2))


@case
def operation_takes_a_tensor_without_rule():
    @cr.operation(lambda ct, n: ct * n)
    def scaled(x, n):
        return x * n

    scaled(leaf(2), leaf(2))


@case
def operation_without_an_argument():
    @cr.operation(lambda ct: ct)
    def twice(x):
        return 2.0 * x

    twice()


@case
def verification_of_a_wrong_rule():
    @cr.operation(lambda ct: 3.0 * ct)
    def twice(x):
        return 2.0 * x

    cr.verify.check(twice, np.array([1.0, 2.0]))


# ---------------------------------------------------------------- libraries, traces, extras
class OtherArray:
    """As much of another array library as an error needs."""

    shape = (2,)
    dtype = np.dtype(np.float64)


OtherArray.__module__ = "other_library.arrays"


@case
def libraries_that_mix():
    with (
        mock.patch.dict(registry._namespaces, {OtherArray: object()}),
        tracing(),  # whatever keeps calls from the fast path
    ):
        cr.multiply(leaf(2), OtherArray())


@case
def branch_on_an_abstract_value():
    with tracing():
        x = cr.Tensor(Abstract((3,), np.dtype(np.float64)))
        if x.sum() > 0:
            pass


@case
def abstract_array_left_over():
    cr.exp(Abstract((3,), np.dtype(np.float64)))


@case
def matplotlib_is_missing():
    with mock.patch.dict(sys.modules, {"matplotlib": None, "matplotlib.figure": None}):
        from chainrule.errors import MissingExtraError

        raise MissingExtraError.of("draw", "matplotlib", "walkthrough")
