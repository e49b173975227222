"""What operations of one kind share, stated once: type rule, forward mode, and where a zero cotangent stays zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Unpack

import numpy as np

from chainrule.core.primitive import Family, Options, Rule, primitive
from chainrule.types import Shape


class Interval(NamedTuple):
    """Where the tests draw an input from."""

    low: float
    high: float


REAL = (Interval(-2.0, 2.0),)
POSITIVE = (Interval(0.3, 2.5),)
NONZERO = (Interval(-2.5, -0.4), Interval(0.4, 2.5))
UNIT = (Interval(-0.9, 0.9),)
ABOVE_ONE = (Interval(1.2, 3.0),)


def _broadcast(*types: Any) -> Shape:
    return np.broadcast_shapes(*(t.shape for t in types[:3] if hasattr(t, "shape")))


def _same(x: Any, *_: Any) -> Shape:
    return x.shape


def _entry(ct: Any, parameters: dict[str, Any]) -> Any:
    """Elementwise: an entry hangs on its own cotangent."""
    return ct == 0


def _slice(ct: Any, parameters: dict[str, Any]) -> Any:
    """Reductions and what runs along an axis: an entry hangs on the cotangents along the axes."""
    axes = parameters.get("axes", parameters.get("axis"))
    zero = ct == 0
    if "axes" not in parameters:
        from chainrule.ops.reductions import all as all_along

        return all_along(zero, axis=axes, keepdims=True)
    from chainrule.ops.views import expand_dims

    return zero if parameters.get("keepdims", False) or not axes else expand_dims(zero, axes)


def _row(ct: Any, parameters: dict[str, Any]) -> Any:
    """What works on rows: an entry hangs on the cotangents along the last axis."""
    from chainrule.ops.reductions import all as all_along

    return all_along(ct == 0, axis=-1, keepdims=True)


def _all(ct: Any, parameters: dict[str, Any]) -> Any:
    """Anything else: an entry may hang on every cotangent."""
    from chainrule.ops.reductions import all as all_along

    return all_along(ct == 0)


ELEMENTWISE = Family("elementwise", "rule", _entry, _broadcast)
LINEAR = Family("linear", "linear", _all, None)
VIEW = Family("view", "linear", _all, None)
BILINEAR = Family("bilinear", "bilinear", _all, None)
REDUCTION = Family("reduction", "transpose", _slice, None)
ALONG_AXIS = Family("along_axis", "transpose", _slice, _same)
ROWS = Family("rows", "transpose", _row, _same)
GENERAL = Family("general", "transpose", _all, None)


def draw(shape: Shape, *parameters: tuple[Any, ...]) -> Callable[[np.random.Generator], Any]:
    """Examples for the generic suite: one array of normal numbers under each of several parameters."""
    return lambda rng: [((rng.normal(size=shape),), p) for p in parameters]


def unary(name: str, rule: Rule | None, *, domain: Any = REAL, **how: Unpack[Options]) -> Callable[..., Any]:
    """An elementwise operation of one array."""
    return primitive(name, ELEMENTWISE, [rule], domain=(domain,), **how)


def binary(
    name: str, rule_x: Rule | None, rule_y: Rule | None, *, domain: Any = None, **how: Unpack[Options]
) -> Callable[..., Any]:
    """An elementwise operation of two arrays that broadcast."""
    return primitive(name, ELEMENTWISE, [rule_x, rule_y], inputs="x y", domain=domain or (REAL, REAL), **how)
