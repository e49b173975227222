"""Single kernels on arrays that fit into no cache: gelu, layer norm, softmax, cross-entropy with its gradient, Adam's update.

Every one is a few passes over its arrays as it is written and could be one.  Two rows say how fast that one could be on
this machine: the bytes that must be read and written once, copied; and the elements through the same vector functions
while they are in the first cache.  A kernel is judged by the slower of the two.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.processes import JAX
from benchmarks.workloads.contender import (
    COMPILE,
    JAX_JIT,
    MEMORY,
    OURS,
    OURS_JIT,
    TORCH,
    Budget,
    Case,
    Contender,
    Parts,
)

Function = Callable[..., Any]
RATE, B1, B2, EPS = 1e-3, 0.9, 0.999, 1e-8
STEPS = {"kernel adam": 20}  # it changes its arrays, so all must make as many
BOUNDS = (Budget(1 / 1.3, ours=OURS_JIT, peer=MEMORY), Budget(1.0, ours=OURS_JIT, peer=COMPILE), Budget(1.0, ours=OURS_JIT, peer=JAX_JIT))  # fmt: skip


def case(name: str, what: str, rows: int, columns: int, moved: int) -> Case:
    """`moved`: arrays of that size that must be read or written once."""
    return Case(
        name, f"{what}, ({rows}, {columns})", "float32", 1e-4, STEPS.get(name),
        budgets=BOUNDS, sizes={"kind": name.rpartition(" ")[2], "rows": rows, "columns": columns, "moved": moved},
    )  # fmt: skip


CASES = [
    case("kernel gelu", "gelu with erf", 2048, 2048, 2),
    case("kernel layer_norm", "layer norm with weight and bias", 4096, 1024, 2),
    case("kernel softmax", "softmax", 8192, 512, 2),
    case("kernel cross_entropy", "cross-entropy of classes, and its gradient", 8192, 512, 2),
    case("kernel adam", "Adam's update of a parameter and its two means, in place", 2048, 2048, 7),
]


def arrays(of: Case) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = of.sizes["rows"], of.sizes["columns"]
    made = {"x": rng.normal(size=shape)}
    if of.sizes["kind"] == "layer_norm":
        made |= {"weight": rng.normal(size=shape[1]), "bias": rng.normal(size=shape[1])}
    if of.sizes["kind"] == "adam":
        made |= {"g": rng.normal(size=shape), "m": rng.normal(size=shape), "v": rng.uniform(size=shape)}
    made = {name: array.astype(np.float32) for name, array in made.items()}
    if of.sizes["kind"] == "cross_entropy":
        made["y"] = rng.integers(0, shape[1], shape[0])
    return made


def named(of: Case, out: Any, state: Any = ()) -> dict[str, Any]:
    """The results by name; of the update those that stand in the arrays."""
    kind = of.sizes["kind"]
    found = dict(zip(("m", "v", "x"), state, strict=True)) if kind == "adam" else {}
    if kind == "cross_entropy":
        found = {"loss": np.asarray(out[0]).item(), "slope": np.asarray(out[1])}
    return found or {"out": np.asarray(out)}


def ours(compiled: bool) -> Callable[[Case], Parts]:
    def build(of: Case) -> Parts:
        import chainrule as cr

        given, kind = arrays(of), of.sizes["kind"]
        x, nn = given["x"], cr.nn
        if kind == "adam":
            return update_parts(of, given, cr, compiled)
        functions: dict[str, Function] = {
            "gelu": nn.gelu,
            "layer_norm": lambda x, w, b: nn.layer_norm(x, (x.shape[-1],), w, b),
            "softmax": lambda x: cr.softmax(x, axis=-1),
            "cross_entropy": lambda x, y: cr.value_and_grad(nn.cross_entropy)(x, y),
        }
        function = cr.jit(functions[kind]) if compiled else functions[kind]
        operands = [x, *(array for name, array in given.items() if name != "x")]
        return Parts(lambda: function(*operands), lambda out: named(of, out))

    return build


def update_parts(of: Case, given: dict[str, np.ndarray], cr: Any, compiled: bool) -> Parts:
    first = {name: array.copy() for name, array in given.items()}
    x, g, m, v = (given[name] for name in "xgmv")

    def update() -> None:
        nonlocal m, v, x
        m *= B1
        m += (1 - B1) * g
        v *= B2
        v += (1 - B2) * g * g
        x -= RATE * m / (np.sqrt(v) + EPS)

    def reset() -> None:
        for name, array in given.items():
            array[...] = first[name]

    return Parts(cr.jit(update) if compiled else update, lambda _: named(of, None, (m, v, x)), reset)


def torch(compiled: bool) -> Callable[[Case], Parts]:
    def build(of: Case) -> Parts:
        import os

        import torch

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        functions, kind = torch.nn.functional, of.sizes["kind"]
        given = {name: torch.tensor(array) for name, array in arrays(of).items()}
        first = {name: array.clone() for name, array in given.items()}

        def cross_entropy(x: Any, y: Any) -> Any:
            loss = functions.cross_entropy(x, y)
            return loss, torch.autograd.grad(loss, x)[0]

        def adam(x: Any, g: Any, m: Any, v: Any) -> None:
            m.mul_(B1).add_(g, alpha=1 - B1)
            v.mul_(B2).addcmul_(g, g, value=1 - B2)
            x.sub_(RATE * m / (v.sqrt() + EPS))

        spelled: dict[str, Function] = {
            "gelu": functions.gelu,
            "layer_norm": lambda x, w, b: functions.layer_norm(x, (x.shape[-1],), w, b),
            "softmax": lambda x: torch.softmax(x, -1),
            "cross_entropy": functions.cross_entropy if compiled else cross_entropy,
            "adam": adam,
        }
        function = torch.compile(spelled[kind]) if compiled else spelled[kind]
        operands = [given["x"], *(array for name, array in given.items() if name != "x")]
        if kind == "cross_entropy":
            given["x"].requires_grad_()

        def step() -> Any:
            out = function(*operands)
            if kind == "cross_entropy" and compiled:
                return out, torch.autograd.grad(out, operands[0])[0]
            return out

        def results(out: Any) -> dict[str, Any]:
            values = [a.detach().numpy() for a in out] if isinstance(out, tuple) else out
            return named(of, values, [given[name].numpy() for name in "mvx"] if kind == "adam" else ())

        def reset() -> None:
            if kind == "adam":
                for name, array in given.items():
                    array.copy_(first[name])

        return Parts(step, results, reset)

    return build


def jax(of: Case) -> Parts:
    import jax
    import jax.numpy as jnp

    from benchmarks.workloads.jax_training import cross_entropy

    kind = of.sizes["kind"]
    held: dict[str, Any] = {}

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        d = x - jnp.mean(x, axis=-1, keepdims=True)
        return d * jax.lax.rsqrt(jnp.mean(d * d, axis=-1, keepdims=True) + 1e-5) * weight + bias

    def adam(x: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
        return m, v, x - RATE * m / (jnp.sqrt(v) + EPS)

    functions: dict[str, Function] = {
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "layer_norm": layer_norm,
        "softmax": lambda x: jax.nn.softmax(x, axis=-1),
        "cross_entropy": jax.value_and_grad(cross_entropy),
        "adam": adam,
    }
    function = jax.jit(functions[kind], donate_argnums=(0, 2, 3) if kind == "adam" else ())

    def reset() -> None:
        held.update(
            {name: jnp.asarray(array) for name, array in arrays(of).items()} if kind == "adam" or not held else {}
        )

    def step() -> Any:
        if kind == "adam":
            held["m"], held["v"], held["x"] = function(*(held[name] for name in "xgmv"))
            return held["x"]
        held["out"] = None  # its memory may be used again
        held["out"] = function(held["x"], *(array for name, array in held.items() if name not in ("x", "out")))
        return held["out"]

    def results(out: Any) -> dict[str, Any]:
        return named(of, out, [held[name] for name in "mvx"] if kind == "adam" else ())

    reset()
    return Parts(step, results, reset, lambda: jax.block_until_ready(list(held.values())))


def memory(of: Case) -> Parts:
    """The bytes that must be read and written once, by NumPy's copy: half of them are read, half written."""
    size = of.sizes["rows"] * of.sizes["columns"] * of.sizes["moved"] // 2
    source, target = np.ones(size, np.float32), np.zeros(size, np.float32)
    return Parts(lambda: np.copyto(target, source), lambda _: {})


CONTENDERS = [
    Contender(OURS, "chainrule", ours(compiled=False)),
    Contender(OURS_JIT, "chainrule", ours(compiled=True)),
    Contender(TORCH, "torch", torch(compiled=False)),
    Contender(COMPILE, "torch", torch(compiled=True)),
    Contender(JAX_JIT, "jax", jax, JAX),
    Contender(MEMORY, "numpy", memory),
]
