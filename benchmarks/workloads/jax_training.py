"""The same training step in JAX: one function of parameters, state and batch, compiled, with their memory given back.

The arithmetic is spelled as a JAX user would: `value_and_grad`, then Adam written out.  With `scan` all batches of a step
run in one call, which is how JAX is fastest on small models.
"""

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.workloads.contender import Parts
from benchmarks.workloads.training import Task, pick

Loss = Callable[[dict[str, Any], Any, Any], Any]
EPS = 1e-8


def adam(task: Task) -> Callable[..., Any]:
    """(parameters, state, gradients) -> (parameters, state); AdamW where the task decays, as PyTorch has it."""
    import jax.numpy as jnp

    lr, (b1, b2) = task.options["lr"], task.options.get("betas", (0.9, 0.999))

    def update(named: Any, state: Any, gradients: Any) -> Any:
        t, means, squares = state
        t = t + 1
        if task.clip is not None:
            norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in gradients.values()))
            scale = jnp.minimum(1.0, task.clip / (norm + 1e-6))
            gradients = {name: g * scale for name, g in gradients.items()}
        means = {n: b1 * m + (1 - b1) * gradients[n] for n, m in means.items()}
        squares = {n: b2 * v + (1 - b2) * gradients[n] * gradients[n] for n, v in squares.items()}
        # 1 - b**t, which in float32 loses four digits while t is small
        c1, c2 = (-jnp.expm1(t * float(np.log(b))) for b in (b1, b2))

        def new(name: str, p: Any) -> Any:
            kept = p * (1 - lr * task.decay) if task.decay is not None and p.ndim > 1 else p
            return kept - (lr / c1) * means[name] / (jnp.sqrt(squares[name] / c2) + EPS)

        return {n: new(n, p) for n, p in named.items()}, (t, means, squares)

    return update


def parts(task: Task, loss: Loss, *, scan: bool = False) -> Parts:
    """`loss(named parameters, x, y)` is traced; y are classes."""
    import jax
    import jax.numpy as jnp

    dtype = next(iter(task.weights.values())).dtype
    if dtype == np.float64:
        jax.config.update("jax_enable_x64", True)
    update = adam(task)

    def one(named: Any, state: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(named, x, y)
        return *update(named, state, gradients), value

    def epoch(named: Any, state: Any, x: Any, y: Any, rows: Any) -> Any:
        def body(carry: Any, at: Any) -> Any:
            named, state, value = one(*carry, x[at], y[at])
            return (named, state), value

        (named, state), values = jax.lax.scan(body, (named, state), rows)
        return named, state, values[-1]

    step_fast = jax.jit(one, donate_argnums=(0, 1))
    epoch_fast = jax.jit(epoch, donate_argnums=(0, 1))
    whole = tuple(map(jnp.asarray, task.batches[0])) if scan else ()
    held: dict[str, Any] = {}

    def keep(named: Any, state: Any, value: Any) -> Any:
        held["state"] = (named, state)
        return value

    def reset() -> None:
        named = {name: jnp.asarray(w) for name, w in task.weights.items()}
        zeros = {name: jnp.zeros_like(w) for name, w in named.items()}
        held["state"] = (named, (jnp.zeros((), dtype), zeros, {name: jnp.zeros_like(w) for name, w in named.items()}))
        held["rows"], held["batches"] = cycle(task.rows), cycle(task.batches)
        single()

    def single() -> Any:
        x, y = pick(*task.batches[0], next(held["rows"])) if task.rows else next(held["batches"])
        return keep(*step_fast(*held["state"], x, y))

    def step() -> Any:
        if scan:
            rows = np.stack([next(held["rows"]) for _ in range(task.per_step)])
            return keep(*epoch_fast(*held["state"], *whole, rows))
        for _ in range(task.per_step):
            value = single()
        return value

    def results(value: Any) -> dict[str, Any]:
        return {"loss": float(value), **{f"parameter {name}": np.asarray(p) for name, p in held["state"][0].items()}}

    reset()
    return Parts(step, results, reset, lambda: jax.block_until_ready(held["state"]))


def cross_entropy(logits: Any, classes: Any) -> Any:
    """Its mean over the rows."""
    import jax
    import jax.numpy as jnp

    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), classes[:, None], axis=1)
    return -jnp.mean(chosen)
