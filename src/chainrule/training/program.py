"""What all programs of `chainrule train` do: begin or resume a run in a folder, train, save, and end in one of four ways.

Finished (exit code 0); stopped by a signal, saved, with the command that goes on (128 and the signal's number); stopped by a
second signal, at once; or with an error, which says what is kept.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chainrule import io
from chainrule.errors import ArgumentError, ChainruleError, CheckpointError, FileError, explain
from chainrule.training.events import Events
from chainrule.training.folder import CHECKPOINT, CURVE, LOG, RESULT, RunFolder, read
from chainrule.training.interrupt import Interrupted
from chainrule.training.loop import Run, Task
from chainrule.training.progress import Silence, clock, reporter
from chainrule.training.settings import Settings, refused
from chainrule.training.signals import Signals, Stop, listening

REDRAW = 60.0  # seconds between two pictures of the curve while a run goes on
SHARE = 20.0  # a checkpoint comes no sooner than so many times the time that the last one took


@dataclass(frozen=True)
class Program:
    """What is trained by `chainrule train NAME`: its settings, the task they describe, and its outcome in words."""

    name: str
    title: str
    settings: type[Settings]
    task: Callable[[Any], Task]
    report: Callable[[Mapping[str, Any]], str]
    afterwards: str = ""  # a command that makes use of the folder, with {folder}


@dataclass(frozen=True)
class Controls:
    """How a run is held, which has no influence on what it computes."""

    out: str
    resume: str | None = None
    progress: bool = True
    tensorboard: bool = False
    save_every: float = 10.0


def train(program: Program, given: Mapping[str, Any], controls: Controls) -> int:
    """Begin or resume a run, with the settings that were given; give back the exit code.

    **Raises** ArgumentError for settings and folders that are impossible, FileError for what cannot be read or written,
    CheckpointError for a checkpoint that is damaged or foreign, MissingExtraError.
    """
    folder = RunFolder(controls.resume or controls.out)
    with listening() as signals:
        try:
            if controls.resume is None:
                settings = program.settings.made(**given)
                folder.create()
            else:
                read(controls.resume, "train")
                settings = None
            with folder.owned():
                if settings:
                    folder.refuse_run()  # another process may have begun one since
                run = _begin(program, settings) if settings else _resume(program, folder, given)
                return Session(program, run, folder, controls, signals).work()
        except Interrupted as interrupted:
            is_kept = folder.checkpoint.exists()
            command = _command(program, folder, controls)
            kept = f"its last checkpoint is kept · to go on: {command}" if is_kept else "before it began"
            print(f"chainrule train: stopped at once · {kept}", file=sys.stderr)
            return interrupted.code
        finally:
            folder.abandon()


def _begin(program: Program, settings: Settings) -> Run:
    try:
        return Run(program.task(settings))
    except MemoryError as error:
        raise too_large() from error


def too_large() -> ArgumentError:
    return refused("model and batch do not fit into memory", remedy="a smaller model or --batch")


def _resume(program: Program, folder: RunFolder, given: Mapping[str, Any]) -> Run:
    """The run that a folder holds, as it was saved, with the settings that were given now where these may change."""
    state = read(str(folder.path), "train")
    about = state["about"]
    if about["program"] != program.name:
        remedy = f"chainrule train {about['program']} --resume {folder.quoted}"
        raise refused(f"{folder.path} holds a run of `chainrule train {about['program']}`", remedy=remedy)
    try:
        settings = program.settings(**about["settings"])
    except TypeError as error:
        fault = f"{folder.checkpoint} was written by another version of chainrule"
        raise CheckpointError(explain("train", fault)) from error
    run = _begin(program, settings.resumed(given))
    if run.task.notes != about["notes"]:
        raise refused("the data are not those that the run began with", remedy="the same files, in the same state")
    io.load_checkpoint(folder.checkpoint, **run.parts())
    run.seconds, run.outcome = float(about["seconds"]), about["outcome"]
    run.extend()
    return run


def _command(program: Program, folder: RunFolder, controls: Controls) -> str:
    """The command that goes on with the run."""
    more = f"{' --tensorboard' if controls.tensorboard else ''}{'' if controls.progress else ' --no-progress'}"
    return f"chainrule train {program.name} --resume {folder.quoted}{more}"


class Session:
    """One sitting of a run: from where it stands to its end, or to a signal."""

    def __init__(self, program: Program, run: Run, folder: RunFolder, controls: Controls, signals: Signals) -> None:
        self.program = program
        self.run = run
        self.folder = folder
        self.controls = controls
        self.signals = signals
        self.command = _command(program, folder, controls)
        self.saved_step: int | None = None if controls.resume is None else run.step
        self.began = time.perf_counter()
        self.save_at = self.began
        self.draw_at = self.began + REDRAW
        self.seconds_before = run.seconds

    def work(self) -> int:
        """Train to the end, or until a signal; give back the exit code."""
        run, total = self.run, self.run.task.steps
        if run.is_finished:
            print(f"{self.folder.path}: finished, {total:,} steps · {self.program.report(run.outcome or {})}")
            return 0
        events = Events(self.folder.path, run.history) if self.controls.tensorboard else None
        try:
            with reporter(total, run.step, self.controls.progress) as progress, self.signals.deferred():
                code = self._sit(progress, events)
        except (ArgumentError, FileError, OSError) as error:
            raise self._with_what_is_kept(error) from error
        except MemoryError as error:
            raise self._with_what_is_kept(too_large()) from error
        finally:
            if events is not None:
                events.close()
        self._say_goodbye(code)
        return code

    def _sit(self, progress: Silence, events: Events | None) -> int:
        try:
            self._save()
            self._go_on(progress, events)
        except Stop as stop:
            self._save()
            self._draw()
            return stop.code
        return 0

    def _go_on(self, progress: Silence, events: Events | None) -> None:
        run = self.run
        progress.say(f"from step {run.step:,} of {run.task.steps:,}")
        for event in run.events(self.signals.check):
            step = run.step
            if event == "measure":
                progress.measured(step, run.history.measured[step])
            else:
                progress.stepped(step, run.history.loss[-1], run.history.rate[-1])
            if events is not None:
                events.add(step, event, run.history)
            if time.perf_counter() >= self.save_at:
                self._save()
                if time.perf_counter() >= self.draw_at:
                    self._draw()
        progress.say("evaluating")
        run.conclude(self.signals.check)
        self._draw()
        run.seconds = self.seconds_before + time.perf_counter() - self.began
        self.folder.save_result(run, self.program.name)
        self._save()  # last: what it calls finished has all its files

    def _save(self) -> None:
        start = time.perf_counter()
        self.run.seconds = self.seconds_before + start - self.began
        self.folder.save(self.run, self.program.name)
        self.saved_step = self.run.step
        end = time.perf_counter()
        self.save_at = end + max(self.controls.save_every, SHARE * (end - start))

    def _draw(self) -> None:
        self.folder.draw(self.run, self.program.name)
        self.draw_at = time.perf_counter() + REDRAW

    def _with_what_is_kept(self, error: ChainruleError | OSError) -> ChainruleError:
        """The same error; where something was saved, it says so."""
        kind = type(error) if isinstance(error, ChainruleError) else FileError
        said = str(error) if isinstance(error, ChainruleError) else f"train: {error.strerror or error}"
        if self.saved_step is None:
            return kind(said)
        return kind(f"{said} · the run is kept as of step {self.saved_step:,} · to go on: {self.command}")

    def _say_goodbye(self, code: int) -> None:
        run, steps = self.run, f"step {self.run.step:,} of {self.run.task.steps:,}"
        if code:
            print(f"chainrule train: stopped at {steps}, and saved · to go on: {self.command}", file=sys.stderr)
            return
        print(f"{run.step:,} steps in {clock(run.seconds)} · {self.program.report(run.outcome or {})}")
        names = [name for name in (CHECKPOINT, LOG, CURVE, RESULT) if Path(self.folder.path, name).exists()]
        print(f"{self.folder.path} holds {', '.join(names)}")
        if CURVE not in names:
            print("no picture of the curve: it needs matplotlib · try: pip install 'chainrule[walkthrough]'")
        if self.program.afterwards:
            print(self.program.afterwards.format(folder=self.folder.quoted))
