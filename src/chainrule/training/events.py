"""TensorBoard events of a run, in the folder `tensorboard` inside the run's own; through the library of that name, extra `tensorboard`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chainrule.errors import FileError, MissingExtraError, explain
from chainrule.training.history import History

FOLDER = "tensorboard"


class Events:
    """What TensorBoard shows: `loss/training`, `rate` and each measure, by step.

    A run that goes on writes its events anew from its history: those past the last checkpoint are gone, as the steps are.
    **Raises** MissingExtraError without the library.
    """

    def __init__(self, folder: Path, history: History) -> None:
        if find_spec("tensorboard") is None:
            raise MissingExtraError.of("chainrule train --tensorboard", "tensorboard", "tensorboard")
        from tensorboard.summary import Writer

        path = folder / FOLDER
        try:
            path.mkdir(exist_ok=True)
            for earlier in path.glob("events.out.tfevents.*"):
                earlier.unlink()
        except OSError as error:
            raise FileError(explain("train", f"{path} cannot be written: {error.strerror or error}")) from error
        writer: Any = Writer(str(path))
        self._writer = writer
        for step in range(history.steps + 1):
            if step:
                self.add(step, "step", history)
            if step in history.measured:
                self.add(step, "measure", history)

    def add(self, step: int, event: str, history: History) -> None:
        """What an event of the run found."""
        if event == "step":
            self._writer.add_scalar("loss/training", history.loss[step - 1], step)
            self._writer.add_scalar("rate", history.rate[step - 1], step)
            return
        for name, value in history.measured[step].items():
            place = "loss/validation" if name == "validation_loss" else name.replace("_", "/")
            self._writer.add_scalar(place, value, step)

    def close(self) -> None:
        self._writer.close()
