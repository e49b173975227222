"""One kernel for a group of expressions, or for what moves entries about: pad, concat, scatter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from chainrule.compiler.expressions import CONVOLUTIONS, REDUCTIONS, AxisMap, Expression
from chainrule.compiler.native.affine import Affine, Domain, SplitError, combined
from chainrule.compiler.native.convolutions import convolution_kernel
from chainrule.compiler.native.fuse import Group, canonical
from chainrule.compiler.native.kernel import Kernel, Machine
from chainrule.compiler.native.loops import Emitter
from chainrule.compiler.native.nest import Nest, Output
from chainrule.compiler.native.products import dot_kernel
from chainrule.compiler.native.strides import contiguous, strided
from chainrule.compiler.native.tape import Reader, cost


class Memory(NamedTuple):
    """Where things lie, as far as kernels must know."""

    machine: Machine
    lies: Callable[[Expression], bool]
    """Whether an expression is read from memory."""
    home: Callable[[Expression], Expression]
    """The input in whose memory an expression goes at the end; itself otherwise."""
    movable: Callable[[Expression], bool]
    """Whether a kernel can be given the address of any entry as that of the first, so that pieces share a kernel."""


class Made(NamedTuple):
    kernel: Kernel
    operands: tuple[Expression, ...]
    shifts: tuple[int, ...] = ()
    """At which of their entries the operands begin for the kernel; empty: at the first."""


class Wanted(NamedTuple):
    """Loops, and what they write."""

    shape: tuple[int, ...]
    folded: tuple[int, ...]
    """Axes of it."""
    outputs: Callable[[Reader], list[Output]]


def build(wanted: Wanted, memory: Memory, label: str, *, scalars: bool = False, alone: bool = False) -> Made:  # fmt: skip
    """The kernel; `scalars` goes without vectors, `alone` cannot be shared by threads."""
    domain = Domain(wanted.shape)
    while True:
        reader = Reader(domain, [v for axis in wanted.folded for v in domain.axes[axis]], memory.lies)
        try:
            outputs = wanted.outputs(reader)
            break
        except SplitError as wish:
            domain.split(wish)
    nest = Nest(reader, outputs, memory.machine, scalars=scalars)
    shifts = nest.shifted(memory.home, memory.movable)
    operands: list[Expression] = []

    def pointer(e: Expression) -> str:
        there = memory.home(e)
        if there not in operands:
            operands.append(there)
        return f"%a{operands.index(there)}"

    emitter = Emitter(nest, pointer, alone=alone)
    emitter.write()
    written = {memory.home(o.target) for o in outputs}
    size = prod(wanted.shape)
    arrays = {s.more[0] for s in nest.steps if s.op == "load"} | written
    kernel = Kernel(
        "\n".join(emitter.lines()),
        operands=len(operands),
        written=tuple(k for k, e in enumerate(operands) if e in written),
        extent=1 if alone else nest.parallel(),
        scratch=emitter.scratch,
        functions=frozenset(emitter.w.functions),
        declarations=frozenset(emitter.w.declarations),
        label=label,
        flop=float(
            size * sum(cost(s.op) for s in nest.steps if s.depends and s.op not in ("load", "literal", "index"))
        ),
        moved=float(sum(e.size * e.dtype.itemsize for e in arrays)),
    )
    return Made(kernel, tuple(operands), tuple(shifts.get(e.number, 0) for e in operands))


def fused(group: Group, stored: Sequence[Expression], memory: Memory) -> Made:
    """Everything that a group leaves in memory, in one nest of loops."""
    shape, folded = _loops(group, stored)

    def outputs(reader: Reader) -> list[Output]:
        index = reader.domain.index()
        flat = combined(contiguous(shape), index)
        kept = tuple(i for k, i in enumerate(index) if k not in folded)
        left = tuple(n for k, n in enumerate(shape) if k not in folded)
        rows = combined(contiguous(left), kept)
        out: list[Output] = []
        for e in stored:
            entries = e.op not in REDUCTIONS and e.size == group.size
            number, at = (flat, index) if entries else (rows, kept)
            same = (shape if entries else left) == e.shape
            value = reader.at(e, at if same else reader.unflattened(number, e.shape))
            out.append(Output(value, e, number))
        return out

    label = "; ".join(described(e) for e in stored)
    return build(Wanted(shape, folded, outputs), memory, label)


def _loops(group: Group, stored: Sequence[Expression]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape that the loops of a group walk, and the axes that are folded."""
    if group.folds:
        return group.folds
    for e in group.members:
        if group.rows and e.op in REDUCTIONS:
            inner = e.arguments[0].shape
            return inner, tuple(k for k in range(len(inner)) if k in e.attribute)
    return max((e.shape for e in stored if e.size == group.size), key=len), ()


# ---------------------------------------------------------------- from memory into memory
def border(e: Expression, memory: Memory, joined: Mapping[int, tuple[Expression, int]]) -> list[Made]:  # fmt: skip
    """The kernels of an expression that has its own; what is `joined` lies in its place already."""
    if e.op == "dot":
        return [product(e, memory.machine)]
    if e.op in CONVOLUTIONS:
        return [Made(convolution_kernel(memory.machine, e), (*map(canonical, e.arguments), e))]
    if e.op == "concat":
        corner, made, first = [0] * e.ndim, list[Made](), 0
        for part in e.arguments:
            if part.size and joined.get(canonical(part).number) != (e, first):
                made.append(placed(e, part, corner, memory))
            corner[e.attribute] += part.shape[e.attribute]
            first += part.size
        return made
    if e.op == "scatter":
        return [filled(e, e.arguments[0], memory), scattered(e, memory)]
    number = e.attribute[1] if e.op == "pad" else 0
    first = filled(e, Expression(-1, "literal", (), (), e.dtype, number), memory)
    if e.op == "pad":
        return [first, placed(e, e.arguments[0], [before for before, _ in e.attribute[0]], memory)]
    return [first, added_by_view(e, memory)]


def product(e: Expression, machine: Machine) -> Made:
    """`dot`, of operands that are windows of memory."""
    *batch, m, n = e.shape
    windows = [strided(a) for a in e.arguments]
    a, b = ((w.offset, w.strides) for w in windows)
    k = e.arguments[0].shape[-1]
    kernel = dot_kernel(machine, e.dtype, tuple(batch), m, n, k, a, b, (0, contiguous(e.shape)))
    return Made(kernel, (windows[0].source, windows[1].source, e))


def placed(target: Expression, part: Expression, corner: Sequence[int], memory: Memory) -> Made:
    """`part` written into `target` with its first entry at `corner`."""
    strides = contiguous(target.shape)

    def outputs(reader: Reader) -> list[Output]:
        index = reader.domain.index()
        moved = [i.plus(Affine(first)) for i, first in zip(index, corner, strict=True)]
        return [Output(reader.at(part, index), target, combined(strides, moved))]

    return build(Wanted(part.shape, (), outputs), memory, f"{target.op} of {described(part)}")


def filled(target: Expression, value: Expression, memory: Memory) -> Made:
    """`value`, a scalar or of the same size, all over `target`."""

    def outputs(reader: Reader) -> list[Output]:
        index = reader.domain.index()
        found = reader.at(value, ()) if value.ndim == 0 else reader.at(value, index)
        return [Output(found, target, combined(contiguous(target.shape), index))]

    return build(Wanted(target.shape, (), outputs), memory, f"fill of {target.op}")


def added_by_view(target: Expression, memory: Memory) -> Made:
    """`scatter_view`, into zeros that are there already."""
    x = target.arguments[0]
    maps: tuple[AxisMap, ...] = target.attribute
    strides = contiguous(target.shape)

    def outputs(reader: Reader) -> list[Output]:
        index = reader.domain.index()
        moved = [combined([s for _, s in terms], [index[a] for a, _ in terms], first) for first, terms in maps]
        return [Output(reader.at(x, index), target, combined(strides, moved), adds=True)]

    last = [k for k, n in enumerate(x.shape) if n != 1][-1:]
    apart = any(axis in last for _, terms in maps for axis, _ in terms)
    return build(Wanted(x.shape, (), outputs), memory, "scatter_view", scalars=not apart, alone=True)


def scattered(target: Expression, memory: Memory) -> Made:
    """`scatter`, into a copy of its base that is there already: one entry after another, since indices may be equal."""
    _, indices, values = target.arguments
    axis: int = target.attribute[0]
    depth = indices.ndim
    strides = contiguous(target.shape)

    def outputs(reader: Reader) -> list[Output]:
        index = reader.domain.index()
        at = index[axis : axis + depth]
        checked = reader.step("bounded", (reader.at(indices, at),), "int64", target.shape[axis])
        place = reader.variable(checked, target.shape[axis])
        moved = (*index[:axis], place, *index[axis + depth :])
        return [Output(reader.at(values, index), target, combined(strides, moved), adds=target.attribute[1] == "add")]

    last = [k for k, n in enumerate(values.shape) if n != 1][-1:]
    by_lanes = bool(last) and axis <= last[0] < axis + depth
    return build(Wanted(values.shape, (), outputs), memory, "scatter", scalars=by_lanes, alone=True)


# ---------------------------------------------------------------- words
def described(e: Expression, depth: int = 3) -> str:
    """A few words of what an expression is."""
    if e.op in ("view", "reshape"):
        return described(e.arguments[0], depth)
    if not e.arguments:
        return f"x{e.attribute}" if e.op == "input" else repr(e.attribute) if e.op == "literal" else e.op
    inner = ", ".join(described(a, depth - 1) for a in e.arguments) if depth else "..."
    return f"{e.op}({inner})"
