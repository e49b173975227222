"""Attention: every place looks at others and takes a mean of their values, weighted by how well query and key agree.

A place that may look at nothing takes zeros, and gives zero gradients.  Masks of `scaled_dot_product_attention` say
what may be seen and those of `MultiheadAttention` what may not, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from chainrule.core.calls import raw, wrap
from chainrule.errors import ArgumentError, DTypeError, LostGraphError, ShapeError, describe, dtype_kind, explain
from chainrule.nn import initialisers
from chainrule.nn.linear import Linear, check_sizes
from chainrule.nn.module import Module, parameter
from chainrule.nn.plain import dropout
from chainrule.ops.arguments import as_operand
from chainrule.ops.attention import attention_weights
from chainrule.ops.elementwise import logical_not, where
from chainrule.ops.joining import unstack
from chainrule.ops.linalg import matmul
from chainrule.ops.linear import linear
from chainrule.ops.norms import narrow, wide
from chainrule.ops.reductions import mean
from chainrule.ops.views import astype, permute, reshape_to, swap

Generator = np.random.Generator | None


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    generator: Generator = None,
) -> Any:
    """softmax(query keyᵀ scale + mask) value, with scale 1 / sqrt(n) unless told.

    **Shapes** `query f[..., l, n], key f[..., s, n], value f[..., s, m] -> f[..., l, m]`; the axes in front broadcast.
    `attn_mask`, which broadcasts to [..., l, s]: True where a query may look, or numbers that are added to the scores.
    `is_causal`: query i looks at keys 0 to i.  `dropout_p`: the share of weights that are dropped, always, as in
    PyTorch.  A query that may look at nothing gives zeros.  **Raises** ShapeError, DTypeError, ArgumentError.
    **Source** Vaswani and others, Attention Is All You Need, 2017, section 3.2.1.

    >>> import chainrule as cr
    >>> x = cr.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> cr.nn.scaled_dot_product_attention(x, x, x, is_causal=True)[0].tolist()
    [1.0, 0.0]
    """
    offset = 0 if is_causal else None
    masks = [] if attn_mask is None else [as_operand(attn_mask)]
    return _attend(query, key, value, masks, offset, scale, dropout_p, generator)[0]


def _attend(
    query: Any,
    key: Any,
    value: Any,
    masks: Sequence[Any],
    offset: int | None,
    scale: float | None = None,
    dropout_p: float = 0.0,
    generator: Generator = None,
) -> tuple[Any, Any]:
    """What every query takes, and the weights.  `offset`: query i looks at keys 0 to i + offset; None: at all."""
    (query, dtype), key, value = wide(query), wide(key)[0], wide(value)[0]
    _check_shapes(query, key, value)
    scale = 1.0 / sqrt(max(query.shape[-1], 1)) if scale is None else float(scale)
    scores = matmul(query, swap(key))
    for mask in sorted(masks, key=lambda mask: dtype_kind(mask.dtype) == "b"):  # numbers first: they ask for the scale
        scores, scale = _masked(scores, scale, mask)
    weights = attention_weights(scores, scale, offset)
    return narrow(matmul(dropout(weights, dropout_p, True, generator), value), dtype), narrow(weights, dtype)


def _check_shapes(query: Any, key: Any, value: Any) -> None:
    q, k, v = query.shape, key.shape, value.shape
    fault = ""
    if min(len(q), len(k), len(v)) < 2:
        fault = "query, key and value have at least two axes, (places, features)"
    elif q[-1] != k[-1]:
        fault = "the features of query and key differ"
    elif k[-2] != v[-2]:
        fault = "there is not one value for each key"
    else:
        try:
            np.broadcast_shapes(q[:-2], k[:-2], v[:-2])
        except ValueError:
            fault = "the axes in front of the last two do not broadcast"
    if fault:
        raise ShapeError(explain("scaled_dot_product_attention", fault, query=query, key=key, value=value))


def _masked(scores: Any, scale: float, mask: Any) -> tuple[Any, float]:
    """The scores where they count, and -inf elsewhere; or with numbers added, and then scaled before that."""
    kind = dtype_kind(mask.dtype)
    if kind not in "bf":
        fault, expected = "a mask of integers", "bool, True where a query may look, or numbers to add"
        raise DTypeError(explain("scaled_dot_product_attention", fault, attn_mask=mask, expected=expected))
    try:
        fits = np.broadcast_shapes(scores.shape, mask.shape)[-2:] == scores.shape[-2:]
    except ValueError:
        fits = False
    if not fits:
        expected = f"axes that broadcast to (..., {scores.shape[-2]}, {scores.shape[-1]})"
        fault = "the mask does not fit the scores"
        raise ShapeError(
            explain("scaled_dot_product_attention", fault, attn_mask=mask, scores=scores, expected=expected)
        )
    if kind == "b":
        return where(mask, scores, -np.inf), scale
    return scores * scale + astype(mask, scores.dtype, copy=False), 1.0


class KeyValueCache:
    """Keys and values of the places that attention has seen, for reading on one place at a time.

    Give one to each attention layer, inside `no_grad`: what is kept is constant.  Room is made for twice as many places
    whenever it runs out, so n places cost n steps.

    >>> import chainrule as cr
    >>> block = cr.nn.TransformerBlock(8, 2, generator=cr.random.generator(0))
    >>> x, cache = cr.random.normal((1, 5, 8), generator=cr.random.generator(1)), cr.nn.KeyValueCache()
    >>> with cr.no_grad():
    ...     parts = [block(x[:, :3], cache=cache), block(x[:, 3:], cache=cache)]
    >>> bool(cr.max(cr.abs(cr.concat(parts, axis=1) - block(x))) < 1e-12), cache.length
    (True, 5)
    """

    def __init__(self) -> None:
        self.length = 0
        """How many places have been seen."""
        self._kept: list[Any] = []

    def extend(self, keys: Any, values: Any) -> tuple[Any, Any]:
        """All keys and values, arrays f[..., places, features], with the new ones at the end."""
        if getattr(keys, "requires_grad", False) or getattr(values, "requires_grad", False):
            fault = "what is kept is constant, and would lose its graph"
            raise LostGraphError(explain("KeyValueCache", fault, keys=keys, remedy="with cr.no_grad():"))
        news = [raw(keys), raw(values)]
        for kept, new in zip(self._kept, news, strict=False):
            if (kept.shape[:-2], kept.shape[-1]) != (new.shape[:-2], new.shape[-1]):
                expected = f"axes as in {describe(kept[..., : self.length, :])}"
                raise ShapeError(
                    explain("KeyValueCache", "what was kept is of another shape", new=new, expected=expected)
                )
        start, stop = self.length, self.length + news[0].shape[-2]
        if not self._kept or self._kept[0].shape[-2] < stop:
            self._kept = [self._grown(k, new, 2 * stop) for k, new in enumerate(news)]
        for kept, new in zip(self._kept, news, strict=True):
            kept[..., start:stop, :] = new
        self.length = stop
        first, second = (wrap(kept[..., :stop, :], None) for kept in self._kept)
        return first, second

    def _grown(self, k: int, new: Any, room: int) -> Any:
        grown = np.empty((*new.shape[:-2], room, new.shape[-1]), new.dtype)
        if self._kept:
            grown[..., : self.length, :] = self._kept[k][..., : self.length, :]
        return grown


class MultiheadAttention(Module):
    """Attention in `num_heads` subspaces at once.

    **Shapes** `query f[n, l, e], key f[n, s, e], value f[n, s, e] -> f[n, l, e], weights f[n, l, s]` if `batch_first`,
    otherwise with the places before n; without n for one example.  Parameters as PyTorch's: in_proj_weight (3e, e), the
    weights of query, key and value below one another, in_proj_bias, out_proj.  PyTorch's `kdim`, `vdim`, `add_bias_kv`
    and `add_zero_attn` are left out.  **Raises** ArgumentError, ShapeError.
    **Source** Vaswani and others, Attention Is All You Need, 2017, section 3.2.2.

    >>> import chainrule as cr
    >>> attention = cr.nn.MultiheadAttention(8, 2, batch_first=True, generator=cr.random.generator(0))
    >>> x = cr.ones((1, 3, 8))
    >>> y, weights = attention(x, x, x, is_causal=True)
    >>> y.shape, weights[0, 1].tolist()
    ((1, 3, 8), [0.5, 0.5, 0.0])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        batch_first: bool = False,
        dtype: Any = None,
        generator: Generator = None,
    ) -> None:
        check_sizes("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            fault = "the heads do not divide the features evenly"
            raise ArgumentError(explain("MultiheadAttention", fault, embed_dim=embed_dim, num_heads=num_heads))
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.in_proj_weight = initialisers.xavier_uniform_(parameter((3 * embed_dim, embed_dim), dtype), 1.0, generator)
        self.in_proj_bias = initialisers.zeros_(parameter(3 * embed_dim, dtype)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype, generator=generator)
        if bias:
            initialisers.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        cache: KeyValueCache | None = None,
        generator: Generator = None,
    ) -> tuple[Any, Any]:
        """The output and the weights, None unless `need_weights`; means over heads if `average_attn_weights`.

        `key_padding_mask` [n, s] and `attn_mask` [l, s] or [n heads, l, s]: True where nobody may look, or numbers to
        add.  `is_causal`: place i looks at places up to i, those in the `cache` before them included.
        """
        alone = len(query.shape) == 2
        q, k, v = self._heads(query, key, value, alone)
        offset = None if not is_causal else cache.length if cache is not None else 0
        if cache is not None:
            k, v = cache.extend(k, v)
        masks = self._masks(attn_mask, key_padding_mask, q.shape[0])
        p = self.dropout if self.training else 0.0
        out, weights = _attend(q, k, v, masks, offset, None, p, generator)
        out = self.out_proj(self._joined(out, alone))
        if not need_weights:
            return out, None
        weights = mean(weights, axis=1) if average_attn_weights else weights
        return out, reshape_to(weights, weights.shape[1:]) if alone else weights

    def _heads(self, query: Any, key: Any, value: Any, alone: bool) -> tuple[Any, ...]:
        """Query, key and value of every head, f[n, heads, places, features]; one product for what is the same array."""
        weight, bias, e = self.in_proj_weight, self.in_proj_bias, self.embed_dim
        groups: list[tuple[Any, int]] = []  # an array, and how many of the three it is, one after the other
        for x in (query, key, value):
            if groups and groups[-1][0] is x:
                groups[-1] = x, groups[-1][1] + 1
            else:
                groups.append((x, 1))
        if len(groups) == 1:
            return self._apart(linear(query, weight, bias), 3, alone)
        heads: list[Any] = []
        for x, parts in groups:
            rows = slice(len(heads) * e, (len(heads) + parts) * e)
            own = None if bias is None else bias[rows]
            heads += self._apart(linear(x, weight[rows], own), parts, alone)
        return tuple(heads)

    def _apart(self, x: Any, parts: int, alone: bool) -> tuple[Any, ...]:
        """f[n, l, parts heads m] as so many arrays f[n, heads, l, m]."""
        outer = (1, *x.shape[:-1]) if alone and self.batch_first else (*x.shape[:-1], 1) if alone else x.shape[:-1]
        x = reshape_to(x, (*outer, parts, self.num_heads, self.embed_dim // self.num_heads))
        return unstack(permute(x, (2, 0, 3, 1, 4) if self.batch_first else (2, 1, 3, 0, 4)))

    def _joined(self, out: Any, alone: bool) -> Any:
        """f[n, heads, l, m] as f[n, l, heads m], or with the places first."""
        n, _, places, _ = out.shape
        outer = (places,) if alone else (n, places) if self.batch_first else (places, n)
        return reshape_to(permute(out, (0, 2, 1, 3) if self.batch_first else (2, 0, 1, 3)), (*outer, self.embed_dim))

    def _masks(self, attn_mask: Any, key_padding_mask: Any, n: int) -> list[Any]:
        """Masks as `_attend` wants them: where one may look."""
        masks: list[Any] = []
        if attn_mask is not None:
            mask = _visible(attn_mask)
            per_head = len(mask.shape) == 3
            masks.append(reshape_to(mask, (n, self.num_heads, *mask.shape[1:])) if per_head else mask)
        if key_padding_mask is not None:
            mask = _visible(key_padding_mask)
            masks.append(reshape_to(mask, (n, 1, 1, mask.shape[-1])))
        return masks


def _visible(mask: Any) -> Any:
    """PyTorch's mask of what is hidden, the other way round; numbers stay."""
    mask = as_operand(mask)
    return logical_not(mask) if dtype_kind(mask.dtype) == "b" else mask
