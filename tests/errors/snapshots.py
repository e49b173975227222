"""Every error message a user can see, as it stands in snapshots.txt: a change to one is a change to the interface, and is read.

A case is a function that provokes one error, in any file `tests/errors/cases_*.py`:

    from tests.errors.snapshots import case

    @case
    def matmul_inner_dimensions():
        cr.matmul(cr.ones((64, 128)), cr.ones((64, 10)))

`python -m tests.errors.snapshots` runs all cases and writes snapshots.txt anew; look at the difference, then commit it.
"""

import importlib
import re
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parent
SNAPSHOTS = FOLDER / "snapshots.txt"
CASES: dict[str, Callable[[], object]] = {}


def case(provoke: Callable[[], object]) -> Callable[[], object]:
    if provoke.__name__ in CASES:
        raise ValueError(f"two cases are named {provoke.__name__}")
    CASES[provoke.__name__] = provoke
    return provoke


def load() -> dict[str, Callable[[], object]]:
    """All cases of all files, by name."""
    for path in sorted(FOLDER.glob("cases_*.py")):
        importlib.import_module(f"tests.errors.{path.stem}")
    return CASES


def message(provoke: Callable[[], object]) -> str:
    """`ErrorClass: message`, with what differs from run to run (paths, addresses, line numbers) replaced."""
    try:
        provoke()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
        text = f"{type(error).__name__}: {error}"
    else:
        text = "no error"
    text = re.sub(r"0x[0-9a-f]+", "0x...", text)
    text = re.sub(r"(?:/[^\s:'\"/]+)+/([^\s:'\"/]+\.py)", r".../\1", text)
    text = re.sub(r"(\.py:|\bline )\d+", r"\1N", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def write(messages: dict[str, str]) -> str:
    return "".join(f"[{name}]\n{text}\n\n" for name, text in sorted(messages.items()))


def read(text: str) -> dict[str, str]:
    parts = re.split(r"^\[(\w+)\]\n", text, flags=re.MULTILINE)
    return {name: body.rstrip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


if __name__ == "__main__":
    # As the module that the cases import, not as __main__, which would have a dictionary of its own.
    from tests.errors import snapshots

    messages = {name: message(provoke) for name, provoke in snapshots.load().items()}
    SNAPSHOTS.write_text(write(messages), encoding="utf-8")
    print(f"{len(messages)} messages written to {SNAPSHOTS.name}")
