"""Jacobians and Hessians in full, and the product of a Hessian with a vector.

The function runs once; then its graph is walked once for every row or column, or once for a product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.backends.registry import is_foreign, namespace_of
from chainrule.ops.creation import filled, full_like
from chainrule.ops.joining import stack
from chainrule.ops.views import reshape_to
from chainrule.transforms.arguments import (
    Argument,
    as_it_was,
    is_open,
    is_sequence,
    numbers_of,
    run,
    select,
    tensors_of,
    wants_gradient,
)
from chainrule.transforms.derivatives import check_scalar, grad, pull, push
from chainrule.walks.forward import Forward

Function = Callable[..., Any]


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
        ys, structure = tensors_of(operation, run(f, values, keywords, chosen), chosen)
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
        pulls = [[g for gs in pull([(y, ct)], arguments, graph) for g in gs] for ct in _basis(y)]
        blocks.append([_stacked([row[k] for row in pulls], x, y.shape + x.shape, 0) for k, x in enumerate(xs)])
    return blocks


def _columns(ys: list[Any], xs: list[Any], arguments: list[Argument], graph: bool) -> list[list[Any]]:
    """For every y a block for every x, by one forward walk per entry of x."""
    way = Forward([y.node for y in ys], numbers_of(arguments))
    blocks: list[list[Any]] = [[] for _ in ys]
    for x in xs:
        pushes = [push(way, ys, [(x, t)], graph) for t in _basis(x)]
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
        return filled(shape, 0.0, like.data)
    block = stack(parts, axis=axis)
    return block if block.shape == shape else reshape_to(block, shape)


def hvp(f: Function, x: Any, v: Any) -> Any:
    """The product of the Hessian of the scalar-valued `f` at x with `v`, forward over reverse; f runs once.

    **Shapes** `x f[...], v f[...] -> f[...]`, or trees.  **Raises** as `grad` and `jvp`.

    >>> import chainrule as cr, numpy as np
    >>> cr.hvp(lambda x: (x * x * x).sum(), np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """
    argument = Argument("hvp", "x", x)
    y = as_it_was(run(f, [argument.value], {}, [argument]), [argument])
    check_scalar("hvp", y)
    owned = set[int]()
    pairs = argument.tangents("hvp", v, owned)
    numbers = numbers_of([argument])
    graph = is_open([y.node], numbers) or wants_gradient(t for _, t in pairs)
    gs = run(pull, [[(y, full_like(y.data, 1.0))], [argument], True], {})[0]
    roots = [g for g in gs if g is not None]
    found = dict(zip(map(id, roots), push(Forward([g.node for g in roots], numbers), roots, pairs, graph), strict=True))
    return argument.derivatives([found.get(id(g)) for g in gs], owned)
