"""A process that saves is killed at any moment: what it saved is there, whole, and what it left is cleared away.

`--kills 50` for a long run.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import chainrule as cr
from tests.io.saver import MOMENTS, state
from tests.io.things import exactly

ROOT = Path(__file__).resolve().parent.parent.parent


def start(path, *moment):
    command = [sys.executable, "-m", "tests.io.saver", str(path), *moment]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def checked(path):
    """The number of the checkpoint at `path`, which is exactly what was saved under this number."""
    loaded = cr.io.load_checkpoint(path)
    expected = {name: getattr(thing, "state", thing) for name, thing in state(loaded["epoch"]).items()}
    assert exactly(loaded) == exactly(expected)
    assert loaded["model"]["w"] is loaded["model"]["tied"]
    return loaded["epoch"]


def left(path):
    return [name for name in os.listdir(path.parent) if name != path.name]  # noqa: PTH208 - hidden ones too


def test_killed_at_random_moments(tmp_path, request):
    path = tmp_path / "checkpoint.npz"
    kills = request.config.getoption("--kills")
    was_left = 0
    for kill in range(kills):
        process = start(path)
        first = int(process.stdout.readline())
        assert first == 0
        assert len(left(path)) <= 1  # what the one before left is gone, and the next may have been begun
        time.sleep(random.Random(kill).uniform(0, 0.06))
        process.send_signal(signal.SIGKILL)
        said = [first, *(int(line) for line in process.stdout)]
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        assert checked(path) in (said[-1], said[-1] + 1)  # killed after the renaming, but before it could say so
        assert len(left(path)) <= 1
        was_left += len(left(path))
    cr.io.save_checkpoint(path, **state(99))
    assert checked(path) == 99
    assert left(path) == []
    assert was_left or kills < 20  # most of its time goes into saving: some of many kills hit it there


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_a_given_moment(tmp_path, moment):
    path = tmp_path / "checkpoint.npz"
    process = start(path, moment)
    assert process.communicate()[0].split() == ["0"]
    assert process.returncode == -signal.SIGKILL
    assert checked(path) == (1 if moment == "open" else 0)
    assert len(left(path)) == (0 if moment == "open" else 1)
    cr.io.save_checkpoint(path, **state(7))
    assert checked(path) == 7
    assert left(path) == []
