"""What a person sees of a run: lines or a bar, in words and numbers that are right."""

import os
import pty
import select
import sys
import time

from chainrule.training import progress
from chainrule.training.progress import Lines, Pace, Silence, clock, in_words, reporter


def test_pace_is_steps_over_seconds():
    pace = Pace(100, 0.0)
    assert pace.steps_per_second == 0.0
    assert pace.seconds_left(10) is None
    pace.look(110, 2.0)
    assert pace.steps_per_second == 5.0
    assert pace.seconds_left(50) == 10.0


def test_pace_forgets_what_was_long_ago():
    pace = Pace(0, 0.0)
    for second in range(1, 101):
        pace.look(second * 2 if second <= 50 else 100 + (second - 50) * 7, float(second))
    assert pace.steps_per_second == 7.0


def test_lines_come_now_and_then(capsys, monkeypatch):
    clock_hand = iter(float(k) for k in range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock_hand))
    lines = Lines(100)
    for step in range(1, 31):
        lines.stepped(step, 2.0, 0.5)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "step 10 of 100 · loss 2 · rate 0.5 · 1 steps/s · 1 min 30 s left"
    assert len(said) == 3
    lines.measured(30, {"validation_loss": 1.5})
    assert capsys.readouterr().err.startswith("step 30 of 100 · validation loss 1.5 · loss 2 · ")


def test_silence_says_nothing(capsys):
    quiet = reporter(10, 0, show=False)
    assert type(quiet) is Silence
    quiet.stepped(1, 1.0, 0.1)
    quiet.measured(1, {"a": 1.0})
    quiet.say("hello")
    assert capsys.readouterr() == ("", "")


def test_lines_where_no_terminal_listens():
    assert type(reporter(10, 0, show=True)) is Lines


def test_a_bar_in_a_terminal_and_the_cursor_comes_back(monkeypatch):
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        patched.setenv("TERM", "xterm")
        patched.setattr(progress, "REDRAW", 0.0)
        bar = reporter(40, 10, show=True)
        assert type(bar) is progress.Bar
        with bar:
            bar.stepped(20, 1.25, 0.001)
            bar.measured(20, {"test_accuracy": 0.5})
        terminal.flush()
        shown = ""
        while select.select([master], [], [], 0.5)[0]:
            shown += os.read(master, 100_000).decode()
    os.close(master)
    assert "20/40" in shown
    assert "loss 1.25 · rate 0.001" in shown
    assert "step 20 · test accuracy 50.00%" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_numbers_for_people():
    assert clock(0.2) == "0 s"
    assert clock(60) == "1 min 0 s"
    assert clock(3600 * 25) == "25 h 0 min"
    assert in_words({"loss": 0.00012345}) == "loss 0.0001234"
