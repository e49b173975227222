"""What transforms, checkpoints and users' operations refuse."""

import math

import numpy as np

import chainrule as cr
from chainrule.ops import reductions
from tests.errors.snapshots import case


@case
def grad_of_an_integer():
    cr.grad(lambda x: x * x)(2)


@case
def grad_of_a_complex_array():
    cr.grad(lambda x: x)(np.ones(2, complex))


@case
def grad_of_a_lost_graph():
    cr.grad(lambda x: math.sin(x))(1.0)


@case
def grad_of_a_vector():
    cr.grad(lambda x: x * x)(np.ones(3))


@case
def grad_of_an_absent_argument():
    cr.grad(lambda x: x, 1)(1.0)


@case
def tangent_of_another_shape():
    cr.jvp(lambda x: x, (np.ones(3),), (np.ones(2),))


@case
def cotangent_of_another_tree():
    cr.vjp(lambda x: {"a": x}, 1.0)[1]({"b": 1.0})


@case
def jvp_without_tuples():
    cr.jvp(lambda x: x, np.ones(3), np.ones(3))


@case
def rule_of_an_unknown_residual():
    cr.operation(lambda ct, z: ct)(lambda x: x)


@case
def rule_for_no_argument():
    def double(x):
        return 2.0 * x

    cr.operation(lambda ct: ct, lambda ct: ct)(double)


@case
def rule_of_a_wrong_shape():
    @cr.operation(lambda ct: ct * np.ones(10))
    def double(x):
        return 2.0 * x

    cr.grad(double)(1.0)


@case
def rule_of_a_wrong_type():
    @cr.operation(lambda ct: (2.0 * ct,))
    def double(x):
        return 2.0 * x

    cr.grad(double)(1.0)


@case
def checkpoint_that_leans_on_another_tensor():
    w = [cr.tensor(2.0, requires_grad=True)]
    x = cr.tensor(3.0, requires_grad=True)
    y = cr.checkpoint(lambda x: x * w[0])(x)
    w[0] = cr.tensor(5.0, requires_grad=True)
    y.backward()


@case
def checkpoint_of_a_leaf_written_since():
    x = cr.tensor([3.0], requires_grad=True)
    y = reductions.sum(cr.checkpoint(lambda x: x * x)(x))
    with cr.no_grad():
        x -= 1.0
    y.backward()
