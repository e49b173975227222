"""Verification: `check` for any function, and the suites behind `chainrule verify`.

Every expectation is computed independently of the engine: differences, the complex step, closed forms, NumPy by hand,
PyTorch.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from chainrule.verify.checking import Report, check

if TYPE_CHECKING:
    from chainrule.verify.command import Result

__all__ = ["Report", "check", "run", "run_suites"]


def run(argv: Sequence[str] | None = None, parser: type[ArgumentParser] = ArgumentParser) -> int:
    """The command `chainrule verify` with these arguments, read by a parser of this class; its exit code."""
    from chainrule.verify import command

    return command.run(argv, parser)


def run_suites(names: Iterable[str] = (), report: Callable[[str], Any] | None = None) -> list[Result]:
    """Run the suites of these names, by default all; `report` gets a line for every failed check as it happens."""
    from chainrule.verify import command

    return command.run_suites(names, report)
