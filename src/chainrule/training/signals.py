"""Ctrl-C, SIGTERM and a closed terminal while something trains: the first one asks for an end at a safe place, the second is one.

`Stop` is raised by `check`, which a run calls between two steps and inside evaluations; there nothing is half done, and the
run can be saved.  Before there is anything to save, a signal ends the program at once.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from chainrule.training.interrupt import Interrupted, handled

NOTICE = "\nstopping after this step, then saving · once more: at once, without saving\n"


class Stop(BaseException):
    """A signal has asked for the end; `code` is the exit code that a shell expects: 128 and the signal's number."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Signals:
    """Which signal has come, and whether there is something to save first."""

    def __init__(self) -> None:
        self.code = 0
        self.is_deferred = False

    def receive(self, number: int, _frame: Any) -> None:
        """The signal handler.  **Raises** Interrupted on the second signal, or if nothing needs saving."""
        is_first = not self.code
        self.code = self.code or 128 + number
        if not (is_first and self.is_deferred):
            raise Interrupted(self.code)
        os.write(2, NOTICE.encode())  # not through sys.stderr, which may be in the middle of a write of its own

    def check(self) -> None:
        """**Raises** Stop if a signal has come."""
        if self.code:
            raise Stop(self.code)

    @contextmanager
    def deferred(self) -> Generator[None]:
        """A stretch in which a first signal waits for `check`."""
        self.is_deferred = True
        try:
            yield
        finally:
            self.is_deferred = False


@contextmanager
def listening() -> Generator[Signals]:
    """Receive signals while open, if this is the main thread."""
    signals = Signals()
    with handled(signals.receive):
        yield signals
