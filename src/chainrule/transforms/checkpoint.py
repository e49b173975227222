"""Checkpoints: a function evaluated without keeping residuals, and run again when a derivative asks for them.

The call leaves one node, whose parents are whatever older nodes the function leaned on: its arguments' and those of
tensors that it closes over.  Either walk runs the function anew and passes through the nodes it leaves this time,
down to the older ones, where the outer walk goes on.  What the function drew at random it draws again, from copies of
the generators (`core.generators`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import wraps
from typing import Any, NamedTuple

from chainrule import modes, tree
from chainrule.core.calls import fingerprints, hides_nan, is_tensor, pick_node, raw, wrap
from chainrule.core.generators import Draws, current, is_generator, noted
from chainrule.core.graph import Node, next_number, own_copy, reach_newer
from chainrule.errors import StaleGraphError, explain
from chainrule.ops.creation import full_like
from chainrule.transforms.arguments import alike, is_array, is_paused
from chainrule.transforms.standing import again, opened
from chainrule.walks.forward import Forward
from chainrule.walks.reverse import reverse_newer


class Call(NamedTuple):
    """What a checkpoint keeps: the function and its arguments, the context of its first run, and what that drew from.

    The context holds NumPy's error state, grad mode and whatever else is set per context.
    """

    f: Callable[..., Any]
    leaves: list[Any]
    structure: tree.Structure
    context: Context
    draws: Draws

    def run(self) -> tuple[int, list[Any], tree.Structure]:
        """The function's results, and the number that everything recorded on the way is newer than."""
        since = next_number()
        args, keywords = tree.unflatten(self.structure, [_handed(leaf) for leaf in self.leaves])
        return since, *tree.flatten(self.f(*args, **keywords))

    def run_again(self) -> tuple[int, list[Any], tree.Structure]:
        """`run` where the first run began: in its context, with its parameters, and with the draws that it made."""
        here = opened()

        def run() -> tuple[int, list[Any], tree.Structure]:
            self.draws.again()
            with again(here):
                return self.run()

        return self.context.copy().run(run)


class Rerun:
    """The primitive of a node whose results are recorded anew when a walk arrives, which then passes through them."""

    name = ""
    is_view = hides = guardable = flat = False

    def __repr__(self) -> str:
        return self.name

    def names(self, count: int) -> list[str]:
        return [f"input_{k}" for k in range(count)]

    def again(self, node: Node) -> tuple[int, list[Any]]:
        """The results, and the number that everything recorded on the way to them is newer than."""
        raise NotImplementedError

    def is_careful(self, ys: list[Any]) -> bool:
        """Whether the walk within looks at every entry: a NaN that is hidden further out raises no flag in here."""
        return True

    def pull(self, node: Node, parents: Sequence[Any], ct: Any, graph: bool, cts: dict[int, Any]) -> None:
        since, ys = self.again(node)
        roots = [(y.node, c) for y, c in zip(ys, ct, strict=True) if c is not None and y.node is not None]
        older = [parent[0] for parent in parents if parent is not None]
        # Cotangents are added to those that are there, one by one, as without a checkpoint: sums are equal to the bit.
        start = {number: cts[number] for number in older if number in cts}
        found = reverse_newer(roots, graph, since, careful=self.is_careful(ys), start=start)
        cts.update((number, found[number]) for number in older if number in found)

    def push(self, node: Node, tangents: Sequence[Any], graph: bool) -> list[Any]:
        since, ys = self.again(node)
        seeds = {p[0]: t for p, t in zip(node[2], tangents, strict=True) if t is not None}
        found = Forward([y.node for y in ys], seeds, since)(seeds, graph)
        out = [None if y.node is None else found.get(y.node[0]) for y in ys]
        return [_zeros(y, graph) if t is None else t for y, t in zip(ys, out, strict=True)]


class _Checkpoint(Rerun):
    """A checkpoint's.  It counts every parent as kept, so that a write into one is noticed."""

    name = "checkpoint"

    def kept(self, node: Node, name: str) -> Any:
        return node[3]

    def again(self, node: Node) -> tuple[int, list[Any]]:
        return _again(node)

    def is_careful(self, ys: list[Any]) -> bool:
        return hides_nan(*[raw(y) for y in ys])


_CHECKPOINT = _Checkpoint()


def _zeros(y: Any, graph: bool) -> Any:
    return wrap(full_like(y.data, 0.0), None) if graph else full_like(y.data, 0.0)


def _again(node: Node) -> tuple[int, list[Any]]:
    """Run the function of a node again: the tensors that were recorded the first time.

    **Raises** StaleGraphError where it leans on other tensors now.
    """
    call, places, watched, prints = node[3]
    for parent, data in watched:
        leaf = parent[3].tensor()
        if leaf is not None and leaf.data is not data:
            fault = "a tensor that the function closes over has another array by now"
            raise StaleGraphError(explain("checkpoint", fault, closed_over=data, remedy="the tensor as an argument"))
    since, leaves, _ = call.run_again()
    known = {parent[0] for parent in node[2]}
    ys = [leaves[k] if k < len(leaves) and is_tensor(leaves[k]) else None for k in places]
    met = {n[0] for n in _leant_on([y.node for y in ys if y is not None], since)}
    if any(y is None for y in ys) or not met <= known:
        fault = "the function leans on other tensors when it runs again"
        raise StaleGraphError(explain("checkpoint", fault, remedy="a function that depends on its arguments alone"))
    if prints is not None and prints != fingerprints(tuple(raw(y) for y in ys)):
        fault = "the function computes something else when it runs again"
        remedy = "draws by cr.random, and whatever else may change as an argument"
        raise StaleGraphError(explain("checkpoint", fault, result=ys[0], remedy=remedy))
    return since, ys


def _leant_on(roots: Sequence[Node | None], since: int) -> list[Node]:
    """The older nodes that newer ones, or the roots themselves, lean on directly; oldest first."""
    edge = [root for root in roots if root is not None]
    edge += [parent for node in reach_newer(roots, since) for parent in node[2] if parent is not None]
    found = {node[0]: node for node in edge if node[0] < since}
    return [found[number] for number in sorted(found)]


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` without residuals: a derivative runs it again, so memory is paid for with time.

    **Shapes** as f's, trees of tensors included.  Derivatives of every order and mode are those of f, also with
    respect to tensors that f closes over.  f must compute the same again: from its arguments and what it closes over,
    unchanged.  Within `cr.debug()` a walk compares the results of both runs.

    **Random**: the second run draws what the first one drew, bit for bit, and moves no generator: whatever `cr.random`
    and layers draw, from the process's generator, from `use`'s, or from one that f or a layer holds; and whatever f
    draws by itself (`generator.normal()`) from generators among its arguments or `cr.random.current()`.  Not seen: what
    f draws by itself from a generator that it closes over, and `np.random.rand` and its like.

    **Raises** StaleGraphError where a leaf was written to in between, or f leans on other tensors.

    **Source** Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016, section 4.

    >>> import chainrule as cr
    >>> cr.grad(cr.checkpoint(lambda x: cr.sin(cr.sin(x))))(0.0)
    1.0
    """

    @wraps(f, updated=())
    def checkpointed(*args: Any, **keywords: Any) -> Any:
        if is_paused():
            return f(*args, **keywords)
        leaves, structure = tree.flatten((args, keywords), objects=False)
        context = copy_context()
        with noted() as draws:
            call = Call(f, [_kept(leaf) for leaf in leaves], structure, context, draws)
            since, results, form = call.run()
        places = [k for k, y in enumerate(results) if is_tensor(y) and y.node is not None]
        parents = _leant_on([results[k].node for k in places], since)
        if parents:
            looks = modes.unusual and modes.is_debug()
            prints = fingerprints(tuple(results[k].data for k in places)) if looks else None
            kept = (call, places, _closed_over(parents, call), prints)
            node: Node = [next_number(), _CHECKPOINT, tuple(parents), kept, (), None, None]
            for index, k in enumerate(places):
                y = results[k]
                shares = getattr(y.data, "base", None) is not None or y.node[0] < since
                results[k] = alike(y, own_copy(y.data) if shares else y.data, pick_node(node, index, y))
        return tree.unflatten(form, results)

    return checkpointed


def _closed_over(parents: list[Node], call: Call) -> list[tuple[Node, Any]]:
    """The leaves that f reads by itself, with their arrays: it must find the same ones the next time."""
    given = {leaf.node[0] for leaf in call.leaves if is_tensor(leaf) and leaf.node is not None}
    leaves = ((node, node[3].tensor()) for node in parents if node[1] is None and node[0] not in given)
    return [(node, leaf.data) for node, leaf in leaves if leaf is not None]


def _kept(leaf: Any) -> Any:
    """An argument for the next run, beyond the reach of those who write to it: the node of a leaf is watched."""
    if is_tensor(leaf):
        if leaf.node is None:
            leaf.shared = True
        return alike(leaf, leaf.data, leaf.node)
    return own_copy(leaf) if is_array(leaf) else leaf


def _handed(leaf: Any) -> Any:
    """An argument as f receives it: a tensor of its own; a generator, or the copy that stands for it in a second run."""
    if is_tensor(leaf):
        return alike(leaf, leaf.data, leaf.node)
    return current(leaf) if is_generator(leaf) else leaf
