"""Functions of functions: gradients, and products with Jacobians in either mode.

The idea: run the function once on tensors, then walk what it left behind, against the arrows or along them, as often
as needed.  The result is recorded when a formula written by hand would be: when an argument, or a tensor that the
function closes over, wants a gradient; then it is a tensor.  No `.grad` is ever touched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from chainrule import tree
from chainrule.core.calls import is_tensor, wrap
from chainrule.core.graph import share
from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.ops.creation import full_like
from chainrule.transforms.arguments import (
    Argument,
    alike,
    as_it_was,
    beside,
    is_open,
    is_paused,
    is_sequence,
    is_variable,
    lifted,
    lost,
    numbers_of,
    of_kind,
    run,
    select,
    tensors_of,
    value_like,
    value_of,
    wants_gradient,
)
from chainrule.transforms.standing import is_standing
from chainrule.walks.forward import Forward
from chainrule.walks.reverse import reverse

Function = Callable[..., Any]


def grad(f: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """The function that gives the gradient of the scalar-valued `f` with respect to the argument(s) `argnums`.

    **Shapes** the gradient has the shape, dtype and kind of its argument: float for float, array for array, tensor
    for tensor, a tree for a tree, with None where nothing floats; a tuple for a tuple of `argnums`.  `has_aux`: f
    returns (value, something), and the result is (gradient, something).  **Raises** DTypeError for an argument that
    does not float, LostGraphError where f's result is no tensor, ShapeError where it is no scalar.

    >>> import chainrule as cr
    >>> cr.grad(lambda x: cr.sin(x) * x)(0.5)
    0.9182168195493894
    """
    both = _value_and_gradient("grad", f, argnums, has_aux)

    @wraps(f, updated=())
    def gradient(*args: Any, **keywords: Any) -> Any:
        value, g = both(args, keywords)
        return (g, value[1]) if has_aux else g

    return gradient


def value_and_grad(f: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """As `grad`, but the result is (value, gradient); with `has_aux`, ((value, something), gradient).

    The value is a float where the arguments are floats, a NumPy scalar where they are arrays, a tensor where one is,
    or where it wants a gradient: `scipy.optimize.minimize(cr.value_and_grad(f), x0, jac=True)` works as it stands.

    >>> import chainrule as cr
    >>> cr.value_and_grad(lambda x: x * x)(3.0)
    (9.0, 6.0)
    """
    both = _value_and_gradient("value_and_grad", f, argnums, has_aux)

    @wraps(f, updated=())
    def value_and_gradient(*args: Any, **keywords: Any) -> Any:
        return both(args, keywords)

    return value_and_gradient


def _value_and_gradient(operation: str, f: Function, argnums: Any, has_aux: bool) -> Callable[[Any, Any], Any]:
    def both(args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        chosen, values = select(operation, argnums, args)
        y, aux = _with_aux(operation, run(f, values, keywords, chosen), has_aux)
        y = as_it_was(y, chosen)
        check_scalar(operation, y)
        numbers, like, owned = numbers_of(chosen), value_like(chosen), {id(y.data)}
        graph = is_open([y.node], numbers)
        value = of_kind(y if graph else wrap(y.data, None), like, owned)
        if has_aux:
            value = value, _kept(aux, chosen, numbers, owned)
        gs = pull([(y, full_like(y.data, 1.0))], chosen, graph, free=not (graph or has_aux))
        gradients = [argument.derivatives(g, owned) for argument, g in zip(chosen, gs, strict=True)]
        return value, (tuple(gradients) if is_sequence(argnums) else gradients[0])

    return both


def _kept(aux: Any, chosen: list[Argument], numbers: set[int], owned: set[int]) -> Any:
    """What a function returns beside its value, without a graph that nothing outside asks for; a module as it is."""
    like = value_like(chosen)

    def kept(leaf: Any) -> Any:
        if tree.is_object(leaf):
            return tree.map(kept, leaf) if any(map(_is_of_a_run, tree.flatten(leaf)[0])) else leaf
        leaf = as_it_was(leaf, chosen)
        if not is_tensor(leaf):
            return leaf
        if leaf.is_leaf or is_variable(leaf):
            owned.add(id(leaf.data))
        return value_of(leaf, numbers, like, owned)

    leaves, structure = tree.flatten(aux, objects=False)
    return tree.unflatten(structure, map(kept, leaves))


def _is_of_a_run(leaf: Any) -> bool:
    """Whether a leaf of a module was computed: the module is a result then, such as a gradient."""
    return is_tensor(leaf) and not leaf.is_leaf and not is_standing(leaf)


def _with_aux(operation: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise ArgumentError(explain(operation, "with has_aux a function returns (value, something)", result=result))
    return result  # pyright: ignore[reportUnknownVariableType]


def check_scalar(operation: str, y: Any) -> None:
    """**Raises** LostGraphError, ShapeError where y is no scalar tensor."""
    if y is None:
        raise lost(operation, y)
    if not is_tensor(y):
        tensors_of(operation, y)  # says what is wrong with a leaf
        raise ShapeError(
            explain(operation, "the result is a tree, not a scalar", result=y, remedy="cr.vjp or cr.jacobian")
        )
    if y.shape != ():
        remedy = "cr.jacobian for all derivatives, cr.vjp for their product with a cotangent, or .sum()"
        raise ShapeError(explain(operation, "the result is no scalar", result=y, expected="shape ()", remedy=remedy))


def pull(cts: list[tuple[Any, Any]], arguments: list[Argument], graph: bool, free: bool = False) -> list[list[Any]]:
    """For every argument the cotangents of its variables, or None, given (result, cotangent)."""
    roots = [(y.node, lifted(ct, graph)) for y, ct in cts if y.node is not None]
    found = {node[0]: g for node, g in reverse(roots, graph, numbers_of(arguments), free)} if roots else {}
    return [[found.get(x.node[0]) for x in argument.tensors] for argument in arguments]


def vjp(f: Function, *xs: Any, **keywords: Any) -> tuple[Any, Function]:
    """`(y, pullback)`: the value of `f(*xs)`, and the function from a cotangent of y to cotangents of xs, a tuple.

    **Shapes** `pullback(ct f[y.shape]) -> (f[x.shape], ...)`, as often as wanted; trees as in `grad`.
    **Raises** as `grad`, and ShapeError for a cotangent of another shape than y's.

    >>> import chainrule as cr
    >>> y, pullback = cr.vjp(lambda a, b: a * b, 2.0, 5.0)
    >>> y, pullback(1.0)
    (10.0, (5.0, 2.0))
    """
    arguments, values = select("vjp", tuple(range(len(xs))), xs)
    ys, structure = tensors_of("vjp", run(f, values, keywords, arguments), arguments)
    numbers, like = numbers_of(arguments), value_like(arguments)
    opened = is_open([y.node for y in ys], numbers)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        owned = set[int]()
        pairs = [
            (y, ct) for y, ct in zip(ys, tree.flatten_as(structure, cotangent, "vjp"), strict=True) if ct is not None
        ]
        cts = [(y, beside("vjp", "cotangent", ct, y, owned)) for y, ct in pairs]
        graph = (opened and not is_paused()) or wants_gradient(ct for _, ct in cts)
        gs = pull(cts, arguments, graph)
        return tuple(argument.derivatives(g, owned) for argument, g in zip(arguments, gs, strict=True))

    return _values(ys, structure, numbers, like), pullback


def _values(ys: list[Any], structure: tree.Structure, numbers: set[int], like: Any) -> Any:
    """Results beside a graph that lives on: in memory of their own."""
    owned = {id(y.data) for y in ys}
    return tree.unflatten(structure, [value_of(y, numbers, like, owned) for y in ys])


def linearize(f: Function, *xs: Any, **keywords: Any) -> tuple[Any, Function]:
    """`(y, linear)`: the value of `f(*xs)`, and its derivative there as a function of tangents.

    **Shapes** `linear(*ts) -> f[y.shape]`, a tangent `f[x.shape]` for each of xs, None for zero; f runs once.
    **Raises** as `jvp`.

    >>> import chainrule as cr
    >>> y, linear = cr.linearize(lambda x: x * x, 3.0)
    >>> linear(1.0), linear(10.0)
    (6.0, 60.0)
    """
    y, linear = _linearized("linearize", f, xs, keywords)
    return y, lambda *ts: linear(ts)


def jvp(f: Function, xs: Any, ts: Any, **keywords: Any) -> tuple[Any, Any]:
    """`(y, t)`: the value of `f(*xs)` and its derivative in the direction `ts`, in forward mode.

    **Shapes** `ts`: a tuple with a tangent `f[x.shape]` for each of xs, None for zero; t has y's shape.
    **Raises** as `grad`, and ShapeError for a tangent of another shape than its x's.

    >>> import chainrule as cr
    >>> cr.jvp(lambda a, b: a * b, (2.0, 5.0), (1.0, 0.0))
    (10.0, 5.0)
    """
    if not is_sequence(xs) or not is_sequence(ts):
        raise ArgumentError(explain("jvp", "arguments and tangents come as tuples", remedy="cr.jvp(f, (x,), (t,))"))
    y, linear = _linearized("jvp", f, tuple(xs), keywords)
    return y, linear(tuple(ts))


def _linearized(operation: str, f: Function, xs: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, Function]:
    arguments, values = select(operation, tuple(range(len(xs))), xs)
    ys, structure = tensors_of(operation, run(f, values, keywords, arguments), arguments)
    numbers, like = numbers_of(arguments), value_like(arguments)
    roots = [y.node for y in ys]
    opened, way = is_open(roots, numbers), Forward(roots, numbers)

    def linear(ts: tuple[Any, ...]) -> Any:
        if len(ts) != len(arguments):
            raise ArgumentError(explain(operation, f"{len(ts)} tangents for {len(arguments)} arguments"))
        owned = set[int]()
        pairs = [p for argument, t in zip(arguments, ts, strict=True) for p in argument.tangents(operation, t, owned)]
        graph = (opened and not is_paused()) or wants_gradient(t for _, t in pairs)
        found = push(way, ys, pairs, graph)
        out = [of_kind(full_like(y.data, 0.0) if t is None else t, like, owned) for y, t in zip(ys, found, strict=True)]
        return tree.unflatten(structure, out)

    return _values(ys, structure, numbers, like), linear


def push(way: Forward, ys: list[Any], pairs: list[tuple[Any, Any]], graph: bool) -> list[Any]:
    """The tangents of the results, or None, given (variable, tangent)."""
    tangents = way({x.node[0]: lifted(t, graph) for x, t in pairs}, graph)
    return [None if y.node is None else tangents.get(y.node[0]) for y in ys]


def stop_gradient(x: Any) -> Any:
    """x as a constant: the same value, and no derivative flows through it.  Trees leaf by leaf.

    >>> import chainrule as cr
    >>> cr.grad(lambda x: x * cr.stop_gradient(x))(3.0)
    3.0
    """
    return tree.map(_stopped, x)


def _stopped(leaf: Any) -> Any:
    if not is_tensor(leaf):
        return leaf
    result = alike(leaf, leaf.data, None)
    share(leaf, result)
    return result
