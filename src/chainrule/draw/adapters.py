"""From what the engines record to boxes and arrows.

Both engines are read by their attributes alone: a scalar `Value` has `parents`, a `Tensor` has a `node`.  A value
becomes two boxes, its operation and itself; a tensor's node becomes one, its operation and the type of its result.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chainrule.core.graph import DTYPE, PARENTS, PRIMITIVE, RESIDUALS, SHAPE
from chainrule.draw.graph import Box, Graph
from chainrule.errors import ArgumentError, FreedGraphError, dtype_name, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Excess = Literal["elide", "error"]
_CONSTANT_POWER = "**c"  # the scalar engine's power whose second operand is a constant: written into the box


def graph_of(
    result: Any, *, names: Mapping[str, Any] | None = None, max_nodes: int = 200, excess: Excess = "elide"
) -> Graph:
    """The graph of everything that `result`, a scalar `Value` or a `Tensor`, was computed from.

    Of what `jit(f).lower(...)` gives, the kernels that the compiled program calls, and which reads what another wrote.

    `names` gives values or tensors a name in the picture. Of more than `max_nodes` values the ones next to the result
    are kept and the others become one box, "… 9,900 more"; with `excess="error"` they are refused instead.

    **Raises** ArgumentError for another kind of `result`, an argument outside its range, too many values;
    FreedGraphError for a tensor whose graph a backward pass has freed.
    """
    if isinstance(result, Graph):
        return result
    if max_nodes < 1 or excess not in ("elide", "error"):
        fault = f"max_nodes={max_nodes}, excess={excess!r}"
        raise ArgumentError(explain("draw", fault, expected="max_nodes of at least 1, excess 'elide' or 'error'"))
    if hasattr(result, "node"):
        return _from_tensor(result, names or {}, max_nodes, excess)
    if hasattr(result, "parents") and hasattr(result, "data"):
        return _from_value(result, names or {}, max_nodes, excess)
    if hasattr(result, "drawing"):
        boxes, arrows = result.drawing()
        return _from_boxes(boxes, arrows, max_nodes, excess)
    expected = "a scalar Value, a Tensor, a lowered program or a Graph"
    raise ArgumentError(explain("draw", "nothing was recorded for this", result=result, expected=expected))


def short(number: Any) -> str:
    """A number in four significant digits, whole ones in up to six.

    >>> short(0.123456), short(-2.0), short(10_000.0), short(10**400)
    ('0.1235', '-2', '10000', '10000000000…')
    """
    try:
        if type(number) in (bool, np.bool_):
            return str(number)
        return f"{number:.6g}" if number == round(number.real) and abs(number) < 1e6 else f"{number:.4g}"
    except (AttributeError, OverflowError, TypeError, ValueError):  # nan, inf, no number
        text = str(number)
        return text if len(text) <= 12 else text[:11] + "…"


# ---------------------------------------------------------------- scalar values


def _from_value(result: Any, names: Mapping[str, Any], max_nodes: int, excess: Excess) -> Graph:
    known = {id(value): name for name, value in names.items()}

    def boxes_of(value: Any) -> list[Box]:
        name = known.get(id(value)) or getattr(value, "name", "")
        lines = (*[name] * bool(name), f"data {short(value.data)}", f"grad {short(value.grad)}")
        if not value.parents:
            return [Box(lines, "leaf", headed=bool(name))]
        operation = f"** {short(value.parents[1].data)}" if value.op == _CONSTANT_POWER else value.op
        kind = "output" if value is result else "value"
        return [Box((operation,), "operation", headed=True), Box(lines, kind, headed=bool(name))]

    def parents_of(value: Any) -> Iterable[Any]:
        return value.parents[:1] if value.op == _CONSTANT_POWER else value.parents

    return _assemble(_select(result, parents_of, max_nodes, excess), parents_of, boxes_of)


# ---------------------------------------------------------------- tensors


def _from_tensor(result: Any, names: Mapping[str, Any], max_nodes: int, excess: Excess) -> Graph:
    if result.node is None:  # a constant: nothing to follow
        known = [name for name, tensor in names.items() if tensor is result]
        lines = (*known, *_type_and_value(result.data.shape, result.data.dtype, result))
        return Graph((Box(lines, "leaf", headed=bool(known)),))
    root: list[Any] = result.node
    known = {id(tensor.node): (name, tensor) for name, tensor in names.items() if tensor.node is not None}

    def boxes_of(node: list[Any]) -> list[Box]:
        name, tensor = known.get(id(node), ("", result if node is root else _leaf_tensor(node)))
        lines = (*[name] * (name != ""), *_type_and_value(node[SHAPE], node[DTYPE], tensor))
        if node[PRIMITIVE] is None:
            return [Box(lines, "leaf", headed=name != "")]
        constants = sum(parent is None for parent in node[PARENTS])
        plural = ("", " with a constant", f" with {constants} constants")[min(constants, 2)]
        heading = f"{node[PRIMITIVE].name}{plural}"
        return [Box((heading, *lines), "output" if node is root else "operation", headed=True)]

    def parents_of(node: list[Any]) -> Iterable[Any]:
        if node[PARENTS] is None:  # what a backward walk leaves behind
            remedy = "draw before backward(), or backward(retain_graph=True)"
            raise FreedGraphError(explain("draw", "the graph was freed by an earlier backward", remedy=remedy))
        return [parent for parent in node[PARENTS] if parent is not None]

    return _assemble(_select(root, parents_of, max_nodes, excess), parents_of, boxes_of)


def _leaf_tensor(node: list[Any]) -> Any:
    """The tensor of a leaf's node, unless it is gone."""
    return node[RESIDUALS].tensor() if node[PRIMITIVE] is None else None


def _type_and_value(shape: tuple[int, ...], dtype: Any, tensor: Any) -> list[str]:
    """The type of an array, and what is known about its numbers: all of them where it has one element."""
    if dtype is None:  # an operation with several outputs, each of which has a box of its own
        return []
    lines = [f"{dtype_name(dtype)}[{', '.join(map(str, shape))}]"]
    single = all(extent == 1 for extent in shape)
    if tensor is not None and single:
        lines.append(f"data {short(_array(tensor.data).item())}")
    grad = getattr(tensor, "grad", None)
    if grad is not None:
        if hasattr(grad, "node"):  # a tensor, after create_graph=True
            grad = grad.data
        numbers = _array(grad)
        with np.errstate(all="ignore"):
            lines.append(f"grad {short(numbers.item())}" if single else f"|grad| {short(np.linalg.norm(numbers))}")
    return lines


def _array(data: Any) -> np.ndarray[Any, Any]:
    return np.asarray(data).reshape(-1)


# ---------------------------------------------------------------- compiled programs


def _from_boxes(boxes: Any, arrows: Any, max_nodes: int, excess: Excess) -> Graph:
    """What a program tells of itself: (lines, kind) for each box, and arrows between them; of too many the last."""
    if len(boxes) > max_nodes and excess == "error":
        fault = f"the program has {len(boxes):,} boxes, more than max_nodes={max_nodes:,}"
        raise ArgumentError(explain("draw", fault, remedy="a larger max_nodes, or excess='elide'"))
    hidden = max(0, len(boxes) - max_nodes)
    kept = [Box((f"… {hidden:,} more",), "rest")] * (hidden > 0)
    kept += [Box(tuple(lines), kind, headed=True) for lines, kind in boxes[hidden:]]
    shift = hidden - (hidden > 0)
    moved = dict.fromkeys((max(tail - shift, 0), head - shift) for tail, head in arrows if head >= hidden)
    return Graph(tuple(kept), tuple(moved))


# ---------------------------------------------------------------- both


@dataclass
class _Selection:
    """What will be drawn, in an order in which everything follows what it depends on, and how many others there are."""

    kept: list[Any]
    hidden: list[Any]


def _select(root: Any, parents_of: Callable[[Any], Iterable[Any]], max_nodes: int, excess: Excess) -> _Selection:
    """The `max_nodes` items next to the root.

    An operation is kept only if everything that uses it is, so the hidden ones can be one box without making a cycle;
    the leaves of a kept operation are kept with it.
    """
    order = _from_the_end(root, parents_of)
    if len(order) > max_nodes and excess == "error":
        fault = f"the graph has {len(order):,} values, more than max_nodes={max_nodes:,}"
        raise ArgumentError(explain("draw", fault, remedy="a larger max_nodes, or excess='elide'"))
    kept: dict[int, Any] = {}
    leaf = {id(item): not any(True for _ in parents_of(item)) for item in order}
    for item in order:
        if len(kept) >= max_nodes:
            break
        if leaf[id(item)] and item is not root:
            continue
        kept[id(item)] = item
        for parent in parents_of(item):
            if leaf[id(parent)] and len(kept) < max_nodes:
                kept[id(parent)] = parent
    order.reverse()
    return _Selection([i for i in order if id(i) in kept], [i for i in order if id(i) not in kept])


def _from_the_end(root: Any, parents_of: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """Everything the root depends on, each item after all that use it, those near the root first."""
    uses: dict[int, int] = {id(root): 0}
    todo = [root]
    while todo:
        for parent in parents_of(todo.pop()):
            if id(parent) not in uses:
                uses[id(parent)] = 0
                todo.append(parent)
            uses[id(parent)] += 1
    order: list[Any] = []
    ready = deque([root])
    while ready:
        item = ready.popleft()
        order.append(item)
        for parent in reversed(list(parents_of(item))):  # so that first operands come first in the end
            uses[id(parent)] -= 1
            if not uses[id(parent)]:
                ready.append(parent)
    return order


def _assemble(
    selection: _Selection, parents_of: Callable[[Any], Iterable[Any]], boxes_of: Callable[[Any], list[Box]]
) -> Graph:
    """Boxes in the order of the computation, joined by arrows; whatever is hidden is the first box."""
    boxes: list[Box] = []
    arrows: list[tuple[int, int]] = []
    place: dict[int, int] = {}
    if selection.hidden:
        boxes.append(Box((f"… {len(selection.hidden):,} more",), "rest"))
    for item in selection.kept:
        entry = len(boxes)
        boxes += boxes_of(item)
        place[id(item)] = len(boxes) - 1
        parents = list(parents_of(item))
        shown = [place[id(parent)] for parent in parents if id(parent) in place]
        arrows += ((tail, entry) for tail in [0] * (len(shown) < len(parents)) + shown)
        arrows += ((box, box + 1) for box in range(entry, len(boxes) - 1))
    into_rest = {place[id(parent)] for item in selection.hidden for parent in parents_of(item) if id(parent) in place}
    arrows += ((tail, 0) for tail in sorted(into_rest))
    return Graph(tuple(boxes), tuple(arrows))
