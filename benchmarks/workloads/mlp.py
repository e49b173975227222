"""What the spiral and the digits share: an MLP of linear maps and relu, its weights, and it written out for PyTorch.

`Sequential` of `Linear` and `ReLU` in both libraries.  The tuned row is PyTorch without modules, on weights that lie as
`addmm` likes them, with the fused optimiser: its fastest spelling that compiles nothing.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.workloads import jax_training, training
from benchmarks.workloads.contender import Case, Contender, Parts

TUNED = "PyTorch, addmm and fused"


def weights(layers: Sequence[int]) -> dict[str, np.ndarray]:
    """Weights (out, in) and biases, float32, by the names that `Sequential` gives them."""
    rng = np.random.default_rng(1)
    named: dict[str, np.ndarray] = {}
    for k, (wide, out) in enumerate(pairwise(layers)):
        named[f"{2 * k}.weight"] = rng.normal(scale=(2 / wide) ** 0.5, size=(out, wide)).astype(np.float32)
        named[f"{2 * k}.bias"] = np.zeros(out, np.float32)
    return named


def network(nn: Any, layers: Sequence[int]) -> Callable[[], Any]:
    """The model in a library whose `nn` this is."""

    def make() -> Any:
        modules: list[Any] = []
        for wide, out in pairwise(layers):
            modules += [nn.Linear(wide, out), nn.ReLU()]
        return nn.Sequential(*modules[:-1])

    return make


def ours(case: Case) -> Callable[[], Any]:
    import chainrule as cr

    return network(cr.nn, case.sizes["layers"])


def theirs(case: Case) -> Callable[[], Any]:
    import torch

    return network(torch.nn, case.sizes["layers"])


def tuned(task: Callable[[Case], training.Task]) -> Callable[[Case], Parts]:
    def build(case: Case) -> Parts:
        import torch

        class Transposed(torch.nn.Module):
            """Weights (in, out); they are read and shown as (out, in)."""

            def __init__(self) -> None:
                super().__init__()
                empty = {name: torch.empty(array.shape[::-1]) for name, array in weights(case.sizes["layers"]).items()}
                self.held = {name: torch.nn.Parameter(value) for name, value in empty.items()}
                values = list(self.held.values())
                self.pairs = list(zip(values[0::2], values[1::2], strict=True))

            def load_state_dict(self, named: Any) -> None:
                with torch.no_grad():
                    for name, value in named.items():
                        self.held[name].copy_(value.t())

            def to(self, *_: Any) -> Any:
                return self

            def parameters(self, recurse: bool = True) -> Any:
                return iter(self.held.values())

            def named_parameters(self, *_: Any, **__: Any) -> Any:
                return iter(self.held.items())

            def forward(self, x: Any) -> Any:
                (w1, b1), (w2, b2), (w3, b3) = self.pairs
                h = torch.relu(torch.addmm(b1, x, w1))
                h = torch.relu(torch.addmm(b2, h, w2))
                return torch.addmm(b3, h, w3)

        made = training.torch(task(case), Transposed, fused=True)

        def results(last: Any) -> dict[str, Any]:
            return {name: np.transpose(value) for name, value in made.results(last).items()}

        return made._replace(results=results)

    return build


def jax_loss(case: Case) -> Any:
    import jax.numpy as jnp

    last = len(case.sizes["layers"]) - 2

    def loss(named: dict[str, Any], x: Any, y: Any) -> Any:
        h = x
        for k in range(last + 1):
            h = h @ named[f"{2 * k}.weight"].T + named[f"{2 * k}.bias"]
            h = jnp.maximum(h, 0) if k < last else h
        return jax_training.cross_entropy(h, y)

    return loss


def contenders(task: Callable[[Case], training.Task], *, scan: bool = False) -> list[Contender]:
    rows = training.contenders(task, ours, theirs, jax_loss, large=False, scan=scan)
    return [*rows, Contender(TUNED, "torch", tuned(task))]
