"""The character transformer: GPT-2 at the size of a CPU.

Token and learned position embeddings, pre-norm blocks with causal attention and GELU, a last normalisation, and a head that
shares the weights of the embedding or has its own.  Reading goes on from a `Memory`: keys and values of what was read before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import nn
from chainrule.types import Array

STD = 0.02
"""Of initial weights; those that lead back into the residual stream are smaller by sqrt(2 layers).

Source: Radford and others, Language Models are Unsupervised Multitask Learners, 2019, section 2.3, and its code."""


class Memory:
    """Keys and values of the characters read so far, for each block: arrays f[batch, heads, characters, width / heads]."""

    def __init__(self) -> None:
        self.length = 0
        self._kept: dict[int, tuple[Any, Any]] = {}

    def extend(self, k: int, keys: Any, values: Any) -> tuple[Any, Any]:
        """Those of block `k`, with the new ones at the end."""
        if k in self._kept:
            keys, values = (cr.concat([old, new], axis=2) for old, new in zip(self._kept[k], (keys, values), strict=True))
        self._kept[k] = keys, values
        return keys, values


class Transformer(nn.Module):
    """Logits of the next character, for each of a row of characters.

    **Shapes** i[batch, n] -> f[batch, n, characters], n at most `block`.
    """

    def __init__(
        self,
        characters: int,
        *,
        layers: int,
        heads: int,
        width: int,
        block: int,
        dropout: float = 0.0,
        bias: bool = False,
        tied: bool = True,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        made = {"dtype": dtype, "generator": generator}
        self.block = block
        self.token = nn.Embedding(characters, width, **made)
        self.position = nn.Embedding(block, width, **made)
        self.dropout = nn.Dropout(dropout)
        self.layers = [nn.TransformerBlock(width, heads, dropout=dropout, bias=bias, **made) for _ in range(layers)]
        self.norm = nn.LayerNorm(width, bias=bias, dtype=dtype)
        self.head = nn.Linear(width, characters, bias=False, **made)
        if tied:
            self.head.weight = self.token.weight
        self._initialise(generator)

    def _initialise(self, generator: np.random.Generator | None) -> None:
        into_stream = STD / math.sqrt(2 * len(self.layers))
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                leads_back = name.endswith(("out_proj.weight", "linear2.weight"))
                nn.init.normal_(parameter, 0.0, into_stream if leads_back else STD, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, numbers: Array, memory: Memory | None = None) -> Any:
        return self.head(self._stream(numbers, memory))

    def _stream(self, numbers: Array, memory: Memory | None) -> Any:
        start, count = memory.length if memory else 0, numbers.shape[1]
        x = self.dropout(self.token(numbers) + self.position.weight[start : start + count])
        for k, layer in enumerate(self.layers):
            x = layer(x) if memory is None else _read_on(layer, x, memory, k)
        if memory is not None:
            memory.length += count
        return self.norm(x)

    def next_logits(self, numbers: Array, memory: Memory | None = None) -> Array:
        """The logits after the last of the characters, an array f[batch, characters].

        With a memory, `numbers` are those that it does not hold yet: all at once if it is empty, otherwise one.
        """
        with cr.no_grad():
            return self.head(self._stream(numbers, memory)[:, -1]).data

    @property
    def matrices(self) -> list[Any]:
        """The parameters that decay: all but biases and the weights of normalisations."""
        return [parameter for parameter in self.parameters() if parameter.ndim > 1]

    @property
    def vectors(self) -> list[Any]:
        return [parameter for parameter in self.parameters() if parameter.ndim <= 1]


def _read_on(layer: Any, x: Any, memory: Memory, k: int) -> Any:
    """What the block `layer` makes of new characters, whose attention reaches back to all that it has seen."""
    attention = layer.self_attn
    batch, count, width = x.shape
    mixed = nn.linear(layer.norm1(x), attention.in_proj_weight, attention.in_proj_bias)
    apart = cr.permute_dims(mixed.reshape(batch, count, 3, attention.num_heads, -1), (2, 0, 3, 1, 4))
    keys, values = memory.extend(k, apart[1], apart[2])
    seen = nn.scaled_dot_product_attention(apart[0], keys, values, is_causal=memory.length == 0)
    x = x + attention.out_proj(cr.permute_dims(seen, (0, 2, 1, 3)).reshape(batch, count, width))
    return x + layer.linear2(nn.gelu(layer.linear1(layer.norm2(x))))
