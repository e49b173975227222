"""The block of a transformer: attention, then a small network for every place, each added to what comes in."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.nn.attention import KeyValueCache, MultiheadAttention
from chainrule.nn.layer_norm import LayerNorm
from chainrule.nn.linear import Linear
from chainrule.nn.module import Module
from chainrule.nn.plain import dropout
from chainrule.ops.erf import gelu


class TransformerBlock(Module):
    """x + attention(norm1(x)), and then x + linear2(gelu(linear1(norm2(x)))).

    **Shapes** `x f[n, places, d_model] -> f[n, places, d_model]`.  The names of its parameters are those of PyTorch's
    TransformerEncoderLayer, whose values it gives with `causal=False`, and PyTorch with `norm_first=True`,
    `activation="gelu"` and `batch_first=True`.  `dim_feedforward` is 4 d_model unless told.  Unless `causal` is False
    a place looks at itself and those before it.  **Raises** ArgumentError, ShapeError.
    **Source** Radford and others, Language Models are Unsupervised Multitask Learners, 2019, section 2.3.

    >>> import chainrule as cr
    >>> block = cr.nn.TransformerBlock(8, 2, generator=cr.random.generator(0))
    >>> block(cr.ones((1, 3, 8))).shape, [name for name, _ in block.named_parameters()][:2]
    ((1, 3, 8), ['self_attn.in_proj_weight', 'self_attn.in_proj_bias'])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int | None = None,
        dropout: float = 0.0,
        layer_norm_eps: float = 1e-5,
        bias: bool = True,
        *,
        causal: bool = True,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        inner = 4 * d_model if dim_feedforward is None else dim_feedforward
        made: dict[str, Any] = {"dtype": dtype, "generator": generator}
        self.causal, self.dropout = causal, dropout
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=True, **made)
        self.linear1 = Linear(d_model, inner, bias, **made)
        self.linear2 = Linear(inner, d_model, bias, **made)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **made)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **made)

    def forward(
        self,
        x: Any,
        attn_mask: Any = None,
        key_padding_mask: Any = None,
        *,
        cache: KeyValueCache | None = None,
        generator: np.random.Generator | None = None,
    ) -> Any:
        """The block's output; masks as in `MultiheadAttention`.  With a `cache`, x goes on from what that has seen."""
        how = self.dropout, self.training, generator
        y = self.norm1(x)
        y, _ = self.self_attn(
            y, y, y, key_padding_mask, False, attn_mask, is_causal=self.causal, cache=cache, generator=generator
        )
        x = x + dropout(y, *how)
        y = dropout(gelu(self.linear1(self.norm2(x))), *how)
        return x + dropout(self.linear2(y), *how)
