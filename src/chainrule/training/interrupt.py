"""Ctrl-C, SIGTERM and a terminal that is closed end the run at a safe place: by an exception that nothing swallows, never inside `held()`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class Interrupted(BaseException):
    """A signal asked the run to end; `code` is the exit code that a shell expects then: 128 and the signal's number."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Interruption:
    """Whether a signal has come.

    An exception raised while Python runs a destructor is printed and lost; so it is also kept here, and `check`, which
    every step of the progress bar calls, raises it again.
    """

    def __init__(self) -> None:
        self.code = 0
        self.is_held = False

    def receive(self, number: int, _frame: Any) -> None:
        """The signal handler."""
        is_first = not self.code
        self.code = self.code or 128 + number
        if is_first and not self.is_held:  # a second one must not disturb the cleaning up after the first
            raise Interrupted(self.code)

    def check(self) -> None:
        if self.code:
            raise Interrupted(self.code)

    @contextmanager
    def held(self) -> Generator[None]:
        """A stretch that is finished before a signal takes effect."""
        self.check()
        self.is_held = True
        try:
            yield
        finally:
            self.is_held = False
        self.check()


@contextmanager
def handled(handler: Callable[[int, Any], None]) -> Generator[None]:
    """Let `handler` take SIGINT, SIGTERM and SIGHUP while open, and what took them before afterwards; in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` ignores it
        signals.append(signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def interruptible() -> Generator[Interruption]:
    """Notice signals while open."""
    interruption = Interruption()
    with handled(interruption.receive):
        yield interruption
