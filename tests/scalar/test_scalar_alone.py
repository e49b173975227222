"""The package stands alone: no NumPy, nothing outside the standard library, no module above it; its examples run."""

import doctest
import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import chainrule.scalar

FOLDER = Path(chainrule.scalar.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")

PROGRAM = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in {"copied", *sys.stdlib_module_names}:
            raise ImportError(f"{name} is not part of the standard library")
sys.meta_path.insert(0, Refuse())
import copied as s
x = s.Value(2.0)
(s.tanh(x) * x).backward()
print(s.hessian(lambda x, y: x**2 * y)(2.0, 3.0), len(s.MLP(2, [16, 16, 1]).parameters()), "numpy" in sys.modules)
"""


def test_runs_on_the_standard_library_alone(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "copied", ignore=shutil.ignore_patterns("__pycache__"))
    printed = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert printed.stdout.strip() == "[[6.0, 4.0], [4.0, 0.0]] 337 False", printed.stderr


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"chainrule.scalar.{name}"))
    assert result.failed == 0
    assert result.attempted > 0 or name == "ieee"


def test_public_names_are_what_is_listed() -> None:
    assert all(hasattr(chainrule.scalar, name) for name in chainrule.scalar.__all__)
    assert len(set(chainrule.scalar.__all__)) == len(chainrule.scalar.__all__)
