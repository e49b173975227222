"""`jit(strict=True)`: every new program is held against eager mode once, results and everything that is written.

The compiled call goes first; then everything is put back, generators too, and eager mode runs, whose outcome stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import tree
from chainrule.compiler.state import State
from chainrule.core.calls import is_tensor, raw
from chainrule.errors import TraceError, explain


def compared(compiled: Any, made: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The result of the eager call, after the compiled one was compared with it.

    **Raises** TraceError where they differ.
    """
    state = State(compiled.function, arguments, keywords)
    result = made.run(arguments, keywords)
    after = state.values()
    leaves = [_value(leaf) for leaf in tree.flatten(result)[0]]
    state.restore()
    expected = compiled.function(*arguments, **keywords)
    for leaf, other in zip(leaves, tree.flatten(expected)[0], strict=True):
        _compare("the result", leaf, _value(other))
    for (place, value), (_, other) in zip(after, state.values(), strict=True):
        _compare(str(place), value, other)
    return expected


def _value(leaf: Any) -> Any:
    return np.array(raw(leaf)) if is_tensor(leaf) or isinstance(leaf, np.ndarray) else leaf


def _compare(name: str, value: Any, expected: Any) -> None:
    numbers: Any = (int, float, complex, np.ndarray, np.generic)
    if isinstance(value, numbers) and isinstance(expected, numbers):
        a, b = np.asarray(value), np.asarray(expected)
        same = a.shape == b.shape and a.dtype == b.dtype and _is_near(a, b)
    else:
        same = value is expected or type(value) is type(expected)
    if not same:
        fault = f"{name} is another than in eager mode"
        remedy = "an issue at chainrule's, or what the function depends on as an argument"
        raise TraceError(explain("jit", fault, compiled=value, eager=expected, remedy=remedy))


def _is_near(a: Any, b: Any) -> bool:
    if a.dtype.kind not in "fc":
        return np.array_equal(a, b)
    tolerance = 1000 * float(np.finfo(a.dtype).eps)
    scale = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
