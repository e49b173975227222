"""Each check of `chainrule verify` is a test; the command prints exact counts and fails when a check does."""

import pytest

from chainrule.verify import command
from chainrule.verify.suites import SUITES, Check, Suite

CASES = [
    pytest.param(check, id=f"{suite.name}: {check.name}")
    for suite in SUITES.values()
    if not suite.missing()
    for check in suite.checks()
]
BROKEN = Suite("broken", "a broken suite", 2)


@pytest.mark.parametrize("check", CASES)
def test_check(check):
    assert check.fault() == ""


@pytest.mark.parametrize("name", SUITES)
def test_at_least_as_many_as_the_reference(name):
    suite = SUITES[name]
    if suite.missing():
        pytest.skip(suite.missing())
    names = [check.name for check in suite.checks()]
    assert len(names) >= suite.reference
    assert len(set(names)) == len(names)


def test_reference_counts():
    assert [suite.reference for suite in SUITES.values()] == [17, 79, 40, 26, 18, 30]


@pytest.mark.parametrize(
    ("given", "expected", "tolerance", "fault"),
    [
        (1.0, 1.0, 0.0, ""),
        ([1.0, 2.0], [1.0, 2.5], 1e-3, "given 2.0, expected 2.5, entry (1,)"),
        ([1.0], 1.0, 1.0, "shape (1,), expected ()"),
        (float("nan"), 1.0, 1.0, "given nan, expected 1.0"),
        (1.0 + 2**-52, 1.0, None, ""),
        (1.0 + 2**-51, 1.0, None, "given 1.0000000000000004, expected 1.0"),
    ],
)
def test_faults_name_entry_and_numbers(given, expected, tolerance, fault):
    said = Check("a", lambda: (given, expected), tolerance).fault()
    assert said.replace("np.float64(", "").replace(")", "") == fault.replace(")", "")


@pytest.fixture
def broken(monkeypatch):
    """One suite instead of six: one check passes, one fails, one breaks."""

    def boom():
        raise ZeroDivisionError("by hand")

    checks = [Check("right", lambda: (1.0, 1.0)), Check("wrong", lambda: (1.0, 2.0)), Check("breaks", boom)]
    monkeypatch.setattr(command, "SUITES", {"broken": BROKEN})
    monkeypatch.setattr(Suite, "checks", lambda self: iter(checks))


def test_a_failed_check_gives_exit_code_1(broken, capsys):
    assert command.run(["--plain"]) == 1
    printed = capsys.readouterr().out
    assert "broken: wrong: given" in printed
    assert "broken: breaks: ZeroDivisionError: by hand" in printed
    assert "2 failed" in printed
    row = next(line for line in printed.splitlines() if line.startswith("a broken suite")).split()
    assert row[3:6] == ["3", "2", "1"]


def test_command_counts_exactly(capsys):
    assert command.run(["--plain", "scalars", "softmax"]) == 0
    lines = capsys.readouterr().out.splitlines()
    counts = {name: len(list(SUITES[name].checks())) for name in ("scalars", "softmax")}
    assert [f" {count} " in line for line, count in zip(lines[2:4], counts.values(), strict=True)] == [True, True]
    assert lines[-1].split()[:4] == ["total", str(sum(counts.values())), "43", str(sum(counts.values()))]


def test_rich_table(capsys):
    pytest.importorskip("rich")
    assert command.run(["scalars"]) == 0
    assert "scalar gradients" in capsys.readouterr().out


def test_list_runs_nothing(capsys):
    assert command.run(["--list", "scalars"]) == 0
    assert "scalars: tanh at 1000 at 1000.0" in capsys.readouterr().out


def test_unknown_suite_gives_exit_code_2(capsys):
    with pytest.raises(SystemExit) as stopped:
        command.run(["nonsense"])
    assert stopped.value.code == 2
    assert "no suite 'nonsense'; there are: scalars" in capsys.readouterr().err


def test_a_missing_library_skips_its_suite(monkeypatch, capsys):
    monkeypatch.setattr(command, "SUITES", {"x": Suite("x", "needs nothing real", 5, "a_library_that_is_not_there")})
    assert command.run(["--plain"]) == 0
    assert "skipped: a_library_that_is_not_there is not installed" in capsys.readouterr().out
