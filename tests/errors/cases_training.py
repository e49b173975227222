"""Errors of the training programs, as `chainrule train` and `chainrule sample` show them."""

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path

import numpy as np

import chainrule as cr
from chainrule.training import characters, program, spiral
from chainrule.training.folder import RunFolder, read
from chainrule.training.loop import Run
from chainrule.training.program import Controls
from chainrule.training.spiral import SpiralSettings
from chainrule.training.writing import write
from tests.errors.snapshots import case

TINY = {"layers": 1, "heads": 1, "width": 4, "block": 4, "iterations": 1}


@contextlib.contextmanager
def somewhere():
    """A new folder as the current one, so that messages name no path of a machine."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield Path()


def trained(**settings):
    program.train(spiral.PROGRAM, {"epochs": 1, **settings}, Controls(out="run", progress=False))


@case
def train_setting_out_of_range():
    SpiralSettings(epochs=0)


@case
def train_dtype():
    SpiralSettings(dtype="float16")


@case
def train_heads_do_not_divide_width():
    characters.CharacterSettings.made(heads=3)


@case
def train_final_rate_above_rate():
    characters.CharacterSettings.made(learning_rate=1e-3, final_rate=1e-2)


@case
def train_warm_up_is_all():
    characters.CharacterSettings.made(iterations=100, warm_up=100)


@case
def train_setting_contradicts_run():
    SpiralSettings().resumed({"seed": 3})


@case
def train_switch_contradicts_run():
    characters.CharacterSettings().resumed({"untied": True})


@case
def train_fewer_epochs_than_run():
    SpiralSettings().resumed({"epochs": 3})


@case
def train_folder_holds_a_run():
    with somewhere(), contextlib.redirect_stdout(None):
        trained()
        trained()


@case
def train_folder_holds_a_file():
    with somewhere() as folder:
        (folder / "run").mkdir()
        (folder / "run" / "log.csv").touch()
        trained()


@case
def train_folder_cannot_be_made():
    with somewhere() as folder:
        (folder / "run").touch()
        trained()


@case
def train_folder_is_in_use():
    with somewhere() as folder, contextlib.redirect_stdout(None):
        trained()
        descriptor = os.open(folder / "run", os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            program.train(spiral.PROGRAM, {"epochs": 2}, Controls(out="", resume="run", progress=False))
        finally:
            os.close(descriptor)


@case
def train_resume_nowhere():
    read("nowhere", "train")


@case
def train_resume_a_folder_without_a_run():
    with somewhere() as folder:
        (folder / "run").mkdir()
        read("run", "train")


@case
def train_resume_another_checkpoint():
    with somewhere():
        cr.io.save_checkpoint("checkpoint.npz", epoch=3)
        read(".", "train")


@case
def train_resume_another_version():
    with somewhere():
        about = {"program": "spiral", "settings": {}, "format": 99}
        cr.io.save_checkpoint("checkpoint.npz", about=about)
        read(".", "train")


@case
def train_resume_another_program():
    with somewhere(), contextlib.redirect_stdout(None):
        trained()
        program.train(characters.PROGRAM, {}, Controls(out="", resume="run"))


@case
def train_text_changed():
    with somewhere() as folder, contextlib.redirect_stdout(None):
        (folder / "text.txt").write_text("to be or not to be " * 20)
        given = {**TINY, "text": "text.txt"}
        program.train(characters.PROGRAM, given, Controls(out="run", progress=False))
        (folder / "text.txt").write_text("not to be " * 40)
        program.train(characters.PROGRAM, {"iterations": 2}, Controls(out="", resume="run", progress=False))


@case
def train_loss_is_nan():
    run = Run(spiral.build(SpiralSettings(epochs=3)))
    run.task.model[0].weight.data[...] = np.nan
    run.advance()


@case
def train_cannot_save():
    with somewhere(), contextlib.redirect_stdout(None):
        save = RunFolder.save
        count = iter(range(100))

        def fail_later(self, run, name):
            if next(count) > 0:
                raise cr.errors.FileError(
                    "io.save_checkpoint: run/checkpoint.npz cannot be written: No space left on device"
                )
            save(self, run, name)

        RunFolder.save = fail_later
        try:
            trained(epochs=5)
        finally:
            RunFolder.save = save


@case
def sample_of_a_run_that_writes_no_text():
    with somewhere(), contextlib.redirect_stdout(None):
        trained()
        write("run", "", 1, 1.0, None, 0)


@case
def train_without_tensorboard():
    from chainrule.training import events

    find_spec = events.find_spec
    events.find_spec = lambda name: None
    try:
        with somewhere():
            program.train(spiral.PROGRAM, {"epochs": 1}, Controls(out="run", progress=False, tensorboard=True))
    finally:
        events.find_spec = find_spec
