"""The reverse walk: cotangents against the arrows, newest node first.

A missing cotangent stays None.  A zero cotangent stays zero: the processor's invalid flag reports 0/0 and 0*inf, and
then, and only then, the rule is repeated and entries whose cotangent is zero get zero where the rule gave NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from chainrule import modes
from chainrule.backends.memory import hold_peak
from chainrule.backends.registry import is_numpy
from chainrule.core.calls import fingerprints, raw, wrap
from chainrule.core.graph import FINGERPRINT, Node, reach, reach_newer
from chainrule.core.template import bind
from chainrule.errors import DTypeError, FreedGraphError, RuleError, StaleGraphError, explain
from chainrule.ops.arguments import ALL_AXES
from chainrule.ops.creation import full_like
from chainrule.ops.elementwise import isnan, logical_and, where
from chainrule.ops.reductions import reduce_sum
from chainrule.ops.views import cast, reshape_to

Found = list[tuple[Node, Any]]


def reverse(
    roots: Sequence[tuple[Node, Any]], graph: bool, wanted: set[int] | None = None, free: bool = False
) -> Found:
    """(node, cotangent) of the leaves, or of the `wanted` numbers, for a cotangent at each of `roots`.

    `graph`: cotangents are tensors and the walk is recorded.  `free`: nodes are emptied as they are passed.

    **Raises** FreedGraphError, StaleGraphError, before anything was changed.
    """
    nodes = reach([node for node, _ in roots])
    live = None if wanted is None else _leading_to(wanted, nodes)
    if live is not None:
        nodes = [node for node in nodes if node[0] in live]
    if modes.unusual:
        verify_fingerprints(nodes)
    cts: dict[int, Any] = {}
    for node, ct in roots:
        key = node[0]
        cts[key] = cts[key] + ct if key in cts else ct
    unseen = live is None and not graph  # nobody but pulls sees a cotangent on its way
    return _sweep(nodes, cts, None if unseen else graph, live, wanted or set(), free)


def reverse_newer(
    roots: Sequence[tuple[Node, Any]],
    graph: bool,
    since: int,
    wanted: set[int] | None = None,
    careful: bool = False,
    start: dict[int, Any] | None = None,
) -> dict[int, Any]:
    """The walk over nodes newer than number `since` only: the cotangents, by number, that arrive at older nodes.

    `wanted`: those of these alone.  `careful`: look at every entry from the start, as behind a hidden NaN.  `start`:
    what has arrived at older nodes before.
    """
    nodes = reach_newer([node for node, _ in roots], since)
    live = None if wanted is None else _leading_to(wanted, nodes)
    if live is not None:
        nodes = [node for node in nodes if node[0] in live]
    cts = dict(start or {})
    for node, ct in roots:
        send(cts, node[0], ct)
    _sweep(nodes, cts, bool(graph), live, set(), False, careful)
    return cts if wanted is None else {number: cts[number] for number in wanted if number in cts}


def _sweep(
    nodes: list[Node],
    cts: dict[int, Any],
    graph: bool | None,
    live: set[int] | None,
    wanted: set[int],
    free: bool,
    careful: bool = False,
) -> Found:
    found: Found = []
    trace = modes.tracing.get() if modes.unusual else None
    careful = careful or (trace is not None and trace.careful)
    plain = live is None and not careful
    hold_peak()
    take = cts.pop
    with np.errstate(all="ignore", invalid="raise"):
        while nodes:
            node = nodes.pop()
            ct = take(node[0], None)
            primitive = node[1]
            if primitive is None:
                if ct is not None:
                    found.append((node, ct))
                continue
            if ct is not None:
                if plain and not primitive.hides:
                    primitive.pull(node, node[2], ct, graph, cts)
                else:
                    if node[0] in wanted:
                        found.append((node, ct))
                    # A NaN from before the walk raises no flag: from here on, look at every entry.
                    careful = careful or (primitive.hides and node[3][-1])
                    plain = plain and not careful
                    _step(node, ct, graph, cts, live, careful)
            if free:
                node[2] = node[3] = None
    if trace is not None:
        trace.walked(raw(ct) for _, ct in found)
        trace.walked(raw(ct) for ct in cts.values())
    return found


def _step(node: Node, ct: Any, graph: bool | None, cts: dict[int, Any], live: set[int] | None, careful: bool) -> None:
    """One node, when only part of the graph is wanted or NaN are about."""
    parents = node[2]
    if live is not None:
        parents = [p if p is not None and p[0] in live else None for p in parents]
    if not (careful and node[1].guardable):
        node[1].pull(node, parents, ct, graph, cts)
        return
    for parent, g in zip(parents, guarded(node, parents, ct, graph), strict=True):
        if parent is not None and g is not None:
            send_fitted(cts, parent, g)


def _leading_to(wanted: set[int], nodes: list[Node]) -> set[int]:
    """The numbers of the nodes on a way from a wanted node to the root."""
    live = set(wanted)
    for node in nodes:
        if any(parent is not None and parent[0] in live for parent in node[2]):
            live.add(node[0])
    return live


def guarded(node: Node, parents: Sequence[Node | None], ct: Any, graph: bool | None) -> list[Any]:
    """What the pullback gives, rule by rule, with entries zero whose cotangent is zero where a rule gives NaN.

    Finite results are left alone: masking them would lose derivatives with respect to the cotangent (k * log(x) at
    k = 0).
    """
    primitive = node[1]
    with np.errstate(invalid="ignore"):
        out = pulled(node, parents, ct, graph)
        if not primitive.keeps:  # without residuals nothing but ct can bring a NaN in
            return out
        parameters = dict(zip(primitive.parameters, node[4], strict=True))
        cts = [each for each in ct if each is not None] if primitive.multiple else [ct]
        silent = reduce(logical_and, [primitive.family.silent(raw(each), parameters) for each in cts])
        return [None if g is None else _mask(g, silent) for g in out]


def pulled(node: Node, parents: Sequence[Node | None], ct: Any, graph: bool | None) -> list[Any]:
    """What the pullback gives, rule by rule."""
    primitive = node[1]
    named = residuals(node, graph)
    out: list[Any] = []
    for k, parent in enumerate(parents):
        position = 0 if primitive.variadic else k
        rule, read = primitive.rules[position], primitive.reads[position]
        if parent is None or rule is None:
            out.append(None)
        else:
            out.append(
                rule(ct, **{name: k if name == "index" and primitive.variadic else named[name] for name in read})
            )
    return out


def residuals(node: Node, graph: bool | None) -> dict[str, Any]:
    """What rules read, by name; arrays as tensors tied to their nodes when the derivative is itself recorded."""
    primitive = node[1]
    named: dict[str, Any] = primitive.residuals(node)
    if graph:
        ties = {"out": node, **dict(zip(primitive.inputs, node[2], strict=False))}
        for name in primitive.keeps:
            if name in ties and named[name] is not None:
                named[name] = wrap(named[name], ties[name])
    return named


def _mask(g: Any, silent: Any) -> Any:
    """`g` with zeros where it is NaN although nothing but zero went in."""
    bad = logical_and(isnan(raw(g)), silent)
    if is_numpy(bad) and not bad.any():
        return g
    return where(bad, 0.0, g)


def fit(g: Any, node: Node) -> Any:
    """Undo broadcasting and promotion, once for every rule: a cotangent of the shape and dtype of its primal.

    **Raises** RuleError where the shape cannot have come from broadcasting, DTypeError for a complex cotangent.
    """
    shape, dtype = node[5], node[6]
    if g.shape != shape:
        given = g.shape
        extra = len(given) - len(shape)
        if extra > 0 and given[extra:] == shape:
            g = reduce_sum(g, ALL_AXES[extra], False)
        else:
            axes = (*range(extra), *[extra + k for k, n in enumerate(shape) if n == 1 != given[extra + k]])
            total = reduce_sum(g, axes, False) if axes else g
            g = total if total.shape == shape else _reshaped(total, shape, g)
    if g.dtype != dtype:
        if getattr(g.dtype, "kind", "f") == "c":
            fault = "a complex cotangent meets a real value"
            raise DTypeError(explain("backward", fault, ct=g, remedy="a real loss, such as re**2 + im**2"))
        g = cast(g, dtype)
    return g


def _reshaped(total: Any, shape: Any, g: Any) -> Any:
    """The axes of length 1 put back that the sum took away."""
    if prod(total.shape) != prod(shape):
        raise RuleError(
            explain("pullback", "a rule's result does not fit its input", given=g, expected=f"shape {shape}")
        )
    return reshape_to(total, shape)


def send(cts: dict[int, Any], key: int, g: Any) -> None:
    """Accumulate where inf - inf may give NaN without complaint."""
    with np.errstate(invalid="ignore"):
        cts[key] = cts[key] + g if key in cts else g


def send_fitted(cts: dict[int, Any], parent: Node, g: Any) -> None:
    """Fit and accumulate one cotangent."""
    with np.errstate(invalid="ignore"):
        if g.shape != parent[5] or g.dtype is not parent[6]:
            g = fit(g, parent)
    send(cts, parent[0], g)


def verify_fingerprints(nodes: list[Node]) -> None:
    """Debug mode: refuse a graph in which a recorded array has changed."""
    for node in nodes:
        if len(node) > FINGERPRINT and fingerprints(node[3]) != node[FINGERPRINT]:
            changed = [
                k for k, (a, b) in enumerate(zip(fingerprints(node[3]), node[FINGERPRINT], strict=True)) if a != b
            ]
            name, array = node[1].keeps[changed[0]], node[3][changed[0]]
            fault = "a recorded array was changed after the operation"
            raise StaleGraphError(
                explain(node[1].name, fault, remedy="a copy before writing into `.data`", **{name: array})
            )


def slope_of(y: Any, x: Any) -> Any:
    """The derivative of the tensor y by the tensor x of the same shape, entry by entry and raw; None where y does not
    depend on x.  For y whose entries hang on their own entry of x only.
    """
    if y.node is None or x.node is None:
        return None
    try:
        found = reverse([(y.node, full_like(y.data, 1.0))], graph=False, wanted={x.node[0]})
    except FreedGraphError:
        return None
    return found[0][1] if found else None


bind(pulled=pulled, slope_of=slope_of, fit=fit, send=send, guarded=guarded, send_fitted=send_fitted)
