"""The set-up behind make: which PyTorch it takes, what makes it work anew, and what it says when it cannot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import environment

CPU, CUDA = (
    json.dumps({"install": [{"metadata": {"name": "torch", "version": version}}]})
    for version in ("2.13.0+cpu", "2.13.0")
)
INSTALLED = json.dumps({"install": []})
NOT_FOUND = ""


@pytest.mark.parametrize(
    ("report", "version", "platform", "oracle", "taken"),
    [
        (CPU, (3, 11), "linux", None, True),
        (CUDA, (3, 11), "linux", None, False),
        (CUDA, (3, 11), "linux", "1", True),
        (CUDA, (3, 11), "darwin", None, True),
        (INSTALLED, (3, 11), "linux", None, True),
        (NOT_FOUND, (3, 11), "linux", "1", False),
        (CPU, (3, 13), "linux", "1", False),
    ],
)
def test_large_pytorch_is_taken_only_when_asked_for(report, version, platform, oracle, taken):
    line = environment.why_without_torch(report, version, platform, oracle)
    assert (line is None) == taken
    assert line is None or "\n" not in line


def test_left_out_line_says_how_to_get_it():
    line = environment.why_without_torch(CUDA, (3, 11), "linux", None)
    assert line is not None
    assert "ORACLE=1" in line
    assert "2.13.0" in line


def test_plain_torch_is_never_asked_for():
    lines = [line for extra in environment.EXTRAS.values() for line in extra if line.startswith("torch")]
    assert lines == ["torch~=2.13.0; python_version == '3.11'"]


def test_extras_include_those_they_name():
    assert environment.included(["test", "oracle"]) == {
        "test",
        "walkthrough",
        "io",
        "data",
        "tensorboard",
        "jit",
        "oracle",
    }
    with pytest.raises(SystemExit, match="no extra `tset`"):
        environment.included(["tset"])


def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a .venv made for extra `test`, without running pip."""
    venv = folder / ".venv"
    pip = venv / "lib" / "python3" / "site-packages" / "pip"
    for part in (pip, venv / "bin"):
        part.mkdir(parents=True)
    (pip / "__main__.py").touch()
    (venv / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(environment, "VENV", venv)
    monkeypatch.setattr(environment, "INSTALLING", venv / ".installing")
    environment.write_stamp("test", None)
    return venv


def test_whole_environment_stays(tmp_path, monkeypatch):
    make(tmp_path, monkeypatch)
    assert environment.is_usable()
    assert environment.is_current("test")
    assert not environment.is_current("oracle")


@pytest.mark.parametrize("lost", [".stamp-test", "bin/python", "lib/python3/site-packages/pip/__main__.py"])
def test_half_made_environment_goes(lost, tmp_path, monkeypatch):
    (make(tmp_path, monkeypatch) / lost).unlink()
    assert not environment.is_usable()


def test_environment_in_which_pip_was_killed_goes(tmp_path, monkeypatch):
    (make(tmp_path, monkeypatch) / ".installing").touch()
    assert not environment.is_usable()


def test_environment_of_another_python_goes(tmp_path, monkeypatch):
    make(tmp_path, monkeypatch)
    monkeypatch.setattr(sys, "version", "3.99.0")
    assert not environment.is_usable()


def test_changed_pyproject_installs_again(tmp_path, monkeypatch):
    make(tmp_path, monkeypatch)
    monkeypatch.setattr(environment, "PYPROJECT", environment.PYPROJECT + b"\n")
    assert environment.is_usable()
    assert not environment.is_current("test")


def test_pytorch_left_out_is_asked_for_again_when_something_changed(tmp_path, monkeypatch):
    make(tmp_path, monkeypatch)
    monkeypatch.delenv("ORACLE", raising=False)
    environment.write_stamp("oracle", "PyTorch left out")
    assert environment.is_current("oracle")
    monkeypatch.setenv("PIP_FIND_LINKS", "wheels-of-another-folder")
    assert not environment.is_current("oracle")
    environment.write_stamp("oracle", "PyTorch left out")
    monkeypatch.setenv("ORACLE", "1")
    assert not environment.is_current("oracle")


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_missing_module_is_one_line_with_its_remedy(missing, tmp_path):
    code = (
        "import importlib.util as u, runpy, sys; find = u.find_spec; "
        f"u.find_spec = lambda name, package=None: None if name == {missing!r} else find(name, package); "
        "sys.argv = ['environment.py', '--target', 'test', 'test']; "
        f"runpy.run_path({environment.__file__!r}, run_name='__main__')"
    )
    new = {**os.environ, "CHAINRULE_VENV": str(tmp_path / "new")}
    done = subprocess.run([sys.executable, "-c", code], env=new, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"no module `{missing}`" in line
    assert "-venv" in line
    assert "make test PYTHON=" in line
    assert not (tmp_path / "new").exists()
