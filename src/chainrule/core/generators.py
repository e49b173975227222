"""Which generator draws: the one given, the one of this context, or the one of the process.

Every draw of the library asks `current`.  So a function can be run again with the same draws, as a checkpoint does:
`Draws` notes each generator as it was before the function first drew from it, and `again` puts copies in their place.
The generators themselves are never set back, so another thread that draws from them in between notices nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import index
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract, Equation
from chainrule.errors import ArgumentError, DTypeError, SideEffectError, explain

_lock = Lock()
_process: np.random.Generator | None = None
_here: ContextVar[np.random.Generator | None] = ContextVar("generator", default=None)


class Draws:
    """The generators that a run of a function draws from; of a first run as they were before, of a later one copies."""

    def __init__(self, outer: Draws | None, replays: bool = False) -> None:
        self.outer = outer
        self.replays = replays
        self.known: dict[np.random.Generator, np.random.Generator] = {}
        self.process: np.random.Generator | None = None
        self.traced: list[Equation] = []
        """What the run drew while a program was traced; a later run takes it from here."""

    def note(self, generator: np.random.Generator, like: np.random.Generator) -> None:
        """Remember `generator` as `like` is now, unless it is known."""
        if generator not in self.known:
            self.known[generator] = copied(like)

    def again(self) -> None:
        """Make this context draw what the noted run drew.  Nothing ends that, so the context is one made for it."""
        draws = Draws(_draws.get(), replays=True)
        draws.known = {generator: copied(before) for generator, before in self.known.items()}
        draws.process = self.process
        draws.traced = list(reversed(self.traced))
        _draws.set(draws)


class Draw(NamedTuple):
    """One call of a generator: an input of a program, drawn anew in each run."""

    generator: np.random.Generator | None
    method: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]

    def __call__(self) -> Any:
        """What the generator gives now."""
        return self._from(current(self.generator))

    def example(self) -> Any:
        """The same from a generator of our own, for its shape and dtype."""
        return self._from(np.random.Generator(np.random.PCG64(0)))

    def _from(self, generator: np.random.Generator) -> Any:
        return np.asarray(getattr(generator, self.method)(*self.arguments, **self.keywords))


def around() -> np.random.Generator | None:
    """The generator of the `use` block around, if there is one."""
    return _here.get()


_draws: ContextVar[Draws | None] = ContextVar("draws", default=None)


@contextmanager
def noted() -> Generator[Draws]:
    """Inside, this context notes what it draws from."""
    draws = Draws(_draws.get())
    token = _draws.set(draws)
    try:
        yield draws
    finally:
        _draws.reset(token)


def copied(generator: np.random.Generator) -> np.random.Generator:
    """A generator that will draw the same, taken while no other thread draws."""
    with generator.bit_generator.lock:
        return copy.deepcopy(generator)


def _outwards() -> Iterator[Draws]:
    draws = _draws.get()
    while draws is not None:
        yield draws
        draws = draws.outer


def is_again() -> bool:
    """Whether a checkpoint runs its function once more: what counts runs, or averages over them, leaves this one out."""
    return any(draws.replays for draws in _outwards())


def current(generator: np.random.Generator | None = None) -> np.random.Generator:
    """The generator that draws: the one given, else that of the `use` block around, else that of the process.

    **Raises** DTypeError for what is no `np.random.Generator`, SideEffectError while a program is traced.
    """
    if modes.unusual and modes.is_tracing():
        if generator is not None:
            return checked("random", generator)
        fault = "what the generator draws by itself while a program is traced would be a constant of it"
        raise SideEffectError(explain("random", fault, remedy="cr.random.normal and its like"))
    found = _here.get() if generator is None else checked("random", generator)
    if found is None:
        found = _of_the_process()
    first_runs: list[Draws] = []
    draws_from = found
    for draws in _outwards():
        if not draws.replays:
            first_runs.append(draws)
        elif found in draws.known:
            draws_from = draws.known[found]
            break
    for draws in first_runs:
        draws.note(found, draws_from)
    return draws_from


def drawn(generator: np.random.Generator | None, method: str, *arguments: Any, **keywords: Any) -> Any:
    """What a method of the current generator gives: the one place that draws.  While a program is traced, a new input."""
    trace = modes.tracing.get() if modes.unusual else None
    if trace is None:
        return np.asarray(getattr(current(generator), method)(*arguments, **keywords))
    first_runs: list[Draws] = []
    equation: Any = None
    for draws in _outwards():
        if draws.replays:
            equation = draws.traced.pop()
            break
        first_runs.append(draws)
    if equation is None:
        found = _here.get() if generator is None else checked("random", generator)
        # One that a `use` block around the whole program names is asked for anew in each run.
        equation = trace.draw(Draw(None if found is trace.generator else found, method, arguments, keywords))
    for draws in first_runs:
        draws.traced.append(equation)
    return Abstract(equation.shape, equation.dtype, equation)


def _of_the_process() -> np.random.Generator:
    """The generator of the process, made of the system's entropy where nobody seeded it; or what stands for it again."""
    global _process
    found = next((draws.process for draws in _outwards() if draws.replays and draws.process is not None), None)
    if found is None:
        with _lock:
            if _process is None:
                _process = np.random.Generator(np.random.PCG64())
            found = _process
    for draws in _outwards():
        if draws.process is None:
            draws.process = found
    return found


def is_generator(value: Any) -> bool:
    """Whether `value` is one, of any kind of bits."""
    return isinstance(value, np.random.Generator)


def checked(operation: str, generator: Any) -> np.random.Generator:
    """`generator`, if it is one.

    **Raises** DTypeError.
    """
    if is_generator(generator):
        return generator
    legacy = isinstance(generator, np.random.RandomState) or generator is np.random
    fault = "NumPy's legacy random numbers are no generator" if legacy else "this is no generator"
    remedy = "cr.random.generator(0), which is an np.random.Generator"
    raise DTypeError(explain(operation, fault, generator=type(generator) if legacy else generator, remedy=remedy))


def generator(seed: int, *stream: int) -> np.random.Generator:
    """A generator of its own (PCG64), fixed by `seed`; `stream` numbers independent ones of the same seed.

    **Raises** ArgumentError for what is no non-negative integer; numbers of streams are below 2**32.
    **Source** O'Neill, PCG, 2014; NumPy's `SeedSequence`, which hashes seed and stream.

    >>> import chainrule as cr
    >>> a, b = cr.random.generator(0), cr.random.generator(0, 1)
    >>> bool(a.random() == b.random())
    False
    """
    key = tuple(_whole("generator", "stream", number, 2**32) for number in stream)
    # Given as `spawn_key`, which NumPy keeps apart from the seed: joined to it, (0, 1) and 2**32 would be the same.
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(_whole("generator", "seed", seed), spawn_key=key))
    )


def _whole(operation: str, name: str, value: Any, below: int = 2**128) -> int:
    try:
        number = index(value)
    except TypeError:
        number = -1
    if 0 <= number < below:
        return number
    expected = f"an integer from 0 to 2**{below.bit_length() - 1} - 1"
    raise ArgumentError(explain(operation, f"this is no {name}", expected=expected, **{name: value}))


def seed(n: int) -> None:
    """Set the generator of the process: from here on everything that draws from it is fixed.

    **Raises** ArgumentError for what is no non-negative integer.

    >>> import chainrule as cr
    >>> cr.random.seed(7)
    >>> first = cr.random.normal(3)
    >>> cr.random.seed(7)
    >>> bool((cr.random.normal(3) == first).all())
    True
    """
    global _process
    made = generator(_whole("seed", "seed", n))
    again = next((draws for draws in _outwards() if draws.replays), None)
    if again is not None:  # a function that seeds, run again by a checkpoint: what came after its first run stands
        again.process = made
        return
    with _lock:
        _process = made


@contextmanager
def use(generator: np.random.Generator) -> Generator[np.random.Generator]:
    """Inside, everything in this thread and context draws from `generator` unless it is given another; also a decorator.

    **Raises** DTypeError for what is no `np.random.Generator`.

    >>> import chainrule as cr
    >>> with cr.random.use(cr.random.generator(0)):
    ...     x = cr.random.normal(2)
    >>> np.array_equal(x.data, cr.random.draw.normal(2, generator=cr.random.generator(0)))
    True
    """
    token = _here.set(checked("use", generator))
    try:
        yield generator
    finally:
        _here.reset(token)
