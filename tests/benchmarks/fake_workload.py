"""A workload of known cost: contenders that differ in work by a known factor, or cheat."""

import os
import time

import numpy as np

from benchmarks.workloads.contender import OURS, Budget, Case, Contender, Parts

CASES = [
    Case("still", "a step that leaves no state", "float64", 1e-12, budgets=(Budget(2.0, peer="three times"),)),
    Case("moving", "a step that adds to its state", "float64", 1e-12, steps=7),
]


def worker(times: int, *, off: float = 0.0, skip: bool = False, dtype: str = "float64"):
    """Spin for `times` units; `off` spoils the gradient, `skip` updates only the first two times."""

    def build(case: Case) -> Parts:
        state = np.zeros(3)
        steps = [0]

        def reset() -> None:
            state[...] = 0

        def step() -> float:
            until = time.perf_counter() + times * 2e-4
            while time.perf_counter() < until:
                pass
            steps[0] += 1
            if not (skip and steps[0] > 2):
                state[...] += 1
            return 1.5

        def results(last: float) -> dict:
            gradient = np.array([1.0, 2.0 + off], dtype)
            return {"loss": last, "gradient": gradient} | ({"parameters": state} if case.steps else {})

        return Parts(step, results, reset)

    return build


def threads(_: Case) -> Parts:
    """Reports the environment it lives in."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    seen = [float(os.environ.get(name, "-1")) for name in names] + [float(cpus)]
    return Parts(lambda: None, lambda _: {"environment": np.array(seen)})


def dies(_: Case) -> Parts:
    os._exit(3)


SOUND = [Contender(OURS, "numpy", worker(1)), Contender("three times", "numpy", worker(3))]
CONTENDERS = list(SOUND)
EVERYONE = {
    "wrong": Contender("wrong", "numpy", worker(1, off=1e-6)),
    "nan": Contender("nan", "numpy", worker(1, off=float("nan"))),
    "skips": Contender("skips", "numpy", worker(1, skip=True)),
    "float32": Contender("float32", "numpy", worker(1, dtype="float32")),
    "threads": Contender("threads", "numpy", threads),
    "dies": Contender("dies", "numpy", dies),
    "absent": Contender("absent", "no_such_library", worker(1)),
}
# Workers import this module afresh: they learn from the environment who takes part.
CONTENDERS += [EVERYONE[name] for name in os.environ.get("FAKE_CONTENDERS", "").split()]
