"""Modules made of others: `Sequential`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import index as position
from typing import Any

from chainrule.errors import ArgumentError, IndexingError, explain
from chainrule.nn.module import Module
from chainrule.nn.places import entries, entries_of

Layer = Callable[..., Any]


class Sequential(Module):
    """Modules, or plain functions such as `nn.relu`, one after the other.

    `Sequential(first, second)` names them "0", "1"; `Sequential({"first": first})` by the keys.  They stand in `layers`,
    a list or a dictionary, which may be changed; `model[0]`, `model[-1]`, `model[1:]`, `len` and iteration reach them.
    **Raises** ArgumentError for a layer that cannot be called.

    >>> import chainrule as cr
    >>> model = cr.nn.Sequential(cr.nn.Linear(2, 3), cr.relu, cr.nn.Linear(3, 1))
    >>> model(cr.ones((5, 2))).shape, [name for name, _ in model.named_parameters()]
    ((5, 1), ['0.weight', '0.bias', '2.weight', '2.bias'])
    """

    unnamed = "layers"

    def __init__(self, *layers: Layer | Mapping[str, Layer]) -> None:
        first: Any = layers[0] if len(layers) == 1 else None
        self.layers: Any = dict(first) if isinstance(first, Mapping) else list(layers)  # pyright: ignore[reportUnknownArgumentType]
        for layer in self:
            if not callable(layer):
                raise ArgumentError(explain("Sequential", "a layer that cannot be called", layer=layer))

    def __iter__(self) -> Iterator[Any]:
        return iter(entries_of(self.layers))

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: Any) -> Any:
        """A layer by its position or its key; a Sequential of the same layers for a slice."""
        items = list(entries(self.layers))
        if isinstance(index, slice):
            chosen = dict(items[index])
            return Sequential(chosen) if isinstance(self.layers, Mapping) else Sequential(*chosen.values())
        try:
            return self.layers[index] if isinstance(index, str) else items[position(index)][1]
        except (LookupError, TypeError):
            known = ", ".join(repr(key) for key, _ in items) or "none, it is empty"
            raise IndexingError(explain("Sequential", f"no layer {index!r}", expected=known)) from None

    def extra_repr(self) -> str:
        """The plain functions among the layers."""
        functions = [(key, layer) for key, layer in entries(self.layers) if not isinstance(layer, Module)]
        return ", ".join(f"{key}: {getattr(layer, '__name__', layer)}" for key, layer in functions)

    def forward(self, x: Any) -> Any:
        """The layers, one after the other."""
        for layer in self:
            x = layer(x)
        return x
