"""The tensor: an array that remembers how it was made."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_foreign, is_numpy
from chainrule.core.calls import is_tensor, raw, wrap
from chainrule.core.graph import before_write, leaf_node, share
from chainrule.core.template import bind
from chainrule.errors import ArgumentError, DTypeError, FreedGraphError, GraphError, LostGraphError, ShapeError, explain
from chainrule.ops import elementwise, indexing, linalg, reductions, views
from chainrule.ops.creation import full_like
from chainrule.walks.reverse import reverse


class Tensor:
    __slots__ = ("__weakref__", "data", "grad", "node", "shared")

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        self.data = data
        self.grad = None
        self.node = leaf_node(self) if requires_grad else None

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: self.data.dtype)
    ndim = property(lambda self: self.data.ndim)

    __add__ = elementwise.add
    __sub__ = elementwise.subtract
    __mul__ = elementwise.multiply
    __truediv__ = elementwise.divide
    __neg__ = elementwise.negative
    __matmul__ = linalg.matmul
    __pow__ = elementwise.pow

    def __radd__(self, other): return elementwise.add(other, self)
    def __rsub__(self, other): return elementwise.subtract(other, self)
    def __rmul__(self, other): return elementwise.multiply(other, self)
    def __rtruediv__(self, other): return elementwise.divide(other, self)

    def sum(self, axis=None, keepdims=False): return reductions.reduce_sum(self, tuple(range(len(self.data.shape))), False) if axis is None else reductions.sum(self, axis=axis, keepdims=keepdims)
    def reshape(self, *shape): return views.reshape(self, shape[0] if len(shape) == 1 else shape)

    def backward(self):
        node = self.node
        owned = set()
        found = reverse([(node, full_like(self.data, 1.0))], False, free=True)
        for n, g in found:
            t = n[3].tensor()
            if t is None: continue
            if t.grad is not None: t.grad = t.grad + g
            else: t.grad = np.array(g) if id(g) in owned or not isinstance(g, np.ndarray) or g.base is not None else g
            owned.add(id(g))

    def __isub__(self, other):
        before_write(self)
        self.data -= raw(other)
        return self


bind(Tensor=Tensor, share=share)
