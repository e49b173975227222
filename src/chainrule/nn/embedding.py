"""Embedding: a row of a table for each index.  Its gradient adds up in a row as often as the row was read."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_foreign
from chainrule.core.calls import raw
from chainrule.errors import ArgumentError, DTypeError, IndexingError, ShapeError, dtype_kind, explain
from chainrule.nn import initialisers
from chainrule.nn.linear import check_sizes
from chainrule.nn.module import Module, parameter
from chainrule.ops.arguments import as_operand
from chainrule.ops.elementwise import equal, greater_equal, less, where
from chainrule.ops.take import take
from chainrule.ops.views import astype, expand_dims
from chainrule.transforms.derivatives import stop_gradient


def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """The rows of `weight` at the indices `input`.

    **Shapes** `input i[...], weight f[n, d] -> f[..., d]`.  **Derivative** the cotangent added up at each index; none
    for the row `padding_idx`.  **Raises** IndexingError for an index outside 0 to n - 1, negative ones included.

    >>> import chainrule as cr
    >>> w = cr.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
    >>> cr.nn.embedding([0, 0, 2], w).sum().backward()
    >>> w.grad.tolist()
    [[2.0], [0.0], [1.0]]
    """
    input, weight = as_operand(input), as_operand(weight)
    if dtype_kind(input.dtype) not in "iu" and 0 not in input.shape:
        raise DTypeError(
            explain("embedding", "indices are integers", input=input, weight=weight, remedy="input.astype(int)")
        )
    if len(weight.shape) != 2:
        raise ShapeError(explain("embedding", "the table has two axes, (entries, features)", weight=weight))
    _check(input, weight)
    out = take(weight, _refusing(input, weight.shape[0]), axis=0)
    if padding_idx is None:
        return out
    at = expand_dims(equal(input, _row("embedding", padding_idx, weight.shape[0])), -1)
    return where(at, stop_gradient(out), out)


def _check(input: Any, weight: Any) -> None:
    """**Raises** IndexingError naming the first index that is not there; traced ones are not known yet."""
    at, n = raw(input), weight.shape[0]
    if isinstance(at, Abstract) or 0 in at.shape:
        return
    numbers: Any = np.asarray(at) if is_foreign(at) else at
    if numbers.min() < 0 or numbers.max() >= n:
        bad = tuple(map(int, np.argwhere((numbers < 0) | (numbers >= n))[0]))
        where_ = f" at position {bad}" if bad else ""
        fault = f"index {numbers[bad]}{where_} is not among {n} entries"
        raise IndexingError(explain("embedding", fault, input=input, weight=weight, expected=f"0 to {n - 1}"))


def _refusing(input: Any, n: int) -> Any:
    """Traced indices, with one that no `take` accepts in the place of those that are none here."""
    if not isinstance(raw(input), Abstract):
        return input
    if input.dtype.kind == "i":
        return where(less(input, 0), np.array(n, np.int64), input)
    return (
        where(greater_equal(input, n), np.array(n, np.int64), astype(input, np.int64))
        if input.dtype == np.uint64
        else input
    )


def _row(operation: str, padding_idx: Any, n: int) -> int:
    """The number of a row, counted from the front."""
    try:
        number = index(padding_idx)
    except TypeError:
        number = n
    if -n <= number < n:
        return number % n
    fault = f"padding_idx {padding_idx!r} is not among {n} entries"
    raise ArgumentError(explain(operation, fault, expected=f"{-n} to {n - 1}"))


class Embedding(Module):
    """A table of vectors, looked up by index; weight (num_embeddings, embedding_dim), normal numbers at the start.

    **Shapes** `input i[...] -> f[..., embedding_dim]`.  The row `padding_idx` starts at zeros and is not trained.
    **Raises** ArgumentError, IndexingError.

    >>> import chainrule as cr
    >>> cr.nn.Embedding(10, 4)([[1, 2, 3]]).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        check_sizes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else _row("Embedding", padding_idx, num_embeddings)
        self.weight = initialisers.normal_(parameter((num_embeddings, embedding_dim), dtype), generator=generator)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0.0

    def forward(self, input: Any) -> Any:
        """The rows at these indices."""
        return embedding(input, self.weight, self.padding_idx)
