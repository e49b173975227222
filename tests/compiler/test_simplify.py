"""Programs with less to do give the same to the bit; and how much less it is."""

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.backends.abstract import Abstract, reach_equations
from chainrule.compiler.numpy_executor import compile_program
from chainrule.compiler.program import Program
from chainrule.compiler.shorter import value_everywhere
from chainrule.compiler.simplify import simplify
from chainrule.core.equations import tracing
from tests.compiler.test_numpy_executor import same

SPECIAL = np.array([[0.0, -0.0, 1.0, -2.5], [np.inf, -np.inf, np.nan, 1e-310]])
ONES, ZEROS = np.ones((2, 4)), np.zeros((2, 4))

# what is computed, and how many operations are left of it
CASES: list[tuple[Any, int]] = [
    (lambda x: x * 1.0, 0), (lambda x: 1 * x, 0), (lambda x: x * ONES, 0), (lambda x: x / 1.0, 0), (lambda x: x - 0.0, 0),
    (lambda x: x + -0.0, 0), (lambda x: x + 0.0, 1), (lambda x: x - -0.0, 1), (lambda x: x * 0.0, 1), (lambda x: x + ZEROS, 1),
    (lambda x: x * np.broadcast_to(1.0, (2, 4)), 0), (lambda x: x * np.ones((3, 2, 4)), 1), (lambda x: x * -1.0, 1),
    (lambda x: np.negative(-x), 0), (lambda x: x.T.T, 0), (lambda x: x.astype(x.dtype), 0), (lambda x: x.astype(np.float32) * 1.0, 1),
    (lambda x: x.reshape(4, 2).reshape(8), 1), (lambda x: x.reshape(4, 2).reshape(2, 4), 0), (lambda x: x.reshape(2, 4), 0),
    (lambda x: x.reshape(1, 2, 4).transpose(2, 0, 1).transpose(1, 2, 0), 1), (lambda x: x.transpose(0, 1), 0),
    (lambda x: x.reshape(1, 2, 4).transpose(2, 0, 1).transpose(2, 0, 1), 2), (lambda x: np.flip(np.flip(x)), 0),
    (lambda x: np.flip(np.flip(x, 0), 1), 2), (lambda x: cr.broadcast_to(x, (2, 4)), 0), (lambda x: cr.where(ONES > 0, x, 2.0), 0),
    (lambda x: cr.where(np.array([True, False]), x.T, 2.0), 2), (lambda x: np.exp(x) + np.exp(x), 2),
    (lambda x: cr.sum(x, axis=0) * cr.sum(x, axis=(0,)), 2), (lambda x: x * (cr.exp(np.zeros(())) + 1.0), 1),
    (lambda x: (x * 0.0) + (x * -0.0), 3), (lambda x: (x**1) + (x**1.0), 3), (lambda x: x[0] + x[np.int64(0)], 3),
    (lambda x: x[0:1] + x[0:1:1], 3), (lambda x: x + np.full((2, 4), 3.0) - np.full((2, 4), 3.0), 2),
    (lambda x: (x > 0) * True, 1), (lambda x: (x > 0) + False, 2), (lambda x: x.astype(int) + 0, 1),
]  # fmt: skip


def operations(program: Program) -> int:
    return sum(equation.primitive is not None for equation in reach_equations(list(program.outputs)))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_same_with_less(number):
    f, left = CASES[number]
    box = Abstract(SPECIAL.shape, SPECIAL.dtype)
    first = box.equation
    with tracing():
        result = f(box)
    long = Program((first,), (result.equation,), (None,))
    short = simplify(long)
    assert operations(short) == left
    assert operations(short) <= operations(long)
    with np.errstate(all="ignore"):
        (expected,), (found,) = (compile_program(p)([SPECIAL]) or [None] for p in (long, short))
    same(found, expected, f"case {number}")


def test_what_is_the_same_everywhere():
    for array, expected in ((np.float64(2.0), 2.0), (np.broadcast_to(3.0, (4, 5)), 3.0), (np.ones((1, 1)), 1.0)):
        with tracing() as trace:
            equation = trace.constant(np.asarray(array) if not isinstance(array, np.ndarray) else array)
            assert value_everywhere(equation) == expected
            assert value_everywhere(cr.broadcast_to(Abstract((), np.dtype(float)), (3,)).equation) is None
    with tracing() as trace:
        assert value_everywhere(trace.constant(np.zeros((0, 3)))) is None
        assert value_everywhere(trace.constant(np.zeros((2, 3)))) == 0.0
        assert value_everywhere(trace.constant(np.array([0.0, -0.0]))) is None
        assert value_everywhere(trace.constant(np.zeros(10_000))) is None  # which nobody reads to find out


def test_targets_and_flags_go_with_their_equations():
    x = Abstract((3,), np.dtype(float))
    y = Abstract((3,), np.dtype(float))
    inputs = (x.equation, y.equation)
    with tracing():
        one, two = np.exp(x) * 1.0, np.exp(x)
        walk = np.negative(-np.log(two))
        x *= 1.0
    program = Program(
        inputs, (one.equation, two.equation, x.equation, walk.equation), (None, None, 0, 1), (1,), (walk.equation,)
    )
    short = simplify(program)
    assert short.outputs[0] is short.outputs[1]
    assert short.outputs[2] is inputs[0]
    assert short.flagged == (short.outputs[3],)
    assert (short.inputs, short.targets, short.watched) == (inputs, program.targets, (1,))
    a, b = np.ones(3), np.ones(3)
    first, second = compile_program(short)([a, b]) or ()
    assert first.tolist() == second.tolist() == [np.exp(1.0)] * 3
    assert not np.shares_memory(first, second)
    assert b.tolist() == [1.0] * 3
    assert compile_program(short)([a, np.full(3, np.nan)]) is None
