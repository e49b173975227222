"""What native code must know of a program's arguments and results: numbers and addresses, an i64 each, in memory."""

from __future__ import annotations

from typing import NamedTuple

CONTEXT = (
    "array_type", "tuple_type", "float_type", "int_type", "none", "out_of_range", "type_error", "new", "part", "inputs",
    "outputs", "written", "workspace", "busy", "workspace_bytes", "frame_bytes", "ends", "numbers", "constants",
    "input_records", "output_records", "written_list", "pool", "threads", "long", "spares",
)  # fmt: skip
"""What stands in a program's context.

`written`: how many inputs that are not empty are written, whose numbers are `written_list`; `busy`: 1 while a call uses
the workspace; `ends`, `numbers`: offsets in the frame; `pool`: address of the address of the threads' pool, or 0;
`threads`: for how many the workspace is; `long`: whether other Python threads may run meanwhile; `spares`: a list of
two places for each output, where its last arrays are kept, or 0.
"""

CONTIGUOUS, OWNED, ALIGNED, WRITEABLE = 0x1, 0x4, 0x100, 0x400
"""NumPy's flags."""


class InputRecord(NamedTuple):
    """What an argument must be."""

    descriptor: int
    numbers: int
    """A bit for each of NumPy's type numbers that will do, where the descriptor is another object."""
    ndim: int
    shape: int
    bytes: int
    flags: int
    misaligned: int
    """Bits of the address that must be 0."""
    number: int
    """1: a Python float will do, 2: a Python int, 0: neither."""


class OutputRecord(NamedTuple):
    """What a fresh output is."""

    descriptor: int
    ndim: int
    shape: int
    turn: int = 0
    """Which of the two places the next new array goes in."""


def slot(name: str) -> int:
    """Offset of an entry of the context."""
    return 8 * CONTEXT.index(name)


def offset(record: type[InputRecord | OutputRecord], name: str) -> int:
    """Offset of an entry of a record."""
    return 8 * record._fields.index(name)
