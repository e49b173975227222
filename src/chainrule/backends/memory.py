"""Memory that a step frees stays with the process, so that the next step need not fault its pages in again.

A backward pass frees what the forward pass kept.  glibc then returns the top of the heap to the kernel, and the next
step pays a page fault for every 4 kB it touches: most of the time of a step on arrays of 80 kB and more.
`docs/decisions/002-page-faults.md` has the figures.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

_BLOCK = 1 << 20  # bytes
_TRY_EVERY = 7  # no common factor with the number of walks in a step (grad 1, hvp 2), so each of them gets its turn
_FORGET_EVERY = 7 << 12
_walks = 0
_held: Any = None
_address = 0

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def hold_peak() -> None:
    """Called at the start of a walk, when the most memory is in use.

    glibc can only return what lies above the last block in use.  One untouched block, made at a peak and held, keeps
    what lies below it; it costs address space, no memory.  From time to time another is made, and held instead if it
    lies higher.
    """
    global _walks, _held, _address
    if _walks % _TRY_EVERY == 0:
        if _walks == 0:
            # This one lies outside the heap.  Once it is freed, glibc takes blocks of its size from the heap.
            np.empty(_BLOCK, np.uint8)
        block = np.empty(_BLOCK, np.uint8)
        address = block.__array_interface__["data"][0]
        if address > _address or _walks % _FORGET_EVERY == 0:
            _held, _address = block, address
    _walks += 1


def keep_pages() -> bool:
    """Tell glibc to keep all freed memory, for the whole process; whether that was possible.

    Worth it for training steps on arrays above a hundred thousand elements; the command line turns it on.  The same as
    the environment variables MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_MAX_.  Elsewhere than on Linux with glibc it does
    nothing and returns False.

    **Source** mallopt(3).
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
