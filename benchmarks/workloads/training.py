"""A training step as everybody writes it, in chainrule and in PyTorch: what the workloads on networks have in common.

Both sides start from the same weights and see the same batches, and every block begins at that start, so parameters and
gradients are compared after as many steps as were timed.  The first step of all belongs to the start: PyTorch makes its
optimiser's state there, and a block is no place to pay for it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from benchmarks.processes import KEPT, MALLOC
from benchmarks.workloads.contender import OURS, OURS_KEPT, TORCH, Case, Contender, Parts

FUSED = "PyTorch, fused"
FUSED_MALLOC = "PyTorch, fused, malloc setting"


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


def chainrule(task: Task, network: Callable[[], Any]) -> Parts:
    """network() makes the model, a module whose parameters are called as in the task's weights."""
    import chainrule as cr

    dtype = next(iter(task.weights.values())).dtype
    cross_entropy, clip = cr.nn.cross_entropy, cr.optim.clip_grad_norm_

    def start() -> Any:
        with cr.set_default_dtype(dtype):
            model = network()
        model.load_state_dict(task.weights)
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

        return dict(model.named_parameters()), made, one

    def made(x: Any, y: Any) -> Any:
        return cr.asarray(x), y

    return parts(task, start, lambda p: np.asarray(getattr(p, "data", p)))


def torch(task: Task, network: Callable[[], Any], *, fused: bool = False) -> Parts:
    """The same text; `fused` is PyTorch's fastest optimiser on a CPU."""
    import torch

    torch.set_num_threads(1)
    cross_entropy, clip = torch.nn.functional.cross_entropy, torch.nn.utils.clip_grad_norm_
    given = {name: torch.from_numpy(array) for name, array in task.weights.items()}

    def start() -> Any:
        model = network().to(next(iter(given.values())).dtype)
        model.load_state_dict(given)
        parameters = list(model.parameters())
        optimiser = getattr(torch.optim, task.optimiser)(groups(parameters, task.decay), fused=fused, **task.options)

        def one(x: Any, y: Any) -> Any:
            optimiser.zero_grad()
            loss = cross_entropy(model(x), y)
            loss.backward()
            if task.clip is not None:
                clip(parameters, task.clip)
            optimiser.step()
            return loss

        return dict(model.named_parameters()), made, one

    def made(x: Any, y: Any) -> Any:
        return torch.from_numpy(x), torch.from_numpy(y)

    return parts(task, start, lambda p: p.detach().numpy())


def contenders(
    task: Callable[[Case], Task],
    ours: Callable[[Case], Callable[[], Any]],
    theirs: Callable[[Case], Callable[[], Any]],
    *,
    large: bool = True,
) -> list[Contender]:
    """The rows of a workload, given its task and the network in either library.

    Of PyTorch the optimiser as it comes, and fused.  `large`: arrays are so large that page faults count, so ours has a
    row with pages kept, and PyTorch one with the same settings of glibc.
    """

    def our_parts(case: Case) -> Parts:
        return chainrule(task(case), ours(case))

    def torch_parts(case: Case, *, fused: bool = False) -> Parts:
        return torch(task(case), theirs(case), fused=fused)

    fastest = partial(torch_parts, fused=True)
    rows = [Contender(OURS, "chainrule", our_parts)]
    rows += [Contender(OURS_KEPT, "chainrule", our_parts, KEPT)] if large else []
    rows += [Contender(TORCH, "torch", torch_parts), Contender(FUSED, "torch", fastest)]
    return rows + ([Contender(FUSED_MALLOC, "torch", fastest, MALLOC)] if large else [])
