"""Batches: a pass over arrays in an order that a seed and the number of the epoch fix, and nothing else.

Whatever is random about item i of epoch e comes from a generator made of (seed, e, i), so it is the same in any batch,
in any thread, and in a run that was stopped and continued.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError
from operator import index
from threading import Event
from typing import Any

import numpy as np

from chainrule.data.workers import in_order
from chainrule.errors import ArgumentError, DTypeError, IndexingError, ShapeError, describe, explain
from chainrule.random import draw, generator, use
from chainrule.types import Array

Batch = tuple[Array, ...]


class Batches:
    """Tuples of arrays, `batch_size` items each: `for x, y in Batches(xs, ys, batch_size=32)` is one epoch.

    An iteration begins where the last one stopped: `epoch` and `position` (batches of this epoch that were handed out)
    say where that is.  At the end of an epoch the next one begins, in another order if `shuffle` is set, fixed by
    `seed` and the epoch.  `batches[k]` is batch k of this epoch and moves nothing.  Batches are arrays of their own.

    `transform(*item, generator)` gives an array or a tuple of arrays for one item, a row of each array.  Its
    generator is made of (seed, epoch, item), and `cr.random` draws from it as well; NumPy's global random numbers are
    not covered.  Batches are made ahead of time by `workers` threads, twice as many batches as threads; they are the
    same for any number of them.  Threads help where time goes into NumPy or files.

    `drop_last` leaves out a last batch that is smaller.  `state_dict()` holds seed, epoch and position, and what
    they depend on.

    **Shapes** arrays f[n, ...] -> batches f[batch_size, ...].
    **Raises** ShapeError for arrays of different lengths, ArgumentError for other impossible arguments; an error in
    `transform` comes out as it is, with a note that names the item, where its batch would have been.

    >>> xs, ys = np.arange(10.0), np.arange(10)
    >>> batches = Batches(xs, ys, batch_size=4, seed=1, transform=lambda x, y, g: (x + g.normal(), y))
    >>> len(batches), [y.shape for x, y in batches], batches.epoch
    (3, [(4,), (4,), (2,)], 1)
    """

    def __init__(
        self,
        *arrays: Any,
        batch_size: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        transform: Callable[..., Any] | None = None,
        workers: int = 0,
    ) -> None:
        self.arrays = _of_one_length([np.asarray(array) for array in arrays])
        self.batch_size = _at_least("batch_size", batch_size, 1)
        self.workers = _at_least("workers", workers, 0)
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.transform = transform
        generator(seed)  # refuses what is no seed
        self.seed = index(seed)
        self.epoch = 0
        self.position = 0
        self._iteration: object = None
        if len(self) == 0:
            fault = "without the last batch, which is smaller, there is none"
            raise ArgumentError(explain("Batches", fault, items=self.items, batch_size=self.batch_size))

    @property
    def items(self) -> int:
        """The number of items in an epoch, those of a dropped last batch included."""
        return len(self.arrays[0])

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return (self.items if self.drop_last else self.items + self.batch_size - 1) // self.batch_size

    def __repr__(self) -> str:
        arrays = ", ".join(map(describe, self.arrays))
        place = f"epoch {self.epoch}, position {self.position} of {len(self)}"
        return f"Batches({arrays}, batch_size={self.batch_size}, seed={self.seed}: {place})"

    # ------------------------------------------------------------ batches
    def __getitem__(self, k: int) -> Batch:
        number = index(k)
        if not -len(self) <= number < len(self):
            fault = f"there is no batch {number}"
            raise IndexingError(explain("Batches", fault, expected=f"-{len(self)} to {len(self) - 1}"))
        return self._batch(self._order(self.epoch), self.epoch, number % len(self))

    def __iter__(self) -> Iterator[Batch]:
        epoch, iteration = self.epoch, object()
        self._iteration = iteration
        batches = self._from(epoch, self.position)
        try:
            for batch in batches:
                self.position += 1
                yield batch
                if self._iteration is not iteration or self.epoch != epoch:
                    fault = "this iteration cannot go on: another one has begun, or a state was loaded"
                    raise ArgumentError(explain("Batches", fault, remedy="a Batches of its own for each loop"))
        finally:
            batches.close()
        self.epoch, self.position = epoch + 1, 0

    def _from(self, epoch: int, position: int) -> Generator[Batch]:
        order, numbers = self._order(epoch), range(position, len(self))
        if self.workers:
            yield from in_order(lambda k, ended: self._batch(order, epoch, k, ended), numbers, self.workers)
        else:
            yield from (self._batch(order, epoch, k) for k in numbers)

    def _order(self, epoch: int) -> Array:
        if not self.shuffle:
            return np.arange(self.items)
        return draw.permutation(self.items, generator=generator(self.seed, epoch))

    def _batch(self, order: Array, epoch: int, k: int, ended: Event | None = None) -> Batch:
        rows = order[k * self.batch_size : (k + 1) * self.batch_size]
        arrays = tuple(np.take(array, rows, axis=0) for array in self.arrays)
        transform = self.transform
        if transform is None:
            return arrays
        made: list[Batch] = []
        for row, item in zip(rows.tolist(), zip(*arrays, strict=True), strict=True):
            if ended is not None and ended.is_set():  # nobody waits for this batch any more
                raise CancelledError
            try:
                with use(generator(self.seed, epoch, row)) as own:
                    made.append(_as_arrays(transform(*item, own)))
                _same_shapes(made[0], made[-1])
            except Exception as error:
                error.add_note(f"in the transform of item {row}, epoch {epoch}, batch {k} (chainrule.data.Batches)")
                raise
        return tuple(np.stack(column) for column in zip(*made, strict=True))

    # ------------------------------------------------------------ where it stands
    def _setting(self) -> dict[str, Any]:
        names = ("items", "batch_size", "shuffle", "drop_last")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> dict[str, Any]:
        """Where the next iteration begins, in numbers and truth values; how many workers there are is no part of it."""
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position, **self._setting()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` says, seed included.

        **Raises** ArgumentError for a state of other data or batches, or of none; nothing is changed then.
        """
        names = ("seed", "epoch", "position")
        try:
            found = {name: state[name] for name in self._setting()}
            seed, epoch, position = (index(state[name]) for name in names)
            generator(seed, epoch)
        except (KeyError, TypeError, IndexError, ArgumentError) as error:
            raise ArgumentError(explain("Batches", "this is no state of batches", state=state)) from error
        other = {name: value for name, value in found.items() if value != self._setting()[name]}
        if other:
            here = ", ".join(f"{name}={self._setting()[name]}" for name in other)
            raise ArgumentError(explain("Batches", "the state is of other batches", **other, expected=here))
        if not 0 <= position <= len(self):
            fault = "there is no such place in an epoch"
            raise ArgumentError(explain("Batches", fault, position=position, expected=f"0 to {len(self)}"))
        self.seed, self.epoch, self.position = seed, epoch, position
        self._iteration = None


def _of_one_length(arrays: list[Array]) -> list[Array]:
    if not arrays or any(array.ndim == 0 for array in arrays):
        raise ArgumentError(explain("Batches", "no arrays of items", expected="arrays with at least one axis"))
    if len({len(array) for array in arrays}) > 1:
        named = {f"array_{k}": array for k, array in enumerate(arrays)}
        raise ShapeError(explain("Batches", "the arrays hold different numbers of items", **named))
    if len(arrays[0]) == 0:
        raise ArgumentError(explain("Batches", "there are no items", array=arrays[0]))
    return arrays


def _at_least(name: str, value: Any, least: int) -> int:
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if number < least:
        fault = f"{name} is out of range"
        raise ArgumentError(explain("Batches", fault, expected=f"an integer of at least {least}", **{name: value}))
    return number


def _as_arrays(given: Any) -> Batch:
    arrays: Batch = tuple(map(np.asarray, given if isinstance(given, tuple) else (given,)))  # pyright: ignore[reportUnknownArgumentType]
    for array in arrays:
        if array.dtype.kind not in "biufc":
            raise DTypeError(explain("Batches", "a transform gives arrays of numbers, or a tuple of them", given=given))
    return arrays


def _same_shapes(first: Batch, other: Batch) -> None:
    if [array.shape for array in first] != [array.shape for array in other]:
        fault = "a transform gives all items of a batch the same shapes"
        first_shapes, shapes = (", ".join(map(describe, arrays)) for arrays in (first, other))
        raise ShapeError(explain("Batches", f"{fault} · {shapes} after {first_shapes}"))
