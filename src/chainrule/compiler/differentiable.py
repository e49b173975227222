"""A compiled function as a primitive: two programs, forward and backward, and its equations again for all else.

Results that want a gradient get one node, whose parents are the tensors that came from outside.  A first derivative runs
the backward program on the residuals that the forward program left; a derivative that is itself recorded, a tangent, or
an entry that is 0/0, goes through the equations of the forward program once more, operation by operation, on tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract, Equation, reach_equations
from chainrule.compiler.inputs import EagerError
from chainrule.compiler.kinds import TENSOR
from chainrule.compiler.places import Thing
from chainrule.compiler.program import Program
from chainrule.compiler.results import name_of
from chainrule.compiler.simplify import assemble, leant_on, substituted
from chainrule.compiler.traced import Traced
from chainrule.core.calls import PICK, general, wrap
from chainrule.core.equations import Trace, tracing
from chainrule.core.graph import Node, next_number, reach
from chainrule.errors import StaleGraphError, explain
from chainrule.transforms.checkpoint import Rerun
from chainrule.walks.reverse import reverse, send

Compile = Callable[[Program], Any]


class Differentiable:
    """How the results of one specialisation depend on tensors from outside, and the programs of their derivatives."""

    def __init__(self, traced: Traced, compile_program: Compile) -> None:
        self.live = traced.live
        self.compile = compile_program
        self.types = [(t.shape, t.dtype) for t in self.live]
        self.parents: list[tuple[int, Thing | None]] = [*self._parents_of(traced)]
        """The tensors from outside that results depend on, as (number of the node in the trace, thing)."""
        self.hides = bool(traced.run.trace.watched)
        self.results = [t.data.equation for t in self.live]
        gradients, _, since = self._walked(tuple(True for _ in self.live))
        self.residuals = leant_on([g for g in gradients if g is not None], since)
        self.numbers = {e.number: k for k, e in enumerate(self.residuals)}
        self.programs: dict[tuple[bool, ...], Any] = {}
        inputs = {i.equation.number for i in traced.run.inputs} | {e.number for e, _ in traced.run.trace.draws}
        self.needed = [e for e in reach_equations(self.results) if e.number in inputs]
        """Inputs that the equations are run on again."""
        self.values = [_value_of(traced, thing) for _, thing in self.parents if thing is not None]
        """With which equation the value of each parent came in."""
        self.kept = [value.number in self.numbers for value in self.values]
        """Whether the first derivative reads it, so that a write into it would show."""

    def forget(self) -> None:
        """Let go of the objects that the trace saw: the next call may come with others, which is no reason to keep them."""
        self.parents = [(number, None) for number, _ in self.parents]

    def _parents_of(self, traced: Traced) -> list[tuple[int, Thing]]:
        run = traced.run
        known = {number: thing for number, (thing, _) in run.outer.items()}
        known |= {node[0]: thing for thing, node, *_ in run.nodes if node is not None and node[1] is None}
        found: list[tuple[int, Thing]] = []
        for node in reach([t.node for t in self.live]):
            if node[1] is None:
                if node[0] not in known:
                    raise EagerError("a result wants a gradient of a tensor that the function made")
                found.append((node[0], known[node[0]]))
        return found

    def _walked(self, present: tuple[bool, ...]) -> tuple[list[Equation | None], list[Equation], int]:
        """The cotangents of all parents as equations, the cotangents of the results that are there, and the number that
        all equations of the walk are newer than.
        """
        since = Equation(None, (), (), (), None).number
        boxes = [Abstract(shape, dtype) for (shape, dtype), here in zip(self.types, present, strict=True) if here]
        roots = [t.node for t, here in zip(self.live, present, strict=True) if here]
        wanted = {number for number, _ in self.parents}
        with tracing(Trace()):
            found = {n[0]: g for n, g in reverse(list(zip(roots, boxes, strict=True)), False, wanted)}
        gradients = [found.get(number) for number, _ in self.parents]
        return [None if g is None else _equation(g) for g in gradients], [b.equation for b in boxes], since

    def backward(self, present: tuple[bool, ...]) -> tuple[Any, list[int]] | None:
        """The backward program for the results that have a cotangent, and the parents that it gives one; None: there is
        none, because it needs more than was kept.
        """
        if present not in self.programs:
            gradients, cts, since = self._walked(present)
            where = [k for k, g in enumerate(gradients) if g is not None]
            outputs = [g for g in gradients if g is not None]
            needed = leant_on(outputs, since)
            fits = all(e.number in self.numbers for e in needed)
            self.programs[present] = (self._compiled(outputs, cts), where) if fits and outputs else None
        return self.programs[present]

    def _compiled(self, outputs: list[Equation], cts: list[Equation]) -> Any:
        stand_ins = [Equation(None, (), (), e.shape, e.dtype) for e in self.residuals]
        inputs = [*stand_ins, *cts]
        cut = {e.number: s for e, s in zip(self.residuals, stand_ins, strict=True)}
        made = substituted(outputs, cut)
        results = [made[e.number] for e in outputs]
        program = assemble(Trace(), inputs, results, [None] * len(results))
        floats = [k for k, e in enumerate(inputs) if e.dtype.kind == "f"]
        watched = tuple(floats) if self.hides else ()
        return self.compile(program._replace(flagged=tuple(program.outputs), watched=watched))

    # ------------------------------------------------------------------------------------------------------- code
    def lines(self, traced: Traced, first: int) -> tuple[list[str], list[str]]:
        """Code before and after the program runs: what is kept, and the node.  `first`: the first residual's output."""
        by_number = {i.equation.number: i for i in traced.run.inputs}
        draws = {e.number: k for k, (e, _) in enumerate(traced.run.trace.draws)}
        parents = {id(thing) for _, thing in self.parents}
        written = {i.number for i in traced.written}
        before: list[str] = []
        names: dict[int, str] = {}
        for equation in {e.number: e for e in (*self.needed, *self.residuals)}.values():
            found = by_number.get(equation.number)
            if found is None:
                if equation.number in draws:
                    names[equation.number] = f"drawn[{draws[equation.number]}]"
                continue
            owner = next((p.owner for p in found.places if p.owner.kind is TENSOR and p.key == "data"), None)
            name = names[equation.number] = f"k{found.number}"
            is_kept = owner is not None and found.number not in written
            before.append(f"{name} = x{found.number}" if is_kept else f"{name} = copied(x{found.number})")
            if is_kept and owner is not None and id(owner) not in parents and owner.value.node is None:
                before.append(f"{name_of(owner)}.shared = True")
        computed = {e.number: k for k, e in enumerate(self.outputs())}
        kept = [names.get(e.number) or f"v{first + computed[e.number]}" for e in self.residuals]
        again = [names[e.number] for e in self.needed]
        nodes = "".join(f"{name_of(thing)}.node, " for _, thing in self.parents if thing is not None)
        name = traced.code.constant(self)
        text = f"nodes = {name}.attach(({nodes}), [{', '.join(kept)}], [{', '.join(again)}])"
        traced.code.space["copied"] = np.array
        self.forget()
        return before, [text]

    def outputs(self) -> list[Equation]:
        """Residuals that the forward program has to give, beside its results."""
        return [e for e in self.residuals if e.primitive is not None]

    def attach(self, parents: tuple[Node, ...], residuals: list[Any], values: list[Any]) -> list[Node]:
        """One node for the call, and one for each result."""
        node: Node = [next_number(), _COMPILED, parents, (self, residuals, values), (), list(self.types), None]
        return [
            [next_number(), PICK, (node,), (), (k, node[5]), shape, dtype]
            for k, (shape, dtype) in enumerate(self.types)
        ]

    # ------------------------------------------------------------------------------------------------------ again
    def again(self, node: Node) -> tuple[int, list[Any]]:
        """The results as tensors, recorded operation by operation, and the number that their graph is newer than."""
        _, _, values = node[3]
        since = next_number()
        known: dict[int, Any] = {e.number: v for e, v in zip(self.needed, values, strict=True)}
        for value, parent in zip(self.values, node[2], strict=True):
            if parent is not None and value.number in known:
                leaf = parent[3] if parent[1] is None else None
                if leaf is not None and leaf.written > node[0]:
                    fault = "a value that the compiled function read was overwritten in place after the call"
                    raise StaleGraphError(explain("jit", fault, remedy="the write after backward()"))
                known[value.number] = wrap(known[value.number], parent)
        with np.errstate(all="ignore"):  # the first run said what there was to say
            for equation in reach_equations(self.results):
                if equation.number not in known:
                    known[equation.number] = _performed(equation, known)
        return since, [_as_tensor(known[e.number]) for e in self.results]


def _value_of(traced: Traced, thing: Thing) -> Equation:
    """The equation of a tensor's value when the function began."""
    inputs = traced.run.inputs
    return next(i.equation for i in inputs if any(p.owner is thing and p.key == "data" for p in i.places))


def _as_tensor(value: Any) -> Any:
    return value if hasattr(value, "node") else wrap(value, None)


def _performed(equation: Equation, known: dict[int, Any]) -> Any:
    if equation.primitive is None:
        return equation.source
    arguments = [known[a.number] for a in equation.arguments]
    if equation.primitive == "pick":
        return arguments[0][equation.parameters[0]]
    return general(equation.primitive, arguments, equation.parameters)


def _equation(box: Any) -> Equation:
    return box.equation if isinstance(box, Abstract) else Equation(None, (), (), box.shape, box.dtype, np.asarray(box))


class _Compiled(Rerun):
    """The primitive of the node of a compiled call."""

    name = "jit"

    def kept(self, node: Node, name: str) -> Any:
        return node[3] if node[3][0].kept[int(name.removeprefix("input_"))] else None

    def pull(self, node: Node, parents: Sequence[Any], ct: Any, graph: bool, cts: dict[int, Any]) -> None:
        how, residuals, _ = node[3]
        if not graph:
            with np.errstate(all="ignore"):  # the walk around may raise at what is only compiled
                found = how.backward(tuple(c is not None for c in ct))
            values = None
            if found is not None:
                execute, where = found
                values = execute((*map(np.asarray, residuals), *(_plain(c) for c in ct if c is not None)))
                if values is not None:
                    for k, g in zip(where, values, strict=True):
                        if parents[k] is not None:
                            send(cts, parents[k][0], g if g.shape else g[()])
                    return
        super().pull(node, parents, ct, graph, cts)

    def again(self, node: Node) -> tuple[int, list[Any]]:
        return node[3][0].again(node)


def _plain(ct: Any) -> Any:
    return np.ascontiguousarray(ct).reshape(np.shape(ct))


_COMPILED = _Compiled()
