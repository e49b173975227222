"""Which results are computed straight into the inputs that they replace, once nothing can fail any more.

Such a kernel reads the old value only where it writes the new one, and whoever reads the new one does so at the end as
well.  Every other result with a target is computed elsewhere and copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.compiler.expressions import ELEMENTWISE, Expression
from chainrule.compiler.native.fuse import LEAVES, Fusion, canonical
from chainrule.compiler.native.kernel import Machine


def chosen(nodes: Sequence[Expression], stays: Sequence[Expression], wanted: Sequence[Expression], targets: Sequence[int | None], inputs: Sequence[Expression], flagged: Sequence[Expression], machine: Machine) -> tuple[Fusion, dict[int, int]]:  # fmt: skip
    """The groups, and for each result that is computed in place the number of its input."""
    fusion = Fusion(nodes, stays, (), machine)
    refused = {canonical(e).number for e in flagged}
    while any(t is not None for t in targets):
        commits = _eligible(fusion, wanted, targets, inputs, refused)
        if not commits:
            break
        fusion = Fusion(nodes, stays, commits, machine)
        wrong = _apart(fusion, commits, inputs)
        if not wrong:
            return fusion, commits
        refused |= wrong
        fusion = Fusion(nodes, stays, (), machine)
    return fusion, {}


def _eligible(fusion: Fusion, wanted: Sequence[Expression], targets: Sequence[int | None], inputs: Sequence[Expression], refused: set[int]) -> dict[int, int]:  # fmt: skip
    often: dict[int, int] = {}
    for e in wanted:
        often[e.number] = often.get(e.number, 0) + 1
    readers: dict[int, set[int]] = {}
    relations = {n: fusion.computed(fusion.by_number[n]) for n in fusion.of}
    for number, relation in relations.items():
        for r in relation:
            readers.setdefault(r, set()).add(number)
    written = {inputs[t].number for t in targets if t is not None}
    goals = {e.number: t for e, t in zip(wanted, targets, strict=True) if t is not None and often[e.number] == 1}
    found: dict[int, int] = {}
    for number in sorted(goals, reverse=True):
        e = fusion.by_number[number]
        if e.op in ELEMENTWISE and number not in refused and all(r in found for r in readers.get(number, ())):
            old = [kinds for r, kinds in relations[number].items() if r in written]
            same = all(fusion.by_number[r].size == e.size for r in relations[number] if r in written)
            if same and all(kinds == {1} for kinds in old) and not _may_fail(fusion, e):
                found[number] = goals[number]
    return found


def _may_fail(fusion: Fusion, e: Expression) -> bool:
    """Whether an index is looked at on the way to e: that must come before anything is written."""
    todo = list(e.arguments)
    while todo:
        a = todo.pop()
        if a.op in ("gather", "bounded"):
            return True
        if a.op not in LEAVES and a.number not in fusion.candidates:
            todo += a.arguments
    return False


def _apart(fusion: Fusion, commits: dict[int, int], inputs: Sequence[Expression]) -> set[int]:
    """Results that read an input which another kernel may have written by then."""
    writer = {inputs[t].number: fusion.of[number] for number, t in commits.items()}
    wrong: set[int] = set()
    for number in commits:
        for r in fusion.computed(fusion.by_number[number]):
            if r in writer and writer[r] != fusion.of[number]:
                wrong.add(number)
    return wrong
