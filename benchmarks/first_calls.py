"""What a compiled function costs besides running: its first call, with an empty and with a full cache, and every call's wrapper."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.harness import WorkerError, progress
from benchmarks.processes import AS_IT_COMES, ROOT, environment

REPEATS = 5
ARRAYS = 20
# Seconds: DESIGN's targets, those of the issue on compiled mode.
TARGETS = {"hinge, cold": 0.15, "transformer, cold": 1.3, "transformer, cached": 0.25, "wrapper": 3e-6}

# From the call to its return, chainrule and llvmlite imported.  The step is the benchmark's own, caught when it is made.
FIRST = """
import json, sys, time
import chainrule as cr, llvmlite.binding
from benchmarks.workloads import {workload} as workload
from benchmarks.workloads.contender import OURS_JIT
times, jit = [], cr.jit

def caught(function):
    compiled = jit(function)
    def step(*arguments):
        start = time.perf_counter()
        result = compiled(*arguments)
        times.append(time.perf_counter() - start)
        return result
    return step

cr.jit = caught
contender = next(c for c in workload.CONTENDERS if c.name == OURS_JIT)
parts = contender.build(workload.CASES[0])
times or parts.step()
print(json.dumps(times[0]))
"""

WRAPPER = """
import json, time
import numpy as np, chainrule as cr

@cr.jit
def total(*arrays):
    found = arrays[0]
    for array in arrays[1:]:
        found = found + array
    return found

arrays = [np.ones(4, np.float32) for _ in range({arrays})]
best = []
for _ in range(3):
    total(*arrays)
for _ in range(25):
    start = time.perf_counter()
    for _ in range(2000):
        total(*arrays)
    best.append((time.perf_counter() - start) / 2000)
print(json.dumps(sorted(best)[len(best) // 2]))
"""


def run(code: str, **more: str) -> Any:
    """What the code prints, seconds mostly, in a new process."""
    variables = {**environment(AS_IT_COMES), **more}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=variables, check=False)  # fmt: skip
    if done.returncode:
        raise WorkerError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def bounds(rounds: int) -> Any:
    """`kernels.bounds` in a process of its own, on one CPU."""
    code = f"import json; from benchmarks.processes import measuring_cpu, pin; pin(measuring_cpu()); from benchmarks.workloads import kernels; print(json.dumps(kernels.bounds({rounds})))"
    progress("bounds of kernels")
    found = run(code)
    progress("")
    return found


def measure() -> dict[str, Any]:
    """Medians in seconds."""
    found: dict[str, list[float]] = {name: [] for name in TARGETS}
    for number in range(REPEATS):
        progress(f"first calls: {number + 1} of {REPEATS}")
        for workload in ("hinge", "transformer"):
            with tempfile.TemporaryDirectory() as folder:
                code, where = FIRST.format(workload=workload), {"CHAINRULE_CACHE_DIR": os.path.join(folder, "cache")}  # noqa: PTH118
                found[f"{workload}, cold"].append(run(code, **where))
                if workload == "transformer":
                    found["transformer, cached"].append(run(code, **where))
        found["wrapper"].append(run(WRAPPER.format(arrays=ARRAYS)))
    progress("")
    return {name: {"seconds": statistics.median(times), "target": TARGETS[name]} for name, times in found.items()}


def text(found: dict[str, Any]) -> str:
    """What `measure` found, beside the targets."""
    lines = ["compiled functions: first calls, and the wrapper of a call with 20 array arguments"]
    for name, entry in found.items():
        met = "kept" if entry["seconds"] <= entry["target"] else "MISSED"
        lines.append(f"  {name}: {entry['seconds']:.3g} s of {entry['target']:g} s: {met}")
    return "\n".join(lines)
