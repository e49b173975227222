"""Eager chain: 33 times ``t = tanh(t * t + x)``, then ``sum().backward()`` to the leaf x.

At n = 1 the time is bookkeeping; from n = 10,000 up it is memory.
"""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.processes import KEPT, MALLOC
from benchmarks.workloads.contender import (
    OURS,
    OURS_KEPT,
    TORCH,
    TORCH_MALLOC,
    Budget,
    Case,
    Contender,
    Parts,
)

LINKS = 33

EAGER = (Budget(2.0, 2.5),)
LARGE = (Budget(1.5, ours=OURS_KEPT),)

CASES = [
    Case(
        f"chain n={n:,}",
        f"{LINKS} times t = tanh(t * t + x), then sum().backward(), n = {n:,}",
        "float64",
        tolerance=1e-10,
        budgets=LARGE if n == 1_000_000 else EAGER,
        sizes={"n": n},
    )
    for n in (1, 100, 10_000, 1_000_000)
]


def start(case: Case) -> np.ndarray:
    return np.random.default_rng(0).normal(scale=0.5, size=case.sizes["n"])


def chainrule(case: Case) -> Parts:
    import chainrule as cr

    values = start(case)
    tensor, tanh = cr.tensor, cr.tanh

    def step() -> Any:
        t = x = tensor(values, requires_grad=True)
        for _ in range(LINKS):
            t = tanh(t * t + x)
        loss = t.sum()
        loss.backward()
        return loss, x

    return Parts(step, lambda last: {"loss": last[0].item(), "gradient": last[1].grad})


def torch(case: Case) -> Parts:
    import torch

    torch.set_num_threads(1)
    values = start(case)
    tensor, tanh = torch.tensor, torch.tanh

    def step() -> Any:
        t = x = tensor(values, requires_grad=True)
        for _ in range(LINKS):
            t = tanh(t * t + x)
        loss = t.sum()
        loss.backward()
        return loss, x

    return Parts(step, lambda last: {"loss": last[0].item(), "gradient": last[1].grad.numpy()})


def autograd(case: Case) -> Parts:
    import autograd.numpy as anp
    from autograd import value_and_grad

    def loss(x: Any) -> Any:
        t = x
        for _ in range(LINKS):
            t = anp.tanh(t * t + x)
        return anp.sum(t)

    step = partial(value_and_grad(loss), start(case))
    return Parts(step, lambda last: {"loss": float(last[0]), "gradient": last[1]})


def mygrad(case: Case) -> Parts:
    import mygrad as mg

    mg.turn_memory_guarding_off()
    values = start(case)
    tensor, tanh = mg.tensor, mg.tanh

    def step() -> Any:
        t = x = tensor(values)
        for _ in range(LINKS):
            t = tanh(t * t + x)
        loss = t.sum()
        loss.backward()
        return loss, x

    return Parts(step, lambda last: {"loss": last[0].item(), "gradient": last[1].grad})


CONTENDERS = [
    Contender(OURS, "chainrule", chainrule),
    Contender(OURS_KEPT, "chainrule", chainrule, KEPT),
    Contender(TORCH, "torch", torch),
    Contender(TORCH_MALLOC, "torch", torch, MALLOC),
    Contender("HIPS autograd", "autograd", autograd),
    Contender("MyGrad", "mygrad", mygrad),
]
