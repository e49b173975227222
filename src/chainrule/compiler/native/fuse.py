"""What lies in memory, and what is computed together.

Candidates for memory are results wanted outside, operands of products, reductions, and what would be costly to compute
twice.  In program order each candidate joins a group that it shares data with, if one pass over the same entries or
rows can do both; of a group's members only those that somebody outside reads are written to memory in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod

from chainrule.compiler.expressions import CONVOLUTIONS, ELEMENTWISE, REDUCTIONS, Expression
from chainrule.compiler.native.kernel import Machine
from chainrule.compiler.native.nest import AGAIN
from chainrule.compiler.native.strides import contiguous, strided
from chainrule.compiler.native.tape import cost

LEAVES = {"input", "constant"}
BORDERS = {"dot", "pad", "concat", "scatter", "scatter_view", "opaque", *CONVOLUTIONS}
"""Computed by kernels of their own, from memory into memory."""
LOOKS = {"view", "reshape"}
SERIAL = 1 << 15
"""Entries up to which it does no harm that one thread folds all of them."""

DEEP = 40
"""Expressions one within the other before one of them lies in memory, so that no kernel grows without bounds."""
DEEPER = 120
"""The same within a group."""
MOST = 48
"""Members of a group."""

Relation = dict[int, set[int]]
"""How entries of an expression depend on those of what lies in memory, by number: entry i on entry `i // kind` for each
kind, 0 meaning on others."""


def canonical(e: Expression) -> Expression:
    """What has the same entries in the same order in memory."""
    if e.op not in LOOKS:
        return e
    source, offset, strides = strided(e)
    same = source.size == e.size and offset == 0 and strides == contiguous(e.shape)
    return source if same else e


def trailing(e: Expression) -> int | None:
    """How many entries of its operand a reduction folds into each of its own, if those are neighbours."""
    inner = e.arguments[0]
    axes: tuple[int, ...] = e.attribute
    rest = [k for k, n in enumerate(inner.shape) if k >= axes[0] and n != 1 and k not in axes]
    return None if rest else prod(inner.shape[k] for k in axes)


def repeats(view: Expression) -> int | None:
    """n, if entry i of a view is entry `i // n` of what it looks at."""
    inner = view.arguments[0]
    if inner.size == 1:
        return view.size
    strides, first = [0] * view.ndim, 0
    for (offset, terms), stride in zip(view.attribute, contiguous(inner.shape), strict=True):
        first += offset * stride
        for axis, step in terms:
            strides[axis] += step * stride
    at = view.ndim
    while at and (strides[at - 1] == 0):
        at -= 1
    leading = view.shape[:at]
    if first or prod(leading) != inner.size or tuple(strides[:at]) != contiguous(leading):
        return None
    return prod(view.shape[at:])


class Group:
    """Candidates computed by one kernel."""

    def __init__(self, first: Expression, commits: bool) -> None:
        self.members: list[Expression] = []
        self.numbers: set[int] = set()
        self.commits = commits
        """Whether it writes into inputs, at the very end."""
        self.before = 0
        """Groups that must come before, as bits."""
        self.rows: tuple[int, int] | None = None
        """(how many, how long) where it folds neighbours."""
        self.folds: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        """(shape, axes) where it folds others."""
        self.reads: set[int] = set()
        self.size = first.size

    def add(self, e: Expression, reads: Iterable[int]) -> None:
        self.members.append(e)
        self.numbers.add(e.number)
        self.reads |= set(reads)
        if e.op in REDUCTIONS:
            inner = e.arguments[0]
            self.size = inner.size
            n = trailing(e)
            if n is None:
                self.folds = (inner.shape, e.attribute)
            else:
                self.rows = (inner.size // n, n)


class Fusion:
    """Groups for what `wanted` needs; `stays` are candidates in any case, `commits` those that go into inputs at the end."""

    def __init__(self, nodes: Sequence[Expression], stays: Iterable[Expression], commits: Collection[int], machine: Machine) -> None:  # fmt: skip
        self.machine, self.nodes = machine, nodes
        self.commits = commits
        self.candidates: set[int] = {e.number for e in stays}
        self.by_number = {e.number: e for e in nodes}
        self.along: set[int] = set()
        """What larger expressions are made of."""
        for e in reversed(nodes):
            inner = [
                a.number for a in e.arguments if 1 < a.size < e.size or (a.size == e.size and e.number in self.along)
            ]
            self.along.update(inner)
        self.local: dict[int, int] = {}
        """How deep each candidate is in what is no candidate."""
        self.deep: dict[int, int] = {}
        self._choose()
        self.relations: dict[int, Relation] = {}
        self.groups: list[Group] = []
        self.readers: dict[int, set[int]] = {}
        """The groups that read something in memory."""
        self.of: dict[int, int] = {}
        """The number of the group of each candidate; borders have one of their own."""
        for e in nodes:
            if e.number in self.candidates and e.op not in LEAVES:
                self._place(e)

    # ------------------------------------------------------------ candidates
    def _choose(self) -> None:
        for e in self.nodes:
            if e.op in BORDERS or e.op in REDUCTIONS:
                self.candidates.add(e.number)
            if e.op in ("dot", "gather"):
                for a in e.arguments if e.op == "dot" else e.arguments[:1]:
                    self.candidates.add(strided(a).source.number)
            elif e.op in ("opaque", *CONVOLUTIONS):
                self.candidates |= {canonical(a).number for a in e.arguments}
        uses, deep = self._uses(), dict[int, int]()
        effort: dict[int, int] = {}
        leaves: dict[int, frozenset[int]] = {}
        for e in self.nodes:
            if e.op in LEAVES or e.number in self.candidates:
                effort[e.number], leaves[e.number] = 0, frozenset((e.number,)) if e.size > 1 else frozenset()
                self.local[e.number], deep[e.number] = 1 + max([deep[a.number] for a in e.arguments], default=0), 0
                continue
            deep[e.number] = 1 + max([deep[a.number] for a in e.arguments], default=0)
            total = sum(effort[a.number] for a in e.arguments)
            total += 0 if e.op in LOOKS or not e.arguments else cost(e.op)
            far = frozenset[int]().union(*(leaves[a.number] for a in e.arguments))
            often = uses[e.number] > 1 and (total > AGAIN or len(far) > 2)
            if e.op not in LOOKS and (often or deep[e.number] > DEEP):
                self.candidates.add(e.number)
                total, far, self.local[e.number], deep[e.number] = 0, frozenset((e.number,)), deep[e.number], 0
            effort[e.number], leaves[e.number] = total, far
            if e.op == "view":
                inner = e.arguments[0]
                if 1 < inner.size < e.size and effort[inner.number] > 2 and inner.op not in LOOKS:
                    self.candidates.add(inner.number)
                    self.local[inner.number], deep[inner.number] = deep[inner.number], 0
                    effort[e.number], leaves[e.number] = 0, frozenset((inner.number,))

    def _uses(self) -> dict[int, int]:
        """How often something is computed from each, looking through views."""
        uses = dict.fromkeys(self.by_number, 0)
        for e in reversed(self.nodes):
            for a in set(e.arguments):
                uses[a.number] += max(uses[e.number], 1) if e.op in LOOKS and e.number not in self.candidates else 1
        return uses

    def _costly(self, e: Expression) -> bool:
        """Whether a function is computed on the way to e: by vectors, that is, where it does not stand alone in a row."""
        seen: set[int] = set()
        todo = [e]
        while todo:
            a = todo.pop()
            if a.op in ELEMENTWISE and cost(a.op) > 4:
                return True
            seen.add(a.number)
            todo += [b for b in a.arguments if b.number not in self.candidates and b.number not in seen]
        return False

    # ------------------------------------------------------------ how entries depend on memory
    def relation(self, e: Expression) -> Relation:
        """Of the entries of e, on what it is computed from."""
        if e.op in LEAVES or e.number in self.candidates:
            return {e.number: {1}}
        found = self.relations.get(e.number)
        if found is None:
            found = self.relations[e.number] = self.computed(e)
        return found

    def computed(self, e: Expression) -> Relation:
        out: Relation = {}
        factor: int | None = 1
        if e.op == "view":
            factor = repeats(e)
        elif e.op == "gather" or e.op in BORDERS:
            factor = None
        for a in e.arguments:
            for number, kinds in self.relation(a).items():
                out.setdefault(number, set()).update(k * (factor or 0) for k in kinds)
        return out

    # ------------------------------------------------------------ groups
    def _place(self, e: Expression) -> None:
        relation = self.computed(e)
        reads = set(relation)
        commits = e.number in self.commits
        needed = {self.of[r] for r in reads if r in self.of}
        before = 0
        for g in needed:
            before |= self.groups[g].before | 1 << g
        if e.op == "opaque":
            for g, group in enumerate(self.groups):
                if (
                    group.members
                    and group.members[0].op == "opaque"
                    and group.members[0].attribute[0] is e.attribute[0]
                ):
                    self._join(e, g, reads, before)
                    return
        elif e.op not in BORDERS:
            for g in self._friends({r for r, kinds in relation.items() if kinds == {1}}, needed):
                group = self.groups[g]
                if group.commits == commits and self._fits(e, relation, group, needed, g):
                    self._join(e, g, reads, before)
                    for other in needed - {g}:
                        self._unite(g, other)
                    return
        self.groups.append(Group(e, commits))
        self._join(e, len(self.groups) - 1, reads, before)

    def _friends(self, reads: set[int], needed: set[int]) -> list[int]:
        """Groups that compute what is needed, then those that read entries of `reads` too, the latest first."""
        sharing = (self.readers.get(r, set()) for r in reads if self.by_number[r].size > 1)
        return [*sorted(needed, reverse=True), *sorted(set[int]().union(*sharing) - needed, reverse=True)]

    def _join(self, e: Expression, g: int, reads: Iterable[int], before: int) -> None:
        group = self.groups[g]
        self.deep[e.number] = self._depth(e, group)
        group.add(e, reads)
        for r in reads:
            self.readers.setdefault(r, set()).add(g)
        self.of[e.number] = g
        if before & ~(group.before | 1 << g):
            group.before |= before & ~(1 << g)
            for other in self.groups if g + 1 < len(self.groups) else ():  # the newest has nobody after it
                if other.before >> g & 1:
                    other.before |= group.before

    def _unite(self, g: int, other: int) -> None:
        """One group of two for the same entries, neither of which needs the other."""
        one, two = self.groups[g], self.groups[other]
        plain = not (one.rows or one.folds or two.rows or two.folds) and two.members[0].op not in BORDERS
        if not plain or one.size != two.size or one.commits != two.commits:
            return
        reading = {self.of[r] for r in two.reads if r in self.of} - {other}
        between = any(k not in (g, other) and self.groups[k].before >> other & 1 for k in self._direct(one))
        if two.before >> g & 1 or between or g in reading:
            return
        for e in two.members:
            self._join(e, g, (), two.before)
        one.members.sort(key=lambda e: e.number)
        one.reads |= two.reads
        for r in two.reads:
            self.readers[r].discard(other)
            self.readers[r].add(g)
        one.before &= ~(1 << other)
        two.members, two.numbers, two.reads = [], set(), set()
        for group in self.groups:
            if group.before >> other & 1:
                group.before = group.before & ~(1 << other) | 1 << g | one.before

    def _direct(self, group: Group) -> set[int]:
        return {self.of[r] for r in group.reads if r in self.of}

    def _fits(self, e: Expression, relation: Relation, group: Group, needed: set[int], g: int) -> bool:
        first = group.members[0]
        if (
            first.op in BORDERS
            or len(group.members) >= MOST
            or any(n != g and self.groups[n].before >> g & 1 for n in needed)
        ):
            return False
        inside = {r: kinds for r, kinds in relation.items() if r in group.numbers}
        if self._depth(e, group) > DEEPER:
            return False
        if e.op in REDUCTIONS:
            return self._fits_fold(e, relation, inside, group)
        if group.folds or e.size == 0:
            return False
        if e.size == group.size:
            return self._fits_entries(inside, group)
        # something for each row, made of what is folded there; costly functions only if the row itself needs them
        return (
            group.rows is not None and e.size == group.rows[0] and bool(inside)
            and (e.number in self.along or not self._costly(e))
            and all(self._by_row(r, group) and kinds == {1} for r, kinds in inside.items())
        )  # fmt: skip

    def _depth(self, e: Expression, group: Group) -> int:
        """Of e in the text of the group's kernel."""
        inside = [self.deep[r] for r in self.computed(e) if r in group.numbers]
        return self.local[e.number] + max(inside, default=0)

    def _by_row(self, number: int, group: Group) -> bool:
        return group.rows is not None and self.by_number[number].size == group.rows[0] != group.size

    def _fits_entries(self, inside: Relation, group: Group) -> bool:
        """Whether something for each entry reads members only where the loops are; and a row passed over twice fits L1."""
        for r, kinds in inside.items():
            if self._by_row(r, group):
                assert group.rows is not None
                if kinds != {group.rows[1]} or group.rows[1] * 8 > self.machine.l1_bytes:
                    return False
            elif kinds != {1}:
                return False
        return group.rows is None or group.rows[0] > 1 or group.size <= SERIAL

    def _fits_fold(self, e: Expression, relation: Relation, inside: Relation, group: Group) -> bool:
        inner = e.arguments[0]
        if inner.size != group.size:
            return False
        n = trailing(e)
        if n is None:
            own = (inner.shape, e.attribute)
            return group.folds == own and not inside and bool(group.reads & set(relation))
        rows = (inner.size // n, n)
        if group.folds or (group.rows not in (None, rows)) or (rows[0] == 1 and group.size > SERIAL):
            return False
        before = group.rows
        group.rows = rows
        fits = self._fits_entries(inside, group)
        group.rows = before
        return fits
