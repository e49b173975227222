"""Expressions in simpler ones, before kernels are made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chainrule.compiler.expressions import Expression, Graph, reach


def rewritten(outputs: Sequence[Expression]) -> list[Expression]:
    """The same without `argmax` and `argmin`: they are the smallest index at which the extreme stands."""
    nodes = reach(outputs)
    if not any(e.op in ("argmax", "argmin") for e in nodes):
        return list(outputs)
    graph, new = Graph(), dict[int, Expression]()
    for e in nodes:
        of = tuple(new[a.number] for a in e.arguments)
        if e.op in ("argmax", "argmin"):
            new[e.number] = _position(graph, e, of[0])
        else:
            new[e.number] = Expression(len(graph.nodes), e.op, of, e.shape, e.dtype, e.attribute)
            graph.nodes.append(new[e.number])
    return [new[e.number] for e in outputs]


def _position(graph: Graph, e: Expression, x: Expression) -> Expression:
    axis: int = e.attribute
    n = x.shape[axis]
    if n == 1:
        return graph.literal(0, np.int64, e.shape)
    extreme = graph.reduce("max" if e.op == "argmax" else "min", x, [axis])
    maps = [(0, ((k if k < axis else k + 1, 1),)) for k in range(extreme.ndim)]
    here = graph.apply("equal", x, graph.view(extreme, x.shape, maps))
    if x.dtype.kind == "f":
        here = graph.apply("or", here, graph.apply("isnan", x))
    kind = np.int32 if n < 1 << 31 else np.int64
    index = graph.apply("select", here, graph.iota(x.shape, axis, kind), graph.literal(n, kind, x.shape))
    return graph.cast(graph.reduce("min", index, [axis]), np.int64)
