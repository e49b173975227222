"""Attention: the function."""

from __future__ import annotations

from math import sqrt
from typing import Any

from chainrule.ops.attention import attention_weights
from chainrule.ops.linalg import matmul
from chainrule.ops.norms import narrow, wide
from chainrule.ops.views import swap


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    query, dtype = wide(query)
    key, value = wide(key)[0], wide(value)[0]
    scale = 1.0 / sqrt(query.shape[-1]) if scale is None else float(scale)
    scores = matmul(query, swap(key))
    weights = attention_weights(scores, scale, 0 if is_causal else None)
    return narrow(matmul(weights, value), dtype)
