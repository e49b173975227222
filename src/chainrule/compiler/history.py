"""What happened to a compiled function, and when to say so: reasons, warnings, pauses."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from chainrule.compiler.kinds import kind_of
from chainrule.errors import describe

Facts = dict[tuple[Any, ...], tuple[str, Any]]
_WARN_AFTER = 8
_PAUSE, _LONGEST_PAUSE = 64, 100_000
"""How many calls run as they are where compiling them was in vain; eight times as many the next time."""
_REASONS = 50


class History:
    """The counts of one compiled function, whose `name` warnings say."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stats: dict[str, Any] = {
            "compilations": 0, "traces": 0, "eager": 0, "careful": 0, "reasons": [], "seconds": 0.0
        }  # fmt: skip
        self.changed: dict[str, int] = {}
        self.in_vain = 0
        """How many specialisations were made in a row that held for no second call."""
        self.rest = 0
        """How many calls run as they are before another attempt."""
        self.pause = _PAUSE
        self.warned: set[str] = set()

    def say(self, reason: str) -> None:
        """Note a reason, each once, and no more than a screen of them."""
        reasons = self.stats["reasons"]
        if reason not in reasons and len(reasons) < _REASONS:
            reasons.append(reason)

    def warn(self, cause: str, text: str, level: int) -> None:
        """Warn of each cause once, at the user's line."""
        if cause not in self.warned:
            self.warned.add(cause)
            warnings.warn(text, stacklevel=level)

    def note(self, before: Facts | None, now: Facts) -> None:
        """Say why there is a new specialisation, and warn where one value makes a new one again and again."""
        if before is None:
            self.say("first call")
            return
        changed = [path for path in now if path in before and _differs(before[path][1], now[path][1])]
        new = [path for path in (*now, *before) if (path in now) != (path in before)]
        path = next(iter([*changed, *new]), None)
        name = "something" if path is None else now.get(path, before.get(path, ("", None)))[0]
        was, is_now = ("an object", "another") if path is None else (
            _shown(facts.get(path, ("", "nothing"))[1]) for facts in (before, now)
        )  # fmt: skip
        self.say(f"{name}: {is_now}, was {was}")
        self._count(name, f"{is_now}, was {was}")

    def _count(self, name: str, change: str) -> None:
        """Warn, and let the function rest, where one cause makes a new specialisation again and again."""
        self.changed[name] = self.changed.get(name, 0) + 1
        self.in_vain += 1
        vain = self.in_vain >= _WARN_AFTER
        if vain:  # next time one attempt is enough
            self.in_vain, self.rest, self.pause = _WARN_AFTER - 1, self.pause, min(8 * self.pause, _LONGEST_PAUSE)
        if vain or self.changed[name] == _WARN_AFTER:
            after = "; it runs as it is for a while" if vain else ""
            remedy = f"an array for {name} where its value is only computed with, or one that does not change"
            self.warn(
                name,
                f"{self.name} is compiled again and again because {name} changes: {change}{after} · try {remedy}",
                8,
            )


def _differs(before: Any, now: Any) -> bool:
    """Whether two facts are not the same; an array's type is a tuple, which NumPy's numbers would compare with."""
    return type(before) is not type(now) or bool(before != now)


def _shown(value: Any) -> str:
    if isinstance(value, type):  # of a number
        return f"one of class {value.__name__}"
    if kind_of(value) is tuple:  # the type of an array
        return describe(np.broadcast_to(np.zeros((), value[1]), value[0]))
    return repr(value)[:40]
