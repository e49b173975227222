"""Loops and branches with JAX's signatures: plain Python in eager mode, parts of the program in a compiled function.

A body is any function, differentiable, one that writes to what it closes over included: a training step is a body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from chainrule import modes, tree
from chainrule.backends.abstract import Abstract, Equation
from chainrule.core.calls import is_tensor, is_weak, raw, wrap
from chainrule.core.equations import Trace
from chainrule.errors import ArgumentError, DTypeError, ShapeError, TraceError, explain
from chainrule.ops import joining
from chainrule.ops.arguments import lifted, shape_of
from chainrule.ops.elementwise import not_equal, where

Tree = Any


def scan(f: Callable[[Any, Any], Any], init: Tree, xs: Tree = None, length: int | None = None) -> tuple[Tree, Tree]:
    """`carry, y = f(carry, x)` for each row x of `xs` in turn, from `carry = init`; returns the last carry and all y.

    **Shapes** `xs`: a tree of arrays or tensors `f[n, ...]`, or None for `length` turns; the y of n turns are stacked to
    `f[n, ...]`, of no turns None.  A carry keeps its tree, shapes and dtypes.  **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> cr.scan(lambda total, x: (total + x, total), 0.0, np.array([1.0, 2.0, 4.0]))
    (np.float64(7.0), array([0., 1., 3.]))
    >>> cr.grad(lambda x: cr.scan(lambda y, _: (y * x, None), cr.tensor(1.0), length=3)[0])(2.0)
    12.0
    """
    leaves, structure = tree.flatten(xs)
    turns = _turns(leaves, length)
    carry: Any = init
    results: list[Any] = []
    trace: Trace | None = modes.tracing.get() if modes.unusual else None
    before = _newest()
    for k in range(turns):
        if k == 1 and trace is not None:
            looped = trace.loop(f, carry, leaves, structure, turns - 1, _newest() - before)
            if looped is not None:
                return looped[0], _joined(results[0], looped[1])
        after, result = _pair(f(carry, tree.unflatten(structure, [leaf[k] for leaf in leaves])))
        _same_kind("scan", carry, after)
        carry = after
        results.append(result)
    return carry, _stacked(results)


def fori_loop(lower: int, upper: int, body: Callable[[Any, Any], Any], init: Tree) -> Tree:
    """`value = body(i, value)` for i from `lower` up to but without `upper`, from `value = init`.

    The value keeps its tree, shapes and dtypes.  **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> cr.fori_loop(0, 4, lambda i, x: x * 2.0 + i, 1.0)
    27.0
    """
    value, turns = init, range(_whole("fori_loop", "lower", lower), _whole("fori_loop", "upper", upper))
    trace: Trace | None = modes.tracing.get() if modes.unusual else None
    before = _newest()
    for k in turns:
        if k == turns.start + 1 and trace is not None:

            def f(value: Any, k: Any) -> tuple[Any, None]:
                return body(Abstract((), k.dtype, k.equation, weak=True), value), None

            looped = trace.loop(f, value, [np.array(turns)], [None], len(turns) - 1, _newest() - before)
            if looped is not None:
                return looped[0]
        made = body(k, value)
        _same_kind("fori_loop", value, made)
        value = made
    return value


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Tree:
    """`true_fn(*operands)` where `pred` holds, otherwise `false_fn(*operands)`.

    Eager, one of them runs.  In a compiled function, where `pred` may depend on data, both are computed and one is
    selected, what they write to arrays included; so both give the same tree, shapes and dtypes.  A branch that is not
    taken adds nothing to a gradient.  **Raises** ShapeError, DTypeError, ArgumentError; TraceError for a branch that
    rebinds what it closes over or draws random numbers.

    >>> import chainrule as cr
    >>> cr.grad(lambda x: cr.cond(x > 0.0, cr.sqrt, lambda x: x * 3.0, x))(-4.0)
    3.0
    """
    asked = raw(pred)
    if getattr(asked, "shape", ()) != ():
        raise ShapeError(explain("cond", "the predicate is no single truth value", pred=pred))
    trace: Trace | None = modes.tracing.get() if isinstance(asked, Abstract) else None
    if trace is None or not isinstance(asked, Abstract):
        return true_fn(*operands) if asked else false_fn(*operands)
    asked = Abstract((), asked.dtype, asked.equation)
    asked = asked if asked.dtype.kind == "b" else not_equal(asked, 0)
    draws, places = len(trace.draws), [value for value, _ in trace.slots()]
    (yes, after_yes), (no, after_no) = [_branch(trace, f, operands) for f in (true_fn, false_fn)]
    if len(trace.draws) != draws:
        raise TraceError(explain("cond", "a branch draws random numbers", remedy="the draw before the branches"))
    now = [value for value, _ in trace.slots()]
    if len(now) != len(places) or any(a is not b for a, b in zip(places, now, strict=True)):
        fault = "a branch rebinds what it closes over, and nobody knows which branch is taken"
        raise TraceError(explain("cond", fault, remedy="the new value as a result, or a write in place"))
    for key, (box, _) in {**after_yes, **after_no}.items():
        both = [after.get(key, (box, box.equation))[1] for after in (after_yes, after_no)]
        ends = [Abstract(box.shape, box.dtype, equation) for equation in both]
        trace.writes(box)
        box.equation = where(asked, *ends).equation
    leaves, structure = tree.flatten(yes)
    others = _leaves_of("cond", structure, no)
    return tree.unflatten(structure, [_selected(asked, a, b) for a, b in zip(leaves, others, strict=True)])


def _branch(
    trace: Trace, f: Callable[..., Any], operands: Sequence[Any]
) -> tuple[Tree, dict[int, tuple[Abstract, Equation]]]:
    """What a branch gives, and what it leaves in boxes that outlive it, which are then set back."""
    outer, trace.written = trace.written, {}
    try:
        result = f(*operands)
    finally:
        written, trace.written = trace.written, outer
        ends: dict[int, tuple[Abstract, Equation]] = {}
        for reference, before in written.values():
            box = reference()
            if box is not None:
                ends[id(box)], box.equation = (box, box.equation), before
    return result, ends


def _selected(pred: Any, a: Any, b: Any) -> Any:
    """A leaf of either branch."""
    if a is b:
        return a
    _alike("cond", a, b)
    if is_tensor(a) != is_tensor(b):
        a, b = (x if is_tensor(x) else wrap(lifted("cond", "result", x), None) for x in (a, b))
    chosen = where(pred, a, b)
    if is_weak(a) and is_weak(b):
        chosen.weak = True  # a Python number is chosen
    return chosen


def _turns(leaves: Sequence[Any], length: int | None) -> int:
    lengths = {leaf.shape[0] if getattr(leaf, "shape", ()) else None for leaf in leaves}
    if None in lengths:
        odd = next(leaf for leaf in leaves if not getattr(leaf, "shape", ()))
        raise ShapeError(explain("scan", "what is scanned over has rows", xs=odd))
    if length is not None:
        lengths.add(_whole("scan", "length", length))
    if len(lengths) != 1:
        shown: dict[str, Any] = {f"xs[{k}]": leaf for k, leaf in enumerate(leaves)}
        shown.update({} if length is None else {"length": length})
        fault = "xs of different lengths" if lengths else "neither xs nor a length"
        raise ShapeError(explain("scan", fault, **shown))
    return int(lengths.pop() or 0)


def _pair(made: Any) -> tuple[Any, Any]:
    if isinstance(made, tuple) and len(made) == 2:  # pyright: ignore[reportUnknownArgumentType]
        return made  # pyright: ignore[reportUnknownVariableType]
    raise ArgumentError(explain("scan", "the function gives a carry and a result, as a pair", given=made))


def _whole(operation: str, name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        shown: dict[str, Any] = {name: value}
        raise ArgumentError(explain(operation, f"{name} is no integer", **shown)) from None


def _same_kind(operation: str, before: Tree, after: Tree) -> None:
    """Refuse a carry that changes its tree, a shape or a dtype: a compiled loop has one of each."""
    leaves, structure = tree.flatten(before)
    for a, b in zip(leaves, _leaves_of(operation, structure, after), strict=True):
        _alike(operation, a, b)


def _leaves_of(operation: str, structure: tree.Structure, value: Tree) -> list[Any]:
    """The leaves of a tree that must have this structure."""
    leaves = tree.flatten_as(structure, value, operation)
    odd = [leaf for leaf in leaves if tree.flatten(leaf)[1] != [None]]
    if odd:
        raise ArgumentError(explain(operation, "a value comes with another structure", leaf=odd[0]))
    return leaves


def _alike(operation: str, a: Any, b: Any) -> None:
    if shape_of(a) != shape_of(b):
        raise ShapeError(explain(operation, "a value comes with another shape", before=a, after=b))
    if not (is_weak(a) or is_weak(b)) and getattr(a, "dtype", None) != getattr(b, "dtype", None):
        raise DTypeError(explain(operation, "a value comes with another dtype", before=a, after=b))


def _stacked(results: Sequence[Tree]) -> Tree:
    """Trees of the same form as one, with a new first axis."""
    if not results:
        return None
    leaves, structure = tree.flatten(results[0])
    columns = [_leaves_of("scan", structure, result) for result in results]
    return tree.unflatten(structure, [_column([row[k] for row in columns]) for k in range(len(leaves))])


def _newest() -> int:
    """The number of the newest equation."""
    return Equation(None, (), (), (), np.dtype(bool)).number if modes.unusual else 0


def _joined(first: Tree, others: Tree) -> Tree:
    """The result of the first turn before the stacked ones of the others."""
    leaves, structure = tree.flatten(first)
    rest = tree.flatten_as(structure, others, "scan")
    return tree.unflatten(structure, [joining.concat([_column([a]), b]) for a, b in zip(leaves, rest, strict=True)])


def _column(values: list[Any]) -> Any:
    if any(is_tensor(v) or isinstance(v, Abstract) for v in values):
        return joining.stack(values)
    return np.stack([np.asarray(v) for v in values])
