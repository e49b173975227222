"""The commands `chainrule train NAME` and `chainrule sample`: their options, and nothing else."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from chainrule.training.settings import COUNT, NOT_NEGATIVE, SEED, Location, add_options

PROGRAMS = {
    "chars": ("characters", "a transformer that writes text, character by character"),
    "digits": ("digits", "1,797 handwritten digits of 8x8 pixels: perceptron or convolutions"),
    "spiral": ("spiral", "two spiral arms in the plane, told apart by a perceptron"),
    "fashion": ("fashion", "70,000 pictures of clothes, of 28x28 pixels: perceptron or convolutions"),
}

Parser = type[argparse.ArgumentParser]


def train(words: Sequence[str], kind: Parser = argparse.ArgumentParser) -> int:
    """The command `chainrule train`; its exit code."""
    if not words or words[0] not in PROGRAMS:
        _without_program(words, kind)
    module = import_module(f"chainrule.training.{PROGRAMS[words[0]][0]}")
    from chainrule.training import program

    known: program.Program = module.PROGRAM
    parser = kind(
        prog=f"chainrule train {known.name}",
        description=f"Train {known.title}. Ctrl-C saves, and says how to go on.",
        allow_abbrev=False,
    )
    add_options(parser, known.settings)
    _add_controls(parser, known.name)
    given: dict[str, Any] = vars(parser.parse_args(words[1:]))
    controls = program.Controls(
        out=given.pop("out"),
        resume=given.pop("resume"),
        progress=not given.pop("no_progress"),
        tensorboard=given.pop("tensorboard"),
        save_every=given.pop("save_every"),
    )
    return program.train(known, given, controls)


def _add_controls(parser: argparse.ArgumentParser, name: str) -> None:
    group = parser.add_argument_group("where, and how it is watched")
    place = group.add_mutually_exclusive_group()
    folder = _folder()
    default = f"runs/{name}"
    place.add_argument("--out", type=folder, default=default, metavar="DIR", help=f"a new folder (default: {default})")
    place.add_argument(
        "--resume", type=folder, metavar="DIR", help="go on with the run in this folder, as it was set up"
    )
    group.add_argument("--no-progress", action="store_true", help="only what came out at the end")
    group.add_argument("--tensorboard", action="store_true", help="events for TensorBoard, in DIR/tensorboard")
    group.add_argument(
        "--save-every", type=NOT_NEGATIVE, default=10.0, metavar="SECONDS",
        help="how often a checkpoint is saved (default: 10)",
    )  # fmt: skip


def _folder() -> Any:
    """A folder as it was typed: it is quoted in messages."""
    location = Location("the name of a folder")

    def typed(text: str) -> str:
        location(text)
        return text

    return typed


def _without_program(words: Sequence[str], kind: Parser) -> None:
    """Show help, or say that a name is needed."""
    parser = kind(
        prog="chainrule train",
        usage="chainrule train [-h] NAME ...",
        description="Train a model; stop and resume at will.",
        epilog="\n".join(
            [
                "names:",
                *(f"  {name:<10} {what}" for name, (_, what) in PROGRAMS.items()),
                "",
                "Each has options of its own: chainrule train NAME --help",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _, unknown = parser.parse_known_args(words)
    known = ", ".join(PROGRAMS)
    fault = f"nothing is named {unknown[0]!r}" if unknown else "what is to be trained?"
    parser.error(f"{fault} · expected one of {known}")


def sample(words: Sequence[str], kind: Parser = argparse.ArgumentParser) -> int:
    """The command `chainrule sample`; its exit code."""
    parser = kind(
        prog="chainrule sample",
        description="Write text with a model that `chainrule train chars` has trained. The same seed writes the same text.",
        allow_abbrev=False,
    )
    parser.add_argument("folder", type=_folder(), metavar="DIR", help="the folder of the run")
    parser.add_argument("--prompt", default="", metavar="TEXT", help="the text to go on from (default: a new line)")
    parser.add_argument("--tokens", type=COUNT, default=500, metavar="N", help="how many characters (default: 500)")
    parser.add_argument(
        "--temperature", type=NOT_NEGATIVE, default=0.8, metavar="T",
        help="below 1: more of the likely, above 1: less; 0: always the likeliest (default: 0.8)",
    )  # fmt: skip
    parser.add_argument("--top-k", type=COUNT, metavar="K", help="only among the K likeliest (default: among all)")
    parser.add_argument("--seed", type=SEED, default=0, metavar="N", help="another one, another text (default: 0)")
    arguments = parser.parse_args(words)
    from chainrule.training.writing import write

    return write(**vars(arguments))
