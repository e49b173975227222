"""What chainrule costs before it computes anything: import time and installed size; and the
memory that one eager step, and training, adds.
"""

import importlib.util
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import WorkerError, Workers, available, installed, progress, spread
from benchmarks.processes import AS_IT_COMES, ROOT, environment
from benchmarks.workloads import chain, transformer
from benchmarks.workloads.contender import COMPILE, COMPILE_MALLOC, Contender

MODULES = {"chainrule": "chainrule", "PyTorch": "torch", "JAX": "jax", "HIPS autograd": "autograd"}
# The compiled part of JAX is a package of its own; it counts towards the size.
COMPILED = {"JAX, compiled part": "jaxlib"}
IMPORT_BUDGET = 0.030  # seconds beyond numpy
SIZE_BUDGET = 2_000_000  # bytes

# Timed inside the process, so the interpreter's own start does not count.
IMPORT = """
import sys, time
import numpy
before = set(sys.modules)
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
roots = {{name.partition(".")[0] for name in set(sys.modules) - before}}
roots -= set(sys.stdlib_module_names) | {{"{module}", "numpy"}}
# Modules without a file are internal to compiled ones.
others = sorted(name for name in roots if getattr(sys.modules.get(name), "__file__", None) and name[0] != "_")
import json
print(json.dumps([seconds, others]))
"""


def present() -> dict[str, str]:
    return {name: module for name, module in MODULES.items() if installed(module)}


def import_once(module: str) -> tuple[float, list[str]]:
    """Seconds of importing a module after NumPy, in a new process, and what else came along."""
    # With bytecode, as after any installation; some machines tell Python to write none.
    variables = {name: value for name, value in environment(AS_IT_COMES).items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run(
        [sys.executable, "-c", IMPORT.format(module=module)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=variables,
        check=False,
    )
    if run.returncode:
        raise WorkerError(run.stderr.strip().splitlines()[-1])
    seconds, others = json.loads(run.stdout.splitlines()[-1])
    return seconds, others


def import_times(rounds: int) -> dict[str, dict[str, Any]]:
    """By row: seconds beyond NumPy, and the modules outside the standard library that came."""
    modules = present()
    came = {name: import_once(module)[1] for name, module in modules.items()}  # also warms up
    seconds: dict[str, list[float]] = {name: [] for name in modules}
    for number in range(rounds):
        progress(f"import: round {number + 1} of {rounds}")
        for name, module in modules.items():
            seconds[name].append(import_once(module)[0])
    progress("")
    return {name: {"seconds": spread(times), "others": came[name]} for name, times in seconds.items()}


def size(module: str) -> dict[str, int]:
    """Bytes and files of an installed package, and of its compiled bytecode."""
    spec = importlib.util.find_spec(module)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = [f for folder in folders for f in Path(folder).rglob("*") if f.is_file()]
    bytecode = [f for f in files if f.suffix == ".pyc"]
    source = [f for f in files if f.suffix != ".pyc"]
    return {
        "bytes": sum(f.stat().st_size for f in source),
        "files": len(source),
        "bytecode_bytes": sum(f.stat().st_size for f in bytecode),
    }


def sizes() -> dict[str, dict[str, int]]:
    return {name: size(module) for name, module in (MODULES | COMPILED).items() if installed(module)}


MEMORY_REPEATS = 3
MEMORY_STEPS = 3


def memory() -> dict[str, Any]:
    """Peak memory that one step of the longest chain adds, each contender in new processes."""
    index = len(chain.CASES) - 1
    n = chain.CASES[index].sizes["n"]
    # The rules of multiply and tanh name one array a link: the output of tanh.
    named = chain.LINKS * n * 8
    return {"case": chain.CASES[index].name, "named_by_rules": named, "added": medians(chain.CONTENDERS, of_a_step)}


def training_memory() -> dict[str, Any]:
    """Peak memory that training the transformer adds: parameters, gradients, the optimiser's state, activations."""
    case = transformer.CASES[0]
    rows = [
        c for c in transformer.CONTENDERS if c.name not in (COMPILE, COMPILE_MALLOC)
    ]  # a minute each, twice as much
    return {"case": case.name, "what": case.what, "added": medians(rows, of_training)}


def medians(contenders: Sequence[Contender], measure: Callable[[Contender], float]) -> dict[str, int]:
    """Bytes by row; a row that cannot be had is left out."""
    rows: dict[str, int] = {}
    for contender in available(contenders)[0]:
        progress(f"memory: {contender.name}")
        try:
            rows[contender.name] = int(statistics.median(measure(contender) for _ in range(MEMORY_REPEATS)))
        except WorkerError:
            continue
    progress("")
    return rows


def of_a_step(contender: Contender) -> float:
    """Bytes; one small step first, so that lazy imports and caches do not count."""
    name, module = contender.name, chain.__name__
    with Workers() as workers:
        worker = workers.of(contender)
        worker.ask("build", key=name, module=module, case=0, name=name)
        worker.ask("time", key=name, steps=1, warm=True)
        worker.ask("build", key=name, module=module, case=len(chain.CASES) - 1, name=name)
        return worker.ask("memory", key=name)["added"]


def of_training(contender: Contender) -> float:
    """Bytes, from before the model is made to the peak of a few steps; a small model first, as above."""
    name, module = contender.name, transformer.__name__
    with Workers() as workers:
        worker = workers.of(contender)
        worker.ask("build", key="small", module=module, case="SMALL", name=name)
        worker.ask("time", key="small", steps=1, warm=True)
        made = {"module": module, "case": 0, "name": name}
        return worker.ask("memory", key=name, steps=MEMORY_STEPS, build=made)["added"]
