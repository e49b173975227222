"""The environments a worker process can start in, and how it is started.

Nothing is measured in the process that prints the table: thread settings, glibc's malloc
settings and OpenBLAS's choice of kernels must be in force before NumPy loads, so every
contender lives in a worker whose environment is made here.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)
# Either of these alone makes OpenBLAS choose kernels or blockings of another machine.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")

# glibc keeps freed memory instead of returning it to the kernel, so a step does not fault
# in again the pages that the step before gave back.  Thresholds in bytes.
# Source: mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.
MALLOC_SETTING = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
}


def keep_pages() -> None:
    """Chainrule's own remedy against page faults; the one place that names it."""
    from chainrule.backends.memory import keep_pages

    keep_pages()


@dataclass(frozen=True)
class Process:
    """How one worker starts."""

    what: str
    environment: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[], None] | None = None
    threads: int = 1


AS_IT_COMES, MALLOC, KEPT, JAX, JAX_KEPT = "as it comes", "malloc setting", "pages kept", "jax", "jax, malloc setting"
TWO_THREADS, JAX_TWO_THREADS = "two threads", "jax, two threads"
ON_ONE_CPU = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}

PROCESSES = {
    AS_IT_COMES: Process("no setting but one thread"),
    MALLOC: Process("glibc told to keep freed memory", MALLOC_SETTING),
    KEPT: Process("chainrule's remedy against page faults turned on", prepare=keep_pages),
    JAX: Process("JAX on one CPU thread", ON_ONE_CPU),
    TWO_THREADS: Process("two threads on two CPUs", threads=2),
    JAX_TWO_THREADS: Process("JAX on two CPUs", {"JAX_PLATFORMS": "cpu"}, threads=2),
    JAX_KEPT: Process("JAX on one CPU thread, glibc told to keep freed memory", ON_ONE_CPU | MALLOC_SETTING),
}


def environment(process: str) -> dict[str, str]:
    """The environment variables of a worker."""
    env = {k: v for k, v in os.environ.items() if k not in UNSET and k not in MALLOC_SETTING}
    env |= dict.fromkeys(ONE_THREAD, str(PROCESSES[process].threads)) | PROCESSES[process].environment
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), env.get("PYTHONPATH"))))
    return env


def measuring_cpu(process: str = AS_IT_COMES) -> int | None:
    """The CPU that all workers share, taking turns; None where processes cannot be pinned, or need more than one.

    The last one allowed: the first handles most interrupts.
    """
    if not hasattr(os, "sched_getaffinity") or PROCESSES[process].threads > 1:
        return None
    return max(os.sched_getaffinity(0))


def pin(cpu: int | None) -> None:
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})


def worker_command(process: str, cpu: int | None) -> list[str]:
    return [sys.executable, "-m", "benchmarks.worker", process, "-" if cpu is None else str(cpu)]
