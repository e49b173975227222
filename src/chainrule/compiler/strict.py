"""`jit(strict=True)`: every new program is held against eager mode once, results and everything that is written.

The compiled call goes first; then everything is put back, generators too, and eager mode runs, whose outcome stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import tree
from chainrule.compiler.places import LIST, OPAQUE, SET, SPACE, TENSOR, TUPLE, Place, Thing, Walk
from chainrule.core.calls import is_tensor, raw
from chainrule.core.generators import current
from chainrule.errors import TraceError, explain

_NOT_WRITTEN = (TUPLE, SET, OPAQUE)


class _State:
    """Everything that a function can reach and change, as it is now."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.things = [t for t in walk if t.kind not in _NOT_WRITTEN]
        self.held = [t.now() for t in self.things]
        self.arrays = {
            id(value): (value, value.copy())
            for held in self.held
            for value in held.values()
            if type(value) is np.ndarray
        }
        self.nodes = [(t.value, t.value.node, _written(t)) for t in self.things if t.kind is TENSOR]
        generators = [current(), *(g for g, _ in walk.generators.values())]
        self.generators = [(g.bit_generator, g.bit_generator.state) for g in generators]

    def restore(self) -> None:
        for thing, held in zip(self.things, self.held, strict=True):
            if thing.kind is LIST:
                thing.value[:] = held.values()
                continue
            now = thing.now()
            for key, value in held.items():
                if now.get(key) is not value and thing.kind is not SPACE:
                    thing.kind.write(thing.value, key, value)
            for key in now.keys() - held.keys():
                thing.kind.delete(thing.value, key)
        for array, copy in self.arrays.values():
            if array.flags.writeable:
                array[...] = copy
        for tensor, node, written in self.nodes:
            tensor.node = node
            if written is not None:
                node[3].written = written
        for generator, state in self.generators:
            generator.state = state

    def values(self) -> list[tuple[Place, Any]]:
        """What stands in all places now, arrays as copies."""
        return [
            (Place(thing, key), np.array(value) if isinstance(value, np.ndarray) else value)
            for thing in self.things
            for key, value in thing.now().items()
        ]


def _written(thing: Thing) -> int | None:
    node = thing.value.node
    return node[3].written if node is not None and node[1] is None else None


def compared(compiled: Any, made: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The result of the eager call, after the compiled one was compared with it.

    **Raises** TraceError where they differ.
    """
    state = _State(Walk(compiled.function, list(arguments), dict(keywords), set(), []))
    result = made.run(arguments, keywords)
    after = state.values()
    leaves = [_value(leaf) for leaf in tree.flatten(result)[0]]
    state.restore()
    expected = compiled.function(*arguments, **keywords)
    for leaf, other in zip(leaves, tree.flatten(expected)[0], strict=True):
        _compare("the result", leaf, _value(other))
    for (place, value), (_, other) in zip(after, state.values(), strict=True):
        _compare(str(place), value, other)
    return expected


def _value(leaf: Any) -> Any:
    return np.array(raw(leaf)) if is_tensor(leaf) or isinstance(leaf, np.ndarray) else leaf


def _compare(name: str, value: Any, expected: Any) -> None:
    numbers = (int, float, complex, np.ndarray, np.generic)
    if isinstance(value, numbers) and isinstance(expected, numbers):
        a, b = np.asarray(value), np.asarray(expected)
        same = a.shape == b.shape and a.dtype == b.dtype and _is_near(a, b)
    else:
        same = value is expected or type(value) is type(expected)
    if not same:
        fault = f"{name} is another than in eager mode"
        remedy = "an issue at chainrule's, or what the function depends on as an argument"
        raise TraceError(explain("jit", fault, compiled=value, eager=expected, remedy=remedy))


def _is_near(a: Any, b: Any) -> bool:
    if a.dtype.kind not in "fc":
        return np.array_equal(a, b)
    tolerance = 1000 * float(np.finfo(a.dtype).eps)
    scale = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
