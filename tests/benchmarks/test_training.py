"""The workloads on networks: chainrule and PyTorch begin alike, see the same batches, and end alike."""

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks import report
from benchmarks.harness import DisagreementError, Turn, Worker, available, compare
from benchmarks.workloads import conv, digits, spiral, training, transformer
from benchmarks.workloads.contender import COMPILE, COMPILE_MALLOC, OURS, OURS_KEPT, TORCH, Budget, Case
from tests.oracle.peers import peer

SMALL: dict[str, tuple[Any, Case]] = {
    "spiral": (spiral, replace(spiral.CASES[0], sizes={"layers": (2, 8, 8, 2), "points": 20})),
    "digits": (digits, digits.CASES[0]),
    "transformer": (transformer, transformer.SMALL),
    "transformer, float64": (transformer, replace(transformer.SMALL, dtype="float64", tolerance=1e-11)),
    "conv, one pooling": (conv, replace(conv.CASES[0], sizes=conv.CASES[0].sizes | {"images": (4, 1, 8, 8)})),
    "conv, three": (conv, replace(conv.CASES[1], sizes=conv.CASES[1].sizes | {"images": (2, 3, 8, 8)})),
}


def computed(workload: Any, case: Case, steps: int) -> list[Turn]:
    """What every contender of the workload computes, but torch.compile's, which take a C++ compiler and a minute."""
    turns = []
    for contender in available(workload.CONTENDERS)[0]:
        if contender.name in (COMPILE, COMPILE_MALLOC):
            continue
        parts = contender.build(case)
        losses = [parts.step() for _ in range(steps)]
        values = {name: np.asarray(value) for name, value in parts.results(losses[-1]).items()}
        turns.append(Turn(contender, worker=None, before=values))  # type: ignore[arg-type]
    return turns


@pytest.mark.parametrize("name", SMALL)
def test_both_sides_train_alike(name):
    peer("torch")
    workload, case = SMALL[name]
    steps = 1 if name == "digits" else 3
    turns = computed(workload, case, steps)
    compare(turns, "before", case)
    weights = workload.task(case).weights
    for turn in turns:
        assert {f"parameter {key}" for key in weights} < set(turn.before)
        assert all(np.any(turn.before[f"parameter {key}"] != value) for key, value in weights.items())


def test_a_step_too_few_shows():
    peer("torch")
    workload, case = SMALL["spiral"]
    turns = computed(workload, case, 3)
    turns[0] = computed(workload, case, 2)[0]
    with pytest.raises(DisagreementError, match="spiral: before timing, PyTorch and chainrule differ"):
        compare(turns, "before", case)


def test_the_start_comes_back():
    workload, case = SMALL["spiral"]
    parts = next(c for c in workload.CONTENDERS if c.name == OURS).build(case)
    first = {name: np.array(value) for name, value in parts.results(parts.step()).items()}
    parts.step()
    parts.reset()
    again = parts.results(parts.step())
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_batches_follow_one_another_and_begin_anew():
    seen = []
    x, y = np.arange(6.0), np.arange(6)
    rows = [np.array([0, 1]), np.array([2, 3]), np.array([4, 5])]
    task = training.Task({}, [(x, y)], rows=rows, per_step=2)
    parts = training.parts(task, lambda: ({}, lambda x, y: (x, y), lambda x, y: seen.append(list(y))), np.asarray)
    assert seen == [[0, 1]]
    parts.step()
    parts.step()
    parts.reset()
    assert seen == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3], [0, 1]]


def test_decay_is_for_matrices():
    matrix, vector = np.zeros((2, 2)), np.zeros(2)
    decayed, plain = training.groups([vector, matrix], 0.5)
    assert decayed == {"params": [matrix], "weight_decay": 0.5}
    assert plain == {"params": [vector], "weight_decay": 0.0}
    assert training.groups([vector], None) == [vector]


def test_a_worker_measures_the_memory_of_training(tmp_path):
    """At least what is there at the end: parameters, their gradients, two states of the optimiser."""
    case = transformer.CASES[0]
    size = sum(array.nbytes for array in transformer.weights(case).values())
    worker = Worker("as it comes", tmp_path)
    try:
        made = {"module": transformer.__name__, "name": OURS}
        worker.ask("build", key="small", case="SMALL", **made)
        added = worker.ask("memory", key="large", steps=1, build={"case": 0, **made})["added"]
    finally:
        worker.close()
    assert 4 * size < added < 100 * size


def test_peak_memory_is_the_worker_s_own(tmp_path):
    """A worker begins as a copy of whoever starts it, and that may hold much."""
    held = np.ones(40_000_000)
    worker = Worker("as it comes", tmp_path)
    try:
        made = {"module": transformer.__name__, "case": "SMALL", "name": OURS}
        added = worker.ask("memory", key="small", build=made)["added"]
    finally:
        worker.close()
    assert added < held.nbytes / 2


def test_budgets_that_allow_more_time_say_so():
    entry = {"peer": TORCH, "ours": OURS, "floor": 1 / 1.3, "aim": None, "reached": 0.8, "by_cpu_time": 0.9}
    text = report.budget_text(entry)
    assert text.endswith("= 0.800, by CPU time 0.900 (floor 0.769, which is 1.3 times its time): kept")
    assert report.budget_text(entry | {"reached": 0.7}).endswith("MISSED")
    assert Budget(1.8).peer == TORCH


def test_memory_is_held_against_pytorch():
    text = report.training_memory_text({"what": "a step", "added": {OURS: 9_000_000, OURS_KEPT: 0, TORCH: 10_000_000}})
    assert "budget: 0.90 of PyTorch's peak (at most 1): kept" in text
    text = report.training_memory_text({"what": "a step", "added": {OURS: 11_000_000, TORCH: 10_000_000}})
    assert text.endswith("budget: 1.10 of PyTorch's peak (at most 1): MISSED")
    assert "budget" not in report.training_memory_text({"what": "a step", "added": {OURS: 1}})


@pytest.mark.parametrize("name", ["spiral", "digits", "transformer", "conv"])
def test_every_step_of_a_network_has_a_budget(name):
    module = importlib.import_module(f"benchmarks.workloads.{name}")
    assert all(case.budgets and case.steps for case in module.CASES)
