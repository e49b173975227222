"""Memory that a step frees stays with the process, so that the next step need not fault its pages in again.

A backward pass frees what the forward pass kept.  glibc then returns the top of the heap to the kernel, and the next
step pays a page fault for every 4 kB it touches: most of the time of a step on arrays of 80 kB and more.
`docs/decisions/002-page-faults.md` has the figures.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

_PIN_BYTES = 1 << 20
_PIN_EVERY = 32
_walks = 0
_pin: object = None

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def hold_peak() -> None:
    """Called at the start of a reverse walk, when the most memory is in use.

    glibc can only return what lies above the last block in use.  One untouched block, made at the peak and held until
    a later walk, keeps what lies below it; it costs address space, no memory.  Steps of a loop resemble each other,
    so it need not be moved at each.
    """
    global _walks, _pin
    if _walks < 4 or _walks % _PIN_EVERY == 0:  # the first ones lie outside the heap, until one of them was freed
        _pin = np.empty(_PIN_BYTES, np.uint8)
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
