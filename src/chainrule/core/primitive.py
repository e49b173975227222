"""The record of a primitive: one statement says what an operation computes and how it behaves under change.

A rule's parameter names are its residuals: first `ct`, then any of `out`, an input's name, `<input>_type`, a keyword
parameter.  The engine keeps exactly those.  A call on tensors that want a gradient leaves a node; on abstract arrays,
an equation; on anything else, nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

import numpy as np

from chainrule.core import calls, checked
from chainrule.core.graph import Node, share
from chainrule.core.template import template
from chainrule.errors import RuleError, explain

# A union over arities, from which a type checker infers the parameters of a lambda.
Rule = (
    Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any, Any], Any]
)
Function = Rule
Sample = tuple[Sequence[Any], tuple[Any, ...]]
"""Arrays and parameters on which the generic test suite tries a record."""


class Options(TypedDict, total=False):
    """What a record may state besides its rules; see `primitive`."""

    doc: str
    parameters: str
    forward: Function
    standard: Function
    shape_rule: Function
    dtype_rule: Function
    expected: Callable[..., tuple[str, str]]
    samples: Callable[[np.random.Generator], Iterable[Sample]]
    is_view: bool
    hides: bool
    multiple: bool
    same: Function
    flat: bool


PASS: Rule = lambda ct: ct
"""The rule of an input whose cotangent is the result's; generated code need not call it."""

PRIMITIVES: dict[str, Primitive] = {}
"""Every record by name, for the test suite, the protocols of NumPy, and whoever counts."""


class Family:
    """What all operations of one kind share.

    `push` is the forward mode: "rule" (the map is diagonal, so the pullback is its own transpose), "linear" (the
    operation itself), "bilinear" (the operation, one argument at a time), "transpose" (the pullback, transposed).
    `silent(ct, parameters)` says where everything that a cotangent of the input hangs on is zero.
    """

    def __init__(self, name: str, push: str, silent: Callable[..., Any], shape_rule: Callable[..., Any] | None) -> None:
        self.name = name
        self.push = push
        self.silent = silent
        self.shape_rule = shape_rule

    def __repr__(self) -> str:
        return self.name


class Primitive:
    """A record.  Make one with `primitive` or a family's shorthand, call it through `call`."""

    __slots__ = (
        "call", "domain", "dtype_rule", "expected", "family", "flat", "forward", "hides", "inputs", "is_ours", "is_view", "keeps", "multiple",
        "name", "parameters", "pull", "reads", "rules", "same", "samples", "shape_rule", "standard", "variadic",
    )  # fmt: skip
    guardable = True
    call: Callable[..., Any]
    pull: Callable[..., Any]

    def __init__(self, name: str, family: Family, rules: Sequence[Rule | None], inputs: str, parameters: str) -> None:
        self.name = name
        self.family = family
        self.variadic = inputs.startswith("*")
        self.inputs = tuple(inputs.lstrip("*").split())
        self.parameters = tuple(parameters.split())
        self.rules: tuple[Any, ...] = tuple(rules)
        if len(self.rules) != len(self.inputs):
            raise RuleError(f"{name}: {len(self.rules)} rules for {len(self.inputs)} inputs, expected one for each")
        self.reads = tuple(None if rule is None else self._read(rule) for rule in self.rules)
        self.is_ours = all(rule is None or checked.is_ours(rule) for rule in self.rules)
        if not (self.is_ours or self.variadic):
            self._look_at_rules()
        self.keeps: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.name

    def names(self, count: int) -> Iterable[str]:
        """The names of `count` inputs, for messages."""
        return (f"{self.inputs[0]}[{k}]" for k in range(count)) if self.variadic else self.inputs

    def kept(self, node: Node, name: str) -> Any:
        """The residual called `name` in a node of this primitive, or None."""
        return node[3][self.keeps.index(name)] if name in self.keeps else None

    def residuals(self, node: Node) -> dict[str, Any]:
        """Everything that a rule may read, by name, raw."""
        named = dict(zip(self.parameters, node[4], strict=True))
        named.update(zip(self.keeps, node[3], strict=True))
        for name, parent in zip(self.inputs, node[2], strict=False):
            if parent is not None:
                named[f"{name}_type"] = calls.type_of_node(parent)
        return named

    def _look_at_rules(self) -> None:
        diagonal = self.family.push == "rule"
        both = [
            (rule, read) if rule is None or read is None else checked.checked(self.name, a, rule, read, diagonal)
            for a, rule, read in zip(self.inputs, self.rules, self.reads, strict=True)
        ]
        self.rules, self.reads = tuple(rule for rule, _ in both), tuple(read for _, read in both)

    def _read(self, rule: Rule) -> tuple[str, ...]:
        """The residuals that a rule names, checked; a parameter with a default is the rule's own affair."""
        if not callable(rule):
            raise RuleError(explain(self.name, "a rule is no function", rule=rule))
        wrapped = hasattr(rule, "__wrapped__") or hasattr(rule, "__signature__")
        code = None if wrapped else getattr(rule, "__code__", None)
        several = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
        if code is not None and not (code.co_flags & several or code.co_kwonlyargcount):
            ct, *names = code.co_varnames[: code.co_argcount] or ("",)
            optional = names[len(names) - len(getattr(rule, "__defaults__", None) or ()) :]
        else:  # ten times slower, so only for what is no plain function
            parameters = inspect.signature(rule).parameters
            ct, *names = parameters or ("",)
            optional = [n for n in names if parameters[n].default is not inspect.Parameter.empty]
        if not ct:
            raise RuleError(f"{self.name}: a rule needs at least the cotangent `ct` as its parameter")
        known = {"out", *self.inputs, *(f"{a}_type" for a in self.inputs), *self.parameters}
        known |= {"index"} if self.variadic else set()
        for name in names:
            if name not in known and name not in optional:
                fault = f"a rule reads the unknown residual {name!r}"
                raise RuleError(f"{self.name}: {fault}, expected some of {', '.join(sorted(known))}")
        return tuple(name for name in names if name in known)


def primitive(
    name: str,
    family: Family,
    rules: Sequence[Rule | None],
    *,
    doc: str = "",
    inputs: str = "x",
    parameters: str = "",
    forward: Function | None = None,
    standard: Function | None = None,
    shape_rule: Function | None = None,
    dtype_rule: Function | None = None,
    expected: Callable[..., tuple[str, str]] | None = None,
    domain: Sequence[Any] = (),
    samples: Callable[[np.random.Generator], Iterable[Sample]] | None = None,
    is_view: bool = False,
    hides: bool = False,
    multiple: bool = False,
    same: Function | None = None,
    flat: bool = False,
    spreads: bool = False,
    listed: bool = True,
) -> Callable[..., Any]:
    """Declare an operation and return the function that performs it.

    `doc`: the operation's meaning, a `·`, and its derivative.  `rules`: one per input.
    `forward`: NumPy, as fast as it goes (default: NumPy's function of that name).
    `standard(xp, *arrays, *parameters)`: the same for every other library (default: the function of that name).
    `shape_rule` and `dtype_rule` map types and parameters to the result's (default: the family's; asked of NumPy).
    `expected(*operands, *parameters)`: fault and expectation, for a message.
    `domain`: intervals that inputs are drawn from in tests; `samples`: or whole examples.
    `is_view`: the result may share the first input's memory.  `hides`: the result may leave out a NaN that an input
    holds.  `multiple`: the result is a tuple of arrays.  `same`: what the operation is of twice the same tensor that
    wants a gradient, where that is cheaper (x * x).  `flat`: from a cotangent that is one number, because it is the same
    everywhere, the rule makes an array of x's shape; `spreads`: the rule makes such cotangents.  `listed`: the record is found in PRIMITIVES and called through
    generated code; the operations that users make of functions, whose names may be anything, are neither.

    **Raises** RuleError for a rule of the wrong arity or that names an unknown residual.
    """
    p = Primitive(name, family, rules, inputs, parameters)
    p.forward = forward or getattr(np, name)
    p.standard = standard or _namesake(name)
    p.shape_rule = shape_rule or family.shape_rule
    p.dtype_rule = dtype_rule
    p.expected = expected
    p.domain = tuple(domain)
    p.samples = samples
    p.is_view = is_view
    p.hides = hides
    p.multiple = multiple
    p.same = same
    p.flat = flat
    p.keeps = _keeps(p)
    if p.variadic or multiple or not listed:
        p.call = lambda *of: calls.general(p, of[0] if p.variadic else of[: len(p.inputs)], of[len(p.inputs) :])
        p.pull = calls.pull
    else:
        diagonal = family.push == "rule" and p.is_ours  # the library's own rules keep shape and dtype
        passes = tuple(a for a, rule in zip(p.inputs, p.rules, strict=True) if rule is PASS)
        make_call, make_pull = template(
            p.inputs, p.parameters, p.reads, p.keeps, is_view, diagonal, same is not None, passes, spreads
        )
        p.call = make_call(p, p.forward, calls.general, calls.constant, calls.failed, share, same)

        def first_pull(*of: Any) -> None:
            p.pull = make_pull(p.rules)
            p.pull(*of)

        p.pull = first_pull
    p.call.__module__ = "chainrule"
    p.call.__name__ = p.call.__qualname__ = name
    p.call.__doc__ = _docstring(p, doc)
    p.call.primitive = p  # pyright: ignore[reportFunctionMemberAccess]
    if listed:
        PRIMITIVES[name] = p
    return p.call


def _namesake(name: str) -> Function:
    """The array API's function of the same name."""

    def standard(xp: Any, *operands: Any) -> Any:
        return getattr(xp, name)(*operands)

    return standard


def _keeps(p: Primitive) -> tuple[str, ...]:
    """What a node of `p` keeps: arrays and `out` that rules read, types that a rule of another input reads."""
    read = {name for names in p.reads if names for name in names}
    foreign = {name for a, names in zip(p.inputs, p.reads, strict=True) for name in names or () if name != f"{a}_type"}
    types = [f"{a}_type" for a in p.inputs if f"{a}_type" in foreign]
    return (*(a for a in (*p.inputs, "out") if a in read), *types, *(["hidden"] if p.hides else []))


def _docstring(p: Primitive, doc: str) -> str:
    meaning, _, derivative = doc.partition(" · ")
    arrays = ", ".join(f"{name} f[...]" for name in p.inputs)
    shapes = f"**Shapes** `{arrays} -> f[...]`{', broadcast' if len(p.inputs) > 1 else ''}."
    slope = f"  **Derivative** {derivative}." if derivative else ""
    return f"{meaning or p.name}.\n\n{shapes}{slope}  **Raises** ShapeError, DTypeError."
