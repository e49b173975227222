"""The code of a primitive's call and pullback, generated once per pattern of residuals, as dataclasses do.

This is where eager speed comes from: the generated call makes the node in line and keeps exactly the residuals that
the rules name; the generated pullback calls the rules directly and fits and accumulates what they return.  About
twenty texts serve all primitives.  What generated code calls on higher floors is bound late, by `bind`.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from chainrule import modes
from chainrule.core.graph import next_number
from chainrule.types import ArrayType

_new_tuple: Any = getattr(tuple, "__new__")  # noqa: B009 - whose type no checker can read
_late: dict[str, Any] = {
    "modes": modes,
    "next_number": next_number,
    "new": object.__new__,
    "array_type": partial(_new_tuple, ArrayType),
}
"""The globals of all generated code."""


def bind(**names: Any) -> None:
    """Give generated code what lives on higher floors: the class `Tensor`, and what the reverse walk does when a
    rule divides zero by zero (`guarded`), a cotangent does not fit (`fit`) or a sum is not defined (`send`).
    """
    _late.update(names)


def late(name: str) -> Any:
    """What was bound under `name`."""
    return _late[name]


_CALL = """
def make(primitive, forward, general, constant, failed, share, same):
    def call({arguments}):
        if modes.unusual: return general(primitive, ({inputs},), ({parameters}))
        if {all_tensors}:
            {same}
            {unpack}
            try: out = forward({datas}{more})
            except (ValueError, TypeError, IndexError) as error: raise failed(primitive, ({inputs},), ({parameters}), error) from None
            t = new(Tensor); t.grad = None; t.data = out
            if {no_node}: t.node = None
            else:
                t.node = [next_number(), primitive, ({nodes},), ({kept}), ({parameters}), {type}]
                {mark_kept}
            {share}
            return t
        if {no_tensors}:
            try: return forward({inputs}{more})
            except (ValueError, TypeError, IndexError, AttributeError): return general(primitive, ({inputs},), ({parameters}))
        {lift}
    return call
"""
_PULL = """
def make(rules):
    {rule_names}, = rules
    def pull(node, parents, ct, graph, cts):
        {nodes}, = parents
        {residuals}
        if graph:
            {rewrap}
        try:
            {apply}
        except FloatingPointError:
            {all_cotangents}, = guarded(node, parents, ct, graph)
        {send}
    return pull
"""
_LINE = "\n" + " " * 16
_FIT = """
            if {unfit}: g_{a} = fit(g_{a}, n_{a})"""
_SEND = """
        if n_{a} is not None:{fit}
            key = n_{a}[0]
            try: cts[key] = cts[key] + g_{a} if key in cts else g_{a}
            except FloatingPointError: send(cts, key, g_{a})"""
# A diagonal rule gives a cotangent of the output's shape and dtype, so two nodes tell whether it fits; the array of one
# input need not be asked at all.
_UNFIT = "g_{a}.shape != n_{a}[5] or g_{a}.dtype is not n_{a}[6]"
_UNFIT_DIAGONAL = "node[5] != n_{a}[5] or node[6] is not n_{a}[6]"
# The cotangent of a sum of everything is the same everywhere.  Where nobody but pulls sees it (`graph` is None) it stays
# one number for a rule that multiplies it by an array anyway: 0.6 us less for each sum of squares.
_UNSPREAD = "ct if graph is None and not ct.shape and n_{a}[1] is not None and n_{a}[1].flat else "
_UNFIT_SPREAD = "g_{a} is not ct and (" + _UNFIT + ")"


@cache
def template(
    inputs: tuple[str, ...],
    parameters: tuple[str, ...],
    reads: tuple[Any, ...],
    keeps: tuple[str, ...],
    is_view: bool,
    diagonal: bool,
    has_same: bool,
    passes: tuple[str, ...],
    spreads: bool,
) -> Any:
    """`make_call(primitive, forward, ...)` and `make_pull(rules)` for one pattern: what each rule reads, None for no rule."""
    live = [(a, read) for a, read in zip(inputs, reads, strict=True) if read is not None]

    def each(form: str, names: Any = inputs, between: str = ", ") -> str:
        return between.join(form.format(a=a) for a in names)

    first: Any = next(iter(inputs), None)
    unary = diagonal and len(inputs) == 1
    unfit = "" if unary else _UNFIT_DIAGONAL if diagonal else _UNFIT_SPREAD if spreads else _UNFIT
    call = _CALL.format(
        arguments=", ".join(inputs + parameters),
        inputs=each("{a}"),
        parameters=each("{a},", parameters, " "),
        more=each(", {a}", parameters, ""),
        all_tensors=each("type({a}) is Tensor", between=" and "),
        no_tensors=each("type({a}) is not Tensor", between=" and "),
        same="if x is y and x.node is not None: return same(x)" if has_same else "",
        unpack=each("d_{a} = {a}.data; n_{a} = {a}.node", between="; "),
        datas=each("d_{a}"),
        no_node=each("n_{a} is None", between=" and ") + " or modes.paused and modes.is_paused()" if live else "True",
        nodes=each("n_{a}"),
        type=f"n_{first}[5], n_{first}[6]" if unary else "out.shape, out.dtype",
        kept="".join(_keep(name, inputs, reads) + ", " for name in keeps),
        # A constant whose memory the graph keeps moves to fresh memory when it is written; see graph.before_write.
        mark_kept=_LINE.join(f"if n_{a} is None: {a}.shared = True" for a in inputs if a in keeps and len(inputs) > 1),
        share=f"share({first}, t)" if is_view else "",
        lift=_lift(inputs, parameters),
    )
    residuals = [*(f"r_{name}" for name in keeps)]
    pull = _PULL.format(
        rule_names=each("rule_{a}"),
        nodes=each("n_{a}"),
        residuals="; ".join(
            ([", ".join(residuals) + ", = node[3]"] if residuals else [])
            + ([", ".join(parameters) + ", = node[4]"] if parameters else [])
        )
        or "pass",
        rewrap="; ".join(_rewrap(name, inputs) for name in keeps if name == "out" or name in inputs) or "pass",
        apply="; ".join(
            f"g_{a} = ct"
            if a in passes
            else f"g_{a} = None if n_{a} is None else {_UNSPREAD.format(a=a) if spreads else ''}rule_{a}(ct{''.join(', ' + _value(name, a, parameters) for name in read)})"
            for a, read in live
        )
        or "pass",
        all_cotangents=", ".join(f"g_{a}" if read is not None else "_" for a, read in zip(inputs, reads, strict=True)),
        send="".join(
            _SEND.format(a=a, fit=_FIT.format(a=a, unfit=unfit.format(a=a)) if unfit else "") for a, _ in live
        ),
    )
    return _compiled(call, f"<call {inputs} {keeps}>"), _compiled(pull, f"<pull {inputs} {keeps}>")


def _compiled(text: str, name: str) -> Any:
    """The function `make` of `text`, compiled when it is first used: most programs walk through few patterns."""
    made: list[Any] = []

    def make(*of: Any) -> Any:
        if not made:
            space: dict[str, Any] = {}
            # Generated functions look names up in `_late` itself, so that what is bound later is seen.
            exec(compile(text, name, "exec"), _late, space)
            made.append(space["make"])
        return made[0](*of)

    return make


def _keep(name: str, inputs: tuple[str, ...], reads: tuple[Any, ...]) -> str:
    """The expression that keeps one residual; an array only if a rule that will run reads it."""
    if name == "hidden":
        # A NaN can only do harm further back, so a leaf or a constant need not be searched for one.
        return " or ".join(f"n_{a} is not None and n_{a}[1] is not None and hides_nan(d_{a})" for a in inputs)
    if name.endswith("_type"):
        return f"array_type((d_{name[:-5]}.shape, d_{name[:-5]}.dtype))"
    value = "out" if name == "out" else f"d_{name}"
    readers = [f"n_{a} is not None" for a, read in zip(inputs, reads, strict=True) if read is not None and name in read]
    return value if len(inputs) == 1 else f"{value} if {' or '.join(readers)} else None"


def _rewrap(name: str, inputs: tuple[str, ...]) -> str:
    """When a derivative is recorded its residuals are tensors again, tied to the nodes they came from."""
    node = "node" if name == "out" else f"node[2][{inputs.index(name)}]"
    return f"r_{name} = None if r_{name} is None else wrap(r_{name}, {node})"


def _value(name: str, a: str, parameters: tuple[str, ...]) -> str:
    """What a rule for input `a` gets for one of its parameters."""
    if name == a + "_type":
        return f"array_type((n_{a}[5], n_{a}[6]))"
    return name if name in parameters else f"r_{name}"


def _lift(inputs: tuple[str, ...], parameters: tuple[str, ...]) -> str:
    """What happens where tensors meet other operands."""
    if inputs == ("x", "y") and not parameters:
        lifted = "call(x, constant(y, x)) if type(x) is Tensor else call(constant(x, y), y)"
        failure = "except TypeError as error: raise failed(primitive, (x, y), (), error) from None"
        return f"try: return {lifted}\n        {failure}"
    return f"return general(primitive, ({', '.join(inputs)},), ({''.join(q + ', ' for q in parameters)}))"
