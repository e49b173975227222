"""Data held out for a test, chosen by a seed, with the same share of each class."""

from __future__ import annotations

from math import ceil
from operator import index
from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.random import draw, generator
from chainrule.types import Array

Part = tuple[Array, ...]


def split(*arrays: Any, held_out: float | int = 0.25, labels: Any = None, seed: int = 0) -> tuple[Part, Part]:
    """Two tuples of arrays: the items to train on, and those held out; both in random order, fixed by `seed`.

    `held_out` is a number of items, or as a float a share of them, rounded up.  With `labels`, one per item, each class
    is held out in proportion, as nearly as whole items allow.

    **Shapes** arrays f[n, ...] -> f[n - held_out, ...] and f[held_out, ...].
    **Raises** ShapeError for arrays of different lengths, ArgumentError where one of the parts would be empty.

    >>> import chainrule as cr
    >>> x, y = np.arange(8.0), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> (x, y), (x_test, y_test) = cr.data.split(x, y, held_out=2, labels=y)
    >>> len(x), sorted(y_test.tolist())
    (6, [0, 1])
    """
    parts: list[Any] = [np.asarray(array) for array in arrays]
    if not parts or any(part.ndim == 0 for part in parts):
        raise ArgumentError(explain("split", "no arrays of items", expected="arrays with at least one axis"))
    n = len(parts[0])
    kinds: Any = np.zeros(n, int) if labels is None else np.asarray(labels)
    if kinds.shape != (n,) or any(len(part) != n for part in parts):
        named: dict[str, Any] = {f"array_{k}": part for k, part in enumerate(parts)}
        raise ShapeError(explain("split", "the arrays hold different numbers of items", labels=kinds, **named))
    count = _count(held_out, n)
    order = draw.permutation(n, generator=generator(seed))
    chosen = _chosen(kinds[order], count)
    train, test = order[~chosen], order[chosen]
    return tuple(part[train] for part in parts), tuple(part[test] for part in parts)


def _count(held_out: Any, n: int) -> int:
    share = hasattr(held_out, "is_integer") and not hasattr(held_out, "__index__")  # a float, of Python or NumPy
    try:
        # Rounded first: 0.07 * 100 is a little more than 7.
        count = ceil(round(float(held_out) * n, 9)) if share else index(held_out)
    except (TypeError, ValueError, OverflowError):
        count = -1
    if 0 < count < n and (not share or held_out < 1):
        return count
    fault = f"no part of {n} items that leaves some to train on"
    raise ArgumentError(
        explain("split", fault, held_out=held_out, expected=f"1 to {n - 1} items, or a share below 1.0")
    )


def _chosen(kinds: Array, count: int) -> Array:
    """Which items are held out: of each kind the first ones, in number by the method of largest remainders."""
    _, number, sizes = np.unique(kinds, return_inverse=True, return_counts=True)
    wanted, remainders = np.divmod(sizes * count, len(kinds))
    wanted[np.argsort(-remainders, kind="stable")[: count - wanted.sum()]] += 1
    chosen = np.zeros(len(kinds), bool)
    for kind, most in enumerate(wanted):
        chosen[np.flatnonzero(number == kind)[:most]] = True
    return chosen
