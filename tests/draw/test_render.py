"""Files: both ways to a picture, and what happens when something fails."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from chainrule.draw import Box, Graph, draw, graph_of, graphviz, painter, to_dot
from chainrule.draw.graphviz import DotError, run_dot
from chainrule.errors import ArgumentError, MissingExtraError
from tests.draw import engines

PNG = b"\x89PNG\r\n\x1a\n"
REAL_DOT = shutil.which("dot")
SUBJECTS = {
    "loss": lambda: engines.squared_loss(),
    "neurons": lambda: (engines.multilayer([2, 1], [0.5, -1.0]), {}),
    "residual": lambda: engines.residual_block(),
    "chain": lambda: (engines.chain(30), {}),
    "single": lambda: (engines.Value(3.0), {}),
    "hard": lambda: (Graph((Box(('$x_1$ "&lt;" \\n <b> \x00', "two\nlines", ""), "leaf", headed=True),)), {}),
}

FAKE = """#!{python}
import os, sys
source = sys.stdin.read()
with open({log!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n" + source)
{behaviour}
"""
ANSWERS = """
if "-Tpng" in sys.argv:
    sys.stdout.buffer.write(b"\\x89PNG\\r\\n\\x1a\\n of the fake")
else:
    sys.stdout.write("<?xml version='1.0'?><svg of the fake/>")
"""


@pytest.fixture
def fake_dot(tmp_path, monkeypatch):
    """Put a program named `dot` first on PATH, with the given behaviour; give back the log of its calls."""

    def install(behaviour):
        folder = tmp_path / "programs"
        folder.mkdir()
        log = folder / "log"
        program = folder / "dot"
        program.write_text(FAKE.format(python=sys.executable, log=str(log), behaviour=behaviour))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return log

    return install


@pytest.fixture
def without_dot(monkeypatch):
    monkeypatch.setenv("PATH", "")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "pictures"
    made.mkdir()
    return made


def names_in(folder):
    return sorted(file.name for file in folder.iterdir())


# ---------------------------------------------------------------- the built-in layout


@pytest.mark.parametrize("subject", SUBJECTS)
def test_built_in_pictures_are_written_with_their_source(subject, folder, without_dot):
    result, names = SUBJECTS[subject]()
    files = draw(result, folder / subject, names=names)
    assert (
        names_in(folder) == sorted(file.name for file in files) == [f"{subject}.{end}" for end in ("dot", "png", "svg")]
    )
    assert (folder / f"{subject}.png").read_bytes().startswith(PNG)
    assert b"<svg" in (folder / f"{subject}.svg").read_bytes()[:1000]
    assert (folder / f"{subject}.dot").read_text("utf-8") == to_dot(graph_of(result, names=names))


def test_built_in_pictures_are_the_same_each_time(folder, without_dot):
    loss, names = engines.squared_loss()
    for name in ("one", "two"):
        draw(loss, folder / name, names=names)
    for ending in ("png", "svg"):
        assert (folder / f"one.{ending}").read_bytes() == (folder / f"two.{ending}").read_bytes()


def test_every_colour_of_the_look_is_in_the_picture(folder, without_dot):
    draw(engines.squared_loss()[0], folder / "loss.svg")
    text = (folder / "loss.svg").read_text("utf-8").upper()
    assert {"#0072B2", "#E69F00", "#009E73"} <= set(re.findall(r"#[0-9A-F]{6}", text))


def test_pyplot_and_the_settings_of_matplotlib_are_left_alone(folder):
    program = (
        "import sys, matplotlib; before = matplotlib.rcParams.copy()\n"
        "from chainrule.draw import Box, Graph, draw\n"
        f"draw(Graph((Box(('x',)),)), {str(folder / 'x')!r}, graphviz=False)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.rcParams.copy() == before\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_drawings_imports_no_matplotlib():
    program = "import sys, chainrule.draw; assert not any(name.startswith('matplotlib') for name in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_picture_too_large_for_its_resolution_gets_a_lower_one():
    assert painter._dpi(300, 400) == painter.DPI
    assert 100_000 / 72 * painter._dpi(300, 100_000) <= painter.LONGEST_SIDE
    assert (20_000 / 72 * painter._dpi(20_000, 20_000)) ** 2 <= painter.MOST_DOTS * 1.001


def test_without_matplotlib_the_error_names_the_extra(folder, without_dot, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"chainrule\[walkthrough\]"):
        draw(engines.Value(1.0), folder / "x")
    assert names_in(folder) == []
    assert [file.name for file in draw(engines.Value(1.0), folder / "x.dot")] == ["x.dot"]


# ---------------------------------------------------------------- Graphviz


def test_dot_on_the_path_makes_the_pictures(folder, fake_dot):
    log = fake_dot(ANSWERS)
    loss, names = engines.squared_loss()
    draw(loss, folder / "loss", names=names)
    assert (folder / "loss.png").read_bytes() == PNG + b" of the fake"
    assert "of the fake" in (folder / "loss.svg").read_text()
    source = (folder / "loss.dot").read_text("utf-8")
    assert source == to_dot(graph_of(loss, names=names))
    assert log.read_text("utf-8").count(source) == 2
    assert "-Tpng" in log.read_text("utf-8")


def test_dot_is_not_asked_if_not_wanted(folder, fake_dot):
    log = fake_dot(ANSWERS)
    draw(engines.Value(1.0), folder / "a", graphviz=False)
    draw(engines.Value(1.0), folder / "b.dot")
    assert not log.exists()


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("sys.stderr.write('no such\\nfont'); sys.exit(3)", "exit status 3, no such font"),
        ("sys.exit(1)", "exit status 1, no message"),
        ("print('hello')", "the output is no PNG"),
        ("os.kill(os.getpid(), 9)", "exit status -9"),
    ],
)
def test_a_failing_dot_is_replaced_with_one_warning(folder, fake_dot, behaviour, reason):
    fake_dot(behaviour)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw(engines.squared_loss()[0], folder / "loss")
    [warning] = caught
    assert reason in str(warning.message)
    assert "\n" not in str(warning.message)
    assert Path(warning.filename).name == Path(__file__).name
    assert names_in(folder) == ["loss.dot", "loss.png", "loss.svg"]
    assert (folder / "loss.png").read_bytes().startswith(PNG)
    assert len((folder / "loss.png").read_bytes()) > 1000


def test_a_dot_that_never_answers_is_stopped_even_if_it_leaves_a_child(fake_dot):
    fake_dot(
        "import subprocess, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(5)']); time.sleep(5)"
    )
    with pytest.raises(DotError, match=r"no answer within 0\.3 s"):
        run_dot(graphviz.find_dot(), "digraph {}", ["png"], timeout=0.3)


def test_a_dot_that_cannot_be_started(tmp_path):
    with pytest.raises(DotError, match="No such file"):
        run_dot(str(tmp_path / "nothing"), "digraph {}", ["png"])


@pytest.mark.skipif(REAL_DOT is None, reason="Graphviz's dot is not installed: a fake one stands in for it above")
@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_real_dot_takes_our_source(subject, folder):
    result, names = SUBJECTS[subject]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(result, folder / subject, names=names)
    assert (folder / f"{subject}.png").read_bytes().startswith(PNG)
    assert b"Generated by graphviz" in (folder / f"{subject}.svg").read_bytes()


# ---------------------------------------------------------------- names of files


@pytest.mark.parametrize(
    ("path", "format", "written"),
    [
        ("g", None, ["g.png", "g.svg", "g.dot"]),
        ("g.png", None, ["g.png", "g.dot"]),
        ("g.SVG", None, ["g.SVG", "g.dot"]),
        ("g.dot", None, ["g.dot"]),
        ("g.v1.5", None, ["g.v1.5.png", "g.v1.5.svg", "g.v1.5.dot"]),
        ("g", "svg", ["g.svg", "g.dot"]),
        ("g.png", ("png", "svg"), ["g.png", "g.svg", "g.dot"]),
        ("g", ["dot"], ["g.dot"]),
    ],
)
def test_the_ending_or_the_format_says_what_is_written(folder, without_dot, path, format, written):
    files = draw(engines.Value(1.0), str(folder / path), format)
    assert [file.name for file in files] == written
    assert names_in(folder) == sorted(written)


@pytest.mark.parametrize(
    ("path", "format", "message"),
    [
        ("g", "pdf", "unknown format 'pdf', expected 'png' or 'svg' or 'dot'"),
        ("g.png", "svg", r"the path ends in \.png and format='svg' · try a path without ending"),
        ("", None, "names no file"),
    ],
)
def test_bad_names_and_formats(folder, monkeypatch, path, format, message):
    monkeypatch.chdir(folder)
    with pytest.raises(ArgumentError, match=message):
        draw(engines.Value(1.0), path, format)
    assert names_in(folder) == []


# ---------------------------------------------------------------- nothing half-written


def test_a_missing_folder_is_one_clear_error(folder, without_dot):
    with pytest.raises(ArgumentError, match=r"cannot write x\.png into folder '.*nowhere' \(No such file") as caught:
        draw(engines.Value(1.0), folder / "nowhere" / "x")
    assert "\n" not in str(caught.value)
    assert names_in(folder) == []


def test_a_folder_that_is_a_file_is_one_clear_error(folder, without_dot):
    (folder / "file").write_text("mine")
    with pytest.raises(ArgumentError, match=r"cannot write x\.png .* Not a directory|\(Not a directory\)"):
        draw(engines.Value(1.0), folder / "file" / "x")
    assert (folder / "file").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_without_permission_is_one_clear_error(folder, without_dot):
    folder.chmod(0o555)
    try:
        with pytest.raises(ArgumentError, match="Permission denied"):
            draw(engines.Value(1.0), folder / "x")
    finally:
        folder.chmod(0o755)


def test_a_full_disk_leaves_the_old_files(folder, without_dot, monkeypatch):
    draw(engines.Value(1.0), folder / "x")
    before = {file: file.read_bytes() for file in folder.iterdir()}
    opened = Path.open

    def fail_on_the_last(path, mode="r", *args):
        stream = opened(path, mode, *args)
        if ".dot." in path.name:
            stream.close()
            raise OSError(28, "No space left on device")
        return stream

    monkeypatch.setattr(Path, "open", fail_on_the_last)
    with pytest.raises(ArgumentError, match="No space left on device"):
        draw(engines.Value(2.0), folder / "x")
    monkeypatch.undo()
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize("failure", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_a_failure_while_moving_leaves_no_temporary_file(folder, without_dot, monkeypatch, failure):
    def fail(path, target):
        raise failure

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises((ArgumentError, KeyboardInterrupt)):
        draw(engines.Value(1.0), folder / "x")
    assert names_in(folder) == []


def test_a_folder_in_the_place_of_a_picture_stops_everything(folder, without_dot):
    (folder / "x.svg").mkdir()
    with pytest.raises(ArgumentError, match=r"x\.svg is a folder"):
        draw(engines.Value(1.0), folder / "x")
    assert names_in(folder) == ["x.svg"]


def test_new_files_have_the_permissions_of_any_new_file(folder, without_dot):
    (folder / "plain").write_text("")
    draw(engines.Value(1.0), folder / "x")
    assert (folder / "x.png").stat().st_mode == (folder / "plain").stat().st_mode


def test_a_failed_drawing_writes_nothing(folder, without_dot):
    with pytest.raises(ArgumentError):
        draw(engines.chain(50), folder / "x", max_nodes=10, excess="error")
    with pytest.raises(ArgumentError):
        draw(2.5, folder / "x")
    assert names_in(folder) == []
