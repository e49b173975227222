"""The same training in PyTorch: from a task of ours, one with a model, an optimiser and a schedule of PyTorch's.

Initial weights are ours, batches come from the task's own source.  What is compared is what the engines make of them: the
model's arithmetic is written here a second time, with PyTorch's functions.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import chainrule as cr
from chainrule.training.characters import AT_ONCE, BETAS, HELD_OUT, SUBSET, CharacterSettings
from chainrule.training.loop import Check, Task
from chainrule.training.sources import consecutive


class Block(nn.Module):
    """A pre-norm block; the names of its parameters are those of chainrule's."""

    def __init__(self, width: int, heads: int, dropout: float, bias: bool) -> None:
        super().__init__()
        self.heads, self.p = heads, dropout
        self.norm1 = nn.LayerNorm(width, bias=bias)
        self.self_attn = nn.MultiheadAttention(width, heads, bias=bias)
        self.norm2 = nn.LayerNorm(width, bias=bias)
        self.linear1 = nn.Linear(width, 4 * width, bias=bias)
        self.linear2 = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, count, width = x.shape
        own = self.self_attn
        mixed = functional.linear(self.norm1(x), own.in_proj_weight, own.in_proj_bias)
        q, k, v = mixed.view(rows, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.p if self.training else 0.0
        )
        x = x + functional.dropout(
            own.out_proj(seen.transpose(1, 2).reshape(rows, count, width)), self.p, self.training
        )
        return x + functional.dropout(self.linear2(functional.gelu(self.linear1(self.norm2(x)))), self.p, self.training)


class Transformer(nn.Module):
    """The character transformer."""

    def __init__(self, characters: int, settings: CharacterSettings) -> None:
        super().__init__()
        made = (settings.width, settings.heads, settings.dropout, settings.bias)
        self.p = settings.dropout
        self.token = nn.Embedding(characters, settings.width)
        self.position = nn.Embedding(settings.block, settings.width)
        self.layers = nn.ModuleList([Block(*made) for _ in range(settings.layers)])
        self.norm = nn.LayerNorm(settings.width, bias=settings.bias)
        self.head = nn.Linear(settings.width, characters, bias=False)
        if not settings.untied:
            self.head.weight = self.token.weight

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(self.token(numbers) + self.position.weight[: numbers.shape[1]], self.p, self.training)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def with_weights_of(task: Task, model: nn.Module) -> nn.Module:
    """The model in the dtype and with the weights that the task's own has now."""
    state = {name: torch.from_numpy(array) for name, array in task.model.state_dict().items()}
    model.to(getattr(torch, task.settings.dtype)).load_state_dict(state)
    return model


def rate(k: int, highest: float, last: float, last_step: int, warm_up: int = 0) -> float:
    """The rate before step k, by its formula."""
    if k < warm_up:
        return highest * (k + 1) / (warm_up + 1)
    t = min(1.0, (k - warm_up) / (last_step - warm_up))
    return last + (highest - last) * 0.5 * (1.0 + math.cos(math.pi * t))


def falling(optimizer: torch.optim.Optimizer, highest: float, last: float, last_step: int, warm_up: int = 0) -> Any:
    def factor(k: int) -> float:
        return rate(k, highest, last, last_step, warm_up) / highest

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def twin(task: Task) -> Task:
    """The task of `chainrule train chars`, in PyTorch."""
    settings: Any = task.settings
    model: Any = with_weights_of(task, Transformer(len(task.notes["characters"]), settings))
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=settings.learning_rate, betas=BETAS
    )
    schedule = falling(
        optimizer, settings.learning_rate, settings.final_rate, settings.decay_iterations, settings.warm_up
    )
    text = cr.data.read_text(settings.text) if settings.text else cr.data.default_text()
    validation = cr.data.characters(text, HELD_OUT).validation

    def loss(x: Any, y: Any, reduction: str = "mean") -> torch.Tensor:
        logits = model(torch.from_numpy(x))
        return functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(y).flatten(), reduction=reduction)

    def mean_loss(most: int | None, check: Check) -> float:
        x, y = consecutive(validation, settings.block, most)
        rows, total = max(1, AT_ONCE // settings.block), 0.0
        with torch.no_grad():
            for start in range(0, len(x), rows):
                check()
                total += loss(x[start : start + rows], y[start : start + rows], "sum").item()
        return total / y.size

    return dataclasses.replace(
        task,
        settings=dataclasses.replace(settings, no_jit=True),  # its steps are PyTorch's
        model=model,
        optimizer=optimizer,
        schedule=schedule,
        loss=loss,
        evaluate=lambda check: {"validation_loss": mean_loss(SUBSET, check)},
        conclude=lambda check: {"validation_loss": mean_loss(None, check)},
        clip=(lambda: nn.utils.clip_grad_norm_(model.parameters(), settings.clip)) if settings.clip else None,
    )


def twin_of_layers(task: Task, layers: Callable[[], nn.Module], last_step: int, last: float) -> Task:
    """The task of a classifier in PyTorch, with these layers; dropout and noise, which draw otherwise, must be off."""
    settings: Any = task.settings
    model: Any = with_weights_of(task, layers())
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    return dataclasses.replace(
        task,
        settings=dataclasses.replace(settings, no_jit=True),  # its steps are PyTorch's
        model=model,
        optimizer=optimizer,
        schedule=falling(optimizer, settings.learning_rate, last, last_step),
        loss=lambda x, y: functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y)),
    )
