"""Single kernels on arrays that fit into no cache: gelu, layer norm, softmax, cross-entropy with its gradient, Adam's update.

Every one is a few passes over its arrays as it is written and could be one.  Two rows say how fast that one could be on
this machine: the bytes that must be read and written once, copied; and the elements through the same vector functions
while they are in the first cache.  A kernel is judged by the slower of the two.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.processes import JAX
from benchmarks.workloads.contender import (
    ARITHMETIC,
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
IN_L1 = 2048  # entries of float32, a quarter of a first cache
BOUNDS = (Budget(1.0, ours=OURS_JIT, peer=COMPILE), Budget(1.0, ours=OURS_JIT, peer=JAX_JIT))  # fmt: skip


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

        given = arrays(of)
        function, operands = written(of, given, cr)
        function = cr.jit(function) if compiled else function
        if of.sizes["kind"] != "adam":
            return Parts(lambda: function(*operands), lambda out: named(of, out))
        first = {name: array.copy() for name, array in given.items()}

        def reset() -> None:
            for name, array in given.items():
                array[...] = first[name]

        return Parts(function, lambda _: named(of, None, [given[name] for name in "mvx"]), reset)

    return build


def written(of: Case, given: dict[str, np.ndarray], cr: Any) -> tuple[Function, list[Any]]:
    """The kernel as a function, and what it is called with."""
    kind, nn = of.sizes["kind"], cr.nn
    if kind == "adam":
        return update(given), []
    functions: dict[str, Function] = {
        "gelu": nn.gelu,
        "layer_norm": lambda x, w, b: nn.layer_norm(x, (x.shape[-1],), w, b),
        "softmax": lambda x: cr.softmax(x, axis=-1),
        "cross_entropy": lambda x, y: cr.value_and_grad(nn.cross_entropy)(x, y),
    }
    return functions[kind], [given["x"], *(array for name, array in given.items() if name != "x")]


def update(given: dict[str, np.ndarray]) -> Function:
    x, g, m, v = (given[name] for name in "xgmv")

    def step() -> None:
        nonlocal m, v, x
        m *= B1
        m += (1 - B1) * g
        v *= B2
        v += (1 - B2) * g * g
        x -= RATE * m / (np.sqrt(v) + EPS)

    return step


def arithmetic(of: Case) -> float:
    """Seconds for as many entries in the first cache: the same program on a few rows, its kernels timed natively."""
    import chainrule as cr
    from chainrule.compiler.report import made_up

    columns = of.sizes["columns"]
    few = replace(of, sizes={**of.sizes, "rows": max(1, IN_L1 // columns), "columns": min(columns, IN_L1)})
    given = arrays(few)
    function, operands = written(few, given, cr)
    program = cr.jit(function, executor="native").lower(*operands).execute
    values = made_up(program.schedule.types[: program.inputs])
    seconds = sum(each.seconds for each in program.profile(values, 0.02))
    return seconds * of.sizes["rows"] * columns / (few.sizes["rows"] * few.sizes["columns"])


def bounds(rounds: int) -> dict[str, dict[str, float]]:
    """Each kernel beside its bounds, in seconds, in one process: medians of rounds in which all take a turn."""
    rows: dict[str, dict[str, float]] = {}
    for of in CASES:
        turns = {"chainrule jit": ours(compiled=True)(of).step, MEMORY: memory(of).step}
        times: dict[str, list[float]] = {name: [] for name in (*turns, ARITHMETIC)}
        for _ in range(3):
            for turn in turns.values():
                turn()
        for _ in range(rounds):
            for name, turn in turns.items():
                start = time.perf_counter()
                for _ in range(5):
                    turn()
                times[name].append((time.perf_counter() - start) / 5)
            times[ARITHMETIC].append(arithmetic(of))
        found = {name: statistics.median(values) for name, values in times.items()}
        rows[of.name] = {**found, "over the bound": found["chainrule jit"] / max(found[MEMORY], found[ARITHMETIC])}
    return rows


def bounds_text(rows: dict[str, dict[str, float]]) -> str:
    lines = [f"kernels beside their bounds: {MEMORY}, {ARITHMETIC}, ours; at most 1.3 times the larger of the two"]
    for name, row in rows.items():
        met = "kept" if row["over the bound"] <= 1.3 else "MISSED"
        shown = ", ".join(f"{row[key] * 1e6:.0f} us" for key in (MEMORY, ARITHMETIC, "chainrule jit"))
        lines.append(f"  {name}: {shown}: {row['over the bound']:.2f} times: {met}")
    return "\n".join(lines)


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
