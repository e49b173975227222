"""Threads that make things ahead of time and hand them out in order, so that how many there are cannot be seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from threading import Event
from typing import TypeVar

Made = TypeVar("Made")
AHEAD = 2  # per thread: one that is being made, one that is ready


def in_order(make: Callable[[int, Event], Made], numbers: Iterable[int], workers: int) -> Generator[Made]:
    """`make(number, ended)` for each number, in order, by `workers` threads in this context.

    Whichever way this ends, its threads end with it; `ended` tells those that are in the middle.  An error comes out
    at its place in the order.
    """
    ended = Event()
    todo = iter(numbers)
    waiting: deque[Future[Made]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="chainrule-data")

    def start(count: int) -> None:
        for number in islice(todo, count):
            waiting.append(pool.submit(copy_context().run, make, number, ended))

    try:
        start(workers * AHEAD)
        while waiting:
            made = waiting.popleft().result()
            start(1)
            yield made
    finally:
        ended.set()
        pool.shutdown(wait=True, cancel_futures=True)
