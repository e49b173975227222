"""Training steps of two conv nets, cross-entropy, Adam, float32.

On images of the digits' size: 3x3 convolutions to 16 and 32 channels, relu after each, 2x2 max pooling, a linear map;
batch 64.  On (32, 3, 32, 32): 3x3 convolutions to 32, 64 and 128 channels, relu and 2x2 max pooling after each, a linear
map.
"""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from benchmarks.workloads import jax_training
from benchmarks.workloads.contender import Budget, Case, fastest
from benchmarks.workloads.training import Task, contenders

# At most 1.5 times PyTorch's time.
BUDGET = Budget(1 / 1.5)

CASES = [
    Case(
        "conv, 8x8",
        "Adam step of a conv net 1-16-32 on (64, 1, 8, 8), one pooling",
        "float32",
        tolerance=1e-3,
        steps=15,
        budgets=(BUDGET, *fastest(2.5)),
        sizes={"images": (64, 1, 8, 8), "channels": (16, 32), "pooled": (False, True)},
    ),
    Case(
        "conv, 32x32",
        "Adam step of a conv net 3-32-64-128 on (32, 3, 32, 32), pooling after each",
        "float32",
        tolerance=1e-3,
        steps=2,
        budgets=(BUDGET, *fastest(1.3)),
        sizes={"images": (32, 3, 32, 32), "channels": (32, 64, 128), "pooled": (True, True, True)},
    ),
]
CLASSES = 10


def features(case: Case) -> int:
    """What is left of an image after the last convolution and pooling."""
    _, _, height, width = case.sizes["images"]
    halved = 2 ** sum(case.sizes["pooled"])
    return case.sizes["channels"][-1] * (height // halved) * (width // halved)


def task(case: Case) -> Task:
    rng = np.random.default_rng(0)
    count, before, *_ = shape = case.sizes["images"]
    named: dict[str, np.ndarray] = {}
    position = 0
    for after, pooled in zip(case.sizes["channels"], case.sizes["pooled"], strict=True):
        named[f"{position}.weight"] = rng.normal(scale=sqrt(2 / (9 * before)), size=(after, before, 3, 3))
        named[f"{position}.bias"] = np.zeros(after)
        before, position = after, position + 2 + pooled  # a convolution, relu, perhaps pooling
    named[f"{position + 1}.weight"] = rng.normal(scale=sqrt(1 / features(case)), size=(CLASSES, features(case)))
    named[f"{position + 1}.bias"] = np.zeros(CLASSES)
    x = rng.normal(size=shape).astype(case.dtype)
    y = rng.integers(0, CLASSES, count)
    return Task({name: w.astype(case.dtype) for name, w in named.items()}, [(x, y)], options={"lr": 1e-3})


def network(nn: Any, case: Case) -> Callable[[], Any]:
    """The model in a library whose `nn` this is."""
    channels = (case.sizes["images"][1], *case.sizes["channels"])

    def make() -> Any:
        modules: list[Any] = []
        for before, after, pooled in zip(channels, channels[1:], case.sizes["pooled"], strict=False):
            modules += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), *([nn.MaxPool2d(2)] if pooled else [])]
        return nn.Sequential(*modules, nn.Flatten(), nn.Linear(features(case), CLASSES))

    return make


def ours(case: Case) -> Callable[[], Any]:
    import chainrule as cr

    return network(cr.nn, case)


def theirs(case: Case) -> Callable[[], Any]:
    import torch

    return network(torch.nn, case)


def jax_loss(case: Case) -> Any:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def loss(named: dict[str, Any], x: Any, y: Any) -> Any:
        h, position = x, 0
        for pooled in case.sizes["pooled"]:
            h = lax.conv_general_dilated(h, named[f"{position}.weight"], (1, 1), "SAME")
            h = jax.nn.relu(h + named[f"{position}.bias"][:, None, None])
            if pooled:
                h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            position += 2 + pooled
        head = h.reshape(len(h), -1) @ named[f"{position + 1}.weight"].T + named[f"{position + 1}.bias"]
        return jax_training.cross_entropy(head, y)

    return loss


CONTENDERS = contenders(task, ours, theirs, jax_loss)
