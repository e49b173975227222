"""Nodes: what a tensor remembers of the operation that made it.

A node is a list, because making one is the most frequent act of the engine and a list is the cheapest object that a
walk can empty as it passes: `[number, primitive, parents, residuals, parameters, shape, dtype]`.  Numbers only grow,
so sorting by number is a topological order and no walk recurses.  A leaf has no primitive, no parents, and a `Leaf`
in place of residuals, which refers to its tensor weakly: a dropped graph dies at once, without the collector.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from itertools import count
from operator import itemgetter
from typing import Any

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_number, is_numpy, namespace_of
from chainrule.errors import FreedGraphError, StaleGraphError, explain

Node = list[Any]
NUMBER, PRIMITIVE, PARENTS, RESIDUALS, PARAMETERS, SHAPE, DTYPE = range(7)
_LONGEST_CHAIN = 64  # of views that share memory
FINGERPRINT = 7  # an eighth entry, in debug mode only

next_number = count(1).__next__
_by_number = itemgetter(NUMBER)


class Leaf:
    """What the node of a leaf keeps: its tensor, the number of the last write into it, and who shares its memory."""

    __slots__ = ("aliases", "limit", "tensor", "written")

    def __init__(self, tensor: Any) -> None:
        self.tensor = weakref.ref(tensor)
        self.written = 0
        self.aliases: list[weakref.ref[Any]] = []
        self.limit = 16  # how many aliases there may be before the dead ones are dropped


def leaf_node(tensor: Any) -> Node:
    """The node of a tensor that wants a gradient and was made by no operation."""
    return [next_number(), None, (), Leaf(tensor), (), tensor.data.shape, tensor.data.dtype]


def reach(roots: Iterable[Node | None]) -> list[Node]:
    """All nodes that `roots` depend on, oldest first.

    **Raises** FreedGraphError, StaleGraphError before anything was changed.
    """
    nodes: list[Node] = list({node[0]: node for node in roots if node is not None}.values())
    seen = {node[0] for node in nodes}
    add, append = seen.add, nodes.append
    try:
        for node in nodes:  # grows while it is read
            for parent in node[2]:
                if parent is not None:
                    number = parent[0]
                    if number not in seen:
                        add(number)
                        append(parent)
    except TypeError:  # a walk leaves None in place of the parents; asking every node first would cost 1%
        remedy = "backward(retain_graph=True) the first time, or the forward pass again"
        raise FreedGraphError(
            explain("backward", "the graph was freed by an earlier backward", remedy=remedy)
        ) from None
    nodes.sort(key=_by_number)
    if nodes and nodes[0][0] < modes.last_write:
        _check_stale(nodes)
    return nodes


def reach_newer(roots: Iterable[Node | None], since: int) -> list[Node]:
    """The nodes newer than number `since` that `roots` depend on, oldest first."""
    seen: set[int] = set()
    nodes: list[Node] = []
    todo = list(roots)
    while todo:
        node = todo.pop()
        if node is not None and node[0] > since and node[0] not in seen:
            seen.add(node[0])
            nodes.append(node)
            todo += node[2]
    nodes.sort(key=_by_number)
    return nodes


def is_freed(node: Node) -> bool:
    """Whether a walk has emptied this node: its parents and residuals are gone."""
    return node[PARENTS] is None


def _check_stale(nodes: list[Node]) -> None:
    """Refuse a graph in which an operation kept the memory of a leaf that was written to later.

    In a training loop all operations are newer than the last write, and the loop ends at the first of them.
    """
    for node in nodes:
        if node[0] > modes.last_write:
            break
        if node[1] is not None:
            _check_node(node)


def _check_node(node: Node) -> None:
    primitive = node[PRIMITIVE]
    for name, parent in zip(primitive.names(len(node[PARENTS])), node[PARENTS], strict=True):
        leaf = None if parent is None else memory_of(parent, _LONGEST_CHAIN + 1)
        if leaf is None or leaf[PRIMITIVE] is not None or leaf[RESIDUALS].written < node[NUMBER]:
            continue
        if primitive.kept(node, name) is not None:
            tensor = leaf[RESIDUALS].tensor()
            operand = {} if tensor is None else {name: tensor}
            fault = f"the value of {name} was overwritten in place after it was recorded"
            remedy = "the write after backward(), or the forward pass again"
            raise StaleGraphError(explain(primitive.name, fault, remedy=remedy, **operand))


def memory_of(node: Node | None, longest: int = _LONGEST_CHAIN) -> Node | None:
    """The leaf whose memory the value of `node` may share, itself or the source of a chain of views; or None.

    Of a chain of more views than `longest` it gives the view where it stops.
    """
    for _ in range(longest):
        if node is None or node[PRIMITIVE] is None:
            return node
        node = node[PARENTS][0] if node[PRIMITIVE].is_view and node[PARENTS] else None
    return node


def share(source: Any, result: Any) -> None:
    """Note that two tensors share memory, so that a write to one never shows in the other.

    A leaf is written where it stands (its memory is the optimiser's), so it knows the recorded values that look at
    it, and a value without a node gets memory of its own.  Any other tensor moves when it is written while shared.
    """
    node = source.node
    if node is not None and node[PRIMITIVE] is not None and node[PRIMITIVE].is_view and is_freed(node):
        result.data = own_copy(result.data)  # nobody can say any more whose memory this is
        return
    leaf = memory_of(node)
    if leaf is not None and leaf[PRIMITIVE] is not None:
        result.data = own_copy(result.data)  # so that a chain of n views takes n steps and not n²
    elif leaf is None:
        source.shared = result.shared = True
    elif result.node is None:
        result.data = own_copy(result.data)
    else:
        state: Leaf = leaf[RESIDUALS]
        if len(state.aliases) >= state.limit:
            state.aliases = [alias for alias in state.aliases if alias() is not None]
            state.limit = 16 + 2 * len(state.aliases)
        state.aliases.append(weakref.ref(result))


def own_copy(data: Any) -> Any:
    """A writable copy, laid out in memory like the original; NumPy scalars become 0-d arrays."""
    if is_numpy(data):
        return np.array(data)
    return data.copy() if isinstance(data, Abstract) else namespace_of(data).asarray(data, copy=True)


def before_write(tensor: Any) -> int:
    """Prepare a tensor's own memory for a write: whoever recorded or shares the old value keeps it or will be told.

    Returns the number of the write before, for `take_back`.
    """
    node = tensor.node
    if node is None or node[PRIMITIVE] is not None:
        if node is not None or getattr(tensor, "shared", False) or is_number(tensor.data):
            tensor.data = own_copy(tensor.data)
            tensor.shared = False
        return 0
    leaf: Leaf = node[RESIDUALS]
    if leaf.aliases:
        for alias in leaf.aliases:
            view = alias()
            if view is not None:
                view.data = own_copy(view.data)
        leaf.aliases.clear()
    before = leaf.written
    with modes.lock:  # so that a later number is never replaced by an earlier one
        modes.last_write = leaf.written = next_number()
    return before


def take_back(tensor: Any, before: int) -> None:
    """The write came to nothing, so what was recorded is as good as before."""
    node = tensor.node
    if node is not None and node[PRIMITIVE] is None:
        node[RESIDUALS].written = before
