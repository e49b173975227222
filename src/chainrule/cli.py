"""The command `chainrule`: `walkthrough`, `verify`, `train` and `sample`.

Everything that takes time to load is loaded by the command that needs it.  What a user can put right is one line on
the error stream and exit code 2.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from chainrule import __version__
from chainrule.backends.memory import keep_pages
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


def walkthrough(words: Sequence[str]) -> int:
    """`chainrule walkthrough`."""
    from chainrule.walkthrough import DEFAULT_SEED, run

    parser = Parser(
        prog="chainrule walkthrough",
        description="Train both engines, compare them with each other, with closed forms and with PyTorch, "
        "and write figures, measurements.json and the page index.html into a folder.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer steps and rounds: about 30 seconds instead of up to 150"
    )
    parser.add_argument(
        "--out", type=folder, default="results", metavar="DIR", help="where to write (default: results)"
    )
    seeds = "the first of five seeds (default: %(default)s)"
    parser.add_argument("--seed", type=seed, default=DEFAULT_SEED, metavar="N", help=seeds)
    parser.add_argument("--no-progress", action="store_true", help="no progress bar, only the table at the end")
    parser.add_argument("--no-jit", action="store_true", help="run training steps as they are written, not compiled")
    arguments = parser.parse_args(words)
    if arguments.no_jit:
        os.environ["CHAINRULE_NO_JIT"] = "1"  # the processes that it starts read it as well
    return run(arguments.out, arguments.quick, arguments.seed, not arguments.no_progress)


def verify(words: Sequence[str]) -> int:
    """`chainrule verify`, whose options are its own."""
    from chainrule.verify import run

    return run(words, Parser)


def train(words: Sequence[str]) -> int:
    """`chainrule train`, whose options are its own."""
    from chainrule.training.command import train

    return train(words, Parser)


def sample(words: Sequence[str]) -> int:
    """`chainrule sample`, whose options are its own."""
    from chainrule.training.command import sample

    return sample(words, Parser)


COMMANDS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "walkthrough": (walkthrough, "train both engines, compare them, draw and measure: figures, numbers and a page"),
    "verify": (verify, "check derivatives against what owes nothing to the engine"),
    "train": (train, "train a model: text by characters, digits, a spiral, clothes; stop and resume at will"),
    "sample": (sample, "write text with a model that was trained"),
}


def without_command(words: Sequence[str]) -> NoReturn:
    """Show help or the version, or say that a command is needed."""
    lines = [f"  {name:<12} {what}" for name, (_, what) in COMMANDS.items()]
    parser = Parser(
        prog="chainrule",
        usage="chainrule [-h] [--version] COMMAND ...",
        description="Automatic differentiation for NumPy.",
        epilog="\n".join(["commands:", *lines, "", "Each has options of its own: chainrule COMMAND --help"]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"chainrule {__version__}")
    _, unknown = parser.parse_known_args(words)
    *others, last = COMMANDS
    known = f"{', '.join(others)} or {last}"
    parser.error(f"no command {unknown[0]!r}, expected {known}" if unknown else f"no command given, expected {known}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; give back its exit code."""
    sys.stdout = sys.stdout or io.StringIO()  # None where the shell closed it: `chainrule verify >&-`
    sys.stderr = sys.stderr or io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows ? and goes on
    try:
        words = sys.argv[1:] if argv is None else argv
        if not words or words[0] not in COMMANDS:
            without_command(words)
        keep_pages()  # the process is ours alone; docs/decisions/002
        code = COMMANDS[words[0]][0](words[1:])
        sys.stdout.flush()
        return code
    except ChainruleError as error:
        print(f"chainrule: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor try again on the way out
        print(f"chainrule: cannot write the output ({error.strerror})", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
