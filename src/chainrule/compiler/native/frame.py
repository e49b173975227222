"""What one call of a program carries, in one block of memory that native code and Python both know.

A frame holds what went wrong, where the workspace is, the barrier at which threads meet, and the address of every
input and fresh output.  It belongs to one call, so that calls may overlap in time.
"""

from __future__ import annotations

STATUS = 0
"""i32: bits that kernels set, OUT_OF_RANGE and CAREFUL."""
FLAGS = 4
"""i32: CAREFUL, once the processor's invalid flag was seen."""
WORKSPACE = 8
"""Address of the arena, then of each thread's scratch memory."""
CONSTANTS = 16
"""Address of the addresses of the program's constants."""
TIMES = 24
"""Address of the cycles at which steps ended; only a program built for it writes there."""
BARRIER = 64
"""i64: how often threads have arrived at barriers, on a cache line of its own."""
ARRAYS = 128
"""Addresses of the inputs, then of the fresh outputs."""

CAREFUL = 2
"""The careful program must run instead."""


def frame_bytes(arrays: int) -> int:
    """How large a frame for so many inputs and outputs is: whole cache lines."""
    return (ARRAYS + 8 * arrays + 63) // 64 * 64
