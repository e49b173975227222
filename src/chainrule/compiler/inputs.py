"""What a program reads from places: arrays, and numbers that are live; which numbers these are is learnt by tracing."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.compiler.kinds import ARRAY, SCALAR, kind_of
from chainrule.compiler.places import Place, Thing

Path = tuple[Any, ...]


class EagerError(Exception):
    """The function cannot run compiled, for the reason given, and runs as it is."""

    is_lasting = False
    """Whether it is the function's own doing, so that every call will run as it is."""


class AgainError(Exception):
    """The trace has to begin again, knowing more."""


class Choices:
    """What earlier traces of a function taught about its numbers: by path, whether they are inputs or guarded."""

    def __init__(self) -> None:
        self.lifted: set[Path] = set()
        self.guarded: set[Path] = set()
        self.names: set[str] = set()
        self.spaces: dict[int, dict[str, Any]] = {}
        self.joined = False
        """Whether an array that came with the arguments and also stands elsewhere is one input: so where it is written."""

    def is_live(self, place: Place, value: Any) -> bool:
        """Whether a number is an input: arguments, the floats of an optimiser's groups, and what was seen to change."""
        path = place.path
        if path in self.guarded:
            return False
        if is_option(path):  # zero switches a term off, which the program then does not have
            return value != 0.0 and (kind_of(value) is float or path in self.lifted)
        return path in self.lifted or (place.owner.given and _is_argument(place.owner))


def is_option(path: Path) -> bool:
    """Whether this is where an optimiser has a hyper-parameter, such as `param_groups[0]["betas"][1]`."""
    return "param_groups" in path[-4:-2]


def _is_argument(thing: Thing) -> bool:
    """Whether a container is one of the arguments, or within one."""
    place = thing.first
    while place is not None and place.owner.kind.by_name is False:
        place = place.owner.first
    return place is None


class Input:
    """An array or a number that the program reads from a place."""

    __slots__ = ("box", "equation", "is_array", "number", "places", "value")

    def __init__(self, number: int, value: Any, place: Place) -> None:
        self.number = number
        self.value = value
        self.is_array = kind_of(value) is ARRAY
        """Whether it is memory that can be written."""
        self.places = [place]
        kind = kind_of(value)
        weak = kind in (int, float)
        like = np.zeros((), np.int64) if kind is int else np.asarray(value)
        self.box = Abstract(like.shape, like.dtype, None, weak, fixed=weak or isinstance(value, SCALAR))
        self.equation = self.box.equation
