"""Compiled functions: what they refuse, and where."""

import array

import numpy as np

import chainrule as cr
from tests.errors.snapshots import case

KEPT = []
GENERATOR = np.random.default_rng(0)


def compiled(f):
    return cr.jit(f, executor="numpy")


@case
def jit_of_a_branch():
    def step(x):
        if x.sum() > 0:
            return x
        return -x

    compiled(step)(np.ones((2, 3), np.float32))


@case
def jit_of_an_index():
    words = ["a", "b"]
    compiled(lambda i: words[i])(np.array(1))


@case
def jit_of_a_print():
    def step(x):
        print(x)
        return x

    compiled(step)(np.ones(2))


@case
def jit_of_a_list_that_grows():
    def step(x):
        KEPT.append(x * 2)
        return x

    compiled(step)(np.ones(2))


@case
def jit_of_an_object_that_keeps_a_value():
    class Cell:
        __slots__ = ("value",)

    holder = {}

    def step(x):
        holder["cell"] = Cell()
        holder["cell"].value = x * 2

    compiled(step)(np.ones(2))


@case
def jit_of_a_result_that_cannot_be_made():
    compiled(lambda x: iter([x * 2]))(np.ones(2))


@case
def jit_of_a_generator_of_numpys():
    def step(x):
        return x + GENERATOR.normal()

    compiled(step)(np.ones(2))


@case
def jit_without_a_function():
    cr.jit(3)


@case
def jit_with_an_unknown_executor():
    cr.jit(lambda x: x, executor="gpu")


@case
def jit_that_is_another_in_eager_mode():
    numbers = array.array("d", [1.0, 2.0, 3.0])  # what C code takes from itself no trace sees
    cr.jit(lambda x: x * numbers.pop(), strict=True, executor="numpy")(np.ones(2))


@case
def lower_of_what_runs_as_it_is():
    compiled(lambda x: np.linalg.svd(x)).lower(np.ones((2, 2)))


@case
def write_between_a_compiled_call_and_backward():
    w = cr.ones(2, requires_grad=True)
    y = compiled(lambda: (w * w).sum())()
    with cr.no_grad():
        w += 1.0
    y.backward(create_graph=True)
