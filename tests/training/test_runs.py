"""A run in its folder: begun, saved, resumed, extended; and refused where it would overwrite or contradict."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import chainrule as cr
from tests.training.commands import has_logged, said, start, wait_for
from tests.training.soak import state

QUICK = ("--epochs", "30", "--no-progress")


def train(capsys, *words):
    code, out, err = said(capsys, "train", "spiral", *words)
    assert (code, err) == (0, ""), err
    return out


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of 30 steps that has come to its end."""
    folder = tmp_path_factory.mktemp("runs") / "spiral"
    process = start(folder.parent, "train", "spiral", "--out", folder, *QUICK)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0
    return folder


def test_a_run_leaves_checkpoint_log_curve_and_result(finished):
    assert sorted(path.name for path in finished.iterdir()) == ["checkpoint.npz", "curve.png", "log.csv", "result.json"]
    lines = (finished / "log.csv").read_text().splitlines()
    assert lines[0] == "step,rate,loss,test_loss,test_accuracy"
    assert [line.split(",")[0] for line in lines[1:]] == [str(k) for k in range(31)]
    assert [line.split(",")[0] for line in lines[1:] if not line.endswith(",,")] == ["0", "20", "30"]
    assert (finished / "curve.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((finished / "result.json").read_text())
    assert result["steps"] == 30
    assert result["settings"]["epochs"] == 30
    assert np.array(result["confusion"]).sum() == 150
    assert result["test_accuracy"] == np.trace(result["confusion"]) / 150


def test_same_settings_same_run(finished, tmp_path, capsys):
    train(capsys, "--out", tmp_path / "again", *QUICK)
    train(capsys, "--out", tmp_path / "other", "--seed", 1, *QUICK)
    assert state(tmp_path / "again") == state(finished)
    assert (tmp_path / "again" / "log.csv").read_bytes() == (finished / "log.csv").read_bytes()
    assert (tmp_path / "other" / "log.csv").read_bytes() != (finished / "log.csv").read_bytes()


def test_how_often_it_is_saved_changes_nothing(finished, tmp_path, capsys):
    train(capsys, "--out", tmp_path / "again", "--save-every", 0, *QUICK)
    assert state(tmp_path / "again") == state(finished)


def test_a_finished_run_says_so(finished, capsys):
    before = state(finished)
    out = train(capsys, "--resume", finished)
    assert "finished, 30 steps" in out
    assert "test accuracy" in out
    assert state(finished) == before


def test_an_extended_run_is_the_longer_run(finished, tmp_path, capsys):
    """The rate falls over the epochs that the run began with, and stays; so does that of a run told this from the start."""
    shutil.copytree(finished, tmp_path / "extended")
    train(capsys, "--resume", tmp_path / "extended", "--epochs", 45, "--no-progress")
    train(capsys, "--out", tmp_path / "longer", "--epochs", 45, "--decay-epochs", 30, "--no-progress")
    assert state(tmp_path / "extended") == state(tmp_path / "longer")
    assert (tmp_path / "extended" / "log.csv").read_bytes() == (tmp_path / "longer" / "log.csv").read_bytes()


def test_a_log_that_is_ahead_or_damaged_is_set_right(finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / "run")
    with (tmp_path / "run" / "log.csv").open("a") as log:
        log.write("31,0.1,0.2,,\n32,0.")
    (tmp_path / "run" / "curve.png").unlink()
    train(capsys, "--resume", tmp_path / "run", "--epochs", 31, "--no-progress")
    lines = (tmp_path / "run" / "log.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [str(k) for k in range(32)]
    assert (tmp_path / "run" / "curve.png").exists()


# -------------------------------------------------------------------------------------------------------- interrupted


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_saves_and_says_how_to_go_on(number, code, tmp_path):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("the tests run under nohup, which the runs inherit")
    words = ("--epochs", "30000", "--no-progress", "--save-every", "0.05")
    folder = tmp_path / "a run"
    process = start(tmp_path, "train", "spiral", "--out", "a run", *words)
    wait_for(lambda: has_logged(folder, 50))
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, ""), err
    said_last = err.splitlines()[-1]
    assert "and saved · to go on: chainrule train spiral --resume 'a run' --no-progress" in said_last
    assert "Traceback" not in err
    step = int(said_last.split("stopped at step ")[1].split(" ")[0].replace(",", ""))
    assert has_logged(folder, step)
    assert (folder / "curve.png").exists()


def test_a_second_signal_ends_at_once(tmp_path):
    """The first one comes while a step takes for ever."""
    code = (
        "import sys, time; from chainrule.training.loop import Run; from chainrule.cli import main\n"
        "def advance(self): print('stepping', flush=True); time.sleep(60)\n"
        "Run.advance = advance\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "train", "spiral", "--out", "run", "--no-progress"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "stepping\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "\n"
    assert "once more: at once" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopped at once · its last checkpoint is kept · to go on: chainrule train spiral --resume run" in err
    assert (tmp_path / "run" / "checkpoint.npz").exists()


def test_a_signal_while_a_run_is_set_up_leaves_nothing(tmp_path):
    code = (
        "import sys, time; from chainrule import data; from chainrule.cli import main\n"
        "def split(*_, **__): print('setting up', flush=True); time.sleep(60)\n"
        "data.two_arm_spiral = split\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "train", "spiral", "--out", "a/run", "--no-progress"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "setting up\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (143, "chainrule train: stopped at once · before it began\n")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------------ refused


def refused(capsys, *words):
    code, out, err = said(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
    return err


def test_a_folder_with_a_run_is_not_overwritten(finished, capsys):
    before = state(finished)
    err = refused(capsys, "train", "spiral", "--out", finished)
    assert f"holds a run already · try --resume {finished}" in err
    assert state(finished) == before


def test_a_folder_with_a_file_of_that_name_is_left_alone(tmp_path, capsys):
    (tmp_path / "log.csv").write_text("mine")
    assert "log.csv, which would be overwritten" in refused(capsys, "train", "spiral", "--out", tmp_path)
    assert (tmp_path / "log.csv").read_text() == "mine"


def test_what_is_no_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert "cannot write into folder" in refused(capsys, "train", "spiral", "--out", folder)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("command", [("train", "spiral", "--resume"), ("sample",)])
def test_what_is_no_run(command, finished, tmp_path, capsys):
    assert "there is no folder" in refused(capsys, *command, tmp_path / "nowhere")
    assert "holds no checkpoint.npz" in refused(capsys, *command, tmp_path)
    (tmp_path / "checkpoint.npz").write_text("something else")
    assert "is no zip" in refused(capsys, *command, tmp_path)
    cr.io.save_checkpoint(tmp_path / "checkpoint.npz", epoch=3)
    assert "is no checkpoint of `chainrule train`" in refused(capsys, *command, tmp_path)
    whole = (finished / "checkpoint.npz").read_bytes()
    (tmp_path / "checkpoint.npz").write_bytes(whole[: len(whole) // 2])
    assert "damaged" in refused(capsys, *command, tmp_path)


def test_a_run_of_another_kind(finished, capsys):
    err = refused(capsys, "train", "digits", "--resume", finished)
    assert f"holds a run of `chainrule train spiral` · try chainrule train spiral --resume {finished}" in err


def test_settings_that_contradict_the_run(finished, capsys):
    before = state(finished)
    assert "--seed 3 contradicts the run's 0" in refused(capsys, "train", "spiral", "--resume", finished, "--seed", 3)
    assert "less than the run's 30" in refused(capsys, "train", "spiral", "--resume", finished, "--epochs", 7)
    assert state(finished) == before


def test_two_processes_do_not_train_into_one_folder(finished, capsys):
    descriptor = os.open(finished, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert "another process trains in" in refused(capsys, "train", "spiral", "--resume", finished, "--epochs", 50)
    finally:
        os.close(descriptor)


def test_what_does_not_fit_into_memory_is_one_line(tmp_path, capsys, monkeypatch):
    def advance(_):
        raise MemoryError

    monkeypatch.setattr("chainrule.training.loop.Run.advance", advance)
    err = refused(capsys, "train", "spiral", "--out", tmp_path / "run", "--no-progress")
    assert "do not fit into memory · try a smaller model or --batch · the run is kept as of step 0" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "what is to be trained?"),
        (["numbers"], "nothing is named 'numbers' · expected one of chars, digits, spiral, fashion"),
        (["spiral", "--epochs", "0"], "'0' given, expected a whole number from 1 on"),
        (["spiral", "--learning-rate", "-1"], "expected a number above 0"),
        (["spiral", "--dtype", "int8"], "expected float32 or float64"),
        (["spiral", "--seed", "-1"], "expected a whole number from 0"),
        (["spiral", "--epoch", "5"], "unrecognized arguments: --epoch"),
        (["spiral", "--out", ""], "expected the name of a folder"),
        (["spiral", "--out", "a", "--resume", "b"], "not allowed with"),
    ],
)
def test_impossible_options(words, complaint, capsys):
    err = refused(capsys, "train", *words)
    assert complaint in err
    assert "--help" in err


def test_help(capsys):
    for words in (["train"], ["train", "spiral"], ["train", "digits"], ["sample"]):
        code, out, err = said(capsys, *words, "--help")
        assert (code, err) == (0, "")
        assert out.startswith("usage: chainrule")


# -------------------------------------------------------------------------------------------------------- a full disk


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path):
    """No file may grow beyond 75 kB: enough for the first checkpoints, which grow by what is logged."""
    code = (
        "import resource, signal, sys; from chainrule.cli import main; from chainrule.training import program\n"
        "program.SHARE = 0.0\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (75_000, 75_000))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "train",
        "spiral",
        "--out",
        "run",
        "--no-progress",
        "--epochs",
        "4000",
        "--save-every",
        "0",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "cannot be written: File too large" in done.stderr
    assert "the run is kept as of step" in done.stderr
    assert "to go on: chainrule train spiral --resume run" in done.stderr
    assert "History" not in done.stderr
    kept = int(done.stderr.split("kept as of step ")[1].split(" ")[0].replace(",", ""))
    history = cr.io.load_checkpoint(tmp_path / "run" / "checkpoint.npz")["history"]
    assert len(history["loss"]) >= kept > 0
    assert not [path.name for path in (tmp_path / "run").iterdir() if path.name.endswith(".tmp")]
    before = state(tmp_path / "run")
    resumed = start(tmp_path, "train", "spiral", "--resume", "run", "--no-progress")
    assert resumed.communicate(timeout=120)[1] == ""
    assert resumed.returncode == 0
    assert state(tmp_path / "run") != before


def test_a_disk_that_is_full_from_the_start_leaves_no_folder(tmp_path):
    code = (
        "import resource, signal, sys; from chainrule.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "train", "spiral", "--out", "a/run", "--no-progress"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "is kept" not in done.stderr
    assert list(tmp_path.iterdir()) == []
