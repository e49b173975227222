"""The folder of a run: checkpoint.npz, from which everything else can be written anew, log.csv, curve.png and, at the end, result.json.

Every file is replaced whole, so whenever the process dies, the folder holds a run that can go on.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chainrule import io
from chainrule.errors import ArgumentError, CheckpointError, explain
from chainrule.io.replacing import replacing
from chainrule.training.loop import Run

try:
    import fcntl
except ImportError:  # Windows: two processes in one folder go unnoticed there
    fcntl = None  # type: ignore[assignment]

CHECKPOINT, LOG, CURVE, RESULT = "checkpoint.npz", "log.csv", "curve.png", "result.json"
FORMAT = 1


class RunFolder:
    """A folder that one run owns."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._made: list[Path] = []

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    # ---- to begin with

    def create(self) -> None:
        """Make the folder where there is none.  **Raises** ArgumentError if it holds a run or cannot be made."""
        self.refuse_run()
        self._made = [part for part in (self.path, *self.path.parents) if not part.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            taken = [name for name in (LOG, CURVE, RESULT) if (self.path / name).exists()]
        except OSError as error:
            self.abandon()
            fault = f"cannot write into folder {self.path} ({error.strerror or error})"
            raise ArgumentError(explain("train", fault, remedy="--out with another folder")) from error
        if taken:
            fault = f"{self.path} holds {taken[0]}, which would be overwritten"
            raise ArgumentError(explain("train", fault, remedy="--out with another folder"))

    def refuse_run(self) -> None:
        """**Raises** ArgumentError if the folder holds a run."""
        with suppress(OSError):  # it cannot be looked into, which `create` will say
            if self.checkpoint.exists():
                remedy = f"--resume {self.quoted}, or --out with another folder"
                raise ArgumentError(explain("train", f"{self.path} holds a run already", remedy=remedy))

    def abandon(self) -> None:
        """Remove the folder if it was made for this run and is empty."""
        for part in self._made:
            with suppress(OSError):  # not empty, or never made
                part.rmdir()

    @contextmanager
    def owned(self) -> Generator[None]:
        """Nobody else trains into this folder while open.  **Raises** ArgumentError if somebody does.

        The lock is on the folder itself, and the system takes it away when the process ends, however it does.
        """
        descriptor = None if fcntl is None else os.open(self.path, os.O_RDONLY)
        try:
            self._lock(descriptor)
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _lock(self, descriptor: int | None) -> None:
        if fcntl is None or descriptor is None:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                return  # a file system without locks
            remedy = "waiting until it ends, or --out with another folder"
            raise ArgumentError(explain("train", f"another process trains in {self.path}", remedy=remedy)) from error

    @property
    def quoted(self) -> str:
        """The folder as it is typed into a shell."""
        return shlex.quote(str(self.path))

    # ---- saving

    def save(self, run: Run, program: str) -> None:
        """Replace the checkpoint and the log.  **Raises** FileError, and then what was saved before is still there."""
        about = {
            "format": FORMAT,
            "program": program,
            "settings": asdict(run.task.settings),
            "notes": run.task.notes,
            "seconds": run.seconds,
            "outcome": run.outcome,
        }
        io.save_checkpoint(self.checkpoint, **run.parts(), about=about)
        self._write(LOG, run.history.csv())

    def save_result(self, run: Run, program: str) -> None:
        """Write result.json."""
        found = {"program": program, "settings": asdict(run.task.settings), "steps": run.step}
        found |= {"seconds": round(run.seconds, 3), **(run.outcome or {})}
        self._write(RESULT, json.dumps(found, indent=1, ensure_ascii=False) + "\n")

    def draw(self, run: Run, title: str) -> bool:
        """Draw the curve; False without matplotlib."""
        if find_spec("matplotlib") is None:
            return False
        from chainrule.training.curve import picture

        with replacing("train", self.path / CURVE) as file:
            picture([(title, run.history)], file)
        return True

    def _write(self, name: str, text: str) -> None:
        with replacing("train", self.path / name) as file:
            file.write(text.encode())


# ---- what was saved


def read(path: str, operation: str) -> dict[str, Any]:
    """All that the checkpoint in a folder holds.  **Raises** ArgumentError, CheckpointError, FileError."""
    folder = Path(path)
    if not (folder / CHECKPOINT).is_file():
        there = f"{folder} holds no {CHECKPOINT}" if folder.is_dir() else f"{folder} is no folder"
        fault = there if folder.exists() else f"there is no folder {folder}"
        raise ArgumentError(explain(operation, fault, expected="the folder of a run, as `chainrule train` makes it"))
    state = io.load_checkpoint(folder / CHECKPOINT)
    about: Any = state.get("about")
    try:
        known = [about[name] for name in ("program", "settings", "format")]
    except (TypeError, KeyError):
        raise CheckpointError(
            explain(operation, f"{folder / CHECKPOINT} is no checkpoint of `chainrule train`")
        ) from None
    if known[-1] != FORMAT:
        raise CheckpointError(explain(operation, f"{folder / CHECKPOINT} was written by another version of chainrule"))
    return state
