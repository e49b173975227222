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
    results = _Results(wanted, targets, inputs)
    while results.goals:
        late = results.late(fusion, refused)
        if not late:
            break
        ordered = Fusion(nodes, stays, late, machine)
        wrong = results.apart(ordered, late)
        if not wrong:
            return ordered, {number: t for number, t in results.goals.items() if number in late}
        refused |= wrong
    return fusion, {}


class _Results:
    """What has a target, and what else can be left to the end."""

    def __init__(
        self, wanted: Sequence[Expression], targets: Sequence[int | None], inputs: Sequence[Expression]
    ) -> None:
        numbers = [e.number for e in wanted]
        self.inputs, self.wanted = inputs, set(numbers)
        self.written = {inputs[t].number for t in targets if t is not None}
        self.goals = {n: t for n, t in zip(numbers, targets, strict=True) if t is not None and numbers.count(n) == 1}

    def late(self, fusion: Fusion, refused: set[int]) -> set[int]:
        """Candidates that only the end needs: results with targets, and what is between them."""
        relations = {number: fusion.computed(fusion.by_number[number]) for number in fusion.of}
        readers: dict[int, set[int]] = {}
        for number, relation in relations.items():
            for r in relation:
                readers.setdefault(r, set()).add(number)
        found: set[int] = set()
        for number in sorted(relations, reverse=True):
            e, reading = fusion.by_number[number], readers.get(number, set())
            between = number not in self.wanted and bool(reading)
            if e.op not in ELEMENTWISE or number in refused or not (number in self.goals or between):
                continue
            old = {r: kinds for r, kinds in relations[number].items() if r in self.written}
            same = all(kinds == {1} and fusion.by_number[r].size == e.size for r, kinds in old.items())
            if same and reading <= found and not _may_fail(fusion, e):
                found.add(number)
        return found

    def apart(self, fusion: Fusion, late: set[int]) -> set[int]:
        """Those that read an input which another kernel may have written by then."""
        writer = {self.inputs[t].number: fusion.of[n] for n, t in self.goals.items() if n in late}
        return {
            n for n in late for r in fusion.computed(fusion.by_number[n]) if writer.get(r, fusion.of[n]) != fusion.of[n]
        }  # fmt: skip


def _may_fail(fusion: Fusion, e: Expression) -> bool:
    """Whether an index is looked at on the way to e: that must come before anything is written."""
    todo, seen = list(e.arguments), set[int]()
    while todo:
        a = todo.pop()
        if a.number in seen:
            continue
        seen.add(a.number)
        if a.op in ("gather", "bounded", "watched"):
            return True
        if a.op not in LEAVES and a.number not in fusion.candidates:
            todo += a.arguments
    return False
