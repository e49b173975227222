"""`chainrule verify`: the suites, one after the other, and a table of exact counts."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from chainrule.verify.suites import SUITES, Check, Suite


class Result(NamedTuple):
    """What came of one suite."""

    suite: Suite
    passed: int
    failures: list[tuple[str, str]]
    skipped: str
    seconds: float

    @property
    def row(self) -> tuple[str, str, str, str, str, str]:
        """A line of the table."""
        count = self.passed + len(self.failures)
        state = (
            f"skipped: {self.skipped}" if self.skipped else f"{len(self.failures)} failed" if self.failures else "ok"
        )
        return self.suite.title, str(count), str(self.suite.reference), str(self.passed), f"{self.seconds:.1f} s", state


HEAD = ("suite", "checks", "reference", "passed", "time", "")


def run_suites(names: Iterable[str] = (), report: Callable[[str], Any] | None = None) -> list[Result]:
    """Run the suites of these names, by default all; `report` gets a line for every failed check as it happens."""
    wanted = list(names) or list(SUITES)
    return [_run_suite(SUITES[name], report) for name in wanted]


def _run_suite(suite: Suite, report: Callable[[str], Any] | None) -> Result:
    start = time.perf_counter()
    skipped = suite.missing()
    passed, failures = 0, list[tuple[str, str]]()
    for check in () if skipped else suite.checks():
        fault = _run_check(check)
        if not fault:
            passed += 1
            continue
        failures.append((check.name, fault))
        if report is not None:
            report(f"{suite.name}: {check.name}: {fault}")
    return Result(suite, passed, failures, skipped, time.perf_counter() - start)


def _run_check(check: Check) -> str:
    try:
        return check.fault()
    except Exception as error:  # noqa: BLE001 - a check that breaks has failed, and the others still run
        return f"{type(error).__name__}: {error}"


def _table(results: Sequence[Result]) -> list[tuple[str, ...]]:
    counts = [r.passed + len(r.failures) for r in results]
    reference = sum(r.suite.reference for r in results)
    failed = sum(len(r.failures) for r in results)
    seconds = sum(r.seconds for r in results)
    total = ("total", str(sum(counts)), str(reference), str(sum(r.passed for r in results)), f"{seconds:.1f} s")
    return [*(r.row for r in results), (*total, f"{failed} failed" if failed else "ok")]


def plain_table(results: Sequence[Result]) -> str:
    """The table as text, for terminals without rich and for files."""
    rows = [HEAD, *_table(results)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEAD))]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.rjust(w) if 0 < k < 5 else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * w for w in widths)
    return "\n".join([line(rows[0]), rule, *(line(row) for row in rows[1:-1]), rule, line(rows[-1])])


def _print_table(results: Sequence[Result]) -> None:
    if find_spec("rich") is None:
        print(plain_table(results))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="chainrule verify")
    for k, head in enumerate(HEAD):
        table.add_column(head, justify="right" if 0 < k < 5 else "left")
    *rows, total = _table(results)
    for row in rows:
        table.add_row(*row)
    table.add_section()
    table.add_row(*total)
    Console().print(table)


def run(argv: Sequence[str] | None, kind: type[argparse.ArgumentParser] = argparse.ArgumentParser) -> int:
    """The command `chainrule verify`; its exit code: 0, 1 where a check failed, 2 for bad arguments."""
    parser = kind(prog="chainrule verify", description="Check derivatives against what owes nothing to the engine.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"which: {', '.join(SUITES)} (default: all)")
    parser.add_argument("--list", action="store_true", help="name every check and run none")
    parser.add_argument("--plain", action="store_true", help="the table as plain text")
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.suites if name not in SUITES]
    if unknown:
        parser.error(f"no suite {unknown[0]!r}; there are: {', '.join(SUITES)}")
    if arguments.list:
        for name in arguments.suites or SUITES:
            suite = SUITES[name]
            for check in () if suite.missing() else suite.checks():
                print(f"{name}: {check.name}")
        return 0
    results = run_suites(arguments.suites, print)
    if arguments.plain:
        print(plain_table(results))
    else:
        _print_table(results)
    return 1 if any(result.failures for result in results) else 0
