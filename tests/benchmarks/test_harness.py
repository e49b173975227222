"""The harness itself: turns, comparisons, rows that are missing, what is written."""

import importlib
import json
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import footprint, report
from benchmarks.harness import DisagreementError, Outcome, Workers, available, run_case
from benchmarks.processes import KEPT, MALLOC, MALLOC_SETTING, environment
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.contender import Contender

STILL, MOVING = 0, 1


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    """Run a case of the fake workload with extra contenders."""

    def run_with(index: int, *extra: str, rounds: int = 3) -> Outcome:
        here = str(Path(__file__).parent)
        monkeypatch.syspath_prepend(here)
        monkeypatch.setenv("PYTHONPATH", here)
        monkeypatch.setenv("FAKE_CONTENDERS", " ".join(extra))
        sys.modules.pop("fake_workload", None)
        with Workers() as workers:
            return run_case("fake_workload", index, workers, rounds, seconds=0.005)

    return run_with


def test_ratios_are_of_blocks_in_turn(run):
    """Not of how long they took: a test that asks for a time fails on a busy machine."""
    outcome = run(STILL, rounds=5)
    ours, peer = outcome.turns
    assert len(ours.wall) == len(peer.wall) == len(ours.faults) == 5
    assert list(outcome.ratio(peer, ours)) == [b / a for a, b in zip(ours.wall, peer.wall, strict=True)]
    assert min(ours.steps, peer.steps) >= 1
    text = report.case_text(outcome)
    assert "three times" in text
    assert "floor 2.0, aim 2.5" not in text
    assert "floor 2.0): " in text


def test_a_step_that_changes_the_state_makes_equally_many_steps_everywhere(run):
    outcome = run(MOVING)
    for turn in outcome.turns:
        assert turn.steps == 7
        assert np.array_equal(turn.after["parameters"], [7, 7, 7])
        assert np.array_equal(turn.before["parameters after one step"], [1, 1, 1])


@pytest.mark.parametrize(
    ("cheat", "index", "said"),
    [
        ("wrong", STILL, r"before timing, .* differ in gradient by 5.0e-07 of the largest entry"),
        ("nan", STILL, "differ in gradient by nan"),
        ("float32", STILL, "gradient has dtype float64 and float32, expected float64"),
        ("skips", MOVING, "moving: before timing, three times and skips differ in parameters"),
    ],
)
def test_contenders_that_disagree_stop_the_run(run, cheat, index, said):
    with pytest.raises(DisagreementError, match=said):
        run(index, cheat)


def test_a_worker_has_one_thread_one_cpu_and_its_own_choice_of_kernels(run, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "1")
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "1")
    with pytest.raises(DisagreementError, match="environment"):
        run(STILL, "threads")
    monkeypatch.setenv("FAKE_CONTENDERS", "threads")
    module = importlib.import_module("fake_workload")
    with Workers() as workers:
        worker = workers.of(next(c for c in module.CONTENDERS if c.name == "threads"))
        worker.ask("build", key="t", module="fake_workload", case=STILL, name="threads")
        worker.ask("time", key="t", steps=1, warm=False)
        worker.ask("results", key="t", path=str(workers.path / "seen.npz"))
        with np.load(workers.path / "seen.npz") as seen:
            assert seen["environment"].tolist() == [1, -1, -1, 1]


def test_the_malloc_setting_reaches_only_the_process_that_asks_for_it(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")
    assert environment(MALLOC).items() >= MALLOC_SETTING.items()
    assert not environment(KEPT).keys() & MALLOC_SETTING.keys()


def test_a_contender_that_dies_or_is_absent_loses_its_row_and_no_more(run):
    outcome = run(STILL, "dies", "absent")
    assert [t.key for t in outcome.turns] == ["chainrule", "three times"]
    assert outcome.failed["dies"].startswith("the worker died")
    assert "not run: dies: the worker died" in report.case_text(outcome)


def test_a_missing_library_is_one_line():
    absent = Contender("row", "no_such_library", lambda _: None)
    present, missing = available([absent])
    assert not present
    assert missing == {"no_such_library": ["row"]}
    line = report.missing_text("torch", ["chain: PyTorch", "hinge: PyTorch"])
    assert line == (
        "PyTorch is not installed (pip install 'chainrule[oracle]'); rows left out: chain: PyTorch; hinge: PyTorch"
    )


def test_the_result_is_plain_json_and_written_whole(run, tmp_path):
    path = tmp_path / "new" / "b.json"
    outcome = run(STILL)
    report.write(path, {**report.conditions(3), "cases": [report.case_entry(outcome)]})
    kept = json.loads(path.read_text())
    ours, peer = outcome.turns
    assert kept["cases"][0]["budgets"][0]["reached"] == statistics.median(outcome.ratio(peer, ours))
    assert not kept["rules"]["quotable"]
    with pytest.raises(TypeError):
        report.write(path, {"cases": object()})
    assert json.loads(path.read_text()) == kept
    assert [p.name for p in path.parent.iterdir()] == ["b.json"]


@pytest.mark.parametrize(
    "argv", [["--only", "nonsense"], ["--rounds", "0"], ["--out", "/proc/none/b.json"], ["--out", "/"]]
)
def test_bad_options_are_one_line_and_code_2(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        command.parse(argv)
    assert stop.value.code == 2
    assert "error: " in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_names_its_rows_once_and_starts_with_ours(name):
    module = importlib.import_module(WORKLOADS[name])
    names = [c.name for c in module.CONTENDERS]
    assert names[0] == "chainrule"
    assert len(set(names)) == len(names)
    assert all(b.ours in names and b.peer in names for case in module.CASES for b in case.budgets)


def test_import_time_counts_only_what_comes_after_numpy():
    seconds, others = footprint.import_once("json")
    assert 0 <= seconds < 1
    assert not others


def test_units():
    assert [report.seconds(s) for s in (2.0, 0.0123, 4.56e-6)] == ["2 s", "12.3 ms", "4.56 us"]
