"""The command: what it prints, and one line and exit code 2 for whatever a user can put right."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import chainrule
from chainrule.cli import main


def said(argv, capsys):
    """Exit code, output and error output of a call in this process."""
    try:
        code = main(argv)
    except SystemExit as end:
        code = end.code
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_version(capsys):
    assert said(["--version"], capsys) == (0, f"chainrule {chainrule.__version__}\n", "")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["walkthrough", "--help"], ["verify", "--help"]])
def test_help(words, capsys):
    code, out, err = said(words, capsys)
    assert (code, err) == (0, "")
    assert out.startswith("usage: chainrule")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "no command given, expected walkthrough, verify, train or sample"),
        (["nonsense"], "no command 'nonsense'"),
        (["--nonsense"], "no command '--nonsense'"),
        (["walkthrough", "--quik"], "unrecognized arguments: --quik"),
        (["walkthrough", "--qui"], "unrecognized arguments: --qui"),
        (["walkthrough", "extra"], "unrecognized arguments: extra"),
        (["walkthrough", "--seed", "x"], "'x' is no seed, expected a whole number"),
        (["walkthrough", "--seed", "-1"], "'-1' is no seed"),
        (["walkthrough", "--seed"], "expected one argument"),
        (["walkthrough", "--out", ""], "'' names no folder"),
        (["walkthrough", "--out", "a\0b"], "names no folder"),
    ],
)
def test_bad_options_are_one_line_and_code_2(words, complaint, capsys):
    code, out, err = said(words, capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert complaint in err
    assert "try: chainrule" in err


def test_unwritable_folder_is_one_line_and_code_2(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        code, out, err = said(["walkthrough", "--out", str(folder)], capsys)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "cannot write into folder" in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_figures_in_the_way_are_noticed_at_once(tmp_path, capsys):
    (tmp_path / "figures").write_text("in the way")
    code, _, err = said(["walkthrough", "--out", str(tmp_path)], capsys)
    assert (code, err.count("\n")) == (2, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["figures"]


@pytest.mark.parametrize("library", ["matplotlib", "rich", "sklearn", "threadpoolctl"])
def test_missing_extra_is_one_line_and_names_the_cure(library, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("chainrule.walkthrough.find_spec", lambda name: None if name == library else object())
    code, out, err = said(["walkthrough", "--out", str(tmp_path / "results")], capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert library in err
    assert "pip install 'chainrule[walkthrough]'" in err
    assert list(tmp_path.iterdir()) == []


def test_whoever_stops_reading_stops_the_output():
    """`chainrule --help | true` ends without a traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "chainrule.cli", "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_output_that_does_not_fit_is_one_line_and_code_2():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "chainrule.cli", "verify", "scalars"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot write" in done.stderr


def test_output_that_is_closed_is_no_fault(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["verify", "scalars", "--plain"]) == 0
