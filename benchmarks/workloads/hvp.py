"""Product of the Hessian of the 100,000-dimensional Rosenbrock function and a vector."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.processes import JAX
from benchmarks.workloads.contender import OURS, TORCH, Case, Contender, Parts
from benchmarks.workloads.rosenbrock import direction, rosenbrock, start

CASES = [
    Case(
        "hvp",
        "Hessian-vector product of the Rosenbrock function, n = 100,000",
        "float64",
        tolerance=1e-10,
        sizes={"n": 100_000},
    )
]


def results(product: Any) -> dict[str, Any]:
    return {"product": np.asarray(product)}


def chainrule(case: Case) -> Parts:
    import chainrule as cr

    n = case.sizes["n"]
    return Parts(partial(cr.hvp, rosenbrock(cr.sum), start(n), direction(n)), results)


def torch(case: Case) -> Parts:
    """Forward over reverse."""
    import torch

    torch.set_num_threads(1)
    x, v = (torch.tensor(a(case.sizes["n"])) for a in (start, direction))
    gradient = torch.func.grad(rosenbrock(torch.sum))
    return Parts(lambda: torch.func.jvp(gradient, (x,), (v,))[1], results)


def torch_reverse(case: Case) -> Parts:
    """Reverse over reverse, PyTorch's older interface."""
    import torch

    torch.set_num_threads(1)
    x, v = (torch.tensor(a(case.sizes["n"])) for a in (start, direction))
    hvp = partial(torch.autograd.functional.vhp, rosenbrock(torch.sum), x, v)
    return Parts(lambda: hvp()[1], results)


def jax(case: Case) -> Parts:
    import jax

    jax.config.update("jax_enable_x64", True)
    x, v = (jax.numpy.asarray(a(case.sizes["n"])) for a in (start, direction))
    gradient = jax.grad(rosenbrock(jax.numpy.sum))
    hvp = jax.jit(lambda x, v: jax.jvp(gradient, (x,), (v,))[1])
    return Parts(lambda: jax.block_until_ready(hvp(x, v)), results)


def autograd(case: Case) -> Parts:
    import autograd.numpy as anp
    from autograd import hessian_vector_product

    n = case.sizes["n"]
    hvp = hessian_vector_product(rosenbrock(anp.sum))
    return Parts(partial(hvp, start(n), direction(n)), results)


CONTENDERS = [
    Contender(OURS, "chainrule", chainrule),
    Contender(TORCH, "torch", torch),
    Contender("PyTorch, vhp", "torch", torch_reverse),
    Contender("jax.jit", "jax", jax, JAX),
    Contender("HIPS autograd", "autograd", autograd),
]
