"""Memory seen from within loops: offsets, neighbours as vectors, lanes that do not count, entries that lie apart."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.compiler.expressions import Expression
from chainrule.compiler.native.affine import Affine
from chainrule.compiler.native.instructions import Instructions
from chainrule.compiler.native.nest import Output
from chainrule.compiler.native.tape import Step
from chainrule.compiler.native.writer import scalar, splat, typed

if TYPE_CHECKING:
    from chainrule.compiler.native.loops import Emitter


LINE = 64
"""Bytes of a line of the cache."""
CHUNKS = 4
"""Entries that lie within so many vectors are taken out of these; others are gathered one by one."""


def _runs(pattern: list[int], valid: int) -> bool:
    """Whether lanes are neighbours."""
    return all(p == k for k, p in enumerate(pattern[:valid]))


class Access:
    """Loads and stores for an emitter."""

    def __init__(self, emitter: Emitter) -> None:
        self.e, self.w = emitter, emitter.w

    # ------------------------------------------------------------ offsets
    def offset(self, a: Affine) -> str:
        """The offset of the first lane, variable by variable from the outermost loop on, parts being shared."""
        position = self.e.position  # the short loop within a vector is not among them
        loops = sorted((t for t in a.terms if t[0] in position), key=lambda t: position[t[0]])
        text, sofar = str(a.first), list[tuple[int, int]]()
        for variable, stride in loops:
            sofar.append((variable, stride))
            text = self._sum((a.first, tuple(sofar)), self.e.texts[variable], stride, text)
        for variable, stride in a.terms:
            value = self.e.nest.variables[variable].value
            if value is not None and not self.e.wide(value):
                text = self._sum((text, value, stride), self.e.value(value), stride, text)
        return text

    def _sum(self, key: Any, index: str, stride: int, base: str) -> str:
        found = self.e.lookup(key)
        if found is None:
            found = self.e.scopes[-1][key] = self.w.multiply_add(index, stride, base)
        return found

    def hoist(self, a: Affine, level: int) -> None:
        """Write now what an offset has of the loops that are open."""
        position = self.e.position
        terms = tuple(t for t in a.terms if position.get(t[0], level) < level)
        if terms:
            self.offset(Affine(a.first, terms))

    def computed(self, a: Affine) -> list[int]:
        """The steps that an offset needs."""
        found = (self.e.nest.variables[v].value for v, _ in a.terms)
        return [s for s in found if s is not None]

    def _apart(self, a: Affine) -> list[tuple[str, int]]:
        """Computed indices that differ from lane to lane, with their strides."""
        found: list[tuple[str, int]] = []
        for variable, stride in a.terms:
            value = self.e.nest.variables[variable].value
            if value is not None and self.e.wide(value):
                found.append((self.e.value(value), stride))
        return found

    def pattern(self, a: Affine) -> list[int]:
        """How far each lane is from the first; one that does not count stays there."""
        nest = self.e.nest
        far, near = (a.of(v) if v is not None else 0 for v in (nest.vector, nest.short))
        m = nest.extents[nest.short] if nest.short is not None else 1
        return [far * (k // m) + near * (k % m) if k < self.e.valid else 0 for k in range(self.e.width)]

    def lanes(self, a: Affine, apart: list[tuple[str, int]]) -> str:
        """The offsets of all lanes; one that does not count has that of the first."""
        width, w = self.e.width, self.w
        kind = typed("i64", width)
        pattern = self.pattern(a)
        total = w.spread(self.offset(a), "i64", width)
        if any(pattern):
            total = w.value(f"add {kind} {total}, <{', '.join(f'i64 {k}' for k in pattern)}>")
        for index, each in apart:
            part = index if each == 1 else w.value(f"mul {kind} {index}, {splat(str(each), 'i64', width)}")
            total = w.value(f"add {kind} {total}, {part}")
        return total

    # ------------------------------------------------------------ loads
    def load(self, step: Step) -> str:
        source, a = step.more
        pointer = self.e.pointer(source)
        if not self.e.nest.wide(step):
            return self.w.load(pointer, self.offset(a), step.dtype)
        apart = self._apart(a)
        if self.e.width == 1:
            offset = self.offset(a)
            for index, stride in apart:
                offset = self.w.multiply_add(index, stride, offset)
            return self.w.load(pointer, offset, step.dtype)
        if apart:
            return self.gathered(pointer, self.lanes(a, apart), step.dtype)
        pattern = self.pattern(a)
        if _runs(pattern, self.e.valid):
            offset = self.offset(a)
            self._prefetch(source, pointer, a, offset)
            return self.neighbours(pointer, offset, step.dtype)
        low, high = min(pattern), max(pattern)
        if high - low < CHUNKS * self.e.width:
            base = self.w.multiply_add(str(low), 1, self.offset(a)) if low else self.offset(a)
            return self.picked(pointer, base, step.dtype, [p - low for p in pattern])
        return self.gathered(pointer, self.lanes(a, apart), step.dtype)

    def _prefetch(self, source: Expression, pointer: str, a: Affine, offset: str) -> None:
        """Call for the next row while the first pass over this one goes on: processors foresee nothing beyond a page."""
        nest, itemsize = self.e.nest, source.dtype.itemsize
        far = source.size * itemsize > nest.machine.l2_bytes
        if not (far and nest.horizontal and nest.outer and nest.count > 1 and self.e.passing == 0):
            return
        following = a.of(nest.outer[-1]) * itemsize
        here = self.w.address(pointer, offset, source.dtype)
        self.w.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for line in range(0, self.e.width * itemsize if following else 0, LINE):
            at = self.w.value(f"getelementptr i8, ptr {here}, i64 {following + line}")
            self.w.line(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")

    def picked(self, pointer: str, offset: str, dtype: Any, pattern: list[int]) -> str:
        """Entries not far from each other: neighbours are loaded, never beyond the last entry, and lanes taken from them."""
        w, s, width = self.w, scalar(dtype), self.e.width
        llvm, _ = s.in_memory
        span = max(pattern) + 1
        piece = min(width, span)
        starts = [*range(0, span - piece, piece), span - piece]
        parts = [len(starts) - 1 if p >= starts[-1] else p // piece for p in pattern]
        loaded: list[str] = []
        for start in starts:
            at = w.address(pointer, w.multiply_add(str(start), 1, offset), dtype)
            loaded.append(w.value(f"load {typed(llvm, piece)}, ptr {at}, align {s.bytes}"))
        found = loaded[0] if len(starts) > 1 else self._shuffled(loaded[0], "poison", llvm, piece, pattern)
        for number in range(1, len(starts)):
            lanes = [-1] * width
            for k, (part, p) in enumerate(zip(parts, pattern, strict=True)):
                if part == number:
                    lanes[k] = width + p - starts[part]
                elif part < number:
                    lanes[k] = p if number == 1 else k
            found = self._shuffled(found, loaded[number], llvm, width, lanes)
        return w.value(f"icmp ne {typed('i8', width)} {found}, {splat('0', 'i8', width)}") if s.kind == "b" else found

    def _shuffled(self, x: str, y: str, llvm: str, of: int, lanes: list[int]) -> str:
        if of == 1:
            return self.w.spread(x, llvm, len(lanes))
        kind = typed(llvm, of)
        mask = ", ".join(f"i32 {k}" if k >= 0 else "i32 poison" for k in lanes)
        return self.w.value(f"shufflevector {kind} {x}, {kind} {y}, <{len(lanes)} x i32> <{mask}>")

    def neighbours(self, pointer: str, offset: str, dtype: Any) -> str:
        """A vector of neighbours; lanes that do not count repeat the first, so that they can do no harm."""
        width, w = self.e.width, self.w
        if self.e.valid == width:
            return w.load(pointer, offset, dtype, width)
        s, at = scalar(dtype), w.address(pointer, offset, dtype)
        llvm, suffix = s.in_memory
        kind = typed(llvm, width)
        first = w.spread(w.value(f"load {llvm}, ptr {at}, align {s.bytes}"), llvm, width)
        name = f"llvm.masked.load.v{width}{suffix}.p0"
        w.declarations.add(f"declare {kind} @{name}(ptr, i32, <{width} x i1>, {kind})")
        found = w.value(f"call {kind} @{name}(ptr {at}, i32 {s.bytes}, <{width} x i1> {self.e.mask()}, {kind} {first})")
        return w.value(f"icmp ne {kind} {found}, {splat('0', 'i8', width)}") if s.kind == "b" else found

    def gathered(self, pointer: str, offsets: str, dtype: Any) -> str:
        """Entries from anywhere."""
        width, w, s = self.e.width, self.w, scalar(dtype)
        llvm, suffix = s.in_memory
        kind = typed(llvm, width)
        at = w.value(f"getelementptr inbounds {llvm}, ptr {pointer}, <{width} x i64> {offsets}")
        name = f"llvm.masked.gather.v{width}{suffix}.v{width}p0"
        w.declarations.add(f"declare {kind} @{name}(<{width} x ptr>, i32, <{width} x i1>, {kind})")
        everything = splat("true", "i1", width)
        found = w.value(f"call {kind} @{name}(<{width} x ptr> {at}, i32 {s.bytes}, <{width} x i1> {everything}, {kind} poison)")  # fmt: skip
        return w.value(f"icmp ne {kind} {found}, {splat('0', 'i8', width)}") if s.kind == "b" else found

    def number(self, step: Step) -> str:
        """An index as a number of the dtype that is asked for."""
        a, w, e = step.more, self.w, self.e
        wide = e.nest.wide(step)
        if not wide or e.width == 1:
            offset = self.offset(a)
            for index, stride in self._apart(a) if wide else ():
                offset = w.multiply_add(index, stride, offset)
            return self._converted(Instructions(w, 1), offset, step.dtype)
        apart = self._apart(a)
        kind = scalar(step.dtype)
        if apart or kind.kind == "f":
            return self._converted(Instructions(w, e.width), self.lanes(a, apart), step.dtype)
        first = self._converted(Instructions(w, 1), self.offset(a), step.dtype)
        steps = ", ".join(f"{kind.llvm} {k}" for k in self.pattern(a))
        return w.value(f"add {typed(kind.llvm, e.width)} {w.spread(first, kind.llvm, e.width)}, <{steps}>")

    def _converted(self, instructions: Instructions, offset: str, dtype: Any) -> str:
        if offset.lstrip("-").isdigit():
            return instructions.known(int(offset), dtype)
        return offset if np.dtype(dtype) == np.int64 else instructions.cast(offset, np.int64, dtype)

    # ------------------------------------------------------------ stores
    def store(self, out: Output, value: str) -> None:
        e, w = self.e, self.w
        dtype = e.nest.steps[out.value].dtype
        pointer, apart = e.pointer(out.target), self._apart(out.offset)
        pattern = self.pattern(out.offset)
        fixed = not apart and not any(out.offset.of(v) for v in (e.nest.vector, e.nest.short) if v is not None)
        if fixed or e.width == 1:
            if e.width > 1:
                value = e.value(out.value)
            offset = self.offset(out.offset)
            for index, each in apart:
                offset = w.multiply_add(index, each, offset)
            if out.adds:
                value = Instructions(w, 1).apply("add", dtype, [w.load(pointer, offset, dtype), value])
            w.store(value, pointer, offset, dtype)
        elif not apart and _runs(pattern, e.valid):
            offset = self.offset(out.offset)
            if out.adds:
                there = self.neighbours(pointer, offset, dtype)
                value = Instructions(w, e.width).apply("add", dtype, [there, value])
            self.put(value, pointer, offset, dtype)
        else:
            lanes = self.lanes(out.offset, apart)
            if out.adds:
                there = self.gathered(pointer, lanes, dtype)
                value = Instructions(w, e.width).apply("add", dtype, [there, value])
            self._scatter(value, pointer, lanes, dtype)

    def put(self, value: str, pointer: str, offset: str, dtype: Any) -> None:
        """A vector of neighbours, or those of its lanes that count."""
        width, w = self.e.width, self.w
        if self.e.valid == width:
            w.store(value, pointer, offset, dtype, width)
            return
        s = scalar(dtype)
        llvm, suffix = s.in_memory
        kind = typed(llvm, width)
        if s.kind == "b":
            value = w.value(f"zext {typed('i1', width)} {value} to {kind}")
        name = f"llvm.masked.store.v{width}{suffix}.p0"
        w.declarations.add(f"declare void @{name}({kind}, ptr, i32, <{width} x i1>)")
        at = w.address(pointer, offset, dtype)
        w.line(f"call void @{name}({kind} {value}, ptr {at}, i32 {s.bytes}, <{width} x i1> {self.e.mask()})")

    def _scatter(self, value: str, pointer: str, offsets: str, dtype: Any) -> None:
        width, w, s = self.e.width, self.w, scalar(dtype)
        llvm, suffix = s.in_memory
        kind = typed(llvm, width)
        if s.kind == "b":
            value = w.value(f"zext {typed('i1', width)} {value} to {kind}")
        at = w.value(f"getelementptr inbounds {llvm}, ptr {pointer}, <{width} x i64> {offsets}")
        name = f"llvm.masked.scatter.v{width}{suffix}.v{width}p0"
        w.declarations.add(f"declare void @{name}({kind}, <{width} x ptr>, i32, <{width} x i1>)")
        w.line(
            f"call void @{name}({kind} {value}, <{width} x ptr> {at}, i32 {s.bytes}, <{width} x i1> {self.e.mask()})"
        )

    # ------------------------------------------------------------ rows kept between passes
    def _buffer(self, s: int) -> tuple[str, str]:
        nest = self.e.nest
        at, sizes = Affine(), [nest.extents[v] for v in nest.inner]
        for k, v in enumerate(nest.inner):
            at = at.plus(Affine(0, ((v, prod(sizes[k + 1 :])),)), 1 if nest.horizontal else nest.width)
        first = self.e.buffers[s]
        pointer = "%scratch" if not first else self.w.value(f"getelementptr i8, ptr %scratch, i64 {first}")
        return pointer, self.offset(at)

    def keep(self, s: int) -> None:
        value = self.e.value(s)
        pointer, offset = self._buffer(s)
        dtype = self.e.nest.steps[s].dtype
        if self.e.width == 1 or not self.e.wide(s):
            self.w.store(value, pointer, offset, dtype)
        else:
            self.put(value, pointer, offset, dtype)

    def kept(self, s: int) -> str:
        pointer, offset = self._buffer(s)
        dtype = self.e.nest.steps[s].dtype
        if self.e.width == 1 or not self.e.wide(s):
            return self.w.load(pointer, offset, dtype)
        return self.neighbours(pointer, offset, dtype)
