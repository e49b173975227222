"""Views of what was joined, padded or counted: of the one part that they meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chainrule.compiler.expressions import AxisMap, Expression
from chainrule.types import Shape

if TYPE_CHECKING:
    from chainrule.compiler.lowering.peephole import Simplifying


def simpler(graph: Simplifying, x: Expression, shape: Shape, maps: Sequence[AxisMap]) -> Expression | None:
    """A view without the operation that it looks at, or None."""
    if x.op == "iota":
        return _of_counter(graph, x, shape, maps)
    if x.op == "pad":
        return _inside(graph, x, x.arguments[0], [before for before, _ in x.attribute[0]], shape, maps)
    if x.op == "concat":
        return _of_part(graph, x, shape, maps) or _rearranged(graph, x, shape, maps)
    return _worked_out(graph, x, shape, maps) if x.number in graph.joined else None


def _of_counter(graph: Simplifying, x: Expression, shape: Shape, maps: Sequence[AxisMap]) -> Expression | None:
    """An index repeated along other axes, or moved to another one, is an index."""
    counted: int = x.attribute
    offset, given = maps[counted]
    terms = [(axis, stride) for axis, stride in given if shape[axis] != 1]
    if not terms:
        return graph.literal(offset, x.dtype, shape)
    return graph.iota(shape, terms[0][0], x.dtype) if offset == 0 and len(terms) == 1 and terms[0][1] == 1 else None


def _reach(axis_map: AxisMap, shape: Shape) -> tuple[int, int]:
    """The lowest and the highest index that a map takes."""
    offset, terms = axis_map
    ends = [stride * (shape[axis] - 1) for axis, stride in terms]
    return offset + sum(min(end, 0) for end in ends), offset + sum(max(end, 0) for end in ends)


def _inside(graph: Simplifying, x: Expression, inner: Expression, starts: Sequence[int], shape: Shape, maps: Sequence[AxisMap]) -> Expression | None:  # fmt: skip
    """A view that meets `inner` only, which begins at `starts` in x."""
    for start, n, axis_map in zip(starts, inner.shape, maps, strict=True):
        low, high = _reach(axis_map, shape)
        if low < start or high >= start + n:
            return None
    return graph.view(inner, shape, [(o - s, terms) for s, (o, terms) in zip(starts, maps, strict=True)])


def _of_part(graph: Simplifying, x: Expression, shape: Shape, maps: Sequence[AxisMap]) -> Expression | None:
    """A view of a concat that meets one part."""
    axis: int = x.attribute
    start = 0
    low, high = _reach(maps[axis], shape)
    for part in x.arguments:
        end = start + part.shape[axis]
        if start <= low:
            if high < end:
                starts = [start if k == axis else 0 for k in range(x.ndim)]
                return _inside(graph, x, part, starts, shape, maps)
            if low < end:
                return None
        start = end
    return None


def _rearranged(graph: Simplifying, x: Expression, shape: Shape, maps: Sequence[AxisMap]) -> Expression | None:
    """A concat of which only the axes are exchanged joins what is exchanged already: nothing is moved twice."""
    met: list[int] = []
    across: int = x.attribute
    for (offset, given), n in zip(maps, x.shape, strict=True):
        terms = [(axis, stride) for axis, stride in given if shape[axis] != 1]
        if n == 1 and not terms:
            continue
        if offset or len(terms) != 1 or terms[0][1] != 1 or shape[terms[0][0]] != n:
            return None
        met.append(terms[0][0])
    joined = [axis for axis, _ in maps[across][1] if shape[axis] != 1]
    if len(set(met)) < len(met) or len(met) != sum(n != 1 for n in shape) or not joined:
        return None
    parts = [
        graph.view(part, tuple(part.shape[across] if k == joined[0] else n for k, n in enumerate(shape)), maps)
        for part in x.arguments
    ]
    return graph.concat(parts, joined[0])


def _worked_out(graph: Simplifying, x: Expression, shape: Shape, maps: Sequence[AxisMap]) -> Expression | None:
    """A part of what is worked out from concats, worked out from their parts."""
    steps: list[Expression] = []
    seen: set[int] = set()
    todo = [x]
    while todo:
        node = todo.pop()
        if node.number not in seen:
            seen.add(node.number)
            if node.number in graph.joined:
                steps.append(node)
                todo += node.arguments
    known: dict[int, Expression] = {}
    inner = [a for node in steps for a in node.arguments if a.number not in graph.joined]
    for a in inner:
        part = _of_part(graph, a, shape, maps) if a.op == "concat" else graph.view(a, shape, maps)
        if part is None:
            return None
        known[a.number] = part
    for node in sorted(steps, key=lambda step: step.number):
        of = [known[a.number] for a in node.arguments]
        known[node.number] = graph.cast(of[0], node.dtype) if node.op == "cast" else graph.apply(node.op, *of)
    return known[x.number]
