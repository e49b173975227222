"""The table that is printed and the JSON that is kept."""

import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.footprint import IMPORT_BUDGET, SIZE_BUDGET
from benchmarks.harness import MIN_ROUNDS, Outcome, Turn, spread
from benchmarks.processes import MALLOC_SETTING, ONE_THREAD, PROCESSES, ROOT, measuring_cpu
from benchmarks.workloads.contender import OURS, OURS_JIT, OURS_KEPT, TORCH

PACKAGES = ("numpy", "chainrule", "torch", "jax", "autograd", "mygrad", "micrograd")
# Below this share of the wall clock a block did not have the CPU to itself.
BUSY = 0.95


def seconds(value: float) -> str:
    unit, scale = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3)) if value >= s), ("us", 1e-6))
    return f"{value / scale:.3g} {unit}" if value / scale < 1000 else f"{value / scale:.0f} {unit}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as they need; the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(row: list[str]) -> str:
        cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        return "  " + "  ".join(cells).rstrip()

    return "\n".join([line(head), "  " + "-" * (sum(widths) + 2 * len(widths) - 2), *map(line, rows)])


def ours_in(outcome: Outcome) -> list[Turn]:
    """The rows that peers are compared with: as it comes, with the remedy on, compiled."""
    return [t for t in map(outcome.turn, (OURS, OURS_KEPT, OURS_JIT)) if t is not None]


def cpu_share(turn: Turn) -> float:
    """CPU time of the working thread over wall time.  JAX works in a thread of its own."""
    return statistics.median(turn.thread) / statistics.median(turn.wall)


def case_text(outcome: Outcome) -> str:
    """A case: every contender, its loss, its spread, and how many times faster ours are."""
    case, ours = outcome.case, ours_in(outcome)
    head = ["", "median", "middle half", "min", "max", "cpu", "faults", "loss"]
    head += [f"/ {t.key}" for t in ours]
    rows: list[list[str]] = []
    for turn in outcome.turns:
        s = spread(turn.wall)
        half = f"{seconds(s['q1'])} - {seconds(s['q3'])}"
        row = [turn.key, seconds(s["median"]), half, seconds(s["min"]), seconds(s["max"])]
        row += [f"{cpu_share(turn):.0%}", f"{statistics.median(turn.faults):.0f}"]
        row += [f"{float(turn.after['loss']):.6g}" if "loss" in turn.after else ""]
        row += ["" if o is turn else f"{statistics.median(outcome.ratio(turn, o)):.2f}" for o in ours]
        rows.append(row)
    lines = [f"{case.name} · {case.dtype} · {case.what}", table(head, rows)]
    lines += [budget_text(b) for b in budgets(outcome)]
    if (share := min((cpu_share(t) for t in ours), default=1)) < BUSY:
        lines.append(f"  busy machine: our blocks had the CPU for {share:.0%} of the time; look at CPU time")
    lines += [f"  not run: {name}: {why}" for name, why in outcome.failed.items()]
    return "\n".join(lines)


def budgets(outcome: Outcome) -> list[dict[str, Any]]:
    """Each budget of the case beside the ratio reached; None where a row is missing."""
    rows: list[dict[str, Any]] = []
    for budget in outcome.case.budgets:
        ours, peer = outcome.turn(budget.ours), outcome.turn(budget.peer)
        reached = statistics.median(outcome.ratio(peer, ours)) if ours and peer else None
        by_cpu = statistics.median(outcome.ratio(peer, ours, "thread")) if ours and peer else None
        entry = {"peer": budget.peer, "ours": budget.ours, "floor": budget.floor}
        rows.append({**entry, "aim": budget.aim, "reached": reached, "by_cpu_time": by_cpu})
    return rows


def budget_text(b: dict[str, Any]) -> str:
    floor = b["floor"]
    wanted = f"floor {floor}" if floor >= 1 else f"floor {floor:.3f}, which is {1 / floor:.3g} times its time"
    wanted += f", aim {b['aim']}" if b["aim"] else ""
    if b["reached"] is None:
        return f"  budget: {b['peer']} / {b['ours']}: not measured ({wanted})"
    met = b["reached"] >= b["floor"]
    verdict = "MISSED" if not met else "aim reached" if b["aim"] and b["reached"] >= b["aim"] else "kept"
    ratios = f"{b['reached']:.3f}, by CPU time {b['by_cpu_time']:.3f}"
    return f"  budget: {b['peer']} / {b['ours']} = {ratios} ({wanted}): {verdict}"


def imports_text(times: dict[str, dict[str, Any]]) -> str:
    rows = [
        [
            name,
            seconds(row["seconds"]["median"]),
            seconds(row["seconds"]["min"]),
            seconds(row["seconds"]["max"]),
            ", ".join(row["others"][:4]) + " ..." * (len(row["others"]) > 4),
        ]
        for name, row in times.items()
    ]
    text = "import, beyond numpy\n" + table(["", "median", "min", "max", "also imported"], rows)
    if OURS in times:
        reached = times[OURS]["seconds"]["median"]
        met = reached <= IMPORT_BUDGET and not times[OURS]["others"]
        text += f"\n  budget: {seconds(reached)} of {seconds(IMPORT_BUDGET)}, nothing optional: "
        text += "kept" if met else "MISSED"
    return text


def sizes_text(sizes: dict[str, dict[str, int]]) -> str:
    rows = [
        [name, f"{s['bytes'] / 1e6:.2f} MB", str(s["files"]), f"{s['bytecode_bytes'] / 1e6:.2f} MB"]
        for name, s in sizes.items()
    ]
    text = "installed size of the package\n" + table(["", "source", "files", "bytecode"], rows)
    if OURS in sizes:
        reached = sizes[OURS]["bytes"]
        text += f"\n  budget: {reached / 1e6:.2f} MB of {SIZE_BUDGET / 1e6:.0f} MB: "
        text += "kept" if reached <= SIZE_BUDGET else "MISSED"
    return text


def memory_text(memory: dict[str, Any]) -> str:
    named = memory["named_by_rules"]
    rows = [[n, f"{a / 1e6:.0f} MB", f"{a / named:.2f}"] for n, a in memory["added"].items()]
    head = ["", "added", "/ named"]
    title = f"memory that one step adds at its peak · {memory['case']} · "
    return title + f"residuals named by the rules: {named / 1e6:.0f} MB\n" + table(head, rows)


def training_memory_text(memory: dict[str, Any]) -> str:
    """The budget is PyTorch's own peak, by its row without settings."""
    added = memory["added"]
    theirs = added.get(TORCH)
    rows = [[n, f"{a / 1e6:.0f} MB", f"{a / theirs:.2f}" if theirs else ""] for n, a in added.items()]
    text = f"memory that training adds at its peak: parameters, gradients, state, activations · {memory['what']}\n"
    text += table(["", "added", f"/ {TORCH}"], rows)
    if theirs and OURS in added:
        text += f"\n  budget: {added[OURS] / theirs:.2f} of {TORCH}'s peak (at most 1): "
        text += "kept" if added[OURS] <= theirs else "MISSED"
    if theirs and OURS_JIT in added:
        text += f"\n  budget: {added[OURS_JIT] / theirs:.2f} of {TORCH}'s peak compiled (at most 0.8): "
        text += "kept" if added[OURS_JIT] <= 0.8 * theirs else "MISSED"
    return text


def missing_text(library: str, rows: list[str]) -> str:
    known = {"torch": "PyTorch", "jax": "JAX", "autograd": "HIPS autograd", "mygrad": "MyGrad"}
    extra = " (pip install 'chainrule[oracle]')" if library in ("torch", "jax") else ""
    name = known.get(library, library)
    return f"{name} is not installed{extra}; rows left out: {'; '.join(dict.fromkeys(rows))}"


def case_entry(outcome: Outcome) -> dict[str, Any]:
    """A case as it is stored; times in seconds per step, every block in `blocks`."""
    contenders = [
        {
            "name": turn.key,
            "process": turn.contender.process,
            "steps_per_block": turn.steps,
            "wall": spread(turn.wall),
            "thread": spread(turn.thread),
            "page_faults": spread(turn.faults),
            "loss": float(turn.after["loss"]) if "loss" in turn.after else None,
            "blocks": turn.wall,
        }
        for turn in outcome.turns
    ]
    ratios = [
        {
            "peer": turn.key,
            "ours": o.key,
            "paired": spread(outcome.ratio(turn, o)),
            "of_medians": statistics.median(turn.wall) / statistics.median(o.wall),
            "paired_thread": spread(outcome.ratio(turn, o, "thread")),
        }
        for o in ours_in(outcome)
        for turn in outcome.turns
        if turn is not o
    ]
    case = outcome.case
    return {
        "name": case.name,
        "what": case.what,
        "dtype": case.dtype,
        "tolerance": case.tolerance,
        "contenders": contenders,
        "ratios": ratios,
        "budgets": budgets(outcome),
        "not_run": outcome.failed,
    }


def conditions(rounds: int) -> dict[str, Any]:
    """Where and how the run was made."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {
            "processor": processor(),
            "cpus": os.cpu_count(),
            "measuring_cpu": measuring_cpu(),
            "memory_bytes": memory_bytes(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "transparent_hugepages": hugepages(),
        },
        "versions": {"python": platform.python_version(), **versions()},
        "rules": {
            "rounds": rounds,
            "quotable": rounds >= MIN_ROUNDS,
            "environment": ONE_THREAD,
            "malloc_setting": MALLOC_SETTING,
            "processes": {name: p.what for name, p in PROCESSES.items()},
            "garbage_collector": "on",
        },
    }


def versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit measured, marked where the working tree differs from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.strip()


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def hugepages() -> str | None:
    try:
        text = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return None
    return text.partition("[")[2].partition("]")[0]


def conditions_text(c: dict[str, Any]) -> str:
    machine, rules = c["machine"], c["rules"]
    packages = ", ".join(f"{name} {version}" for name, version in c["versions"].items())
    place = "" if machine["measuring_cpu"] is None else f" on CPU {machine['measuring_cpu']}"
    lines = [
        f"{machine['processor']}, {machine['system']}",
        packages,
        f"one thread{place}, garbage collector on, {rules['rounds']} rounds of blocks in turn",
        "times and page faults are per step, ratios are medians over rounds of peer / ours",
    ]
    if not rules["quotable"]:
        lines.append(f"FEWER THAN {MIN_ROUNDS} ROUNDS: not for quoting")
    return "\n".join(lines)


def write(path: Path, result: dict[str, Any]) -> None:
    """All or nothing: an interrupted run leaves the file as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
