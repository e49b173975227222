"""What code generation hands to the machine: kernels, and the order in which a program calls them.

A kernel is one LLVM function, `void (ptr operands..., ptr scratch, ptr status, i64 begin, i64 end)`.  It does the part
`begin <= unit < end` of its work, so that threads can share it; kernels of equal text are compiled once.
"""

from __future__ import annotations

from typing import NamedTuple

Place = tuple[str, int]
"""Where an array lives: ("input", position) ("output", position) ("constant", number) ("arena", byte offset)."""


class Machine(NamedTuple):
    """What code generation must know of the processor."""

    vector_bytes: int = 32
    """64, 32 or 16.  At 64 masks of lanes are taken for cheap."""
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024
    registers: int = 16
    """Vector registers."""


class Kernel(NamedTuple):
    """One function without its name, and what it needs."""

    body: str
    """The lines after `entry:`.  Operands are `%a0`, `%a1` ...; then `%scratch`, `%status`, `%begin`, `%end`."""
    operands: int
    written: tuple[int, ...]
    """Which operands it writes; no other operand overlaps with these."""
    extent: int
    """Units of work that may be done apart and in any order; 1: not to be shared."""
    scratch: int = 0
    """Bytes that each thread needs for itself, aligned to 64."""
    functions: frozenset[tuple[str, str, int]] = frozenset()
    declarations: frozenset[str] = frozenset()
    label: str = ""
    """In words, for reports: `sum(exp(x - y))`."""
    flop: float = 0.0
    moved: float = 0.0
    """Bytes that must be read and written once."""


class Call(NamedTuple):
    """A kernel and the places of its operands."""

    kernel: Kernel
    operands: tuple[Place, ...]
    bytes: tuple[int, ...] = ()
    """How much of each operand's place belongs to it, where that is known; for drawings."""


class Opaque(NamedTuple):
    """An equation computed by NumPy between two native stretches: operands and results are C-contiguous arrays."""

    equation: object
    operands: tuple[Place, ...]
    results: tuple[Place, ...]
    picks: tuple[int | None, ...] = ()
    """Which output of the equation each result is; None where it has only one."""
    operand_types: tuple[tuple[object, ...], ...] = ()
    """(shape, dtype) of each operand."""
    result_types: tuple[tuple[object, ...], ...] = ()


class Schedule(NamedTuple):
    """Everything in order: `steps[:commit]` compute; after them the flags are read; the rest writes into inputs."""

    steps: tuple[Call | Opaque, ...]
    commit: int
    checked: int
    """The invalid flag is read after `steps[:checked]`, and cleared before the first; 0: it is not looked at."""
    arena: int
    """Bytes."""
    constants: tuple[object, ...]
    """Arrays, kept alive by the program; a Place ("constant", k) is number k."""
    types: tuple[tuple[object, ...], ...] = ()
    """(shape, dtype) of each input; then of each output, in the order of places ("output", position)."""


OUT_OF_RANGE = 1
"""Set in `status` (an i32) by a kernel that met an index beyond its axis: nothing may be committed."""
