"""Mutants that no test can tell from the original, and why."""

import re

_CONSTANT = "the rule is piecewise constant in what it reads, so there is nothing more to differentiate"
REASONS: dict[str, str] = {
    r"(scatter_along|scatter_along_axis|take|take_along_axis)\..*: residuals detached": "what the rule reads are integers",
    r"(abs|relu|gate|copysign|remainder|where|rearrange)\..*: residuals detached": _CONSTANT,
    r"(at_least|at_most|maximum|minimum|max|min|max_pool)\..*: residuals detached": _CONSTANT,
    r"(to_winners|from_winners)\..*: residuals detached": "what the rule reads are truth values",
}
"""Regular expressions that match the whole name of a mutant."""


def reason(name: str) -> str:
    """Why this mutant may live; empty if there is no reason."""
    return next((why for pattern, why in REASONS.items() if re.fullmatch(pattern, name)), "")
