"""``python -m benchmarks``: measure, print the table, write the JSON file."""

import argparse
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import first_calls, footprint, report
from benchmarks.harness import (
    BLOCK,
    MIN_ROUNDS,
    DisagreementError,
    WorkerError,
    Workers,
    available,
    installed,
    run_case,
)
from benchmarks.processes import ROOT
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.kernels import bounds_text

FOOTPRINT = ("import", "size", "first", "bounds", "memory")
QUICK_ROUNDS = 5
QUICK_BLOCK = 0.02
DEFAULT_OUT = ROOT / "results" / "benchmarks.json"


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure chainrule against its peers: one thread, blocks in turn, results "
        "compared before and after timing.",
    )
    names = [*WORKLOADS, *FOOTPRINT]
    parser.add_argument(
        "--only",
        nargs="+",
        choices=names,
        metavar="NAME",
        default=names,
        help=f"what to measure, of: {', '.join(names)} (default: all)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help=f"rounds per case; below {MIN_ROUNDS} the figures are not for quoting (default: {MIN_ROUNDS})",
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds of short blocks: a look, not a result"
    )
    parser.add_argument(
        "--together",
        action="store_true",
        help="one process for all contenders that need no setting, instead of one each; hides page faults",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        default=DEFAULT_OUT,
        help="where the JSON goes (default: results/benchmarks.json)",
    )
    options = parser.parse_args(argv)
    if options.rounds is None:
        options.rounds = QUICK_ROUNDS if options.quick else MIN_ROUNDS
    if options.rounds < 1:
        parser.error("--rounds: at least one round is needed")
    try:
        if options.out.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        options.out.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=options.out.parent).close()
    except OSError as error:
        parser.error(f"--out: cannot write {options.out}: {error.strerror}")
    return options


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    if not installed("chainrule"):
        print("benchmarks: chainrule is not installed (pip install -e .)", file=sys.stderr)
        return 2
    result: dict[str, Any] = {"format": 1, **report.conditions(options.rounds), "cases": []}
    print(report.conditions_text(result))
    result["left_out"] = say_missing(options.only)
    try:
        measure(options, result)
    except (DisagreementError, WorkerError) as error:
        print(f"\nbenchmarks: stopped, nothing written. {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbenchmarks: interrupted, nothing written", file=sys.stderr)
        return 130
    report.write(options.out, result)
    print(f"\nwritten: {options.out}")
    return 0


def say_missing(only: list[str]) -> dict[str, list[str]]:
    """One line for every library that is not here."""
    missing: dict[str, list[str]] = {}
    for name in (n for n in WORKLOADS if n in only):
        for library, rows in available(importlib.import_module(WORKLOADS[name]).CONTENDERS)[1].items():
            missing.setdefault(library, []).extend(f"{name}: {row}" for row in rows)
    for library, rows in missing.items():
        print(report.missing_text(library, rows))
    return missing


def measure(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """Everything asked for, printed as it comes and added to the result."""
    block = QUICK_BLOCK if options.quick else BLOCK
    with Workers(options.together) as workers:
        for name in (n for n in WORKLOADS if n in options.only):
            module = WORKLOADS[name]
            for index in range(len(importlib.import_module(module).CASES)):
                outcome = run_case(module, index, workers, options.rounds, block)
                print("\n" + report.case_text(outcome), flush=True)
                result["cases"].append(report.case_entry(outcome))
    if "import" in options.only:
        result["import"] = footprint.import_times(options.rounds)
        print("\n" + report.imports_text(result["import"]), flush=True)
    if "size" in options.only:
        result["size"] = footprint.sizes()
        print("\n" + report.sizes_text(result["size"]), flush=True)
    if "first" in options.only and installed("chainrule"):
        result["first_calls"] = first_calls.measure()
        print("\n" + first_calls.text(result["first_calls"]), flush=True)
    if "bounds" in options.only and installed("llvmlite"):
        result["bounds"] = first_calls.bounds(options.rounds)
        print("\n" + bounds_text(result["bounds"]), flush=True)
    if "memory" in options.only:
        result["memory"] = footprint.memory()
        print("\n" + report.memory_text(result["memory"]), flush=True)
        result["training_memory"] = footprint.training_memory()
        print("\n" + report.training_memory_text(result["training_memory"]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
