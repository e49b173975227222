"""Recording on abstract arrays: every operation leaves an equation and an abstract result.

Shapes come from a record's rule, dtypes from NumPy itself, asked once per combination on arrays of one element.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract, Equation


@contextmanager
def tracing() -> Generator[None]:
    """Inside, operations accept abstract arrays."""
    modes.add_unusual(1)
    token = modes.tracing.set(True)
    try:
        yield
    finally:
        modes.tracing.reset(token)
        modes.add_unusual(-1)


def record(primitive: Any, datas: list[Any], parameters: tuple[Any, ...]) -> Any:
    """The abstract result of `primitive`, tied to a new equation; a tuple of them where it has several outputs."""
    arguments = tuple(
        data.equation if isinstance(data, Abstract) else Equation(None, (), (), data.shape, data.dtype, data)
        for data in datas
    )
    types: Any = (arguments,) if primitive.variadic else arguments
    shape = primitive.shape_rule(*types, *parameters)
    if primitive.multiple:
        whole = Equation(primitive, arguments, parameters, (), arguments[0].dtype)
        return tuple(Abstract(s, d, Equation("pick", (whole,), (k,), s, d)) for k, (s, d) in enumerate(shape))
    dtype = primitive.dtype_rule(*types, *parameters) if primitive.dtype_rule else _asked(primitive, types, parameters)
    return Abstract(shape, dtype, Equation(primitive, arguments, parameters, shape, dtype))


def _asked(primitive: Any, types: Any, parameters: tuple[Any, ...]) -> Any:
    if primitive.family.name in ("linear", "view"):
        return types[0].dtype
    return _ask(primitive, tuple((len(a.shape), a.dtype) for a in types), parameters)


@cache
def _ask(primitive: Any, types: tuple[Any, ...], parameters: tuple[Any, ...]) -> Any:
    with np.errstate(all="ignore"):
        return primitive.forward(*[np.ones((1,) * ndim, dtype) for ndim, dtype in types], *parameters).dtype
