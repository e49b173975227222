"""A nest becomes the text of a kernel: loops, vectors, what is done once outside of them, reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from chainrule.compiler.native.folding import across_lanes, combine, identity
from chainrule.compiler.native.frame import CAREFUL
from chainrule.compiler.native.instructions import Instructions
from chainrule.compiler.native.kernel import OUT_OF_RANGE
from chainrule.compiler.native.memory_access import Access
from chainrule.compiler.native.nest import Nest, Output, Segment
from chainrule.compiler.native.writer import Writer, literal, scalar, splat, typed

LONG = 4096
"""Turns after which a sum begins anew, the parts being added: rounding errors then grow with neither."""


class Emitter:
    """Writes one nest.  Values known so far lie in scopes, one for each loop that is open."""

    def __init__(self, nest: Nest, pointer: Callable[[Any], str], *, alone: bool = False) -> None:
        self.nest, self.pointer, self.alone = nest, pointer, alone
        self.w = Writer()
        self.scopes: list[dict[Any, str]] = [{}]
        self.width, self.valid = 1, 1
        """Lanes of the vectors being written, and how many of them count."""
        self.texts: dict[int, str] = {}
        """Loop variables that are open."""
        order = [*nest.outer, *nest.inner]
        self.position = {v: k for k, v in enumerate(order)}
        inside = {nest.short: len(nest.outer) - 1}
        self.depths = [
            max([self.position.get(v, inside.get(v, 0)) + 1 for v in s.depends], default=0) for s in nest.steps
        ]
        self.access = Access(self)
        self.counts: dict[int, str] = {}
        """Lines that come first of all: how many lanes of a register count."""
        self.pieces: list[dict[Any, str]] = []
        """The scopes of the parts of a row that stays in registers."""
        self.scratch = 0
        self.buffers: dict[int, int] = {}
        row = prod(nest.extents[v] for v in nest.inner) * (1 if nest.horizontal else nest.width)
        for s in nest.kept:
            self.buffers[s] = self.scratch
            self.scratch += (row * scalar(nest.steps[s].dtype).bytes + 63) // 64 * 64

    # ------------------------------------------------------------ loops over rows
    def write(self) -> None:
        self._outer(0)

    def _outer(self, level: int) -> None:
        nest = self.nest
        if level == len(nest.outer):
            self._row()
            return
        self._hoist((o.value for o in nest.outputs), level)
        for out in nest.outputs:
            self._hoist(self.access.computed(out.offset), level)
            self.access.hoist(out.offset, level)
        variable = nest.outer[level]
        if variable == nest.vector:
            self._vectors(variable, level)
        elif level or self.alone:
            self.w.loop(nest.extents[variable], lambda i, _: self._turn(variable, i, level + 1))
        else:
            self.w.loop("%end", lambda i, _: self._turn(variable, i, 1), start="%begin")

    def _turn(self, variable: int, index: str, level: int, width: int = 0, valid: int = 0) -> None:
        before = self.width, self.valid
        if width:
            self.width, self.valid = width, valid
        self.scopes.append({})
        if width and self.nest.short is not None:
            index = self._divided(index, self.nest.extents[self.nest.short])
        self.texts[variable] = index
        self._outer(level)
        del self.texts[variable]
        self.scopes.pop()
        self.width, self.valid = before

    def _divided(self, index: str, by: int) -> str:
        return (
            str(int(index) // by) if index.isdigit() else self.w.value(f"lshr exact i64 {index}, {by.bit_length() - 1}")
        )

    def _vectors(self, variable: int, level: int) -> None:
        """The outer loop that goes by vectors; as the outermost one it does the vectors of numbers begin to end."""
        nest, w = self.nest, self.w
        n = nest.turns(variable)
        units = nest.parallel()
        if level or units == 1 or self.alone:
            for start, stop, width, valid in nest.segments(n):
                w.loop(stop, lambda i, _, q=(width, valid): self._turn(variable, i, level + 1, *q), start=start, step=width)  # fmt: skip
            return
        width, full = nest.width, n // nest.width
        first = w.multiply_add("%begin", width, "0")
        if full == units:
            w.loop(w.multiply_add("%end", width, "0"), lambda i, _: self._turn(variable, i, 1, width, width), start=first, step=width)  # fmt: skip
            return

        def main() -> None:
            last = w.intrinsic("llvm.smin.i64", "i64", "%end", str(full))
            w.loop(w.multiply_add(last, width, "0"), lambda i, _: self._turn(variable, i, 1, width, width), start=first, step=width)  # fmt: skip

        def rest() -> None:
            for start, stop, part, valid in nest.segments(n):
                if start >= full * width:
                    w.loop(stop, lambda i, _, q=(part, valid): self._turn(variable, i, 1, *q), start=start, step=part)

        w.when(w.value(f"icmp slt i64 %begin, {full}"), main)
        w.when(w.value(f"icmp eq i64 %end, {units}"), rest)

    # ------------------------------------------------------------ one row
    def _row(self) -> None:
        nest = self.nest
        done: list[Output] = []
        self.pieces = [{} for _ in nest.row or ()]
        for number in range(nest.count):
            self._hoist(nest.roots(number), len(nest.outer), number)
            reductions = nest.reductions(number)
            totals = self._pass(number, reductions)
            self.scopes[-1].update(zip(reductions, totals, strict=True))
            done += nest.written(number)
        if nest.horizontal:
            self.width, self.valid = 1, 1
        self.store([o for o in nest.outputs if o not in done])

    def _pass(self, number: int, reductions: list[int]) -> list[str]:
        nest = self.nest
        if nest.row:
            return self._pass_in_registers(number, reductions, nest.row)
        accumulators = [(s, width) for s in reductions for width in self._widths(s)]
        start = [(typed(self._llvm(s), width), identity(nest.steps[s].more, nest.steps[s].dtype, width)) for s, width in accumulators]  # fmt: skip
        last = self._inner(0, number, accumulators, [value for _, value in start])
        totals: dict[int, str] = {}
        for (s, width), value in zip(accumulators, last, strict=True):
            one = self._across(s, value, width) if nest.horizontal else value
            dtype, op = nest.steps[s].dtype, nest.steps[s].more
            lanes = 1 if nest.horizontal else width
            totals[s] = combine(Instructions(self.w, lanes), op, dtype, totals[s], one) if s in totals else one
        return [totals[s] for s in reductions]

    def _pass_in_registers(self, number: int, reductions: list[int], row: Sequence[Segment]) -> list[str]:
        totals: dict[int, str] = {}
        (variable,) = self.nest.inner
        for segment, scope in zip(row, self.pieces, strict=True):
            self.texts[variable], self.width, self.valid = str(segment.start), segment.width, segment.valid
            self.scopes.append(scope)
            for s in reductions:
                step = self.nest.steps[s]
                one = self._across(s, self.folded(s), self.width)
                totals[s] = (
                    combine(Instructions(self.w, 1), step.more, step.dtype, totals[s], one) if s in totals else one
                )
            self.store(self.nest.written(number))
            self.scopes.pop()
        self.width, self.valid = 1, 1
        return [totals[s] for s in reductions]

    def _llvm(self, s: int) -> str:
        return scalar(self.nest.steps[s].dtype).llvm

    def _widths(self, s: int) -> list[int]:
        """The widths of the accumulators of a reduction: one for each kind of vector that goes along the row."""
        nest = self.nest
        if nest.horizontal:
            return list(dict.fromkeys(width for _, _, width, _ in nest.segments(nest.extents[nest.inner[-1]])))
        return [self.width if self.wide(nest.steps[s].arguments[0]) else 1]

    def _across(self, s: int, value: str, width: int) -> str:
        """What is left of a vector of partial results."""
        step = self.nest.steps[s]
        if not self.nest.horizontal or width == 1:
            return value
        return across_lanes(Instructions(self.w, width), step.more, step.dtype, value)

    # ------------------------------------------------------------ loops along a row
    def _inner(self, level: int, number: int, accumulators: list[tuple[int, int]], values: Sequence[str]) -> list[str]:
        nest = self.nest
        if level == len(nest.inner):
            return self._accumulate(number, accumulators, values)
        variable = nest.inner[level]
        n = nest.extents[variable]
        for s in nest.roots(number) if level else ():
            self._hoist([s], len(nest.outer) + level, number)

        def turn(index: str, now: Sequence[str], width: int = 0, valid: int = 0) -> list[str]:
            before = self.width, self.valid
            if width:
                self.width, self.valid = width, valid
            self.scopes.append({})
            self.texts[variable] = index
            following = self._inner(level + 1, number, accumulators, now)
            del self.texts[variable]
            self.scopes.pop()
            self.width, self.valid = before
            return following

        if variable != nest.vector:
            return self._long(n, 0, 1, accumulators, list(values), turn)
        for start, stop, width, valid in nest.segments(n):
            values = self._long(stop, start, width, accumulators, list(values), lambda i, now, q=(width, valid): turn(i, now, *q))  # fmt: skip
        return list(values)

    def _long(self, stop: int, start: int, step: int, accumulators: list[tuple[int, int]], values: list[str], turn: Callable[[str, Sequence[str]], list[str]]) -> list[str]:  # fmt: skip
        """A loop; a very long one in parts, each of which sums from zero."""
        nest, w = self.nest, self.w
        kinds = [typed(self._llvm(s), width) for s, width in accumulators]
        sums = any(nest.steps[s].more == "sum" and scalar(nest.steps[s].dtype).kind == "f" for s, _ in accumulators)
        turns = -(-(stop - start) // step)
        if not sums or turns <= LONG:
            return w.loop(stop, turn, list(zip(kinds, values, strict=True)), start=start, step=step)
        length = LONG // 4 * step
        whole = start + (stop - start) // length * length

        def part(first: str, now: Sequence[str]) -> list[str]:
            fresh = [identity(nest.steps[s].more, nest.steps[s].dtype, width) for s, width in accumulators]
            end = w.value(f"add nuw nsw i64 {first}, {length}")
            made = w.loop(end, turn, list(zip(kinds, fresh, strict=True)), start=first, step=step)
            return [
                combine(Instructions(w, width), nest.steps[s].more, nest.steps[s].dtype, a, b)
                for (s, width), a, b in zip(accumulators, now, made, strict=True)
            ]

        values = w.loop(whole, part, list(zip(kinds, values, strict=True)), start=start, step=length)
        return w.loop(stop, turn, list(zip(kinds, values, strict=True)), start=whole, step=step)

    def _accumulate(self, number: int, accumulators: list[tuple[int, int]], values: Sequence[str]) -> list[str]:
        """One turn along the row."""
        nest = self.nest
        following: list[str] = []
        for (s, width), now in zip(accumulators, values, strict=True):
            if nest.horizontal and width != self.width:
                following.append(now)
                continue
            step = nest.steps[s]
            new = self.folded(s) if width > 1 else self.value(step.arguments[0])
            following.append(combine(Instructions(self.w, width), step.more, step.dtype, now, new))
        self.store(nest.written(number))
        for s, first in nest.kept.items():
            if first == number:
                self.access.keep(s)
        return following

    def folded(self, s: int) -> str:
        """What a reduction takes in, the lanes that do not count being neutral."""
        step = self.nest.steps[s]
        value = self.spread(step.arguments[0])
        if self.valid == self.width or not self.nest.horizontal:
            return value
        nothing = identity(step.more, step.dtype, self.width)
        return Instructions(self.w, self.width).either(self.mask(), step.dtype, value, nothing)

    # ------------------------------------------------------------ values
    def wide(self, s: int) -> bool:
        return self.nest.wide(self.nest.steps[s])

    def lookup(self, key: Any) -> str | None:
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        return None

    def mask(self) -> str:
        """Which lanes count.

        Of a register that counts in part LLVM must not know how far: it makes slow instructions (vexpand) of constants.
        """
        width, valid = self.width, self.valid
        part = min(self.nest.lanes, width)
        whole, rest = valid // part * part, valid % part
        constant = "<" + ", ".join(f"i1 {'true' if k < whole else 'false'}" for k in range(width)) + ">"
        found = self.lookup(("mask", width, valid)) if rest else constant
        if found is None:
            w, kind = self.w, f"<{part} x i32>"
            self.counts.setdefault(rest, f'  %lanes{rest} = call i32 asm "", "=r,0"(i32 {rest})')
            numbers = ", ".join(f"i32 {k}" for k in range(part))
            found = w.value(f"icmp ult {kind} <{numbers}>, {w.spread(f'%lanes{rest}', 'i32', part)}")
            if part < width:
                name = f"llvm.vector.insert.v{width}i1.v{part}i1"
                w.declarations.add(f"declare <{width} x i1> @{name}(<{width} x i1>, <{part} x i1>, i64)")
                found = w.value(
                    f"call <{width} x i1> @{name}(<{width} x i1> {constant}, <{part} x i1> {found}, i64 {whole})"
                )
            self.scopes[-1]["mask", width, valid] = found
        return found

    def lines(self) -> list[str]:
        """The whole body: what masks need comes first."""
        return [*self.counts.values(), *self.w.lines]

    def value(self, s: int) -> str:
        """A number of the tape in a register: a vector if it changes with the loop that goes by vectors."""
        found = self.lookup(s)
        if found is None:
            found = self.scopes[-1][s] = self._compute(s)
        return found

    def spread(self, s: int) -> str:
        """The same as a vector in any case."""
        if self.wide(s) or self.width == 1:
            return self.value(s)
        found = self.lookup((s, self.width))
        if found is None:
            found = self.w.spread(self.value(s), self._llvm(s), self.width)
            self.scopes[-1][s, self.width] = found
        return found

    def _compute(self, s: int) -> str:
        step, wide = self.nest.steps[s], self.wide(s)
        if step.op == "literal":
            return literal(step.more, step.dtype)
        # outside of the innermost loop, what is the same for all its turns is computed anew: the row is kept entry by entry
        if self.nest.kept.get(s, self.passing) < self.passing and all(v in self.texts for v in self.nest.inner):
            return self.access.kept(s)
        if step.op == "load":
            return self.access.load(step)
        if step.op == "index":
            return self.access.number(step)
        width = self.width if wide else 1
        of = [self.spread(a) if wide else self.value(a) for a in step.arguments]
        instructions = Instructions(self.w, width)
        if step.op == "bounded":
            return self._bounded(instructions, of[0], step.more)
        if step.op == "watched":
            return self._watched(instructions, of[0], step.dtype)
        if step.op in ("quotient", "modulo"):
            kind = typed("i64", width)
            return self.w.value(f"u{'div' if step.op == 'quotient' else 'rem'} {kind} {of[0]}, {of[1]}")
        dtype = step.dtype if step.op == "select" else self.nest.steps[step.arguments[0]].dtype
        return instructions.apply(step.op, dtype, of, step.dtype)

    def _bounded(self, instructions: Instructions, index: str, length: int) -> str:
        width, w = instructions.width, self.w
        kind = typed("i64", width)
        within = w.value(f"icmp ult {kind} {index}, {instructions.known(length, np.int64)}")
        beyond = w.value(f"xor {typed('i1', width)} {within}, {splat('true', 'i1', width)}")
        self._note(instructions, beyond, OUT_OF_RANGE)
        return instructions.either(within, np.int64, index, instructions.known(0, np.int64))

    def _watched(self, instructions: Instructions, x: str, dtype: Any) -> str:
        if scalar(dtype).kind == "f":
            self._note(instructions, instructions.apply("isnan", dtype, [x]), CAREFUL)
        return x

    def _note(self, instructions: Instructions, where: str, what: int) -> None:
        """Set bits of the status if a truth value holds in any lane."""
        w = self.w
        found = across_lanes(instructions, "any", np.bool_, where) if instructions.width > 1 else where
        w.when(found, lambda: w.line(f"atomicrmw or ptr %status, i32 {what} monotonic, align 4"))

    def store(self, outputs: Sequence[Output]) -> None:
        """All values first: what is written may be what another one reads."""
        values = [self.spread(o.value) for o in outputs]
        for out, value in zip(outputs, values, strict=True):
            self.access.store(out, value)

    # ------------------------------------------------------------ what loops need not repeat
    passing = 0

    def _hoist(self, roots: Iterable[int], level: int, number: int | None = None) -> None:
        """Compute now what `roots` need and the loops to come do not change."""
        nest = self.nest
        if number is not None:
            self.passing = number
        seen: set[int] = set()
        todo = list(roots)
        while todo:
            s = todo.pop()
            if s in seen:
                continue
            seen.add(s)
            step = nest.steps[s]
            if self.depths[s] <= level and (nest.passes[s] <= number if number is not None else nest.passes[s] == 0):
                if step.op not in ("literal", "index") and self.lookup(s) is None:
                    self.value(s)
                continue
            if step.op == "load":
                self.access.hoist(step.more[1], level)
            if number is None or step.op != "reduce":
                todo += step.arguments
