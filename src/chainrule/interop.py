"""NumPy's protocols: `np.exp(t)`, `np.mean(t, axis=0)`, `A @ t`, `np.float64(2) * t` reach chainrule's operations.

The table is derived: a chainrule function answers for NumPy's function of the same name, arguments are matched through
NumPy's own signature.  `_SPELLINGS` holds the few whose names differ.  What is not mapped raises and names the nearest
mapped function; nothing ever detaches silently.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.core.calls import is_tensor, raw
from chainrule.core.primitive import PRIMITIVES
from chainrule.errors import DTypeError, explain
from chainrule.operators import Operators
from chainrule.ops import arranging, elementwise, indexing, joining, linalg, normalised, norms, reductions, scans, views

try:  # being built
    from chainrule.ops import einsum
except ImportError:
    einsum = elementwise

_MODULES = (elementwise, reductions, normalised, norms, scans, joining, arranging, views, indexing, linalg, einsum)
_SPELLINGS = {  # NumPy's name -> ours
    "concatenate": "concat", "transpose": "permute_dims", "amax": "max", "amin": "min", "cumsum": "cumulative_sum",
    "cumprod": "cumulative_prod", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "power": "pow", "absolute": "abs", "fabs": "abs",
    "true_divide": "divide", "rint": "round", "invert": "bitwise_invert", "logaddexp": "logaddexp", "mod": "remainder",
    "array_split": "split", "linalg.norm": "vector_norm", "linalg.vector_norm": "vector_norm",
    "linalg.matmul": "matmul", "linalg.outer": "outer", "linalg.tensordot": "tensordot", "linalg.vecdot": "vecdot",
    "linalg.matrix_transpose": "matrix_transpose", "linalg.trace": "trace", "linalg.diagonal": "diagonal",
}  # fmt: skip
_PARAMETERS = {
    "ddof": "correction",
    "a_min": "min",
    "a_max": "max",
    "newshape": "shape",
    "indices_or_sections": "sections",
}
_REDUCTIONS = {
    np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min", np.logical_and: "all", np.logical_or: "any",
}  # fmt: skip
_SCANS = {np.add: "cumulative_sum", np.multiply: "cumulative_prod"}
# Answers that no gradient could flow through: shapes, comparisons of whole arrays, text.
_VALUES = (
    np.shape, np.ndim, np.size, np.result_type, np.iscomplexobj, np.isrealobj, np.allclose, np.array_equal, np.isclose,
    np.array_repr, np.array_str, np.array2string, np.may_share_memory, np.shares_memory, np.can_cast, np.min_scalar_type,
    np.common_type,
)  # fmt: skip


def _ours(name: str) -> Callable[..., Any] | None:
    """The public function of chainrule called `name`."""
    for module in _MODULES:
        function = getattr(module, name, None)
        if (
            callable(function)
            and not isinstance(function, type)
            and getattr(function, "__module__", "numpy") != "numpy"
        ):
            return function
    return None


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    """NumPy's function -> ours: by the same name, by `_SPELLINGS`, and ufuncs by the records that run them."""
    table: dict[Any, Callable[..., Any]] = {}
    for module in _MODULES:
        for name in dir(module):
            theirs = getattr(np, name, None)
            ours = _ours(name)
            if not name.startswith("_") and callable(theirs) and ours is not None and not isinstance(theirs, type):
                table[theirs] = ours
    for primitive in PRIMITIVES.values():
        if isinstance(primitive.forward, np.ufunc):
            table.setdefault(primitive.forward, primitive.call)
    for theirs, name in _SPELLINGS.items():
        function: Any = np
        for part in theirs.split("."):
            function = getattr(function, part, None)
        ours = _ours(name)
        if function is not None and ours is not None:
            table[function] = ours
    return table


def _refuse(name: str) -> DTypeError:
    from difflib import get_close_matches  # a millisecond of import that only an error needs

    known = sorted(f"np.{f.__name__}" for f in _table())
    near = get_close_matches(f"np.{name}", known, n=1, cutoff=0.0)
    remedy = f"{near[0]}, or x.detach() to give up the gradient"
    return DTypeError(explain(f"np.{name}", "has no derivative rule in chainrule", remedy=remedy))


def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
    """What NumPy calls when a ufunc meets a tensor or an abstract array."""
    outs = keywords.pop("out", None)
    if outs is not None and any(out is not None for out in outs):
        fault = "a plain array cannot take the value of a tensor and keep its graph"
        raise DTypeError(
            explain(f"np.{ufunc.__name__}", fault, out=outs[0], remedy="a tensor on the left: cr.asarray(a)")
        )
    if method == "__call__" and not keywords and ufunc in _table():
        return _table()[ufunc](*inputs)
    if method in ("reduce", "accumulate") and ufunc in (_REDUCTIONS if method == "reduce" else _SCANS):
        ours: Any = _ours((_REDUCTIONS if method == "reduce" else _SCANS)[ufunc])
        axis = keywords.pop("axis", 0)
        kept = {name: value for name, value in keywords.items() if value is not None and value is not np._NoValue}  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType]
        return ours(*inputs, axis=axis, **kept)
    if keywords:
        name, remedy = f"np.{ufunc.__name__}", "cr.where, or astype first"
        raise DTypeError(
            explain(name, f"the argument {next(iter(keywords))!r} has no meaning for tensors", remedy=remedy)
        )
    raise _refuse(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")


def array_function(self: Any, function: Any, types: Any, args: Any, keywords: Any) -> Any:
    """What NumPy calls when any other of its functions meets a tensor or an abstract array."""
    if function in _VALUES:
        return function(*[_values(a) for a in args], **{k: _values(v) for k, v in keywords.items()})
    ours = _table().get(function) or _creation(function)
    if ours is None:
        raise _refuse(function.__name__)
    return ours(*_matched(function, ours, args, keywords)[0], **_matched(function, ours, args, keywords)[1])


def _values(value: Any) -> Any:
    return np.asarray(raw(value)) if is_tensor(value) else value


def _creation(function: Any) -> Callable[..., Any] | None:
    from chainrule import creation  # the functions that make new tensors stand on this floor

    return getattr(creation, function.__name__, None) if function.__name__.endswith("_like") else None


def _matched(function: Any, ours: Any, args: Any, keywords: Any) -> tuple[list[Any], dict[str, Any]]:
    """NumPy's arguments as ours: defaults dropped, names changed, arrays by position.

    **Raises** DTypeError for an argument that ours does not have.
    """
    try:
        theirs = inspect.signature(function)
        bound = theirs.bind(*args, **keywords)
    except (TypeError, ValueError):
        return list(args), dict(keywords)
    signature = getattr(ours, "primitive", None)
    names = list(inspect.signature(ours).parameters.values()) if signature is None else None
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for k, (name, value) in enumerate(bound.arguments.items()):
        parameter = theirs.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.default is parameter.empty and k < len(theirs.parameters):
            positional.append(value)
        elif value is not parameter.default:
            named[_PARAMETERS.get(name, name)] = value
    if names is not None:
        known = {p.name for p in names}
        for name in named:
            if name not in known:
                fault = f"the argument {name!r} has no meaning for tensors"
                raise DTypeError(
                    explain(f"np.{function.__name__}", fault, remedy=f"cr.{getattr(ours, '__name__', '')}")
                )
    return positional, named


def equip_abstract_arrays() -> None:
    """Give abstract arrays the operators that rules are written with."""
    for name, value in vars(Operators).items():
        if name not in ("__slots__", "__module__", "__doc__", "__dict__", "__weakref__", "__qualname__"):
            setattr(Abstract, name, value)
    Abstract.__array_ufunc__ = array_ufunc  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    Abstract.__array_function__ = array_function  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


equip_abstract_arrays()
