"""What the generic suite tries a record on: from its `samples`, or drawn from its `domain`; nothing is said here about any operation."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

import chainrule.ops
import chainrule.tensor
from chainrule.core.primitive import PRIMITIVES, Primitive


class Example(NamedTuple):
    arrays: tuple[Any, ...]
    parameters: tuple[Any, ...]

    def map(self, change: Callable[[Any], Any]) -> "Example":
        return Example(tuple(change(array) for array in self.arrays), self.parameters)

    def with_dtype(self, dtype: Any) -> "Example":
        """Floating arrays in another precision; the others as they are."""
        return self.map(lambda a: a.astype(dtype) if a.dtype.kind == "f" else a)


def records() -> dict[str, Primitive]:
    """All records there are, after every module of operations was imported."""
    for module in pkgutil.walk_packages(chainrule.ops.__path__, "chainrule.ops."):
        importlib.import_module(module.name)
    return dict(sorted(PRIMITIVES.items()))


def generator(record: Primitive, purpose: str = "") -> np.random.Generator:
    """Numbers that depend on the record alone, so that a new record changes no other's tests."""
    return np.random.default_rng(crc32(f"{record.name} {purpose}".encode()))


def draw(rng: np.random.Generator, intervals: Iterable[Any], shape: tuple[int, ...]) -> Any:
    """An array with entries from any of the intervals."""
    bounds = np.array(list(intervals))
    low, high = np.moveaxis(bounds[rng.integers(len(bounds), size=shape)], -1, 0)
    return np.array(rng.uniform(low, high))


def examples(record: Primitive) -> list[Example]:
    rng = generator(record)
    if record.samples is not None:
        return [Example(tuple(np.asarray(a) for a in arrays), tuple(rest)) for arrays, rest in record.samples(rng)]
    if not record.domain:
        raise LookupError(f"{record.name} has neither samples nor a domain, so nothing would be tested")
    return [Example(tuple(draw(rng, intervals, (2, 3)) for intervals in record.domain), ())]


def is_elementwise(record: Primitive) -> bool:
    return record.family.name == "elementwise"


def resized(example: Example, *shapes: tuple[int, ...]) -> Example:
    """The same values under other shapes: what elementwise operations are tried on."""
    arrays = tuple(np.resize(a, shape) for a, shape in zip(example.arrays, shapes, strict=True))
    return example._replace(arrays=arrays)


def is_real(array: Any) -> bool:
    """Whether an array of any library holds floating-point numbers."""
    return "float" in str(array.dtype)


def rules_of(record: Primitive, count: int) -> tuple[Any, ...]:
    """The rule of each of `count` inputs."""
    return record.rules * count if record.variadic else record.rules


def differentiable(record: Primitive, example: Example) -> list[int]:
    """Which inputs have a rule and could want a gradient."""
    rules = rules_of(record, len(example.arrays))
    return [k for k, a in enumerate(example.arrays) if is_real(a) and rules[k] is not None]
