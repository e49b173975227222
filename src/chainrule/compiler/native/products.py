"""Products of matrices, of any layout, as one kernel each.

The innermost loop is `tiles.accumulate`: a block of the result in registers.  Around it go, inwards: batches, pieces of
k and of columns that keep what is read in the L2 cache, units of rows that threads share, panels of columns, tiles.
What is not laid out as the innermost loop wants it is packed into scratch memory first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from chainrule.compiler.native.inner import InnerProduct, suits
from chainrule.compiler.native.kernel import Kernel, Machine
from chainrule.compiler.native.matrices import Layout, Matrices, Problem, merged, problem
from chainrule.compiler.native.packing import Scratch, at_most, pack
from chainrule.compiler.native.tiles import Tile, accumulate, choose, load_part, nought, store_part, width_of
from chainrule.compiler.native.writer import Writer, scalar
from chainrule.types import Shape


def dot_kernel(
    machine: Machine, dtype: Any, batch: Shape, m: int, n: int, k: int, a: Layout, b: Layout, c: Layout
) -> Kernel:
    """`c[q, i, j] = sum over l of a[q, i, l] * b[q, l, j]`, of operands a, b, c."""
    size, itemsize = prod(batch), scalar(dtype).bytes
    return _kernel(machine, dtype, problem(batch, m, n, k, a, b, c))._replace(
        label=f"dot {'x'.join(map(str, (*batch, m, k, n)))}",
        flop=2.0 * size * m * n * k,
        moved=float(itemsize * size * (m * k + n * k + m * n)),
    )


@lru_cache(256)
def _kernel(machine: Machine, dtype: Any, p: Problem) -> Kernel:
    """A network has the same few products many times."""
    names = ("%a0", "%a1", "%a2")
    if _better_turned(machine, dtype, p):
        p = Problem(p.batch, p.n, p.m, p.k, p.b.turned(), p.a.turned(), p.c.turned())
        names = ("%a1", "%a0", "%a2")
    p = merged(p)
    made = (InnerProduct if suits(machine, dtype, p) else _Product)(machine, dtype, p, names)
    body = made.write()
    declarations, functions = frozenset(made.w.declarations), frozenset(made.w.functions)
    return Kernel(body, 3, (2,), made.extent, made.scratch.bytes, functions, declarations)


def _better_turned(machine: Machine, dtype: Any, p: Problem) -> bool:
    """Whether columns should be rows: results lie so, or there are few columns and neighbouring rows of a."""
    if p.c.column != 1 and p.c.row == 1:
        return True
    return p.a.row == 1 and 2 * p.n <= min(width_of(machine, dtype), p.m)


class _Columns(NamedTuple):
    """Neighbouring panels of columns, alike but for where they start."""

    start: str
    panels: int | str
    vectors: int
    valid: int
    """Columns of the last vector of each that exist."""


# Entries along k summed in registers before the sums go to memory: where b fits into the L2 cache, and where not.
_DEEP, _LESS_DEEP = 768, 384


def _depth(k: int, most: int) -> int:
    """Length of the pieces into which k is cut, equal ones if possible."""
    fewest = max(1, -(-k // most))
    for pieces in range(fewest, 2 * fewest):
        if k % pieces == 0:
            return k // pieces
    return (-(-k // fewest) + 7) // 8 * 8


class _Product:
    """One kernel in the making."""

    def __init__(self, machine: Machine, dtype: Any, p: Problem, names: tuple[str, str, str]) -> None:
        self.names = names
        self.w, self.dtype, self.p = Writer(), dtype, p
        bytes_ = scalar(dtype).bytes
        room = machine.l2_bytes // 2 // bytes_
        self.deep = max(1, _depth(p.k, _DEEP if p.k * p.n <= room else _LESS_DEEP))
        self.adds = self.deep != p.k
        self.tile: Tile = choose(machine, dtype, p.m, p.n, edge=0.06 if self.adds else 0.03)
        rows, vectors, width = self.tile
        self.panel = vectors * width
        # a packed piece of b takes half of the L2 cache
        wide = max(1, room // self.deep // self.panel)
        self.blocked = self.adds or wide < p.n // self.panel
        self.wide = wide if self.blocked else -(-p.n // self.panel)
        self.packs_b = self.blocked or p.b.column != 1 or p.n < width
        far = p.a.column != 1 and abs(p.a.column) * bytes_ >= 4 * machine.vector_bytes and self.panel < p.n
        self.packs_a = self.blocked or far
        tall = max(1, machine.l1_bytes // 2 // bytes_ // self.deep // rows) if self.packs_a else 1
        self.rows = min(rows * tall, p.m // rows * rows)
        self.units, self.batches = p.m // self.rows, prod(p.batch)
        self.extent = self.units * self.batches
        self.staged = p.c.column != 1
        tall = -(-(self.rows + p.m % self.rows) // rows) * rows
        self.scratch = Scratch(self.w)
        self.packed_b = self.scratch.reserve(self.wide * self.panel * self.deep if self.packs_b else 0, bytes_)
        self.packed_a = self.scratch.reserve(tall * self.deep if self.packs_a else 0, bytes_)
        self.stage = self.scratch.reserve(p.m * p.n if self.staged else 0, bytes_)

    # ------------------------------------------------------------ batches
    def write(self) -> str:
        w = self.w
        w.when(w.value("icmp slt i64 %begin, %end"), self._all)
        return "\n".join(w.lines)

    def _all(self) -> None:
        w = self.w
        if self.batches == 1:
            self._batch("0", "%begin", "%end")
            return
        if self.units == 1:
            w.loop("%end", lambda q, _: self._batch(q, "0", "1"), start="%begin")
            return

        def batch(q: str, _: list[str]) -> None:
            first = w.value(f"mul nsw i64 {q}, {self.units}")
            low = w.intrinsic("llvm.smax.i64", "i64", w.value(f"sub nsw i64 %begin, {first}"), "0")
            high = at_most(w, w.value(f"sub nsw i64 %end, {first}"), self.units)
            self._batch(q, low, high)

        last = w.value(f"sdiv i64 {w.value('sub nsw i64 %end, 1')}, {self.units}")
        w.loop(w.value(f"add nsw i64 {last}, 1"), batch, start=w.value(f"sdiv i64 %begin, {self.units}"))

    def _pointer(self, operand: int, where: Matrices, q: str) -> str:
        """The first entry of matrix number q."""
        w, offset, left = self.w, str(where.offset), q
        for n, stride in zip(reversed(self.p.batch), reversed(where.batch), strict=True):
            if left == q and n == self.batches:
                index = q
            else:
                index, left = w.value(f"srem i64 {left}, {n}"), w.value(f"sdiv i64 {left}, {n}")
            offset = w.multiply_add(index, stride, offset)
        return w.address(self.names[operand], offset, self.dtype)

    def _batch(self, q: str, low: str, high: str) -> None:
        """Units `low` to `high` of one product."""
        p = self.p
        self.a, self.b = self._pointer(0, p.a, q), self._pointer(1, p.b, q)
        self.c, self.c_row = self._pointer(2, p.c, q), p.c.row
        target = self.c
        if self.staged:
            self.c, self.c_row = self.stage, p.n
        if self.blocked:
            self._pieces(low, high)
        else:
            self._at_once(low, high)
        if self.staged:
            self._unstage(target, low, high)

    def _unstage(self, target: str, low: str, high: str) -> None:
        w, p = self.w, self.p

        def copy(i: str) -> None:
            def entry(j: str, _: list[str]) -> None:
                value = w.load(self.c, w.multiply_add(i, p.n, j), self.dtype)
                at = w.multiply_add(i, p.c.row, w.multiply_add(j, p.c.column, "0"))
                w.store(value, target, at, self.dtype)

            w.loop(p.n, entry)

        self._each_unit(low, high, lambda first, count: self._each(first, count, copy))

    def _each(self, first: str, count: str, body: Callable[[str], None]) -> None:
        """Rows `first` and following."""
        w = self.w
        w.loop(count, lambda i, _: body(w.multiply_add(i, 1, first)))

    def _each_unit(self, low: str, high: str, body: Callable[[str, str], None]) -> None:
        """`body(first row, number of rows)`; the last unit has the rows that are left over."""
        w, over = self.w, self.p.m % self.rows

        def unit(u: str, _: list[str]) -> None:
            count = str(self.rows)
            if over and self.units == 1:
                count = str(self.rows + over)
            elif over:
                last = w.value(f"icmp eq i64 {u}, {self.units - 1}")
                count = w.value(f"select i1 {last}, i64 {self.rows + over}, i64 {self.rows}")
            body(w.multiply_add(u, self.rows, "0"), count)

        if self.units == 1:
            unit("0", [])
        else:
            w.loop(high, unit, start=low)

    # ------------------------------------------------------------ what stays in cache
    def _split(self) -> list[_Columns]:
        """Full panels, and a smaller one."""
        p, (_, vectors, width) = self.p, self.tile
        full, rest = divmod(p.n, self.panel)
        some = [_Columns("0", full, vectors, width)] if full else []
        if rest:
            vectors, valid, start = -(-rest // width), (rest - 1) % width + 1, full * self.panel
            if not self.packs_b and p.n >= vectors * width:
                # rather some columns twice than a part of a vector
                start, valid = p.n - vectors * width, width
            some.append(_Columns(str(start), 1, vectors, valid))
        return some

    def _at_once(self, low: str, high: str) -> None:
        p, columns = self.p, self._split()
        if self.packs_b:
            for some in columns:
                self._pack_b(some, self._number(some.start), "0", p.k)

        def unit(first: str, count: str) -> None:
            self._unit(first, count, columns, [self._number(some.start) for some in columns], "0", p.k)

        self._each_unit(low, high, unit)

    def _number(self, column: str) -> str:
        return str(int(column) // self.panel)

    def _pieces(self, low: str, high: str) -> None:
        """A piece of k and of the columns after the other; those of k are summed in memory."""
        w, p = self.w, self.p
        if self.adds:
            self._each_unit(low, high, lambda first, count: self._each(first, count, self._clear))

        def piece(k: str, _: list[str]) -> None:
            steps: int | str = self.deep
            if p.k % self.deep:
                steps = at_most(w, w.value(f"sub nsw i64 {p.k}, {k}"), self.deep)
            for some in self._split():
                if some.panels == 1:
                    self._piece(some, k, steps, low, high)
                    continue

                def several(j: str, _: list[str], some: _Columns = some) -> None:
                    count: int | str = self.wide
                    if int(some.panels) % self.wide:
                        left = w.value(f"sub nsw i64 {some.panels}, {j}")
                        count = at_most(w, left, self.wide)
                    now = some._replace(start=w.multiply_add(j, self.panel, "0"), panels=count)
                    self._piece(now, k, steps, low, high)

                w.loop(some.panels, several, step=self.wide)

        w.loop(p.k, piece, step=self.deep)

    def _piece(self, some: _Columns, k: str, steps: int | str, low: str, high: str) -> None:
        self._pack_b(some, "0", k, steps)
        self._each_unit(low, high, lambda first, count: self._unit(first, count, [some], ["0"], k, steps))

    def _clear(self, row: str) -> None:
        w, p, width = self.w, self.p, self.tile.width
        here = w.address(self.c, w.multiply_add(row, self.c_row, "0"), self.dtype)
        whole = p.n // width * width
        w.loop(whole, lambda j, _: w.store(nought(self.dtype, width), here, j, self.dtype, width), step=width)
        w.loop(p.n, lambda j, _: w.store(nought(self.dtype, 1), here, j, self.dtype), start=whole)

    def _pack_b(self, some: _Columns, number: str, k: str, steps: int | str) -> None:
        """`some` panels into scratch memory, from panel `number` on."""
        w, p, width = self.w, self.p, self.tile.width
        across = (some.vectors - 1) * width + some.valid

        def panel(j: str, _: list[str]) -> None:
            column = w.multiply_add(j, self.panel, some.start)
            at = w.multiply_add(k, p.b.row, w.multiply_add(column, p.b.column, "0"))
            there = w.multiply_add(w.multiply_add(j, 1, number), self.panel * self.deep, "0")
            source, target = w.address(self.b, at, self.dtype), w.address(self.packed_b, there, self.dtype)
            pack(w, self.dtype, source, target, across, some.vectors * width, steps, (p.b.column, p.b.row), width)

        w.loop(some.panels, panel)

    # ------------------------------------------------------------ what stays in registers
    def _unit(self, first: str, count: str, columns: Sequence[_Columns], numbers: Sequence[str], k: str, steps: int | str) -> None:  # fmt: skip
        """Some rows times some columns."""
        w, p, rows = self.w, self.p, self.tile.rows
        over = p.m % rows
        # rows left over are done together with some that are done twice, or, where sums are added up, by a smaller tile
        extra = rows - 1 if over and not self.adds else 0
        if count.isdigit():
            tiles = str((int(count) + extra) // rows)
        else:
            tiles = w.value(f"udiv i64 {w.value(f'add nsw i64 {count}, {extra}') if extra else count}, {rows}")

        def start(t: str) -> str:
            row = w.multiply_add(t, rows, first)
            return row if not extra else at_most(w, row, p.m - rows)

        if self.packs_a:
            w.loop(tiles, lambda t, _: self._pack_a(start(t), t, k, steps))

        def panel(column: str, number: str, some: _Columns) -> None:
            w.loop(tiles, lambda t, _: self._tile(rows, start(t), t, column, number, some, k, steps))

        self._panels(columns, numbers, panel)
        if over and self.adds:

            def rest() -> None:
                self._pack_a(str(p.m - rows), tiles, k, steps)

                def panel(column: str, number: str, some: _Columns) -> None:
                    self._tile(over, str(p.m - over), tiles, column, number, some, k, steps)

                self._panels(columns, numbers, panel)

            rest() if count.isdigit() else w.when(w.value(f"icmp sgt i64 {count}, {self.rows}"), rest)

    def _panels(self, columns: Sequence[_Columns], numbers: Sequence[str], body: Callable[[str, str, _Columns], None]) -> None:  # fmt: skip
        """`body(first column, number of the panel, some)` for each panel."""
        w = self.w
        for some, number in zip(columns, numbers, strict=True):

            def panel(j: str, _: list[str], some: _Columns = some, number: str = number) -> None:
                body(w.multiply_add(j, self.panel, some.start), w.multiply_add(j, 1, number), some)

            w.loop(some.panels, panel)

    def _pack_a(self, row: str, t: str, k: str, steps: int | str) -> None:
        w, p, rows = self.w, self.p, self.tile.rows
        at = w.multiply_add(row, p.a.row, w.multiply_add(k, p.a.column, "0"))
        source = w.address(self.a, at, self.dtype)
        target = w.address(self.packed_a, w.multiply_add(t, rows * self.deep, "0"), self.dtype)
        pack(w, self.dtype, source, target, rows, rows, steps, (p.a.row, p.a.column), self.tile.width)

    def _tile(self, rows: int, row: str, t: str, column: str, number: str, some: _Columns, k: str, steps: int | str) -> None:  # fmt: skip
        """`rows` from `row` on, which are number t if packed, times one panel."""
        w, p, dtype, width = self.w, self.p, self.dtype, self.tile.width
        if self.packs_a:
            whole = self.tile.rows
            at, a_row, a_step = w.multiply_add(t, whole * self.deep, str(whole - rows)), 1, whole
            a = w.address(self.packed_a, at, dtype)
        else:
            a_row, a_step = p.a.row, p.a.column
            a = w.address(self.a, w.multiply_add(row, a_row, "0"), dtype)
        if self.packs_b:
            b, b_step = w.address(self.packed_b, w.multiply_add(number, self.panel * self.deep, "0"), dtype), some.vectors * width  # fmt: skip
        else:
            b, b_step = w.address(self.b, column, dtype), p.b.row
        valid = [width] * (some.vectors - 1) + [some.valid]

        def left(i: str) -> list[str]:
            here = w.address(a, w.multiply_add(i, a_step, "0"), dtype)
            return [w.load(here, str(r * a_row), dtype) for r in range(rows)]

        def right(i: str) -> list[str]:
            here = w.address(b, w.multiply_add(i, b_step, "0"), dtype)
            real = [width] * some.vectors if self.packs_b else valid
            return [load_part(w, here, str(v * width), dtype, width, n) for v, n in enumerate(real)]

        c = w.address(self.c, w.multiply_add(row, self.c_row, column), dtype)
        spots = [(str(r * self.c_row + v * width), n) for r in range(rows) for v, n in enumerate(valid)]
        so_far = [load_part(w, c, at, dtype, width, n) for at, n in spots] if self.adds else None
        sums = accumulate(w, dtype, Tile(rows, some.vectors, width), steps, left, right, so_far)
        for value, (at, n) in zip(sums, spots, strict=True):
            store_part(w, value, c, at, dtype, width, n)
