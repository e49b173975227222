"""Ctrl-C and SIGTERM: the right exit code, the folder as it was, no process left, whenever they come."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from chainrule.training.interrupt import Interrupted, Interruption, interruptible
from chainrule.walkthrough.staging import LAST, Staging


def start(folder):
    command = [sys.executable, "-m", "chainrule.cli", "walkthrough", "--quick", "--out", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_stage(process, stage):
    for line in process.stderr:
        if line.startswith(f"[{stage}/"):
            return
    raise AssertionError("the run ended before that stage")


@pytest.mark.parametrize(
    ("number", "code", "stage"),
    [(signal.SIGINT, 130, 1), (signal.SIGTERM, 143, 3), (signal.SIGINT, 130, 6), (signal.SIGHUP, 129, 2)],
)
def test_a_signal_leaves_the_folder_as_it_was(number, code, stage, tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / LAST).write_text("of the last run")
    process = start(folder)
    wait_for_stage(process, stage)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, out + err
    assert "Traceback" not in err
    assert "as it was before" in err
    assert {path.name: path.read_text() for path in folder.iterdir()} == {LAST: "of the last run"}


def test_a_folder_made_for_the_run_goes_again(tmp_path):
    process = start(tmp_path / "a" / "b")
    wait_for_stage(process, 1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------------- the parts


def test_a_lost_exception_is_raised_at_the_next_step():
    interruption = Interruption()
    with pytest.raises(Interrupted):
        interruption.receive(signal.SIGINT, None)
    with pytest.raises(Interrupted) as caught:
        interruption.check()
    assert caught.value.code == 130


def test_a_held_stretch_is_finished_first():
    interruption = Interruption()
    finished = []

    def stretch():
        with interruption.held():
            interruption.receive(signal.SIGTERM, None)
            finished.append(True)

    with pytest.raises(Interrupted):
        stretch()
    assert finished == [True]


def test_a_second_signal_does_not_disturb_the_cleaning_up():
    interruption = Interruption()
    with pytest.raises(Interrupted):
        interruption.receive(signal.SIGINT, None)
    interruption.receive(signal.SIGTERM, None)
    assert interruption.code == 130


def test_handlers_are_restored():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interruptible():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_other_threads_may_run_it_too():
    found = []

    def enter():
        with interruptible() as interruption:
            interruption.check()
            found.append(True)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [True]


def test_staging_publishes_all_files_the_numbers_last(tmp_path):
    staging = Staging(tmp_path / "results")
    for name in (LAST, "index.html", "figures/zebra.png"):
        (staging.path / name).write_text(name)
        time.sleep(0.01)
    places = staging.publish()
    assert [str(place.relative_to(tmp_path / "results")) for place in places][-1] == LAST
    assert {path.name for path in (tmp_path / "results").iterdir()} == {"figures", "index.html", LAST}


def test_discarded_staging_leaves_nothing(tmp_path):
    staging = Staging(tmp_path / "a" / "b")
    (staging.path / "index.html").write_text("half")
    staging.discard()
    assert list(tmp_path.iterdir()) == []
