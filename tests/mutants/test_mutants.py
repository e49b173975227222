"""A fixed sample of the mutants is killed; `make mutants` takes all of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import engine, rules, run
from tests.mutants.survivors import REASONS, reason

ROOT = Path(__file__).parents[2]
SAMPLE = 60


def in_a_process_of_its_own(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Mutants of the engine import the library anew, which nothing else in this process should see."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env={**_environment()}, capture_output=True, text=True, check=False
    )


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}


def test_sample_is_killed():
    done = in_a_process_of_its_own("-m", "tests.mutants.run", "--sample", str(SAMPLE))
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.search(r"(\d+)/(\d+) mutants killed, (\d+) survivors explained, 0 not", done.stdout)
    assert counts, done.stdout
    assert int(counts[2]) == SAMPLE
    assert int(counts[1]) + int(counts[3]) == SAMPLE


def test_sample_is_fixed_and_without_repetition():
    names = [mutant.name for mutant in run.sample(SAMPLE)]
    assert names == [mutant.name for mutant in run.sample(SAMPLE)]
    assert len(set(names)) == SAMPLE
    assert sum(isinstance(mutant, engine.EngineMutant) for mutant in run.sample(SAMPLE)) == SAMPLE // 2


def test_every_rule_is_broken_in_several_ways():
    broken = {(mutant.record, mutant.index) for mutant in rules.mutants()}
    assert broken == {
        (name, k) for name, record in rules.records().items() for k, rule in enumerate(record.rules) if rule is not None
    }
    assert len(list(rules.mutants())) >= 5 * len(broken)


def test_a_rule_that_is_not_broken_survives(monkeypatch):
    """Otherwise the laws would notice the copying and not the fault."""
    monkeypatch.setitem(rules.CHANGES, "nothing", rules._result(lambda g: g))
    for name in ("add", "exp", "matmul", "concat", "max", "where", "unstack"):
        assert rules.killer(rules.RuleMutant(name, 1 if name == "where" else 0, "nothing")) == ""


def test_an_engine_that_is_not_broken_survives():
    code = (
        "from tests.mutants.engine import EngineMutant, killer, MUTANTS as m; "
        "print(killer(m[0]._replace(new=m[0].old)) or 'lives')"
    )
    done = in_a_process_of_its_own("-c", code)
    assert done.stdout.strip() == "lives", done.stdout + done.stderr


@pytest.mark.parametrize("mutant", engine.MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_to_be_replaced_is_there_once(mutant):
    text = engine.source(mutant.module)
    assert text.count(mutant.old) == 1, "say in tests/mutants/engine.py how the step goes wrong as it stands now"
    compile(text.replace(mutant.old, mutant.new), mutant.module, "exec")


def test_names_of_mutants_are_unique():
    names = [mutant.name for mutant in run.everything()]
    assert len(names) == len(set(names))


def test_a_survivor_without_a_reason_fails(monkeypatch, capsys):
    monkeypatch.setattr(run, "judge", lambda mutants, workers: [(mutant.name, "") for mutant in mutants])
    assert run.main(["exp.x: negated"]) == 1
    assert "survives: exp.x: negated · NOT EXPLAINED" in capsys.readouterr().out
    assert run.main(["abs.x: residuals detached"]) == 0


def test_reasons_are_for_mutants_that_exist():
    names = [mutant.name for mutant in run.everything()]
    for pattern in REASONS:
        assert any(re.fullmatch(pattern, name) for name in names), pattern
    assert reason("exp.x: negated") == ""
