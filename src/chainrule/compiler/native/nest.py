"""What a tape asks of its loops: which can be one, which one goes by vectors, how often a row is passed over.

The outer loops walk over rows (or over everything, where nothing is folded), the inner ones along a row.  A reduction
ends a pass; what needs its result belongs to the next one.  What a later pass needs of an earlier one is computed again
where that is cheap, and kept in a buffer of one row where it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from chainrule.compiler.expressions import Expression
from chainrule.compiler.native.affine import Affine
from chainrule.compiler.native.kernel import Machine
from chainrule.compiler.native.tape import Reader, Step, cost
from chainrule.compiler.native.writer import scalar

AGAIN = 6
"""What costs no more than so many additions is computed again in a later pass."""


PIECES = 4
"""A row is done without loops if it has no more parts of different width."""


class Segment(NamedTuple):
    """A part of a loop that goes by vectors of one width."""

    start: int
    stop: int
    width: int
    valid: int
    """Lanes that count."""


def _power(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << (n - 1).bit_length()


class Output(NamedTuple):
    """A number on the tape that goes into memory."""

    value: int
    target: Any
    """Whose memory: an expression."""
    offset: Affine
    adds: bool = False
    """Whether it is added to what lies there."""


class Nest:
    """Loops for a tape and its outputs."""

    def __init__(self, reader: Reader, outputs: list[Output], machine: Machine, *, scalars: bool = False) -> None:
        self.machine = machine
        self.steps = list(reader.steps)
        self.variables = list(reader.variables)
        self.outputs = list(outputs)
        count = len(reader.domain.variables)
        self.extents = [v.extent for v in self.variables]
        self.outer = [v for v in range(count) if v not in reader.folded]
        self.inner = [v for v in range(count) if v in reader.folded]
        self._merge(self.outer)
        self._merge(self.inner)
        self.vector: int | None = None
        if not scalars and (self.outer or self.inner):
            self.vector = max([*self.outer[-1:], *self.inner[-1:]])
            self._prefer_neighbours(self.vector)
        self.short = self._short()
        """A loop of few turns that runs within the vectors of the loop around it."""
        self._turn_columns()
        self.passes = self._passes()
        self.kept: dict[int, int] = {}
        """Steps kept from pass to pass, and the pass that computes them."""
        self.row: list[Segment] | None = None
        """How one turn does a whole row, so that nothing leaves the registers between passes; None where it cannot."""
        self.width = self._width()
        if self.inner and not self.row:
            self._keep()

    def shifted(
        self, home: Callable[[Expression], Expression], movable: Callable[[Expression], bool]
    ) -> dict[int, int]:
        """Count offsets from the first entry that is touched of what is movable; where that is, by number."""
        first: dict[int, int] = {}
        touched = [step.more for step in self.steps if step.op == "load"] + [(o.target, o.offset) for o in self.outputs]
        for e, offset in touched:
            there = home(e)
            if movable(there):
                first[there.number] = min(first.get(there.number, offset.first), offset.first)

        def moved(e: Expression, offset: Affine) -> Affine:
            return offset._replace(first=offset.first - first.get(home(e).number, 0))

        for k, step in enumerate(self.steps):
            if step.op == "load":
                self.steps[k] = step._replace(more=(step.more[0], moved(*step.more)))
        self.outputs = [o._replace(offset=moved(o.target, o.offset)) for o in self.outputs]
        return first

    # ------------------------------------------------------------ loops that can be one
    def _affines(self) -> Iterable[Affine]:
        for step in self.steps:
            if step.op == "load":
                yield step.more[1]
            elif step.op == "index":
                yield step.more
        for out in self.outputs:
            yield out.offset

    def _merge(self, loops: list[int]) -> None:
        for at in range(len(loops) - 2, -1, -1):
            outer, inner = loops[at], loops[at + 1]
            length = self.extents[inner]
            if all(a.of(outer) == length * a.of(inner) for a in self._affines()):
                del loops[at]
                self.extents[inner] *= self.extents[outer]
                self._forget(outer, inner)

    def _forget(self, old: int, new: int) -> None:
        def affine(a: Affine) -> Affine:
            return Affine(a.first, tuple(t for t in a.terms if t[0] != old))

        for k, step in enumerate(self.steps):
            if old in step.depends:
                more = step.more
                if step.op == "load":
                    more = (more[0], affine(more[1]))
                elif step.op == "index":
                    more = affine(more)
                self.steps[k] = step._replace(more=more, depends=(step.depends - {old}) | {new})
        self.variables = [
            v._replace(depends=(v.depends - {old}) | {new}) if old in v.depends else v for v in self.variables
        ]
        self.outputs = [o._replace(offset=affine(o.offset)) for o in self.outputs]

    def _short(self) -> int | None:
        """The innermost loop, if it is too short for vectors and the one around it can give them more turns."""
        if self.vector is None or len(self.outer) < 2 or self.vector != self.outer[-1]:
            return None
        if self.extents[self.vector] not in (2, 4, 8) or self.extents[self.vector] >= self.lanes:
            return None
        if any(o.adds for o in self.outputs):
            return None
        short = self.outer.pop()
        self.vector = self.outer[-1]
        return short

    def _prefer_neighbours(self, usual: int) -> None:
        """Where folding would gather entries that lie apart, let vectors go along another loop, along which they do not."""
        offsets = [step.more[1] for step in self.steps if step.op == "load"] + [o.offset for o in self.outputs]
        if not self.inner or all(a.of(usual) in (0, 1) for a in offsets):
            return
        for loops in (self.outer, self.inner):
            for variable in reversed(loops):
                near = all(a.of(variable) in (0, 1) for a in offsets) and any(a.of(variable) for a in offsets)
                if near and self.extents[variable] >= self.lanes:
                    loops.remove(variable)
                    loops.append(variable)
                    self.vector = variable
                    return

    def _turn_columns(self) -> None:
        """Where vectors are gathered from rows apart, go along the rows next, while they are in the cache."""
        if self.inner or self.short is not None or self.vector is None:
            return
        loads = [step.more[1] for step in self.steps if step.op == "load"]
        for variable in self.outer[:-1]:
            if self.extents[variable] >= self.lanes and any(a.of(variable) == 1 and a.of(self.vector) for a in loads):
                self.outer.remove(variable)
                self.outer.append(variable)
                return

    def wide(self, step: Step) -> bool:
        """Whether lanes of vectors differ in a step."""
        return self.vector in step.depends or (self.short is not None and self.short in step.depends)

    # ------------------------------------------------------------ passes
    def folds(self, s: int) -> bool:
        """Whether a step changes along a row."""
        return not self.steps[s].depends.isdisjoint(self.inner)

    def _passes(self) -> list[int]:
        """The pass in which each step can be computed first."""
        passes: list[int] = []
        for step in self.steps:
            first = max([passes[a] for a in step.arguments], default=0)
            passes.append(first + 1 if step.op == "reduce" else first)
        return passes

    @property
    def count(self) -> int:
        """Passes over a row."""
        roots = [self.steps[s].arguments[0] for s in self.reductions()]
        roots += [o.value for o in self.outputs if self.along(o)]
        return 1 + max([self.passes[s] for s in roots], default=-1)

    def along(self, out: Output) -> bool:
        """Whether an output is written along the row."""
        return any(v in self.inner for v, _ in out.offset.terms)

    def reductions(self, number: int | None = None) -> list[int]:
        """Those that end pass `number`."""
        return [
            k for k, s in enumerate(self.steps)
            if s.op == "reduce" and (number is None or self.passes[s.arguments[0]] == number)
        ]  # fmt: skip

    def written(self, number: int) -> list[Output]:
        """What pass `number` writes along the row."""
        return [o for o in self.outputs if self.along(o) and self.passes[o.value] == number]

    def roots(self, number: int) -> list[int]:
        """What pass `number` is for."""
        kept = [s for s, first in self.kept.items() if first == number]
        folded = [self.steps[s].arguments[0] for s in self.reductions(number)]
        return [*folded, *(o.value for o in self.written(number)), *kept]

    def _keep(self) -> None:
        for number in range(self.count - 1, 0, -1):
            seen: set[int] = set()
            todo = self.roots(number)
            while todo:
                s = todo.pop()
                if s in seen or not self.folds(s) or self.kept.get(s, number) < number:
                    continue
                seen.add(s)
                if self.passes[s] < number and self.effort([s]) > AGAIN:
                    self.kept[s] = self.passes[s]
                    continue
                todo += self.steps[s].arguments

    def effort(self, roots: Iterable[int]) -> int:
        """Of computing `roots` from memory and from what changes more slowly."""
        seen: set[int] = set()
        todo, total = list(roots), 0
        while todo:
            s = todo.pop()
            if s in seen or (self.inner and not self.folds(s)):
                continue
            seen.add(s)
            step = self.steps[s]
            total += 1 if step.op in ("load", "literal", "index") else 0 if step.op == "reduce" else cost(step.op)
            todo += step.arguments
        return total

    # ------------------------------------------------------------ vectors
    @property
    def horizontal(self) -> bool:
        """Whether vectors go along the row, and reductions end with one across lanes."""
        return self.vector in self.inner

    @property
    def lanes(self) -> int:
        """How many entries one vector register holds, of the largest kind there is."""
        sizes = [scalar(s.dtype).bytes for s in self.steps if self.vector in s.depends]
        return max(self.machine.vector_bytes // max(sizes, default=4), 1)

    @property
    def masks(self) -> bool:
        return self.machine.vector_bytes == 64

    def _width(self) -> int:
        if self.vector is None:
            return 1
        n, lanes = self.turns(self.vector), self.lanes
        effort = self.effort(s for s in range(len(self.steps)))
        if self.horizontal and len(self.inner) == 1 and n <= lanes * (8 if effort <= 40 else 4):
            pieces = self._pieces(n)
            self.row = pieces if len(pieces) <= PIECES else None
        width = lanes * (4 if effort <= 12 and self.inner and n >= 4 * lanes else 2)
        while width > n and width > 1:
            width //= 2
        return _power(n) if self.masks and width < min(n, lanes) else width

    def _pieces(self, n: int) -> list[Segment]:
        """A row in as few vectors as it can be: whole registers, and a part of one at the end."""
        found: list[Segment] = []
        at = 0
        while at < n:
            left = n - at
            if self.masks and left < self.lanes:
                found.append(Segment(at, n, _power(left), left))
                break
            width = 1 << (left.bit_length() - 1)
            found.append(Segment(at, at + width, width, width))
            at += width
        return found

    def turns(self, variable: int) -> int:
        """Of a loop, counted in lanes where it goes by vectors."""
        inside = self.extents[self.short] if self.short is not None and variable == self.vector else 1
        return self.extents[variable] * inside

    def segments(self, n: int) -> list[Segment]:
        """Loops by vectors which together cover `range(n)`."""
        width, at = self.width, 0
        found: list[Segment] = []
        while at < n:
            left = n - at
            if width > left and self.masks and width > 1:
                found.append(Segment(at, n, min(width, max(_power(left), self.lanes)), left))
                break
            while width > left:
                width //= 2
            stop = at + left // width * width
            found.append(Segment(at, stop, width, width))
            at = stop
        return found

    def parallel(self) -> int:
        """Units of work: turns of the outermost loop, vectors of it where it is the one that goes by vectors."""
        if not self.outer:
            return 1
        first = self.outer[0]
        n = self.turns(first)
        return -(-n // self.width) if first == self.vector else n
