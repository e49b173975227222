"""LLVM text that is written by hand, with addresses as one reads them.

`%x = load i64, [%array + 16]` and `store ptr %y, [%table + 8 * %i]` stand for the address computed by a line of its own.
"""

from __future__ import annotations

import re
from itertools import count

_ADDRESS = re.compile(r"\[(%[\w.]+) \+ (?:(8) \* )?([\w.%]+)\]")


def expand(text: str) -> str:
    """The text as LLVM takes it."""
    number = count()

    def address(line: str) -> list[str]:
        found = _ADDRESS.search(line)
        if not found:
            return [line]
        base, eights, offset = found.groups()
        at = f"%address.{next(number)}"
        computed = f"  {at} = getelementptr {'i64' if eights else 'i8'}, ptr {base}, i64 {offset}"
        return [computed, line.replace(found[0], f"ptr {at}")]

    return "\n".join(line for written in text.splitlines() for line in address(written)) + "\n"
