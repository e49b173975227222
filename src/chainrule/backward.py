"""Gradients of a tensor: `backward`, which adds to `.grad`, and `gradients`, which touches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import common_namespace, is_number, is_numpy
from chainrule.core.calls import is_tensor, raw, weak, wrap
from chainrule.core.graph import memory_of, own_copy
from chainrule.errors import DTypeError, LostGraphError, ShapeError, dtype_kind, explain
from chainrule.ops import views
from chainrule.ops.arguments import lifted
from chainrule.ops.creation import full_like
from chainrule.types import Array
from chainrule.walks.reverse import reverse

_adding = RLock()  # threads that share a leaf add to it one after the other


def backward(y: Any, cotangent: Any, retain_graph: bool, create_graph: bool) -> None:
    """What `Tensor.backward` does."""
    if y.node is None:
        fault = "the tensor has no graph: nothing that it was computed from wants a gradient"
        raise LostGraphError(explain("backward", fault, x=y, remedy="cr.tensor(..., requires_grad=True)"))
    ct = _cotangent(y, cotangent, create_graph)
    owned = {id(ct.data if create_graph else ct)}
    found = reverse([(y.node, ct)], create_graph, None, free=not retain_graph)
    with _adding:
        for node, g in found:
            leaf = node[3].tensor()
            # A parameter that stands for a variable meanwhile has a node over its own.
            if leaf is not None and (leaf.node is node or memory_of(leaf.node) is node):
                total = g if leaf.grad is None else leaf.grad + g
                if type(total) is not np.ndarray or total.base is not None or id(total) in owned:
                    total = _own_gradient(total, node[6], owned)
                leaf.grad = total
                owned.add(id(total))


def _own_gradient(g: Any, dtype: Any, owned: set[int]) -> Any:
    """A gradient that shares memory with nothing: what a rule passed on, or looks at other memory, is copied."""
    if is_numpy(g):
        return np.array(g, dtype)
    data = raw(g)
    shared = id(data) in owned or getattr(data, "base", None) is not None
    owned.add(id(data))
    if not shared:
        return g
    return wrap(own_copy(data), g.node) if is_tensor(g) else own_copy(data)


_ones: dict[Any, Any] = {}


def _one_of(data: Array) -> Array:
    """The cotangent of a number; never handed out as a gradient itself, so one for all walks."""
    if not is_number(data):
        return full_like(data, 1.0)
    dtype: Any = data.dtype
    one: Any = _ones.get(dtype)
    if one is None:
        one = _ones[dtype] = np.ones((), dtype)
    return one


def _cotangent(y: Any, cotangent: Any, graph: bool) -> Any:
    """The cotangent that a walk from `y` starts with: raw, or for a walk that is recorded, a tensor.

    A recorded walk keeps the graph of a cotangent, which may want a gradient itself, and a copy of an array.
    """
    if cotangent is None:
        if y.size != 1:
            fault = "only a tensor of one element has a gradient by itself"
            raise ShapeError(explain("backward", fault, y=y, remedy="y.sum(), or an upstream gradient: cotangent=..."))
        return wrap(_one_of(y.data), None) if graph else _one_of(y.data)
    ct: Any = cotangent if graph and is_tensor(cotangent) else raw(cotangent)
    if not is_tensor(ct):
        ct = (
            weak(ct, y.data)
            if issubclass(type(ct), (bool, int, float))
            else lifted("backward", "cotangent", ct, copy=graph)
        )
    if ct.shape != y.shape:
        raise ShapeError(explain("backward", "the cotangent does not have the shape of the value", y=y, cotangent=ct))
    if not (isinstance(raw(ct), Abstract) or isinstance(y.data, Abstract)):
        common_namespace("backward", {"y": y.data, "cotangent": raw(ct)})
    if dtype_kind(ct.dtype) == "c" and dtype_kind(y.dtype) != "c":
        raise DTypeError(explain("backward", "the cotangent of a real value is real", y=y, cotangent=ct))
    ct = ct if ct.dtype == y.dtype else views.cast(ct, y.dtype)
    return wrap(ct, None) if graph and not is_tensor(ct) else ct


def gradients(y: Any, xs: Any, cotangent: Any = None, create_graph: bool = False) -> Any:
    """The gradients of `y` with respect to tensors, leaves or not; frees nothing and touches no `.grad`.

    **Shapes** `xs`: a list of tensors (or one); the result has an array for each, of its shape and dtype, zeros where
    `y` does not depend on it.  `cotangent f[y.shape]`: the upstream gradient.  `create_graph`: the results are tensors
    and can be differentiated again.  **Raises** LostGraphError for an x without a graph, FreedGraphError,
    StaleGraphError, ShapeError.

    >>> import chainrule as cr
    >>> x = cr.tensor(3.0, requires_grad=True)
    >>> slope, = cr.gradients(x ** 3, [x], create_graph=True)
    >>> cr.gradients(slope, [x])
    [array(18.)]
    """
    many: Sequence[Any] = [xs] if is_tensor(xs) else list(xs)
    for k, x in enumerate(many):
        if not is_tensor(x) or x.node is None:
            operand: dict[str, Any] = {f"xs[{k}]": x}
            remedy = "cr.tensor(..., requires_grad=True) before y is computed"
            raise LostGraphError(explain("gradients", "what wants no gradient has none", remedy=remedy, **operand))
    if not is_tensor(y):
        raise LostGraphError(explain("gradients", "y is no tensor, so it carries no graph", y=y))
    found: dict[int, Any] = {}
    if y.node is not None:
        root = (y.node, _cotangent(y, cotangent, create_graph))
        found = {n[0]: g for n, g in reverse([root], create_graph, {x.node[0] for x in many if x.node is not None})}
    results: list[Any] = []
    for x in many:
        g = found.get(x.node[0]) if x.node is not None else None
        g = full_like(x.data, 0.0) if g is None else g
        results.append(g if is_tensor(g) else wrap(g, None) if create_graph else own_copy(g))
    return results[0] if is_tensor(xs) else results
