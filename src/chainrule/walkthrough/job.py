"""A piece of work in a Python process of its own, whose lines are read as they come; the last one is its result."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Self

import chainrule


class Job:
    """`python -m module arguments...`, started at once; `lines` fills while it runs.

    `with Job(...)` ends the process with the block, whatever happens.
    """

    def __init__(self, module: str, *arguments: object) -> None:
        self.lines: list[str] = []
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `stop`
        command = [sys.executable, "-P", "-m", module, *map(str, arguments)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            env=_environment(),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        return self._reader.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait for the end, at most so long."""
        self._reader.join(seconds)

    def result(self) -> str:
        """The last line.  **Raises** RuntimeError, with what the process complained of, if it failed."""
        self._reader.join()
        if self._process.wait():
            self._complaints.seek(0)
            said = self._complaints.read().strip().splitlines()
            raise RuntimeError(f"the job ended with exit code {self._process.returncode}: {said[-1] if said else ''}")
        return self.lines[-1]

    def stop(self) -> None:
        """End the process if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        self._complaints.close()

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is not None:
            with stream:
                for line in stream:
                    self.lines.append(line)  # one at a time: others look at the list meanwhile


def _environment() -> dict[str, str]:
    """The environment, in which the same chainrule is found as here, and BLAS keeps to one core: the other is ours."""
    folder = str(Path(chainrule.__file__).parent.parent)
    before = os.environ.get("PYTHONPATH")
    return {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join([folder, before] if before else [folder]),
    }
