"""The walkthrough: both engines trained, compared, drawn and measured by one command, `chainrule walkthrough`.

`run` checks what it was asked for, and that what it needs is there; `program` does the work.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from chainrule.errors import ArgumentError, MissingExtraError, explain
from chainrule.training.interrupt import Interrupted, interruptible
from chainrule.walkthrough.staging import Staging

DEFAULT_SEED = 1000  # away from those on which the recipe of the moons was chosen
NEEDS = ("matplotlib", "rich", "sklearn", "threadpoolctl")


def run(out: str | Path = "results", quick: bool = False, seed: int = DEFAULT_SEED, progress: bool = True) -> int:
    """Measure and draw everything into the folder `out`; give back the exit code of the command.

    0; 1 if a number is not what it should be; 130 after Ctrl-C and 143 after SIGTERM, with `out` as it was before.

    **Raises** MissingExtraError without a library of the extra `walkthrough`; ArgumentError for a folder that cannot be written to.
    """
    for library in NEEDS:
        if find_spec(library) is None:
            raise MissingExtraError.of("chainrule walkthrough", library, "walkthrough")
    with interruptible() as interruption:
        staging = None
        try:
            staging = Staging(Path(out))
            from chainrule.walkthrough.program import walkthrough

            return walkthrough(staging, seed, quick, progress, interruption)
        except Interrupted as interrupted:
            state = "complete" if staging is not None and staging.is_published else "as it was before"
            print(f"chainrule walkthrough: interrupted · {str(out)!r} is {state}", file=sys.stderr)
            return interrupted.code
        except OSError as error:
            fault = f"cannot write into folder {str(out)!r} ({error.strerror or error})"
            raise ArgumentError(
                explain("walkthrough", fault, remedy="--out with a folder that can be written to")
            ) from error
        finally:
            if staging is not None:
                staging.discard()
