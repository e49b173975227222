"""The process that does the work: ``python -m benchmarks.worker PROCESS CPU``.

It reads one JSON command a line and answers with one JSON line.  It can hold any number of
contenders.

build    make a contender and set it to its initial state
time     one block: a step that is not counted, back to the initial state, then n steps
results  write what the last block computed to an .npz file, for comparison
memory   peak memory, in bytes, that a step adds, or making a contender and a few steps
"""

import gc
import importlib
import json
import os
import resource
import sys
import time
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.processes import PROCESSES, pin

if TYPE_CHECKING:
    from benchmarks.workloads.contender import Parts

Answer = dict[str, Any]


class Bench:
    """The contenders of one worker, each with what its last block returned."""

    def __init__(self) -> None:
        self.parts: dict[str, Parts] = {}
        self.last: dict[str, Any] = {}

    def build(self, key: str, module: str, case: int | str, name: str) -> Answer:
        """`case`: its place among the workload's CASES, or the name of one that is not measured."""
        workload = importlib.import_module(module)
        entry = next(c for c in workload.CONTENDERS if c.name == name)
        self.parts[key] = entry.build(workload.CASES[case] if isinstance(case, int) else getattr(workload, case))
        return {}

    def drop(self, key: str) -> Answer:
        self.parts.pop(key, None)
        self.last.pop(key, None)
        return {}

    def time(self, key: str, steps: int, warm: bool) -> Answer:
        """One block: wall seconds, CPU seconds of this thread, page faults."""
        parts = self.parts[key]
        step = parts.step
        self.last.pop(key, None)
        if warm:
            step()
        parts.reset()
        parts.sync()
        faults = page_faults()
        wall, thread = time.perf_counter(), time.thread_time()
        for _ in repeat(None, steps - 1):
            step()
        last = step()
        parts.sync()
        wall, thread = time.perf_counter() - wall, time.thread_time() - thread
        faults = page_faults() - faults
        self.last[key] = last
        return {"wall": wall, "thread": thread, "faults": faults}

    def results(self, key: str, path: str) -> Answer:
        named = self.parts[key].results(self.last[key])
        np.savez(path, **{name: np.asarray(value) for name, value in named.items()})
        return {}

    def memory(self, key: str, steps: int = 1, build: Answer | None = None) -> Answer:
        """Peak memory of the steps, and of building the contender first, beyond what is resident before."""
        gc.collect()
        before = resident()
        if build is not None:
            self.build(key, **build)
        for _ in range(steps):
            self.last[key] = self.parts[key].step()
        return {"added": peak() - before}


# getrusage counts in kilobytes, on macOS in bytes.
KILOBYTE = 1 if sys.platform == "darwin" else 1024


def page_faults() -> int:
    """Pages that the kernel has mapped for this process so far, without reading a disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def peak() -> int:
    """Peak resident memory, in bytes.  On Linux not getrusage's, which counts what the parent held when it forked."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE


def resident() -> int:
    """Resident memory now, in bytes; where /proc is missing, the peak so far."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE


def main() -> None:
    process, cpu = sys.argv[1:3]
    pin(None if cpu == "-" else int(cpu))
    # Answers have a channel of their own: whatever a library prints goes to stderr.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    bench = Bench()
    prepare = PROCESSES[process].prepare
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if prepare is not None:
                prepare()
                prepare = None
            answer = getattr(bench, command.pop("do"))(**command)
        except Exception as error:  # noqa: BLE001 -- a row that fails is reported, whatever the reason
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
