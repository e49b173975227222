"""From expressions to a schedule: which kernels, in which order, and where everything lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from math import prod
from operator import is_

from chainrule.compiler.expressions import Expression, reach
from chainrule.compiler.memory import Lifetime, arranged
from chainrule.compiler.native.commit import chosen
from chainrule.compiler.native.fuse import BORDERS, LEAVES, Group, canonical
from chainrule.compiler.native.kernel import Call, Machine, Opaque, Place, Schedule
from chainrule.compiler.native.kernels import Made, Memory, border, filled, fused
from chainrule.compiler.native.rewrite import rewritten


def plan(outputs: Sequence[Expression], targets: Sequence[int | None], inputs: Sequence[Expression], machine: Machine, flagged: Sequence[Expression] = ()) -> Schedule:  # fmt: skip
    """Kernels for `outputs`; one with a target goes into that input's memory once everything else is done.

    What `flagged` names is computed before anything is written into inputs.
    """
    flagged = [e for e in flagged if e.op not in LEAVES]
    every = rewritten([*outputs, *inputs, *flagged])
    count, both = len(outputs), len(outputs) + len(inputs)
    return _Planner(every[:count], targets, every[count:both], machine, every[both:]).schedule()


def _itself(e: Expression) -> Expression:
    return e


def _never(_: Expression) -> bool:
    return False


class _Copy(Expression):
    """Memory of its own for what lies elsewhere already."""

    __slots__ = ()


class _Planner:
    """Everything known while one program is planned."""

    def __init__(self, outputs: Sequence[Expression], targets: Sequence[int | None], inputs: Sequence[Expression], machine: Machine, flagged: Sequence[Expression]) -> None:  # fmt: skip
        self.inputs, self.machine, self.flagged = inputs, machine, flagged
        self.outputs, self.targets = outputs, targets
        self.wanted = [canonical(e) for e in outputs]
        nodes = reach([*outputs, *flagged])
        stays = [*self.wanted, *(canonical(e) for e in flagged)]
        self.fusion, self.commits = chosen(nodes, stays, self.wanted, targets, inputs, flagged, machine)
        self.stored = {e.number for e in self.wanted}
        for group in self.fusion.groups:
            self.stored |= group.reads - group.numbers
            self.stored |= {e.number for e in group.members if e.op in BORDERS}
        self.places: dict[int, Place] = {}
        self.constants: list[object] = []
        self.steps: list[Call | Opaque] = []
        self.joined: dict[int, tuple[Expression, int]] = {}
        """What is computed within the memory of a concatenation, by number: where, and its first entry there."""
        self.copied = -1
        """The number of the next copy; those of expressions are not negative."""

    # ------------------------------------------------------------ order
    def order(self) -> list[int]:
        """Groups with everything before them that they read; near to the order of the program."""
        groups = {g: group for g, group in enumerate(self.fusion.groups) if group.members}
        waiting: dict[int, set[int]] = {}
        readers: dict[int, list[int]] = {}
        for g, group in groups.items():
            waiting[g] = {self.fusion.of[r] for r in group.reads if r in self.fusion.of} - {g}
            for other in waiting[g]:
                readers.setdefault(other, []).append(g)
        ready = [(group.commits, max(group.numbers), g) for g, group in groups.items() if not waiting[g]]
        heapify(ready)
        found: list[int] = []
        while ready:
            *_, g = heappop(ready)
            found.append(g)
            for reader in readers.get(g, ()):
                waiting[reader].discard(g)
                if not waiting[reader]:
                    heappush(ready, (groups[reader].commits, max(groups[reader].numbers), reader))
        assert len(found) == len(groups)
        return found

    # ------------------------------------------------------------ places
    def place(self, e: Expression) -> Place:
        if e.op == "input":
            return "input", e.attribute
        if e.op == "constant" and e.number not in self.places:
            self.places[e.number] = "constant", len(self.constants)
            self.constants.append(e.attribute)
        return self.places[e.number]

    def home(self, e: Expression) -> Expression:
        """Whose memory e goes into."""
        target = self.commits.get(e.number)
        return e if target is None else self.inputs[target]

    def lies(self, group: Group) -> Callable[[Expression], bool]:
        inside = group.numbers if group.members[0].op not in BORDERS else set[int]()
        return lambda e: e.op in LEAVES or (e.number in self.stored and e.number not in inside)

    def _copy(self, of: Expression) -> Expression:
        self.copied -= 1
        return _Copy(self.copied, "copy", (of,), (of.size,), of.dtype, None)

    def settle(self, order: Sequence[int]) -> tuple[list[tuple[Expression, Expression]], list[tuple[Expression, Expression]], int]:  # fmt: skip
        """Places for everything that is stored; what must be copied at the end of each phase (target, source)."""
        copies: list[tuple[Expression, Expression]] = []
        commits: list[tuple[Expression, Expression]] = []
        fresh = 0
        written = {t for t in self.targets if t is not None}
        for e, target in zip(self.wanted, self.targets, strict=True):
            if target is None:
                if e.op in LEAVES or e.number in self.places:
                    there = self._copy(e)
                    self.places[there.number] = "output", fresh
                    copies.append((there, e))
                else:
                    self.places[e.number] = "output", fresh
                fresh += 1
            elif self.commits.get(e.number) != target and (e.op != "input" or e.attribute != target):
                source = e
                if e.op == "input" and e.attribute in written:
                    source = self._copy(e)
                    copies.append((source, e))
                commits.append((self.inputs[target], source))
        return copies, commits, self._arrange(order, copies, commits)

    def _arrange(self, order: Sequence[int], copies: Sequence[tuple[Expression, Expression]], commits: Sequence[tuple[Expression, Expression]]) -> int:  # fmt: skip
        self._join()
        end = len(order)
        # what is copied aside is written before anything is committed
        aside = next((time for time, g in enumerate(order) if self.fusion.groups[g].commits), end)
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        living: dict[int, Expression] = {}

        def lives(e: Expression, since: int, until: int) -> None:
            whole, _ = self.whole(e)
            living.setdefault(whole.number, whole)
            first[whole.number] = min(first.get(whole.number, since), since)
            last[whole.number] = max(last.get(whole.number, until), until)

        for time, g in enumerate(order):
            group = self.fusion.groups[g]
            for e in group.members:
                if self._homeless(e):
                    lives(e, time, time)
            for number in group.reads:
                if self._homeless(self.fusion.by_number[number]):
                    lives(self.fusion.by_number[number], time, time)
        for x in (x for pair in [*copies, *commits] for x in pair):
            if x.number not in self.places and x.op not in LEAVES:
                lives(x, aside, end)
        numbers = list(living)
        offsets, total = arranged([Lifetime(living[n].size * living[n].dtype.itemsize, first[n], last[n]) for n in numbers])  # fmt: skip
        for number, offset in zip(numbers, offsets, strict=True):
            self.places[number] = "arena", offset
        for number in self.joined:
            e = self.fusion.by_number[number]
            whole, entries = self.whole(e)
            self.places[number] = "arena", self.places[whole.number][1] + entries * e.dtype.itemsize
        return total

    def _homeless(self, e: Expression) -> bool:
        """Whether e lies in the arena."""
        return e.number in self.stored and e.op not in LEAVES and e.number not in self.places and e.number not in self.commits  # fmt: skip

    def _join(self) -> None:
        """Find parts of concatenations that can be computed where they are wanted."""
        for group in self.fusion.groups:
            e = group.members[0] if group.members else None
            if e is None or e.op != "concat" or not self._homeless(e) or prod(e.shape[: e.attribute]) != 1:
                continue
            first = 0
            for part in e.arguments:
                source = canonical(part)
                if part.size and self._homeless(source):
                    self.joined.setdefault(source.number, (e, first))
                first += part.size

    def whole(self, e: Expression) -> tuple[Expression, int]:
        """What e is part of in memory, and its first entry there."""
        first = 0
        while e.number in self.joined:
            e, more = self.joined[e.number]
            first += more
        return e, first

    # ------------------------------------------------------------ steps
    def schedule(self) -> Schedule:
        order = self.order()
        copies, commits, arena = self.settle(order)
        groups = [self.fusion.groups[g] for g in order]
        for group in groups:
            if not group.commits:
                self._emit(group)
        for there, e in copies:
            self._copied(there, e)
        commit = len(self.steps)
        for group in groups:
            if group.commits:
                self._emit(group)
        for there, e in commits:
            self._copied(there, e)
        fresh = [e for e, t in zip(self.outputs, self.targets, strict=True) if t is None]
        types = tuple((e.shape, e.dtype) for e in (*self.inputs, *fresh))
        return Schedule(tuple(self.steps), commit, commit if self.flagged else 0, arena, tuple(self.constants), types)

    def _copied(self, there: Expression, e: Expression) -> None:
        if e.size:
            flat = Expression(e.number, e.op, e.arguments, (e.size,), e.dtype, e.attribute)
            target = Expression(there.number, there.op, there.arguments, (e.size,), e.dtype, there.attribute)
            self._call(filled(target, flat, Memory(self.machine, partial(is_, flat), _itself, _never)))

    def _call(self, made: Made) -> None:
        places = [self.place(e) for e in made.operands]
        sizes = [e.size * e.dtype.itemsize for e in made.operands]
        for k, shift in enumerate(made.shifts):
            if shift:
                skipped = shift * made.operands[k].dtype.itemsize
                places[k], sizes[k] = ("arena", places[k][1] + skipped), sizes[k] - skipped
        self.steps.append(Call(made.kernel, tuple(places), tuple(sizes)))

    def memory(self, group: Group) -> Memory:
        return Memory(self.machine, self.lies(group), self.home, self._movable)

    def _movable(self, e: Expression) -> bool:
        return e.number in self.places and self.places[e.number][0] == "arena"

    def _emit(self, group: Group) -> None:
        first = group.members[0]
        stored = [e for e in group.members if e.number in self.stored and e.size]
        if not stored:
            return
        if first.op == "opaque":
            self._opaque(group)
        elif first.op in BORDERS:
            for made in border(first, self.memory(group), self.joined):
                self._call(made)
        else:
            self._call(fused(group, stored, self.memory(group)))

    def _opaque(self, group: Group) -> None:
        equation = group.members[0].attribute[0]
        operands = [canonical(a) for a in group.members[0].arguments]
        self.steps.append(
            Opaque(
                equation,
                tuple(self.place(a) for a in operands),
                tuple(self.place(e) for e in group.members),
                tuple(e.attribute[1] for e in group.members),
                tuple((a.shape, a.dtype) for a in group.members[0].arguments),
                tuple((e.shape, e.dtype) for e in group.members),
            )
        )
