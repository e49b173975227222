"""What changes how operations run: gradients paused, debug mode, open traces, other array libraries.

The idea: one counter, `unusual`, of everything that the fast path does not know.  While it is zero a call tests
nothing else.  Pausing has a counter of its own, because paused operations stay on the fast path.  Both count over all
threads, so a block that is open elsewhere costs a look at a context variable and never changes a result here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from functools import wraps
from typing import Any

import numpy as np

unusual: int = 0
paused: int = 0
last_write: int = 0
"""The newest sequence number at which chainrule wrote into a leaf; see `graph.write_in_place`."""

lock = threading.Lock()
_paused: ContextVar[bool] = ContextVar("paused", default=False)
_debug: ContextVar[bool] = ContextVar("debug", default=False)
tracing: ContextVar[Any] = ContextVar("tracing", default=None)
"""What `core.equations.tracing` opened in this context, a `Trace`."""


def is_paused() -> bool:
    """Whether this context is inside `no_grad`.  Ask only while `paused` is not zero."""
    return _paused.get()


def is_debug() -> bool:
    """Whether this context is inside `debug`."""
    return _debug.get()


def is_tracing() -> bool:
    """Whether this context is tracing a program.  Ask only while `unusual` is not zero."""
    return tracing.get() is not None


def add_unusual(change: int) -> None:
    """Count something that sends every call to the slow path, or stop counting it."""
    global unusual
    with lock:
        unusual += change


class no_grad:  # noqa: N801 - PyTorch's name, used like a function
    """Operations inside record nothing, and in-place operators write into the tensor's own memory.

    Per thread and context; also a decorator.  A class, since a generator would cost a microsecond more.

    >>> import chainrule as cr
    >>> p = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> (p * p).sum().backward()
    >>> with cr.no_grad():
    ...     p -= 0.25 * p.grad
    >>> p.tolist()
    [0.5, 1.0]
    """

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        global paused
        with lock:
            paused += 1
        self._tokens.append(_paused.set(True))

    def __exit__(self, *_: object) -> None:
        global paused
        _paused.reset(self._tokens.pop())
        with lock:
            paused -= 1

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, run without recording."""

        @wraps(function)
        def without_recording(*args: Any, **keywords: Any) -> Any:
            with no_grad():
                return function(*args, **keywords)

        return without_recording


@contextmanager
def enable_grad() -> Generator[None]:
    """Recording as usual, also inside `no_grad`: what a checkpoint needs when it runs its function again."""
    token = _paused.set(False)
    try:
        yield
    finally:
        _paused.reset(token)


_nothing = nullcontext()


def recording() -> AbstractContextManager[None]:
    """`enable_grad` where something is paused, and nothing otherwise."""
    return enable_grad() if paused else _nothing


@contextmanager
def debug() -> Generator[None]:
    """Slow and strict: every recorded array is fingerprinted, and a walk that finds it changed says which.

    It catches the writes that chainrule cannot see, such as `t.data[...] = 0` after `t` was used.

    **Raises** StaleGraphError in the walk.

    >>> import chainrule as cr
    >>> x = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> with cr.debug():
    ...     y = (x * x).sum()
    ...     x.data[0] = 5.0
    ...     y.backward()
    Traceback (most recent call last):
    ...
    chainrule.errors.StaleGraphError: square: a recorded array was changed after the operation · x f64[2] · try \
a copy before writing into `.data`
    """
    add_unusual(1)
    token = _debug.set(True)
    try:
        yield
    finally:
        _debug.reset(token)
        add_unusual(-1)


_default_dtype: Any = np.dtype(np.float64)
_dtype_here: ContextVar[Any] = ContextVar("default dtype", default=None)


def default_dtype() -> Any:
    """The dtype of creation functions and layers."""
    return _dtype_here.get() or _default_dtype


class DefaultDType:
    """The default dtype set to `dtype` for the process; as a `with` block, for this context and the block alone."""

    def __init__(self, dtype: Any) -> None:
        global _default_dtype
        self._dtype = dtype
        self._before, _default_dtype = _default_dtype, dtype
        self._tokens: list[Token[Any]] = []

    def __enter__(self) -> None:
        global _default_dtype
        _default_dtype = self._before
        self._tokens.append(_dtype_here.set(self._dtype))

    def __exit__(self, *_: object) -> None:
        _dtype_here.reset(self._tokens.pop())
