"""Everything that a function can reach and change, to put it back."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.compiler.kinds import ARRAY, OPAQUE, SET, TENSOR, TUPLE, kind_of
from chainrule.compiler.places import Place, Thing, Walk
from chainrule.core.generators import current

_NOT_WRITTEN = (TUPLE, SET, OPAQUE)


class State:
    """Everything that a function can reach and change, as it is now."""

    def __init__(self, f: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        walk = self.walk = Walk(f, list(arguments), dict(keywords), set(), [])
        self.things = [t for t in walk if t.kind not in _NOT_WRITTEN]
        self.arrays: list[tuple[Any, Any]] = [
            (value, value.copy()) for thing in self.things for value in thing.before.values() if kind_of(value) is ARRAY
        ]
        self.nodes = [(t.value, t.value.node, _written(t)) for t in self.things if t.kind is TENSOR]
        generators = [current(), *(g for g, _ in walk.generators.values())]
        self.generators = [(g.bit_generator, g.bit_generator.state) for g in generators]

    def restore(self) -> None:
        for thing in self.things:
            thing.restore()
        for array, copy in self.arrays:
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
            (Place(thing, key), np.array(value) if isinstance(value, ARRAY) else value)
            for thing in self.things
            for key, value in thing.now().items()
        ]


def _written(thing: Thing) -> int | None:
    node = thing.value.node
    return node[3].written if node is not None and node[1] is None else None
