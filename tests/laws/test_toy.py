"""An operation declared in a temporary file is tested by the generic suite, with no other line written; a wrong rule fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOY = """
from chainrule.ops.families import NONZERO, REAL, binary

toy = binary("toy", lambda ct, x, y: {rule}, lambda ct, out, y: -(ct * out / y), domain=(REAL, NONZERO),
             forward=lambda x, y: x * x * x / y, standard=lambda xp, x, y: x * x * x / y)
"""


def suite_with(folder: Path, rule: str) -> str:
    """What pytest prints for the laws of `toy`, which it imports as a plugin."""
    (folder / "toy_operation.py").write_text(TOY.format(rule=rule))
    path = os.pathsep.join([str(folder), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "toy_operation",
        "tests/laws/test_laws.py",
        "-k",
        "toy",
        "-v",
        "--tb=line",
    ]
    command += ["-p", "no:cacheprovider"]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    ).stdout


def test_generic_suite_runs_on_a_new_operation(tmp_path):
    report = suite_with(tmp_path, "ct * (3.0 * x * x / y)")
    assert "test_law[vjp-toy] PASSED" in report, report
    assert report.count("-toy] PASSED") >= 20
    assert "FAILED" not in report


@pytest.mark.parametrize(
    ("rule", "law"),
    [("ct * (2.0 * x * x / y)", "vjp"), ("ct * (-3.0 * x * x / y)", "jvp"), ("3.0 * x * x / y + ct", "linearity")],
)
def test_a_wrong_rule_fails(tmp_path, rule, law):
    report = suite_with(tmp_path, rule)
    assert f"test_law[{law}-toy] FAILED" in report, report
