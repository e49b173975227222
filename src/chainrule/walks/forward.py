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
from chainrule.backends.memory import hold_peak
from chainrule.backends.registry import is_foreign, is_numpy, namespace_of
from chainrule.core.calls import raw, type_of_node, wrap
from chainrule.core.graph import Node, is_freed, leaf_node, reach, reach_newer
from chainrule.ops.creation import full_like
from chainrule.ops.elementwise import isnan, logical_and, logical_or, where
from chainrule.ops.views import cast, spread_to
from chainrule.types import ArrayType
from chainrule.walks.reverse import fit, residuals, reverse_newer, verify_fingerprints

Push = Callable[[list[Any], bool], Any]
"""From the tangents of the parents, and whether to look for NaN, to the tangent of the value."""
Step = tuple[int, list[int | None], Push, list[int]]
"""A node's number, those of its parents that have tangents, how it pushes, whose tangents nobody needs afterwards."""


class Forward:
    """The way from the nodes numbered `sources` to `roots`, to be walked any number of times.

    With `since` it leads through nodes newer than that number only.

    **Raises** FreedGraphError, StaleGraphError, here and when it is walked.
    """

    def __init__(self, roots: Sequence[Node | None], sources: Iterable[int], since: int | None = None) -> None:
        self.roots = [root for root in roots if root is not None]
        self.checked = modes.last_write
        nodes = reach(self.roots) if since is None else reach_newer(self.roots, since)
        if modes.unusual:
            verify_fingerprints(nodes)
        live = set(sources)
        self.nodes: list[tuple[Node, list[int | None]]] = []
        for node in nodes:
            parents = [p[0] if p is not None and p[0] in live else None for p in node[2]]
            if any(parents) and node[0] not in live:
                live.add(node[0])
                self.nodes.append((node, parents))
        self.steps: dict[bool, list[Step]] = {}

    def __call__(self, seeds: dict[int, Any], graph: bool) -> dict[int, Any]:
        """The tangents, by number, of the roots, given those of the sources.

        `graph`: tangents are tensors and the walk is recorded.
        """
        if self.checked < modes.last_write:
            reach(self.roots)
            self.checked = modes.last_write
        if graph not in self.steps:
            self.steps[graph] = self._prepared(graph)
        tangents = dict(seeds)
        trace = modes.tracing.get() if modes.unusual else None
        find, careful = tangents.get, trace is not None and trace.careful
        with np.errstate(all="ignore", invalid="raise"):
            for number, parents, push, done in self.steps[graph]:
                given = [parent and find(parent) for parent in parents]
                try:
                    t = push(given, careful)
                except FloatingPointError:
                    careful = True  # from here on: a NaN that goes on raises no flag again
                    with np.errstate(invalid="ignore"):
                        t = push(given, True)
                if t is not None:
                    tangents[number] = t
                for parent in done:
                    tangents.pop(parent, None)
        if trace is not None:
            trace.walked(raw(t) for t in tangents.values())
        return tangents

    def _prepared(self, graph: bool) -> list[Step]:
        if any(is_freed(node) for node, _ in self.nodes):
            reach(self.roots)  # which says what happened
        hold_peak()
        needed = {root[0] for root in self.roots}
        last = {p: node[0] for node, parents in self.nodes for p in parents if p is not None and p not in needed}
        done: dict[int, list[int]] = {}
        for parent, number in last.items():
            done.setdefault(number, []).append(parent)
        return [(node[0], parents, _push(node, graph), done.get(node[0], [])) for node, parents in self.nodes]


def _push(node: Node, graph: bool) -> Push:
    """How this node pushes."""
    primitive = node[1]
    if not primitive.guardable:
        return lambda given, _: None if all(t is None for t in given) else primitive.push(node, given, graph)
    return _PUSHES[primitive.family.push](node, residuals(node, graph), graph)


def _fitted(t: Any, shape: Any, dtype: Any) -> Any:
    """A tangent of the shape and dtype of its primal: broadcast and cast once for every rule."""
    if t.shape != shape:
        t = spread_to(t, shape)
    return t if t.dtype == dtype else cast(t, dtype)


def _by_rule(node: Node, named: dict[str, Any], graph: bool) -> Push:
    """Elementwise: the map is diagonal, so the pullback is its own transpose."""
    shape, dtype = node[5], node[6]
    rules = [
        (index, rule, [index if name == "index" and node[1].variadic else named[name] for name in read])
        for index, (rule, read) in enumerate(map(_rule_of(node[1]), range(len(node[2]))))
        if rule is not None and node[2][index] is not None
    ]

    def push(given: list[Any], careful: bool) -> Any:
        total = None
        for index, rule, kept in rules:
            t = given[index]
            if t is None:
                continue
            out = rule(t, *kept)
            if careful and kept:
                out = _without_nan_at_zeros(out, t, rule, kept)
            if out.shape != shape or out.dtype is not dtype:
                out = _fitted(out, shape, dtype)
            total = out if total is None else total + out
        return total

    return push


def _without_nan_at_zeros(out: Any, t: Any, rule: Callable[..., Any], kept: list[Any]) -> Any:
    """`out` with zeros where it is NaN although the tangent, or the slope, is zero.

    A slope of zero is where the reverse walk would have a cotangent of zero further down: tanh(exp(1000)).
    """
    bad = isnan(raw(out))
    if is_numpy(bad) and not bad.any():
        return out
    slope = raw(rule(full_like(raw(t), 1.0), *kept))
    return where(logical_and(bad, logical_or(raw(t) == 0, slope == 0)), 0.0, out)


def _linear(node: Node, named: dict[str, Any], graph: bool) -> Push:
    """The operation itself, with zeros where a tangent is missing."""
    primitive, parents, parameters = node[1], node[2], node[4]
    if None in primitive.rules or any(parent is None for parent in parents):
        return _transposed(node, named, graph)
    types = [type_of_node(parent) for parent in parents]
    call = primitive.call

    def push(given: list[Any], careful: bool) -> Any:
        some = next((t for t in given if t is not None), None)
        if some is None:
            return None
        if len(given) > 1:
            given = [_zeros(of, some, graph) if t is None else t for t, of in zip(given, types, strict=True)]
        out = call(given, *parameters) if primitive.variadic else call(*given, *parameters)
        return out if primitive.multiple else _fitted(out, node[5], node[6])

    return push


def _bilinear(node: Node, named: dict[str, Any], graph: bool) -> Push:
    """The operation, one argument at a time, with the other rule's residual as its partner."""
    primitive, parameters = node[1], node[4]
    if primitive.variadic or primitive.multiple or len(node[2]) != 2:
        return _transposed(node, named, graph)
    x, y = (named.get(name) for name in primitive.inputs)  # an input without a rule needs no partner
    call = primitive.call

    def push(given: list[Any], careful: bool) -> Any:
        parts = [] if given[0] is None else [call(given[0], y, *parameters)]
        parts += [] if given[1] is None else [call(x, given[1], *parameters)]
        fitted = [_fitted(part, node[5], node[6]) for part in parts]
        return fitted[0] + fitted[1] if len(fitted) == 2 else fitted[0] if fitted else None

    return push


def _transposed(node: Node, named: dict[str, Any], graph: bool) -> Push:
    """The pullback of the pullback, over a cotangent variable of its own.

    Only what is newer than the variable is walked: residuals are tied to the whole graph.
    """
    multiple = node[1].multiple
    types = [ArrayType(*of) for of in node[5]] if multiple else [type_of_node(node)]

    def push(given: list[Any], careful: bool) -> Any:
        some = next((t for t in given if t is not None), None)
        if some is None:
            return None
        cts = [_variable(of, some) for of in types]
        numbers = [ct.node[0] for ct in cts]
        roots = _pulled(node, given, named, cts if multiple else cts[0])
        found = reverse_newer(roots, graph, numbers[-1], set(numbers))
        if not multiple:
            return found.get(numbers[0])
        return [found[n] if n in found else _zeros(of, some, graph) for n, of in zip(numbers, types, strict=True)]

    return push


def _pulled(node: Node, given: list[Any], named: dict[str, Any], ct: Any) -> list[tuple[Node, Any]]:
    """For every input with a tangent: the node of what its rule makes of `ct`, and the tangent."""
    pairs: list[tuple[Node, Any]] = []
    rule_of = _rule_of(node[1])
    with modes.recording(), np.errstate(invalid="ignore"):  # the value of the cotangent is zero and means nothing
        for index, t in enumerate(given):
            rule, read = rule_of(index)
            if t is None or rule is None:
                continue
            g = fit(
                rule(ct, **{name: index if name == "index" and node[1].variadic else named[name] for name in read}),
                node[2][index],
            )
            if getattr(g, "node", None) is not None:
                pairs.append((g.node, t))
    return pairs


def _rule_of(primitive: Any) -> Callable[[int], tuple[Callable[..., Any] | None, Any]]:
    """The rule for input number k, and what it reads."""
    if primitive.variadic:
        return lambda _: (primitive.rules[0], primitive.reads[0])
    return lambda k: (primitive.rules[k], primitive.reads[k])


def _variable(of: ArrayType, beside: Any) -> Any:
    variable = _zeros(of, beside, True)
    variable.node = leaf_node(variable)
    return variable


def _zeros(of: ArrayType, beside: Any, graph: bool) -> Any:
    """Zeros by the library that `beside` is of."""
    library = namespace_of(raw(beside)) if is_foreign(raw(beside)) else np
    zeros = library.zeros(of.shape, dtype=of.dtype)
    return wrap(zeros, None) if graph else zeros


_PUSHES = {"rule": _by_rule, "linear": _linear, "bilinear": _bilinear, "transpose": _transposed}
