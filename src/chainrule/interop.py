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

from chainrule import boxes, modes
from chainrule import linalg as public_linalg
from chainrule.backends.abstract import Abstract
from chainrule.core.calls import is_tensor, raw
from chainrule.core.primitive import PRIMITIVES
from chainrule.errors import DTypeError, TraceError, explain
from chainrule.operators import Operators
from chainrule.ops import (
    arranging,
    einsum,
    elementwise,
    indexing,
    joining,
    linalg,
    normalised,
    norms,
    reductions,
    scans,
    take,
    views,
)  # fmt: skip
from chainrule.ops.arguments import as_operand

_MODULES = (
    elementwise,
    reductions,
    normalised,
    norms,
    scans,
    joining,
    arranging,
    views,
    indexing,
    take,
    linalg,
    einsum,
)
_SPELLINGS = {  # NumPy's name -> ours
    "concatenate": "concat", "amax": "max", "amin": "min",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "power": "pow", "absolute": "abs", "fabs": "abs",
    "true_divide": "divide", "rint": "round", "invert": "bitwise_invert", "mod": "remainder", "array_split": "split",
}  # fmt: skip
_PARAMETERS = {
    "ddof": "correction",
    "a_min": "min",
    "a_max": "max",
    "newshape": "shape",
}
_REDUCTIONS = {
    np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min", np.logical_and: "all", np.logical_or: "any",
}  # fmt: skip
_SCANS = {np.add: "cumulative_sum", np.multiply: "cumulative_prod"}
# Answers that no gradient could flow through: shapes, comparisons of whole arrays, text.
_TYPES = (np.shape, np.ndim, np.size, np.result_type, np.iscomplexobj, np.isrealobj, np.can_cast, np.common_type)
_VALUES = (
    *_TYPES, np.allclose, np.array_equal, np.isclose, np.array_repr, np.array_str, np.array2string, np.may_share_memory,
    np.shares_memory, np.min_scalar_type,
)  # fmt: skip


# ---------------------------------------------------------------- NumPy's functions that differ from ours by more than names
def _transpose(a: Any, axes: Any = None) -> Any:
    return views.permute_dims(a, tuple(range(len(a.shape)))[::-1] if axes is None else axes)


def _copy(a: Any) -> Any:
    return views.cast(a, a.dtype)


def _ravel(a: Any) -> Any:
    return views.reshape(a, (-1,))


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = as_operand(x)
    count = len(x.shape) if axis is None else len(axis) if isinstance(axis, (tuple, list)) else 1  # pyright: ignore[reportUnknownArgumentType]
    if ord not in (None, "fro") and count != 1:
        fault = f"the norm of order {ord!r} of a matrix has no derivative rule in chainrule"
        raise DTypeError(explain("np.linalg.norm", fault, x=x, remedy="ord=None, which is Frobenius' norm"))
    return norms.vector_norm(x, axis=axis, keepdims=keepdims, ord=2.0 if ord in (None, "fro") else ord)


def _cumsum(a: Any, axis: int | None = None) -> Any:
    return scans.cumulative_sum(_ravel(a) if axis is None else a, axis=axis)


def _cumprod(a: Any, axis: int | None = None) -> Any:
    return scans.cumulative_prod(_ravel(a) if axis is None else a, axis=axis)


_OWN = {
    np.copy: _copy, np.transpose: _transpose, np.ravel: _ravel, np.dot: linalg.dot, np.cumsum: _cumsum,
    np.cumprod: _cumprod,
    np.linalg.norm: _norm,
}  # fmt: skip


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
        forward: Any = primitive.forward
        if isinstance(forward, np.ufunc):
            table.setdefault(forward, primitive.call)
    for theirs, name in _SPELLINGS.items():
        spelled: Any = _ours(name)
        table[getattr(np, theirs)] = spelled
    of_matrices = {getattr(np.linalg, name): getattr(public_linalg, name) for name in public_linalg.__all__}
    return {**table, **of_matrices, **_OWN}


def _declared_since(ufunc: Any) -> Callable[..., Any] | None:
    """A record that runs this ufunc and is younger than the table, such as a user's own for SciPy's."""
    return next((p.call for p in PRIMITIVES.values() if p.forward is ufunc), None)


def _refuse(name: str) -> DTypeError:
    from difflib import get_close_matches  # a millisecond of import that only an error needs

    home = name.split(".")[:-1]  # np.linalg.inv is not like np.sin, however it is spelled
    known = {f.__name__: _full_name(f) for f, ours in _table().items() if _has_derivative(ours)}
    known = {last: full for last, full in known.items() if full.split(".")[:-1] == home}
    near = [f"{known[found]}, " for found in get_close_matches(name.rsplit(".", 1)[-1], known, n=1, cutoff=0.62)]
    remedy = f"{''.join(near)}cr.operation to give it a rule, or x.detach() to give up the gradient"
    return DTypeError(explain(name, "has no derivative rule in chainrule", remedy=remedy))


def _has_derivative(ours: Any) -> bool:
    return not hasattr(ours, "primitive") or any(ours.primitive.rules)


def _full_name(function: Any) -> str:
    """A function of NumPy as its user wrote it: `np.linalg.svd`."""
    home = getattr(function, "__module__", None) or "numpy"
    return f"{home.replace('numpy', 'np', 1)}.{function.__name__}"


def _ufunc_name(ufunc: np.ufunc) -> str:
    """`np.exp`; and `erf` for SciPy's, which does not say where it is from."""
    return f"np.{ufunc.__name__}" if getattr(np, ufunc.__name__, None) is ufunc else ufunc.__name__


def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
    """What NumPy calls when a ufunc meets a tensor or an abstract array."""
    if not modes.unusual and isinstance(self, Abstract):
        fault = "an abstract array is left over from a trace that is closed"
        raise TraceError(explain(_ufunc_name(ufunc), fault, x=self, remedy="what the traced function returns"))
    outs = keywords.pop("out", None)
    if isinstance(self, Abstract) and outs is not None:
        return _written(self, ufunc, method, inputs, keywords, outs)
    if outs is not None and any(out is not None for out in outs):
        fault = "a plain array cannot take the value of a tensor and keep its graph"
        raise DTypeError(explain(_ufunc_name(ufunc), fault, out=outs[0], remedy="a tensor on the left: cr.asarray(a)"))
    if method == "__call__" and not keywords and ufunc in _table():
        return _table()[ufunc](*inputs)
    if method in ("reduce", "accumulate") and ufunc in (_REDUCTIONS if method == "reduce" else _SCANS):
        ours: Any = _ours((_REDUCTIONS if method == "reduce" else _SCANS)[ufunc])
        axis = keywords.pop("axis", 0)
        kept = {name: value for name, value in keywords.items() if value is not None and value is not np._NoValue}  # pyright: ignore[reportPrivateUsage]
        if set(kept) <= set(_signature(ours).parameters):
            return ours(*inputs, axis=axis, **kept)
        keywords = kept
    if method == "__call__" and not keywords and (later := _declared_since(ufunc)) is not None:
        return later(*inputs)
    if keywords:
        name, remedy = _ufunc_name(ufunc), "cr.where, or astype first"
        raise DTypeError(
            explain(name, f"the argument {next(iter(keywords))!r} has no meaning for tensors", remedy=remedy)
        )
    raise _refuse(_ufunc_name(ufunc) if method == "__call__" else f"{_ufunc_name(ufunc)}.{method}")


def _written(self: Any, ufunc: np.ufunc, method: str, inputs: Any, keywords: Any, outs: Any) -> Any:
    """The result of a ufunc in the array that `out=` names."""
    (out,) = outs if len(outs) == 1 else (None,)
    if not isinstance(out, Abstract):
        fault = "an array that is made inside a traced function cannot take a traced value"
        remedy = "np.zeros_like(x) for np.zeros(...), or a = a + x for a += x"
        raise TraceError(explain(_ufunc_name(ufunc), fault, out=outs[0], remedy=remedy))
    return boxes.into(_ufunc_name(ufunc), out, array_ufunc(self, ufunc, method, *inputs, **keywords))


def array_function(self: Any, function: Any, types: Any, args: Any, keywords: Any) -> Any:
    """What NumPy calls when any other of its functions meets a tensor or an abstract array."""
    if function in _VALUES:
        asks = function not in _TYPES
        return function(*[_values(a, asks) for a in args], **{k: _values(v, asks) for k, v in keywords.items()})
    if function is np.copyto and isinstance(args[0], Abstract) and len(args) == 2 and not keywords:
        args[0][...] = args[1]
        return None
    ours = _table().get(function) or _creation(function)
    if ours is None:
        raise _refuse(_full_name(function))
    positional, named = _matched(function, ours, args, keywords)
    result = ours(*positional, **named)
    made = isinstance(self, Abstract) and is_tensor(result) and not any(map(is_tensor, positional))
    return boxes.boxed(result.data) if made else result  # np.zeros_like(array) is an array


def _values(value: Any, asks: bool) -> Any:
    """An operand without its graph; `asks`: the numbers are looked at, which an abstract array does not have."""
    data = raw(value)
    if not isinstance(data, Abstract):
        return np.asarray(data) if is_tensor(value) else value
    if asks:
        return data.item()
    return data.dtype.type(0).item() if data.weak else np.broadcast_to(np.zeros((), data.dtype), data.shape)


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
    signature = _signature(ours)
    odd = next((name for name in named if name not in signature.parameters), None)
    try:
        found = signature.bind(*positional, **named)
    except TypeError as error:
        fault = f"{error}, as called on tensors" if odd is None else f"the argument {odd!r} has no meaning for tensors"
        remedy = f"cr.{ours.__name__.lstrip('_')}"
        raise DTypeError(explain(_full_name(function), fault, remedy=remedy)) from None
    return list(found.args), found.kwargs


@cache
def _signature(ours: Any) -> inspect.Signature:
    """What one of our functions takes; the generated call of a record does not say by itself."""
    record = getattr(ours, "primitive", None)
    if record is None:
        return inspect.signature(ours)
    names = record.inputs + record.parameters
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])


def equip_abstract_arrays() -> None:
    """Give abstract arrays the operators that rules are written with."""
    for name, value in vars(Operators).items():
        if name not in (
            "__slots__",
            "__module__",
            "__doc__",
            "__dict__",
            "__weakref__",
            "__qualname__",
            *vars(Abstract),
        ):
            setattr(Abstract, name, value)
    Abstract.__array_ufunc__ = array_ufunc  # pyright: ignore[reportAttributeAccessIssue]
    Abstract.__array_function__ = array_function  # pyright: ignore[reportAttributeAccessIssue]


equip_abstract_arrays()
