"""D1 to D3: how anybody can tell; the counts of `chainrule verify`, whose suites run here once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chainrule.verify.suites import SUITES
from chainrule.walkthrough.measurement import Measurement

ORACLE = "pytorch"


def measure(advance: Callable[[float], None]) -> list[Any]:
    """Run every suite."""
    from chainrule.verify import run_suites

    results: list[Any] = []
    for place, name in enumerate(SUITES):
        results += run_suites([name])
        advance((place + 1) / len(SUITES))
    return results


def rows(results: list[Any]) -> list[Measurement]:
    """D1 to D3."""
    counts = {result.suite.name: result.passed + len(result.failures) for result in results}
    failed = sum(len(result.failures) for result in results)
    return [_oracle(results, counts), _suites(results, counts, failed), _independence(counts, failed)]


def _oracle(results: list[Any], counts: dict[str, int]) -> Measurement:
    (result,) = [result for result in results if result.suite.name == ORACLE]
    found = (
        f"skipped: {result.skipped}" if result.skipped else f"{counts[ORACLE]} checks, {len(result.failures)} failed"
    )
    return Measurement(
        "D1",
        "PyTorch as oracle: the same expression twice, every leaf gradient compared",
        found,
        "1e-6 in float32, 1e-12 relative in float64; skipped where PyTorch is absent",
        {"checks": counts[ORACLE], "failed": len(result.failures)},
        {"checks": result.suite.reference},
        None if result.skipped else not result.failures,
    )


def _suites(results: list[Any], counts: dict[str, int], failed: int) -> Measurement:
    total, reference = sum(counts.values()), sum(result.suite.reference for result in results)
    said = ", ".join(f"{r.suite.name} {'skipped' if r.skipped else counts[r.suite.name]}" for r in results)
    enough = all(result.skipped or counts[result.suite.name] >= result.suite.reference for result in results)
    return Measurement(
        "D2",
        "the suites of the command chainrule verify",
        f"{total:,} checks ({said}), {failed} failed",
        f"{reference} checks: " + ", ".join(f"{result.suite.name} {result.suite.reference}" for result in results),
        {"checks": total, "failed": failed, **{f"{name}_checks": count for name, count in counts.items()}},
        {"checks": reference, **{f"{result.suite.name}_checks": result.suite.reference for result in results}},
        enough and not failed,
    )


def _independence(counts: dict[str, int], failed: int) -> Measurement:
    return Measurement(
        "D3",
        "what every check compares with",
        f"{sum(counts.values()):,} numbers made without the engine: differences, complex step, closed forms, NumPy"
        + (", PyTorch" if counts[ORACLE] else ""),
        "something independent of the engine, never “the loss went down”",
        {"checks": sum(counts.values()), "failed": failed},
        {"failed": 0},
        not failed,
    )
