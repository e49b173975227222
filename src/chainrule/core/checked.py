"""Rules that come from outside the library are looked at whenever they run.

Generated pullbacks trust a rule: what it gives is added up as it is.  The library's own rules have earned that in the
generic test suite; anybody else's are wrapped, so that a wrong shape or type is an error at the rule and not a strange
gradient somewhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_foreign
from chainrule.core.calls import is_tensor
from chainrule.errors import RuleError, dtype_kind, explain


def is_ours(rule: Any) -> bool:
    """Whether a rule was written in this library."""
    return str(getattr(rule, "__module__", "")).startswith("chainrule.")


def checked(name: str, a: str, rule: Callable[..., Any], read: tuple[str, ...], diagonal: bool) -> Any:
    """The rule for input `a` with a look at what it gives, and what that reads: the input's type as well."""
    own_type = f"{a}_type"
    names = read if own_type in read else (*read, own_type)

    def looked_at(ct: Any, *values: Any, **named: Any) -> Any:
        named.update(zip(names, values, strict=False))
        wanted = named[own_type]
        given = {n: named[n] for n in read}
        g = rule(ct, **given)
        if issubclass(type(g), (int, float)) and not issubclass(type(g), np.generic):
            g = np.asarray(g, wanted.dtype)
        if not _is_real(g):
            fault = f"the rule for {a} gives no array of numbers"
            raise RuleError(explain(name, fault, given=g, expected=f"{a} {wanted}"))
        if g.shape != wanted.shape:
            # A diagonal rule also serves forward mode, where its residuals bring the shape of the result.
            others = [v.shape for n, v in given.items() if n != own_type and hasattr(v, "shape")] if diagonal else []
            if not _lies_between(wanted.shape, g.shape, [ct.shape, *others]):
                fault = f"the rule for {a} gives another shape"
                raise RuleError(explain(name, fault, given=g, expected=f"{a} {wanted}"))
        return g

    return looked_at, names


def _is_real(g: Any) -> bool:
    if is_tensor(g) or issubclass(type(g), (np.ndarray, np.generic)):
        return dtype_kind(g.dtype) in "biuf"  # pyright: ignore[reportUnknownMemberType]
    return isinstance(g, Abstract) or is_foreign(g)


def _lies_between(wanted: Any, given: Any, upstream: list[Any]) -> bool:
    """Whether `given` lies between the input's shape and the result's: then the engine sums the rest away."""
    try:
        whole = np.broadcast_shapes(*upstream)
        return np.broadcast_shapes(wanted, given) == given and np.broadcast_shapes(given, whole) == whole
    except ValueError:
        return False
