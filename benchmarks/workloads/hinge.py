"""Training step of a small MLP, 2-16-16-1, on 200 points of two spirals, float32.

loss = mean(relu(1 - y * s)) + 1e-4 * (sum of all squared parameters), backward, and an SGD
step written in place.  Every block starts from the initial parameters and makes the same
number of steps on every side, so the parameters after the timed steps are compared: a
skipped update shows.
"""

# ruff: noqa: PLW2901 -- a step in place is what is measured

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.processes import JAX
from benchmarks.workloads.contender import COMPILE, JAX_JIT, OURS, OURS_JIT, TORCH, Budget, Case, Contender, Parts

RATE = 0.1
DECAY = 1e-4
TUNED = "PyTorch, linear and sub_"

CASES = [
    Case(
        "hinge",
        "SGD step of an MLP 2-16-16-1, 337 parameters, 200 spiral points, hinge loss",
        "float32",
        tolerance=1e-4,
        steps=200,
        budgets=(Budget(1.8, 2.4), Budget(6.0, ours=OURS_JIT, peer=JAX_JIT), Budget(40.0, ours=OURS_JIT)),
        sizes={"layers": (2, 16, 16, 1), "points": 200},
    )
]


def spirals(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Two interleaved spirals of one turn; labels -1 and +1, shape (points, 1)."""
    rng = np.random.default_rng(0)
    radius = np.linspace(0.02, 1.0, points // 2)
    xs = []
    for start in (0.0, np.pi):
        angle = start + 2 * np.pi * radius + rng.normal(scale=0.2, size=radius.size)
        xs.append(np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1))
    y = np.repeat([-1.0, 1.0], radius.size)[:, None]
    return np.concatenate(xs).astype(np.float32), y.astype(np.float32)


def initial(layers: Sequence[int]) -> list[np.ndarray]:
    """Weights (in, out) and biases in turn."""
    rng = np.random.default_rng(1)
    parameters = []
    for wide, narrow in pairwise(layers):
        parameters.append(rng.normal(scale=(2 / wide) ** 0.5, size=(wide, narrow)))
        parameters.append(np.zeros(narrow))
    return [p.astype(np.float32) for p in parameters]


def named(loss: float, gradients: Sequence[Any], parameters: Sequence[Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"loss": loss}
    out |= {f"gradient {i}": g for i, g in enumerate(gradients)}
    out |= {f"parameter {i}": p for i, p in enumerate(parameters)}
    return out


def objective(relu: Callable[[Any], Any], mean: Callable[[Any], Any], total: Callable[[Any], Any]):
    """The loss in operators and three functions; the same text serves every library."""

    def loss(parameters: Sequence[Any], x: Any, y: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = parameters
        h = relu(x @ w1 + b1)
        h = relu(h @ w2 + b2)
        s = h @ w3 + b3
        squares = total(w1 * w1)
        for p in parameters[1:]:
            squares = squares + total(p * p)
        return mean(relu(1.0 - y * s)) + DECAY * squares

    return loss


def chainrule(case: Case) -> Parts:
    import chainrule as cr

    x, y = map(cr.tensor, spirals(case.sizes["points"]))
    loss_of = objective(cr.relu, cr.mean, cr.sum)
    parameters: list[Any] = []

    def reset() -> None:
        parameters[:] = [cr.tensor(p, requires_grad=True) for p in initial(case.sizes["layers"])]

    def step() -> Any:
        for p in parameters:
            p.grad = None
        loss = loss_of(parameters, x, y)
        loss.backward()
        with cr.no_grad():
            for p in parameters:
                p -= RATE * p.grad
        return loss

    def results(loss: Any) -> dict[str, Any]:
        return named(loss.item(), [p.grad for p in parameters], [p.data for p in parameters])

    reset()
    return Parts(step, results, reset)


def compiled(case: Case) -> Parts:
    """The same step, decorated; parameters are set back in their own memory."""
    import chainrule as cr

    x, y = map(cr.tensor, spirals(case.sizes["points"]))
    loss_of = objective(cr.relu, cr.mean, cr.sum)
    parameters = [cr.tensor(p, requires_grad=True) for p in initial(case.sizes["layers"])]

    @cr.jit
    def step() -> Any:
        for p in parameters:
            p.grad = None
        loss = loss_of(parameters, x, y)
        loss.backward()
        with cr.no_grad():
            for p in parameters:
                p -= RATE * p.grad
        return loss

    def reset() -> None:
        with cr.no_grad():
            for p, value in zip(parameters, initial(case.sizes["layers"]), strict=True):
                p[...] = value

    def results(loss: Any) -> dict[str, Any]:
        return named(loss.item(), [p.grad for p in parameters], [p.data for p in parameters])

    return Parts(step, results, reset)


def jax(case: Case) -> Parts:
    """A function of the parameters, which are given back to it."""
    import jax
    import jax.numpy as jnp

    x, y = map(jnp.asarray, spirals(case.sizes["points"]))
    loss_of = objective(lambda a: jnp.maximum(a, 0.0), jnp.mean, jnp.sum)
    held: dict[str, Any] = {}

    def update(parameters: Sequence[Any], x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
        return [p - RATE * g for p, g in zip(parameters, gradients, strict=True)], loss

    fast = jax.jit(update, donate_argnums=0)

    def reset() -> None:
        held["parameters"] = [jnp.asarray(p) for p in initial(case.sizes["layers"])]

    def step() -> Any:
        held["parameters"], loss = fast(held["parameters"], x, y)
        return loss

    def results(loss: Any) -> dict[str, Any]:
        return named(float(loss), [], [np.asarray(p) for p in held["parameters"]])

    reset()
    return Parts(step, results, reset, lambda: jax.block_until_ready(held["parameters"]))


def torch_parts(case: Case, loss_of: Callable[..., Any], update: Callable[[Any], None]) -> Parts:
    import torch

    torch.set_num_threads(1)
    x, y = map(torch.tensor, spirals(case.sizes["points"]))
    parameters: list[Any] = []

    def reset() -> None:
        parameters[:] = [torch.tensor(p, requires_grad=True) for p in initial(case.sizes["layers"])]

    def step() -> Any:
        for p in parameters:
            p.grad = None
        loss = loss_of(parameters, x, y)
        loss.backward()
        with torch.no_grad():
            update(parameters)
        return loss

    def results(loss: Any) -> dict[str, Any]:
        gradients = [p.grad.numpy() for p in parameters]
        return named(loss.item(), gradients, [p.detach().numpy() for p in parameters])

    reset()
    return Parts(step, results, reset)


def torch(case: Case) -> Parts:
    """The same text as ours."""
    import torch

    def update(parameters: Sequence[Any]) -> None:
        for p in parameters:
            p -= RATE * p.grad

    return torch_parts(case, objective(torch.relu, torch.mean, torch.sum), update)


def torch_tuned(case: Case, *, compiled: bool = False) -> Parts:
    """The spelling that is fastest in PyTorch: a fused linear map and a fused update; `compiled`, its loss compiled."""
    import torch

    linear, relu = torch.addmm, torch.relu

    def loss_of(parameters: Sequence[Any], x: Any, y: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = parameters
        h = relu(linear(b1, x, w1))
        h = relu(linear(b2, h, w2))
        s = linear(b3, h, w3)
        squares = (w1 * w1).sum()
        for p in parameters[1:]:
            squares = squares + (p * p).sum()
        return relu(1.0 - y * s).mean() + DECAY * squares

    def update(parameters: Sequence[Any]) -> None:
        for p in parameters:
            p.sub_(p.grad, alpha=RATE)

    return torch_parts(case, torch.compile(loss_of) if compiled else loss_of, update)


def autograd(case: Case) -> Parts:
    import autograd.numpy as anp
    from autograd import value_and_grad

    x, y = spirals(case.sizes["points"])
    zero = np.float32(0)
    loss_and_gradients = value_and_grad(objective(lambda a: anp.maximum(a, zero), anp.mean, anp.sum))
    parameters: list[np.ndarray] = []

    def reset() -> None:
        parameters[:] = initial(case.sizes["layers"])

    def step() -> Any:
        loss, gradients = loss_and_gradients(parameters, x, y)
        for p, g in zip(parameters, gradients, strict=True):
            p -= RATE * g
        return loss, gradients

    reset()
    return Parts(step, lambda last: named(float(last[0]), last[1], parameters), reset)


def mygrad(case: Case) -> Parts:
    import mygrad as mg
    from mygrad.nnet.activations import relu

    mg.turn_memory_guarding_off()
    x, y = (mg.tensor(a, constant=True) for a in spirals(case.sizes["points"]))
    loss_of = objective(relu, mg.mean, mg.sum)
    parameters: list[Any] = []

    def reset() -> None:
        parameters[:] = [mg.tensor(p) for p in initial(case.sizes["layers"])]

    def step() -> Any:
        loss = loss_of(parameters, x, y)
        loss.backward()
        for p in parameters:
            p.data[...] -= RATE * p.grad
        return loss

    def results(loss: Any) -> dict[str, Any]:
        return named(loss.item(), [p.grad for p in parameters], [p.data for p in parameters])

    reset()
    return Parts(step, results, reset)


CONTENDERS = [
    Contender(OURS, "chainrule", chainrule),
    Contender(OURS_JIT, "chainrule", compiled),
    Contender(TORCH, "torch", torch),
    Contender(TUNED, "torch", torch_tuned),
    Contender(COMPILE, "torch", partial(torch_tuned, compiled=True)),
    Contender(JAX_JIT, "jax", jax, JAX),
    Contender("HIPS autograd", "autograd", autograd),
    Contender("MyGrad", "mygrad", mygrad),
]
