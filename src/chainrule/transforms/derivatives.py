"""Functions of functions: gradients, products with Jacobians and Hessians, and these matrices in full.

The idea: run the function once on tensors, then walk what it left behind, against the arrows or along them, as often
as needed.  The result is recorded when a formula written by hand would be: when an argument, or a tensor that the
function closes over, wants a gradient; then it is a tensor.  No `.grad` is ever touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.backends.registry import is_foreign, namespace_of
from chainrule.core.calls import is_tensor, wrap
from chainrule.core.graph import share
from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.ops.creation import full_like
from chainrule.ops.views import reshape_to
from chainrule.transforms.arguments import (
    Argument,
    alike,
    beside,
    is_open,
    is_paused,
    is_sequence,
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
        y, aux = _with_aux(operation, run(f, values, keywords), has_aux)
        _check_scalar(operation, y)
        numbers, like, owned = numbers_of(chosen), value_like(chosen), set[int]()
        graph = is_open([y.node], numbers)
        value = of_kind(y if graph else wrap(y.data, None), like, owned)
        if has_aux:
            leaves, structure = tree.flatten(aux)
            kept = [value_of(a, numbers, like, owned) if is_tensor(a) else a for a in leaves]
            value = value, tree.unflatten(structure, kept)
        gs = _pull([(y, full_like(y.data, 1.0))], chosen, graph, free=not (graph or has_aux))
        gradients = [argument.derivatives(g, owned) for argument, g in zip(chosen, gs, strict=True)]
        return value, (tuple(gradients) if is_sequence(argnums) else gradients[0])

    return both


def _with_aux(operation: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise ArgumentError(explain(operation, "with has_aux a function returns (value, something)", result=result))
    return result  # pyright: ignore[reportUnknownVariableType]


def _check_scalar(operation: str, y: Any) -> None:
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


def _pull(cts: list[tuple[Any, Any]], arguments: list[Argument], graph: bool, free: bool = False) -> list[list[Any]]:
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
    arguments, values = select("vjp", range_of(xs), xs)
    ys, structure = tensors_of("vjp", run(f, values, keywords))
    numbers, like = numbers_of(arguments), value_like(arguments)
    opened = is_open([y.node for y in ys], numbers)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        owned = set[int]()
        pairs = [(y, ct) for y, ct in zip(ys, tree.flatten_as(structure, cotangent), strict=True) if ct is not None]
        cts = [(y, beside("vjp", "cotangent", ct, y, owned)) for y, ct in pairs]
        graph = (opened and not is_paused()) or wants_gradient(ct for _, ct in cts)
        gs = _pull(cts, arguments, graph)
        return tuple(argument.derivatives(g, owned) for argument, g in zip(arguments, gs, strict=True))

    return _values(ys, structure, numbers, like), pullback


def range_of(xs: tuple[Any, ...]) -> tuple[int, ...]:
    """All positions."""
    return tuple(range(len(xs)))


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
    arguments, values = select(operation, range_of(xs), xs)
    ys, structure = tensors_of(operation, run(f, values, keywords))
    numbers, like = numbers_of(arguments), value_like(arguments)
    roots = [y.node for y in ys]
    opened, way = is_open(roots, numbers), Forward(roots, numbers)

    def linear(ts: tuple[Any, ...]) -> Any:
        if len(ts) != len(arguments):
            raise ArgumentError(explain(operation, f"{len(ts)} tangents for {len(arguments)} arguments"))
        owned = set[int]()
        pairs = [p for argument, t in zip(arguments, ts, strict=True) for p in argument.tangents(operation, t, owned)]
        graph = (opened and not is_paused()) or wants_gradient(t for _, t in pairs)
        found = _push(way, ys, pairs, graph)
        out = [of_kind(full_like(y.data, 0.0) if t is None else t, like, owned) for y, t in zip(ys, found, strict=True)]
        return tree.unflatten(structure, out)

    return _values(ys, structure, numbers, like), linear


def _push(way: Forward, ys: list[Any], pairs: list[tuple[Any, Any]], graph: bool) -> list[Any]:
    """The tangents of the results, or None, given (variable, tangent)."""
    tangents = way({x.node[0]: lifted(t, graph) for x, t in pairs}, graph)
    return [None if y.node is None else tangents.get(y.node[0]) for y in ys]


def jacobian(f: Function, argnums: Any = 0) -> Function:
    """The function that gives all first derivatives of `f`.

    **Shapes** `y.shape + x.shape` for every pair of an array of the result and one of the argument; where either is a
    tree, trees of x inside trees of y.  f runs once; then it is one reverse walk per entry of y, or one forward walk
    per entry of x, whichever are fewer.  **Raises** as `grad`, except that any shape of result is welcome.

    >>> import chainrule as cr, numpy as np
    >>> cr.jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return _jacobian("jacobian", f, argnums, None)


def hessian(f: Function, argnums: Any = 0) -> Function:
    """The function that gives all second derivatives of the scalar-valued `f`: forward walks over the gradient.

    **Shapes** `x.shape + x.shape`; trees inside trees.  **Raises** as `grad`.

    >>> import chainrule as cr, numpy as np
    >>> cr.hessian(lambda x: (x * x * x).sum())(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    return _jacobian("hessian", grad(f, argnums), argnums, True)


def _jacobian(operation: str, f: Function, argnums: Any, ahead: bool | None) -> Function:
    @wraps(f, updated=())
    def matrix(*args: Any, **keywords: Any) -> Any:
        chosen, values = select(operation, argnums, args)
        ys, structure = tensors_of(operation, run(f, values, keywords))
        graph = is_open([y.node for y in ys], numbers_of(chosen))
        xs = [x for argument in chosen for x in argument.tensors]
        forwards = sum(x.data.size for x in xs) < sum(y.data.size for y in ys) if ahead is None else ahead
        blocks = (_columns if forwards else _rows)(ys, xs, chosen, graph)
        owned, trees = set[int](), list[Any]()
        for row in blocks:
            entries = iter(row)
            of = [argument.derivatives([next(entries) for _ in argument.tensors], owned) for argument in chosen]
            trees.append(tuple(of) if is_sequence(argnums) else of[0])
        return tree.unflatten(structure, trees)

    return matrix


def _rows(ys: list[Any], xs: list[Any], arguments: list[Argument], graph: bool) -> list[list[Any]]:
    """For every y a block for every x, by one reverse walk per entry of y."""
    blocks: list[list[Any]] = []
    for y in ys:
        pulls = [[g for gs in _pull([(y, ct)], arguments, graph) for g in gs] for ct in _basis(y)]
        blocks.append([_stacked([row[k] for row in pulls], x, y.shape + x.shape, 0) for k, x in enumerate(xs)])
    return blocks


def _columns(ys: list[Any], xs: list[Any], arguments: list[Argument], graph: bool) -> list[list[Any]]:
    """For every y a block for every x, by one forward walk per entry of x."""
    way = Forward([y.node for y in ys], numbers_of(arguments))
    blocks: list[list[Any]] = [[] for _ in ys]
    for x in xs:
        pushes = [_push(way, ys, [(x, t)], graph) for t in _basis(x)]
        for k, y in enumerate(ys):
            blocks[k].append(_stacked([column[k] for column in pushes], y, y.shape + x.shape, -1))
    return blocks


def _basis(x: Any) -> Iterator[Any]:
    """All arrays of x's type with a single 1, in order."""
    for k in range(x.data.size):
        one: Any = np.zeros(x.data.size, np.float64 if is_foreign(x.data) else x.dtype)
        one[k] = 1.0
        one = one.reshape(x.shape)
        yield namespace_of(x.data).asarray(one, dtype=x.dtype) if is_foreign(x.data) else one


def _stacked(parts: list[Any], like: Any, shape: Any, axis: int) -> Any:
    """The derivatives side by side, zeros for missing ones, in the shape of a block."""
    parts = [full_like(like.data, 0.0) if part is None else part for part in parts]
    if not parts:
        return np.zeros(shape, like.dtype)
    block = np.stack(parts, axis=axis)
    return block if block.shape == shape else reshape_to(block, shape)


def hvp(f: Function, x: Any, v: Any) -> Any:
    """The product of the Hessian of the scalar-valued `f` at x with `v`, forward over reverse; f runs once.

    **Shapes** `x f[...], v f[...] -> f[...]`, or trees.  **Raises** as `grad` and `jvp`.

    >>> import chainrule as cr, numpy as np
    >>> cr.hvp(lambda x: (x * x * x).sum(), np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """
    argument = Argument("hvp", "x", x)
    y = run(f, [argument.value], {})
    _check_scalar("hvp", y)
    owned = set[int]()
    pairs = argument.tangents("hvp", v, owned)
    numbers = numbers_of([argument])
    graph = is_open([y.node], numbers) or wants_gradient(t for _, t in pairs)
    gs = run(_pull, [[(y, full_like(y.data, 1.0))], [argument], True], {})[0]
    roots = [g for g in gs if g is not None]
    found = dict(
        zip(map(id, roots), _push(Forward([g.node for g in roots], numbers), roots, pairs, graph), strict=True)
    )
    return argument.derivatives([found.get(id(g)) for g in gs], owned)


def stop_gradient(x: Any) -> Any:
    """X as a constant: the same value, and no derivative flows through it.  Trees leaf by leaf.

    >>> import chainrule as cr
    >>> cr.grad(lambda x: x * cr.stop_gradient(x))(3.0)
    3.0
    """
    return tree.map(_stopped, x)


def _stopped(leaf: Any) -> Any:
    if not is_tensor(leaf) or leaf.node is None:
        return leaf
    result = alike(leaf, leaf.data, None)
    share(leaf, result)
    return result


__all__ = ["grad", "hessian", "hvp", "jacobian", "jvp", "linearize", "stop_gradient", "value_and_grad", "vjp"]
