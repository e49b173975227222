"""Users' own operations: a plain function of arrays, and a derivative rule for each of them.

The rules are those of a record: parameters name residuals.  What a rule returns is checked where it returns it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_foreign
from chainrule.core.calls import is_tensor
from chainrule.core.graph import own_copy
from chainrule.core.primitive import Rule, primitive
from chainrule.errors import ArgumentError, DTypeError, RuleError, explain
from chainrule.ops.families import GENERAL
from chainrule.transforms.arguments import is_array


def operation(*rules: Rule | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function of arrays as an operation of its own, with one rule for each of its first arguments.

    A rule maps the cotangent `ct` of the result to that of its argument; its further parameters name what it needs:
    `out`, an argument, `<argument>_type` (shape and dtype alone), a parameter.  None says "no gradient, on purpose".
    The function gets raw arrays and gives back one; its arguments beyond the rules are parameters, which are passed on
    as they are; a ufunc's arguments are called x, y, z.  A rule written with chainrule's or NumPy's functions serves every order and mode.

    **Raises** RuleError at the declaration for an unknown residual or too many rules; and at the rule, in a walk, for
    a result of the wrong type or shape.

    >>> import chainrule as cr, numpy as np
    >>> @cr.operation(lambda ct, x, n: ct * n * x ** (n - 1))
    ... def to_the(x, n=2):
    ...     return x ** n
    >>> cr.grad(to_the)(3.0), cr.grad(cr.grad(to_the))(3.0, n=3)
    (6.0, 18.0)
    """

    def declare(f: Callable[..., Any]) -> Callable[..., Any]:
        name, signature = _signature(f, rules)
        inputs = tuple(signature.parameters)[: len(rules)]
        parameters = tuple(signature.parameters)[len(rules) :]

        def by_library(_: Any, *values: Any) -> Any:
            return forward(*values)

        def shape_rule(*types: Any) -> Any:
            return probe(*types).shape

        def dtype_rule(*types: Any) -> Any:
            return probe(*types).dtype

        def forward(*values: Any) -> Any:
            arrays, others = values[: len(inputs)], dict(zip(parameters, values[len(inputs) :], strict=True))
            out = _array(name, f(*arrays, **others))
            shares = is_array(out) and (out.base is not None or any(out is a for a in arrays))
            return own_copy(out) if shares else out

        def probe(*types: Any) -> Any:
            return forward(*[np.ones(t.shape, t.dtype) for t in types[: len(inputs)]], *types[len(inputs) :])

        record = primitive(
            name,
            GENERAL,
            rules,
            inputs=" ".join(inputs),
            parameters=" ".join(parameters),
            forward=forward,
            standard=by_library,
            shape_rule=shape_rule,
            dtype_rule=dtype_rule,
            listed=False,
        )

        @wraps(f, updated=())
        def call(*args: Any, **keywords: Any) -> Any:
            values = _bound(name, signature, args, keywords)
            for parameter in parameters:
                if is_tensor(values[parameter]):
                    fault = f"the parameter {parameter!r} is a tensor and has no rule"
                    raise DTypeError(explain(name, fault, remedy="a rule for it, or None as one"))
            return record(*values.values())

        call.primitive = record.primitive  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess]
        return call

    return declare


def _signature(f: Any, rules: tuple[Rule | None, ...]) -> tuple[str, inspect.Signature]:
    if not callable(f) or not rules:
        raise RuleError("operation: written as @operation(rule, ...), with one rule for each array argument")
    name = getattr(f, "__name__", type(f).__name__)
    signature = _of_ufunc(f) if isinstance(f, np.ufunc) else inspect.signature(f)
    kinds = [p.kind for p in signature.parameters.values()]
    if any(kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD) for kind in kinds):
        raise RuleError(f"{name}: an operation names its arguments, given {signature}")
    for reserved in ("ct", "out"):
        if reserved in signature.parameters:
            remedy = f" · try a function of its own: def {name}(x): ..." if isinstance(f, np.ufunc) else ""
            raise RuleError(f"{name}: {reserved!r} has a meaning in rules and cannot name an argument{remedy}")
    arrays = sum(kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD) for kind in kinds)
    if len(rules) > arrays:
        raise RuleError(f"{name}: {len(rules)} rules for {arrays} arguments, expected one for each array among them")
    return name, signature


def _of_ufunc(f: np.ufunc) -> inspect.Signature:
    """The arguments of NumPy's and SciPy's ufuncs, which have many options: x, y, z, as many as there are inputs."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind) for name in ("x", "y", "z", "w")[: f.nin]])


def _bound(name: str, signature: inspect.Signature, args: Any, keywords: Any) -> dict[str, Any]:
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError as error:
        raise ArgumentError(explain(name, f"{error}", expected=f"{name}{signature}")) from None
    bound.apply_defaults()
    return bound.arguments


def _array(name: str, result: Any) -> Any:
    if issubclass(type(result), (bool, int, float)) and not issubclass(type(result), np.generic):
        return np.asarray(result)
    if issubclass(type(result), (np.ndarray, np.generic, Abstract)) or is_foreign(result):
        return result  # pyright: ignore[reportUnknownVariableType]
    raise RuleError(explain(name, "an operation returns one array", result=result))
