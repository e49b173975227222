"""Hessian of the 50-dimensional Rosenbrock function."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.processes import JAX
from benchmarks.workloads.contender import OURS, TORCH, Case, Contender, Parts
from benchmarks.workloads.rosenbrock import rosenbrock, start

CASES = [
    Case(
        "hessian",
        "Hessian of the Rosenbrock function, n = 50",
        "float64",
        tolerance=1e-10,
        sizes={"n": 50},
    )
]


def results(hessian: Any) -> dict[str, Any]:
    return {"hessian": np.asarray(hessian)}


def chainrule(case: Case) -> Parts:
    import chainrule as cr

    return Parts(partial(cr.hessian(rosenbrock(cr.sum)), start(case.sizes["n"])), results)


def torch(case: Case) -> Parts:
    import torch

    torch.set_num_threads(1)
    x = torch.tensor(start(case.sizes["n"]))
    return Parts(partial(torch.func.hessian(rosenbrock(torch.sum)), x), results)


def jax(case: Case) -> Parts:
    import jax

    jax.config.update("jax_enable_x64", True)
    x = jax.numpy.asarray(start(case.sizes["n"]))
    hessian = jax.jit(jax.hessian(rosenbrock(jax.numpy.sum)))
    return Parts(lambda: jax.block_until_ready(hessian(x)), results)


def autograd(case: Case) -> Parts:
    import autograd
    import autograd.numpy as anp

    return Parts(partial(autograd.hessian(rosenbrock(anp.sum)), start(case.sizes["n"])), results)


CONTENDERS = [
    Contender(OURS, "chainrule", chainrule),
    Contender(TORCH, "torch", torch),
    Contender("jax.jit", "jax", jax, JAX),
    Contender("HIPS autograd", "autograd", autograd),
]
