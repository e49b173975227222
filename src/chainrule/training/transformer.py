"""The character transformer: GPT-2 at the size of a CPU.

Token and learned position embeddings, pre-norm blocks with causal attention and GELU, a last normalisation, and a head that
shares the weights of the embedding or has its own.  With a `Memory` the model reads on from what it has read before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import nn
from chainrule.types import Array

Memory = list[nn.KeyValueCache]
"""What each block keeps of the characters read so far."""


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
        initial_std: float = 0.02,
        tied: bool = True,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        made: dict[str, Any] = {"dtype": dtype, "generator": generator}
        self.block = block
        self.token = nn.Embedding(characters, width, **made)
        self.position = nn.Embedding(block, width, **made)
        self.dropout = nn.Dropout(dropout)
        self.layers = [nn.TransformerBlock(width, heads, dropout=dropout, bias=bias, **made) for _ in range(layers)]
        self.norm = nn.LayerNorm(width, bias=bias, dtype=dtype)
        self.head = nn.Linear(width, characters, bias=False, **made)
        if tied:
            self.head.weight = self.token.weight
        self._initialise(initial_std, generator)

    def _initialise(self, std: float, generator: np.random.Generator | None) -> None:
        """Normal numbers, smaller by sqrt(2 layers) where they lead back into the residual stream; no biases.

        **Source** Radford and others, Language Models are Unsupervised Multitask Learners, 2019, section 2.3, and its code.
        """
        into_stream = std / math.sqrt(2 * len(self.layers))
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                leads_back = name.endswith(("out_proj.weight", "linear2.weight"))
                nn.init.normal_(parameter, 0.0, into_stream if leads_back else std, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, numbers: Array) -> Any:
        return self.head(self._stream(numbers, None))

    def _stream(self, numbers: Array, memory: Memory | None) -> Any:
        start = memory[0].length if memory else 0
        x = self.dropout(self.token(numbers) + self.position.weight[start : start + numbers.shape[1]])
        for k, layer in enumerate(self.layers):
            x = layer(x, cache=memory[k] if memory else None)
        return self.norm(x)

    def memory(self) -> Memory:
        """An empty one."""
        return [nn.KeyValueCache() for _ in self.layers]

    def next_logits(self, numbers: Array, memory: Memory | None = None) -> Array:
        """The logits after the last of the characters, an array f[batch, characters].

        With a memory, `numbers` are those that it has not seen yet, and it keeps them.
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
