"""What other files ask of the NumPy executor, asked of native code: numbers within a few units of the last place."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from chainrule.compiler import loops
from chainrule.compiler.executors import compiler, name_of_executor
from tests import test_control
from tests.compiler import test_boxes, test_careful, test_loops, traced

pytestmark = pytest.mark.skipif(name_of_executor(None) != "native", reason="llvmlite is not installed")
BEHIND_WHERE = sorted(test_careful.RECORDS)[::4]


def close(found: Any, expected: Any, *_: Any, **__: Any) -> None:
    eps = np.finfo(np.float32).eps if np.asarray(expected).dtype == np.float32 else np.finfo(np.float64).eps
    large = np.max(np.abs(np.where(np.isfinite(expected), expected, 0.0)), initial=1.0)
    np.testing.assert_allclose(found, expected, 100 * eps, 20 * eps * large)


@pytest.fixture(autouse=True)
def natively(monkeypatch):
    """The same tests with another compiler, and another meaning of equal."""

    def run(f: Any, *arrays: Any, **how: Any) -> Any:
        contiguous = [
            np.array(a, order="C") if how.get("twice", True) and isinstance(a, np.ndarray) else a for a in arrays
        ]
        return traced.run(f, *contiguous, **{**how, "twice": False, "compile": compiler("native")})

    for module in (test_boxes, test_careful, test_control):
        monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(test_loops, "compile_program", compiler("native"))
    monkeypatch.setattr(test_loops.Places, "compile", staticmethod(compiler("native")), raising=False)
    monkeypatch.setattr(loops, "_AT_MOST", 0)
    monkeypatch.setattr(np.testing, "assert_array_equal", close)


@pytest.mark.parametrize("f", test_boxes.FUNCTIONS)
def test_code_on_arrays(f):
    test_boxes.test_compiled_code_does_what_numpy_does(f)


@pytest.mark.parametrize("f", test_boxes.WEAK)
def test_numbers(f):
    test_boxes.test_numbers_take_the_dtype_of_their_partner(f)


@pytest.mark.parametrize("part", range(4))
def test_numpys_functions(part):
    for call in test_boxes.CALLS[part::4]:
        test_boxes.test_numpys_functions_are_compiled(call)


@pytest.mark.parametrize("name", BEHIND_WHERE)
def test_zero_cotangents(name):
    test_careful.test_where_hides(name)


@pytest.mark.parametrize("name", sorted(test_careful.BAD)[::3])
def test_functions_behind_where(name):
    test_careful.test_functions_behind_where(name)


ALONE = [
    test_boxes.test_a_counter_is_replaced_and_an_array_is_written, test_boxes.test_the_gradient_of_a_write_at_traced_positions,
    test_careful.test_a_program_that_is_refused_has_written_nothing, test_control.test_branches_may_write,
    test_control.test_compiled_it_is_the_same, test_loops.test_a_carry_and_results,
    test_loops.test_what_stays_is_handed_over_once, test_loops.test_boxes_that_are_written_and_places_that_are_rebound,
    test_loops.test_views_follow, test_loops.test_a_training_step_with_dropout_is_a_body, test_loops.test_a_loop_of_counts,
    test_loops.test_a_loop_in_a_loop, test_loops.test_what_a_gradient_flows_through_is_written_out,
    partial(test_loops.test_an_invalid_operation_in_a_turn_calls_for_the_careful_program, 0.0),
    partial(test_control.test_a_branch_on_data, np.array([1.0, 4.0])), partial(test_control.test_a_branch_on_data, np.zeros(2)),
    partial(test_boxes.test_positions_may_be_traced, np.array([0, 2, 0])), partial(test_boxes.test_positions_may_be_traced, -1),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ALONE)))
def test_one_by_one(number):
    ALONE[number]()
