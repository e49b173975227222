"""The forward walk: tangents along the arrows, oldest node first.

It reads the nodes that a function left behind, and needs the very residuals that the reverse walk needs.  How a
primitive pushes is its family's to say; where no family knows better, the pullback is transposed: it is linear in its
cotangent, so its own pullback is the push forward.  A missing tangent stays None, and a zero tangent stays zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from chainrule import modes
from chainrule.backends.registry import is_foreign, is_numpy, namespace_of
from chainrule.core.calls import raw, type_of_node, wrap
from chainrule.core.graph import Node, leaf_node, reach, reach_newer
from chainrule.ops.elementwise import isnan, logical_and, where
from chainrule.ops.views import cast, spread_to
from chainrule.types import ArrayType
from chainrule.walks.reverse import fit, residuals, reverse_newer, verify_fingerprints

Plan = list[tuple[Node, tuple[int, ...]]]
"""The nodes to pass, oldest first, each with the numbers whose tangents nobody needs after it."""


def plan(roots: Sequence[Node | None], sources: Iterable[int], since: int | None = None) -> Plan:
    """The way from the nodes numbered `sources` to `roots`; with `since`, over newer nodes only.

    **Raises** FreedGraphError, StaleGraphError.
    """
    nodes = reach(roots) if since is None else reach_newer(roots, since)
    if modes.unusual:
        verify_fingerprints(nodes)
    live = set(sources)
    steps: list[Node] = []
    last: dict[int, int] = {}
    for node in nodes:
        parents = [p[0] for p in node[2] if p is not None and p[0] in live]
        if parents and node[0] not in live:
            live.add(node[0])
            steps.append(node)
            last.update(dict.fromkeys(parents, len(steps) - 1))
    needed = {root[0] for root in roots if root is not None}
    done: list[list[int]] = [[] for _ in steps]
    for number, k in last.items():
        if number not in needed:
            done[k].append(number)
    return [(node, tuple(numbers)) for node, numbers in zip(steps, done, strict=True)]


def forward(steps: Plan, seeds: dict[int, Any], graph: bool) -> dict[int, Any]:
    """The tangents, by number, of the roots that `steps` were planned for, given those of the sources.

    `graph`: tangents are tensors and the walk is recorded.
    """
    tangents = dict(seeds)
    find = tangents.get
    with np.errstate(invalid="raise", divide="ignore", over="ignore", under="ignore"):
        for node, done in steps:
            given = [None if parent is None else find(parent[0]) for parent in node[2]]
            try:
                t = _push(node, given, graph, False)
            except FloatingPointError:
                with np.errstate(invalid="ignore"):
                    t = _push(node, given, graph, True)
            if t is not None:
                tangents[node[0]] = t
            for number in done:
                tangents.pop(number, None)
    return tangents


def _push(node: Node, given: list[Any], graph: bool, careful: bool) -> Any:
    """The tangent of a node's value, or None; of a node with several outputs, a list."""
    if all(t is None for t in given):
        return None
    primitive = node[1]
    if not primitive.guardable:
        return primitive.push(node, given, graph)
    t = _PUSHES[primitive.family.push](node, given, residuals(node, graph), graph, careful)
    if primitive.multiple:
        return None if t is None else [_fitted(piece, *of) for piece, of in zip(t, node[5], strict=True)]
    return _fitted(t, node[5], node[6])


def _fitted(t: Any, shape: Any, dtype: Any) -> Any:
    """A tangent of the shape and dtype of its primal: broadcast and cast once for every rule."""
    if t is None:
        return None
    if t.shape != shape:
        t = spread_to(t, shape)
    return t if t.dtype == dtype else cast(t, dtype)


def _by_rule(node: Node, given: list[Any], named: dict[str, Any], graph: bool, careful: bool) -> Any:
    """Elementwise: the map is diagonal, so the pullback is its own transpose."""
    total = None
    for index, t in enumerate(given):
        rule, read = _rule(node[1], index)
        if t is None or rule is None:
            continue
        out = rule(t, **{name: index if name == "index" else named[name] for name in read})
        if careful and read:
            bad = logical_and(isnan(raw(out)), raw(t) == 0)
            out = where(bad, 0.0, out) if not is_numpy(bad) or bad.any() else out
        total = out if total is None else total + out
    return total


def _linear(node: Node, given: list[Any], named: dict[str, Any], graph: bool, careful: bool) -> Any:
    """The operation itself, with zeros where a tangent is missing."""
    primitive = node[1]
    if None in primitive.rules or any(parent is None for parent in node[2]):
        return _transposed(node, given, named, graph, careful)
    some = next(t for t in given if t is not None)
    tangents = [
        _zeros(type_of_node(parent), some, graph) if t is None else t for t, parent in zip(given, node[2], strict=True)
    ]
    return primitive.call(tangents, *node[4]) if primitive.variadic else primitive.call(*tangents, *node[4])


def _bilinear(node: Node, given: list[Any], named: dict[str, Any], graph: bool, careful: bool) -> Any:
    """The operation, one argument at a time, with the other rule's residual as its partner."""
    primitive = node[1]
    if primitive.variadic or len(given) != 2:
        return _transposed(node, given, named, graph, careful)
    total = None
    for index, t in enumerate(given):
        if t is not None:
            other = named[primitive.inputs[1 - index]]
            out = primitive.call(*((t, other) if index == 0 else (other, t)), *node[4])
            total = out if total is None else total + out
    return total


def _transposed(node: Node, given: list[Any], named: dict[str, Any], graph: bool, careful: bool) -> Any:
    """The pullback of the pullback, over a cotangent variable of its own.

    Only what is newer than the variable is walked: residuals are tied to the whole graph.
    """
    multiple = node[1].multiple
    some = raw(next(t for t in given if t is not None))
    types = [ArrayType(*of) for of in node[5]] if multiple else [type_of_node(node)]
    cts = [_variable(of, some) for of in types]
    numbers = [ct.node[0] for ct in cts]
    roots = _pulled(node, given, named, cts if multiple else cts[0])
    found = reverse_newer(roots, graph, numbers[-1], set(numbers))
    if not multiple:
        return found.get(numbers[0])
    return [found[n] if n in found else _zeros(of, some, graph) for n, of in zip(numbers, types, strict=True)]


def _pulled(node: Node, given: list[Any], named: dict[str, Any], ct: Any) -> list[tuple[Node, Any]]:
    """For every input with a tangent: the node of what its rule makes of `ct`, and the tangent."""
    pairs: list[tuple[Node, Any]] = []
    with modes.recording(), np.errstate(invalid="ignore"):  # the value of the cotangent is zero and means nothing
        for index, t in enumerate(given):
            rule, read = _rule(node[1], index)
            if t is None or rule is None:
                continue
            g = fit(rule(ct, **{name: index if name == "index" else named[name] for name in read}), node[2][index])
            if getattr(g, "node", None) is not None:
                pairs.append((g.node, t))
    return pairs


def _rule(primitive: Any, index: int) -> tuple[Callable[..., Any] | None, Any]:
    position = 0 if primitive.variadic else index
    return primitive.rules[position], primitive.reads[position]


def _variable(of: ArrayType, beside: Any) -> Any:
    variable = wrap(_raw_zeros(of, beside), None)
    variable.node = leaf_node(variable)
    return variable


def _zeros(of: ArrayType, beside: Any, graph: bool) -> Any:
    zeros = _raw_zeros(of, raw(beside))
    return wrap(zeros, None) if graph else zeros


def _raw_zeros(of: ArrayType, beside: Any) -> Any:
    if is_foreign(beside):
        return namespace_of(beside).zeros(of.shape, dtype=of.dtype)
    return np.zeros(of.shape, of.dtype)


_PUSHES = {"rule": _by_rule, "linear": _linear, "bilinear": _bilinear, "transpose": _transposed}
