"""The command `chainrule`: `walkthrough` and `verify`.

Everything that takes time to load is loaded by the command that needs it.  What a user can put right is one line on
the error stream and exit code 2.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from chainrule import __version__
from chainrule.errors import ChainruleError


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line and says where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} · try: {self.prog} --help\n")


def seed(text: str) -> int:
    """A seed: a whole number from 0 on."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number < 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is no seed, expected a whole number from 0 to {2**32 - 1}")
    return number


def folder(text: str) -> str:
    """The name of a folder."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} names no folder")
    return text


def walkthrough(arguments: argparse.Namespace) -> int:
    """`chainrule walkthrough`."""
    from chainrule.walkthrough import run

    return run(arguments.out, arguments.quick, arguments.seed, not arguments.no_progress)


def parser() -> Parser:
    """The options of the command; those of `verify` are its own."""
    from chainrule.walkthrough import DEFAULT_SEED

    made = Parser(prog="chainrule", description="Automatic differentiation for NumPy.", allow_abbrev=False)
    made.add_argument("--version", action="version", version=f"chainrule {__version__}")
    commands: Any = made.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    walk: Parser = commands.add_parser(
        "walkthrough",
        help="train both engines, compare them, draw and measure: figures, numbers and a page",
        description="Train both engines on real data, compare them with each other, with closed forms and with PyTorch, and "
        "write figures, measurements.json and the page index.html into a folder.",
        allow_abbrev=False,
    )
    walk.add_argument("--quick", action="store_true", help="fewer steps and rounds: 20 seconds instead of up to 90")
    walk.add_argument("--out", type=folder, default="results", metavar="DIR", help="where to write (default: results)")
    walk.add_argument(
        "--seed", type=seed, default=DEFAULT_SEED, metavar="N", help="the first of five seeds (default: %(default)s)"
    )
    walk.add_argument(
        "--no-progress", action="store_true", help="no progress bar; the table at the end comes all the same"
    )
    walk.set_defaults(command=walkthrough)
    commands.add_parser("verify", help="check derivatives against what owes nothing to the engine", add_help=False)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; give back its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows ? and goes on
    try:
        if words[:1] == ["verify"]:
            from chainrule.verify import run

            return run(words[1:])
        arguments = parser().parse_args(words)
        return arguments.command(arguments)
    except ChainruleError as error:
        print(f"chainrule: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())
