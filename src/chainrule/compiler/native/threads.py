"""How many threads run a large compiled program, and the pool of those threads.

The pool is started by the first program that is worth it, and again by the next one after `set_num_threads`.  Forked
processes share the cores among themselves: the programs of each run on one thread, until it sets a number itself.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import warnings
from pathlib import Path
from threading import RLock, Thread
from typing import Any

import numpy as np

from chainrule.compiler.native import spmd
from chainrule.errors import ArgumentError, explain

POSSIBLE = sys.platform != "win32"  # the pool sleeps on a POSIX condition
MOST = 256

_lock = RLock()
_number = 0
_inherited = False
"""Whether the number was set in another process, of which this one is a fork."""
_cell: Any = np.zeros(1, np.uint64)
"""The address of the pool, which native code reads at every call; 0: there is none."""
_pool: _Pool | None = None


def get_num_threads() -> int:
    """How many threads run a large compiled program.

    Until `set_num_threads` was called: the environment's `CHAINRULE_NUM_THREADS`, else its `OMP_NUM_THREADS`, else as
    many as there are cores for this process.
    """
    global _number
    if not _number:
        _number = _from_environment() if POSSIBLE else 1
    return _number


def set_num_threads(number: int) -> None:
    """Let large compiled programs run on `number` threads, the calling one included; those of less than about a
    millisecond run on one.

    Results do not depend on it.  Elsewhere than on systems with POSIX threads it stays 1.

    **Raises** ArgumentError unless `1 <= number <= 256`.
    """
    global _number, _inherited
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(explain("set_num_threads", f"no whole number of threads from 1 to {MOST}", number=number))
    with _lock:
        stop()
        _number, _inherited = (number if POSSIBLE else 1), False


def _from_environment() -> int:
    for name in ("CHAINRULE_NUM_THREADS", "OMP_NUM_THREADS"):
        told = os.environ.get(name, "").split(",", maxsplit=1)[0].strip()  # OpenMP: one number for each level
        if told.isdecimal() and int(told):
            return min(int(told), MOST)
        if told and name.startswith("CHAINRULE"):
            warnings.warn(f"{name}={told} is no number of threads, and is not followed", stacklevel=2)
    return min(_cores(), MOST)


def _cores() -> int:
    """Cores that this process may use, not counting two threads of one core twice, nor what a container's quota forbids."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    cores = len(allowed)
    try:
        siblings = Path("/sys/devices/system/cpu")
        cores = len({(siblings / f"cpu{k}/topology/thread_siblings_list").read_text() for k in allowed})
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(cores, round(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file; the quota is "max"
        return cores


def cell() -> int:
    """Where native code finds the address of the pool."""
    return _cell.ctypes.data


def start() -> None:
    """Have a pool of the threads that are set, if that is more than one and there is none."""
    global _pool
    with _lock:
        if _pool is None and not _inherited and get_num_threads() > 1:
            _pool = _Pool(_number)
            _cell[0] = _pool.address


def stop() -> None:
    """End the pool's threads, once the program that they run has ended."""
    global _pool
    with _lock:
        pool, _pool = _pool, None
        _cell[0] = 0
        if pool is not None:
            pool.end()


def _forked() -> None:
    """In a child: the threads are gone, and so is whoever held the lock."""
    global _pool, _lock, _inherited
    _lock = RLock()
    _pool = None
    _cell[0] = 0
    _inherited = True


class _Pool:
    """Threads, and the memory through which they are told what to do; never freed, for a thread may still look at it."""

    def __init__(self, number: int) -> None:
        from chainrule.compiler.native.runtime import runtime

        code = runtime().shared
        self._memory: Any = np.zeros(spmd.POOL_BYTES + 64, np.uint8)
        self.address = (self._memory.ctypes.data + 63) & -64
        _kept.append(self._memory)
        ctypes.c_int64.from_address(self.address + spmd.THREADS).value = number
        process = ctypes.CDLL(None)
        process.pthread_mutex_init(ctypes.c_void_p(self.address + spmd.MUTEX), None)
        process.pthread_cond_init(ctypes.c_void_p(self.address + spmd.CONDITION), None)
        work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address("worker"))
        self._halt = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("halt"))
        self._threads = [
            Thread(target=work, args=(self.address, k), name=f"chainrule-{k}", daemon=True) for k in range(1, number)
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._halt(self.address)
        for thread in self._threads:
            thread.join()


_kept: list[Any] = []

atexit.register(stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
