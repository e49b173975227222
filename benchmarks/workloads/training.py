"""A training step as everybody writes it, in chainrule and in PyTorch: what the workloads on networks have in common.

Both sides start from the same weights and see the same batches, and every block begins at that start, so parameters and
gradients are compared after as many steps as were timed.  The first step of all belongs to the start: PyTorch makes its
optimiser's state there, and a block is no place to pay for it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from benchmarks.processes import JAX, JAX_KEPT, KEPT, MALLOC
from benchmarks.workloads.contender import (
    COMPILE,
    COMPILE_MALLOC,
    FUSED,
    FUSED_MALLOC,
    JAX_JIT,
    JAX_MALLOC,
    JAX_SCAN,
    OURS,
    OURS_JIT,
    OURS_KEPT,
    TORCH,
    Case,
    Contender,
    Parts,
)


class Task(NamedTuple):
    """What is trained.

    weights: the initial parameters, by PyTorch's names.  batches: pairs of arrays, input and class indices, in the order
    in which they are seen, over and over.  rows: where there is one pair only, the rows of each batch, drawn from it
    within the step.  per_step: batches in a step that is timed.  optimiser: its name; options: its arguments, betas and
    rate.  decay: weight decay of matrices; vectors have none.  clip: the largest norm of all gradients together.
    """

    weights: Mapping[str, np.ndarray]
    batches: Sequence[tuple[np.ndarray, np.ndarray]]
    rows: Sequence[np.ndarray] = ()
    per_step: int = 1
    optimiser: str = "Adam"
    options: Mapping[str, Any] = {}
    decay: float | None = None
    clip: float | None = None


def groups(parameters: Sequence[Any], decay: float | None) -> list[Any]:
    """The parameters, or two groups of them: matrices with weight decay, vectors without."""
    if decay is None:
        return list(parameters)
    return [
        {"params": [p for p in parameters if len(p.shape) > 1], "weight_decay": decay},
        {"params": [p for p in parameters if len(p.shape) < 2], "weight_decay": 0.0},
    ]


def parts(
    task: Task, start: Callable[[], tuple[Any, Any, Callable[[Any, Any], Any]]], take: Callable[[Any], Any]
) -> Parts:
    """A contender.

    start() gives the named parameters, in their initial state, a function from arrays to a batch, and the step on a
    batch; take(p) gives an array's value.
    """
    held: dict[str, Any] = {}

    def reset() -> None:
        named, made, one = start()
        if task.rows:
            (x, y), rows = task.batches[0], cycle(task.rows)
            held["next"] = lambda: one(*made(*pick(x, y, next(rows))))
        else:
            batches = cycle([made(x, y) for x, y in task.batches])
            held["next"] = lambda: one(*next(batches))
        held["parameters"] = named
        held["next"]()

    def step() -> Any:
        one = held["next"]
        for _ in range(task.per_step):
            loss = one()
        return loss

    def results(loss: Any) -> dict[str, Any]:
        out: dict[str, Any] = {"loss": loss.item()}
        for name, p in held["parameters"].items():
            out[f"parameter {name}"], out[f"gradient {name}"] = take(p), take(p.grad)
        return out

    reset()
    return Parts(step, results, reset)


def pick(x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x[rows], y[rows]


def again(model: Any, optimiser: Any, weights: Any) -> Callable[[], None]:
    """Sets a model and its optimiser back, the objects themselves: what was compiled for them stays valid."""
    initial = optimiser.state_dict()

    def restore() -> None:
        model.load_state_dict(weights)
        optimiser.load_state_dict(initial)
        optimiser.zero_grad()

    return restore


def chainrule(task: Task, network: Callable[[], Any], *, compiled: bool = False) -> Parts:
    """network() makes the model, a module whose parameters are called as in the task's weights."""
    import chainrule as cr

    cross_entropy, clip = cr.nn.cross_entropy, cr.optim.clip_grad_norm_
    with cr.set_default_dtype(next(iter(task.weights.values())).dtype):
        model = network()
    parameters = list(model.parameters())
    optimiser = getattr(cr.optim, task.optimiser)(groups(parameters, task.decay), **task.options)

    def one(x: Any, y: Any) -> Any:
        optimiser.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        if task.clip is not None:
            clip(parameters, task.clip)
        optimiser.step()
        return loss

    def made(x: Any, y: Any) -> Any:
        return cr.asarray(x), y

    step, restore, named = cr.jit(one) if compiled else one, again(model, optimiser, task.weights), {}
    named.update(model.named_parameters())

    def start() -> Any:
        restore()
        return named, made, step

    return parts(task, start, lambda p: np.asarray(getattr(p, "data", p)))


def torch(task: Task, network: Callable[[], Any], *, fused: bool = False, compiled: bool = False) -> Parts:
    """The same text; `fused` is PyTorch's fastest optimiser on a CPU, `compiled` runs model and loss compiled."""
    import torch

    torch.set_num_threads(max(1, len(os.sched_getaffinity(0))))
    cross_entropy, clip = torch.nn.functional.cross_entropy, torch.nn.utils.clip_grad_norm_
    given = {name: torch.from_numpy(array) for name, array in task.weights.items()}
    model = network().to(next(iter(given.values())).dtype)
    parameters = list(model.parameters())
    optimiser = getattr(torch.optim, task.optimiser)(groups(parameters, task.decay), fused=fused, **task.options)

    def loss_of(x: Any, y: Any) -> Any:
        return cross_entropy(model(x), y)

    loss_fast: Any = torch.compile(loss_of) if compiled else loss_of

    def one(x: Any, y: Any) -> Any:
        optimiser.zero_grad()
        loss = loss_fast(x, y)
        loss.backward()
        if task.clip is not None:
            clip(parameters, task.clip)
        optimiser.step()
        return loss

    def made(x: Any, y: Any) -> Any:
        return torch.from_numpy(x), torch.from_numpy(y)

    restore, named = again(model, optimiser, given), dict(model.named_parameters())

    def start() -> Any:
        restore()
        return named, made, one

    return parts(task, start, lambda p: p.detach().numpy())


def contenders(
    task: Callable[[Case], Task],
    ours: Callable[[Case], Callable[[], Any]],
    theirs: Callable[[Case], Callable[[], Any]],
    jax_loss: Callable[[Case], Any],
    *,
    large: bool = True,
    scan: bool = False,
) -> list[Contender]:
    """The rows of a workload, given its task and the network in either library, and its loss for JAX.

    Of PyTorch the optimiser as it comes, fused, and fused with model and loss compiled.  `large`: arrays are so large that
    page faults count, so ours has a row with pages kept, and the peers one with the same settings of glibc.  `scan`: JAX
    may run all batches of a step in one call.
    """
    from benchmarks.workloads import jax_training

    def our_parts(case: Case, *, compiled: bool = False) -> Parts:
        return chainrule(task(case), ours(case), compiled=compiled)

    def torch_parts(case: Case, **how: bool) -> Parts:
        return torch(task(case), theirs(case), **how)

    def jax_parts(case: Case, *, scan: bool = False) -> Parts:
        return jax_training.parts(task(case), jax_loss(case), scan=scan)

    fastest, compiled = partial(torch_parts, fused=True), partial(torch_parts, fused=True, compiled=True)
    rows = [Contender(OURS, "chainrule", our_parts)]
    rows += [Contender(OURS_KEPT, "chainrule", our_parts, KEPT)] if large else []
    rows += [Contender(OURS_JIT, "chainrule", partial(our_parts, compiled=True))]
    rows += [Contender(TORCH, "torch", torch_parts), Contender(FUSED, "torch", fastest)]
    rows += [Contender(FUSED_MALLOC, "torch", fastest, MALLOC)] if large else []
    rows += [Contender(COMPILE, "torch", compiled), Contender(JAX_JIT, "jax", jax_parts, JAX)]
    rows += [Contender(JAX_SCAN, "jax", partial(jax_parts, scan=True), JAX)] if scan else []
    if large:
        rows += [Contender(COMPILE_MALLOC, "torch", compiled, MALLOC)]
        rows += [Contender(JAX_MALLOC, "jax", jax_parts, JAX_KEPT)]
    return rows
