"""The steps of the transformer and of the large conv net once more, with two threads in every library.

All have both CPUs of the machine while it is their turn; whether the machine has two that are idle decides what these rows are worth.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.processes import JAX_TWO_THREADS, TWO_THREADS
from benchmarks.workloads import conv, transformer
from benchmarks.workloads.contender import (
    COMPILE,
    FUSED,
    JAX_JIT,
    OURS,
    OURS_JIT,
    TORCH,
    Case,
    Contender,
    Parts,
    fastest,
)

CASES = [
    replace(transformer.CASES[0], name="transformer, two threads", budgets=fastest(1.25)),
    replace(conv.CASES[1], name="conv, 32x32, two threads", budgets=fastest(1.15)),
]


def of(name: str) -> Callable[[Case], Parts]:
    """The contender of that name, of the case's own workload."""

    def build(case: Case) -> Parts:
        workload: Any = transformer if "heads" in case.sizes else conv
        return next(c for c in workload.CONTENDERS if c.name == name).build(case)

    return build


CONTENDERS = [
    *(Contender(name, "chainrule", of(name), TWO_THREADS) for name in (OURS, OURS_JIT)),
    *(Contender(name, "torch", of(name), TWO_THREADS) for name in (TORCH, FUSED, COMPILE)),
    Contender(JAX_JIT, "jax", of(JAX_JIT), JAX_TWO_THREADS),
]
