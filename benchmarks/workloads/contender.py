"""The words in which a workload is written.

A workload module has CASES (sizes) and CONTENDERS (libraries).  A contender's function takes
a case and returns its Parts: the step that is timed, and what it computed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.processes import AS_IT_COMES

OURS = "chainrule"
OURS_KEPT = "chainrule, pages kept"
OURS_JIT = "chainrule jit"
TORCH = "PyTorch"
TORCH_MALLOC = "PyTorch, malloc setting"
FUSED = "PyTorch, fused"
FUSED_MALLOC = "PyTorch, fused, malloc setting"
COMPILE = "torch.compile"
COMPILE_MALLOC = "torch.compile, malloc setting"
JAX_JIT = "JAX jit"
JAX_MALLOC = "JAX jit, malloc setting"
JAX_SCAN = "JAX jit, scan"
MEMORY = "bound: memory"
ARITHMETIC = "bound: arithmetic"


@dataclass(frozen=True)
class Budget:
    """How many times faster than a peer a contender of ours has to be, at least and ideally."""

    floor: float
    aim: float | None = None
    ours: str = OURS
    peer: str = TORCH


def fastest(floor: float) -> tuple[Budget, ...]:
    """Of the compiled step against whichever peer is fastest: PyTorch as it comes, fused, or compiled, or JAX."""
    return tuple(Budget(floor, ours=OURS_JIT, peer=peer) for peer in (TORCH, FUSED, COMPILE, JAX_JIT))


@dataclass(frozen=True)
class Case:
    """One size of a workload.

    tolerance: how far results may differ, relative to the largest entry of their kind.
    steps: steps in every block, where a step changes the state; None: as many as make a
        block long enough.
    """

    name: str
    what: str
    dtype: str
    tolerance: float
    steps: int | None = None
    budgets: tuple[Budget, ...] = ()
    sizes: Mapping[str, Any] = field(default_factory=dict)


def nothing() -> None:
    """The reset of a step that leaves no state."""


class Parts(NamedTuple):
    """A contender, ready to run.

    step: the timed work.  results: what a block computed, by name, given what its last step
    returned; called outside the timed region.  reset: back to the initial state.  sync: waits for
    what a step has only begun; called once, at the end of the timed region.
    """

    step: Callable[[], Any]
    results: Callable[[Any], dict[str, Any]]
    reset: Callable[[], None] = nothing
    sync: Callable[[], Any] = nothing


@dataclass(frozen=True)
class Contender:
    """name: its row.  library: the module it needs.  process: the worker it lives in."""

    name: str
    library: str
    build: Callable[[Case], Parts]
    process: str = AS_IT_COMES
