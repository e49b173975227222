"""Training step of the character transformer at nanoGPT's documented setting for a CPU: 4 layers, 4 heads, width 128,
block 64, batch 12, 65 characters, no biases, exact GELU, tied head; AdamW with decay of matrices, gradients clipped to 1.

Ours is made of `TransformerBlock`; PyTorch's own encoder layer is slower than what nanoGPT writes from a fused product and
`scaled_dot_product_attention`, so that is what it is measured with, under the same names.  The characters are drawn:
which they are makes no difference to the time.

Source: nanoGPT, README, "i only have a macbook".
"""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from benchmarks.workloads import jax_training
from benchmarks.workloads.contender import Budget, Case, fastest
from benchmarks.workloads.training import Task, contenders

SIZES = {"layers": 4, "heads": 4, "width": 128, "block": 64, "batch": 12, "characters": 65}
WHAT = "AdamW step of a transformer of 4 layers, 4 heads, width 128, block 64, batch 12; clipped"
# At most 1.3 times PyTorch's time.
BUDGET = Budget(1 / 1.3)

CASES = [
    Case("transformer", WHAT, "float32", tolerance=2e-3, steps=2, budgets=(BUDGET, *fastest(1.35)), sizes=SIZES),
    Case(
        "transformer, float64", WHAT, "float64", tolerance=1e-9, steps=2, budgets=(BUDGET, *fastest(1.0)), sizes=SIZES
    ),
]
SMALL = Case(
    "transformer, small",
    "for warming up, not measured",
    "float32",
    tolerance=1e-3,
    steps=1,
    sizes={"layers": 1, "heads": 2, "width": 8, "block": 4, "batch": 2, "characters": 5},
)


def weights(case: Case) -> dict[str, np.ndarray]:
    """Normal numbers with nanoGPT's deviations, by the names of the modules below."""
    s = case.sizes
    rng, width = np.random.default_rng(0), s["width"]

    def normal(*shape: int, scale: float = 0.02) -> np.ndarray:
        return rng.normal(scale=scale, size=shape).astype(case.dtype)

    last = 0.02 / sqrt(2 * s["layers"])
    named = {"characters.weight": normal(s["characters"], width), "positions.weight": normal(s["block"], width)}
    for k in range(s["layers"]):
        named |= {
            f"blocks.{k}.norm1.weight": np.ones(width, case.dtype),
            f"blocks.{k}.self_attn.in_proj_weight": normal(3 * width, width),
            f"blocks.{k}.self_attn.out_proj.weight": normal(width, width, scale=last),
            f"blocks.{k}.norm2.weight": np.ones(width, case.dtype),
            f"blocks.{k}.linear1.weight": normal(4 * width, width),
            f"blocks.{k}.linear2.weight": normal(width, 4 * width, scale=last),
        }
    return named | {"norm.weight": np.ones(width, case.dtype)}


def task(case: Case) -> Task:
    s = case.sizes
    drawn = np.random.default_rng(1).integers(0, s["characters"], (16, s["batch"], s["block"] + 1))
    return Task(
        weights(case),
        [(np.ascontiguousarray(t[:, :-1]), np.ascontiguousarray(t[:, 1:]).reshape(-1)) for t in drawn],
        optimiser="AdamW",
        options={"lr": 1e-3, "betas": (0.9, 0.99)},
        decay=0.1,
        clip=1.0,
    )


def ours(case: Case) -> Callable[[], Any]:
    import chainrule as cr

    nn, s = cr.nn, case.sizes
    width = s["width"]

    class Transformer(nn.Module):
        def __init__(self) -> None:
            self.characters = nn.Embedding(s["characters"], width)
            self.positions = nn.Embedding(s["block"], width)
            self.blocks = [nn.TransformerBlock(width, s["heads"], bias=False) for _ in range(s["layers"])]
            self.norm = nn.LayerNorm(width, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.characters(x) + self.positions.weight
            for block in self.blocks:
                h = block(h)
            return nn.linear(self.norm(h), self.characters.weight).reshape(-1, s["characters"])

    return Transformer


def theirs(case: Case) -> Callable[[], Any]:
    import torch
    from torch import nn

    functions, s = nn.functional, case.sizes
    width, heads = s["width"], s["heads"]

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
            self.out_proj = nn.Linear(width, width, bias=False)

        def forward(self, x: Any) -> Any:
            batch, block, _ = x.shape
            qkv = functions.linear(x, self.in_proj_weight).view(batch, block, 3, heads, width // heads)
            mixed = functions.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), is_causal=True)
            return self.out_proj(mixed.transpose(1, 2).reshape(batch, block, width))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1 = nn.LayerNorm(width, bias=False)
            self.self_attn = Attention()
            self.norm2 = nn.LayerNorm(width, bias=False)
            self.linear1 = nn.Linear(width, 4 * width, bias=False)
            self.linear2 = nn.Linear(4 * width, width, bias=False)

        def forward(self, x: Any) -> Any:
            x = x + self.self_attn(self.norm1(x))
            return x + self.linear2(functions.gelu(self.linear1(self.norm2(x))))

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(s["characters"], width)
            self.positions = nn.Embedding(s["block"], width)
            self.blocks = nn.ModuleList(Block() for _ in range(s["layers"]))
            self.norm = nn.LayerNorm(width, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.characters(x) + self.positions.weight
            for block in self.blocks:
                h = block(h)
            return functions.linear(self.norm(h), self.characters.weight).view(-1, s["characters"])

    return Transformer


def jax_loss(case: Case) -> Any:
    import jax
    import jax.numpy as jnp

    s = case.sizes
    width, heads = s["width"], s["heads"]

    def normed(x: Any, weight: Any) -> Any:
        d = x - jnp.mean(x, axis=-1, keepdims=True)
        return d * jax.lax.rsqrt(jnp.mean(d * d, axis=-1, keepdims=True) + 1e-5) * weight

    def loss(named: dict[str, Any], x: Any, y: Any) -> Any:
        batch, block = x.shape
        mask = jnp.tril(jnp.ones((block, block), bool))
        h = named["characters.weight"][x] + named["positions.weight"]
        for k in range(s["layers"]):
            p = {name.removeprefix(f"blocks.{k}."): w for name, w in named.items() if name.startswith(f"blocks.{k}.")}
            qkv = normed(h, p["norm1.weight"]) @ p["self_attn.in_proj_weight"].T
            q, key, v = qkv.reshape(batch, block, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
            scores = jnp.where(mask, q @ key.swapaxes(-1, -2) / np.sqrt(width // heads).astype(case.dtype), -jnp.inf)
            mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, block, width)
            h = h + mixed @ p["self_attn.out_proj.weight"].T
            inner = jax.nn.gelu(normed(h, p["norm2.weight"]) @ p["linear1.weight"].T, approximate=False)
            h = h + inner @ p["linear2.weight"].T
        logits = normed(h, named["norm.weight"]) @ named["characters.weight"].T
        return jax_training.cross_entropy(logits.reshape(-1, s["characters"]), y)

    return loss


CONTENDERS = contenders(task, ours, theirs, jax_loss)
