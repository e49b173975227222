"""Training step of an MLP 2-64-64-2 on 350 points of two spirals, all at once: cross-entropy, Adam, float32."""

import numpy as np

from benchmarks.workloads import mlp
from benchmarks.workloads.contender import FUSED, JAX_JIT, OURS_JIT, Budget, Case
from benchmarks.workloads.hinge import spirals
from benchmarks.workloads.training import Task

CASES = [
    Case(
        "spiral",
        "Adam step of an MLP 2-64-64-2, 4,482 parameters, 350 spiral points, cross-entropy",
        "float32",
        tolerance=1e-3,
        steps=150,
        budgets=(
            Budget(1.8, 2.4),
            Budget(1.5, 1.8, peer=FUSED),
            Budget(2.0, ours=OURS_JIT, peer=JAX_JIT),
        ),
        sizes={"layers": (2, 64, 64, 2), "points": 350},
    )
]


def task(case: Case) -> Task:
    x, sign = spirals(case.sizes["points"])
    y = (sign[:, 0] > 0).astype(np.int64)
    return Task(mlp.weights(case.sizes["layers"]), [(x, y)], options={"lr": 1e-2})


CONTENDERS = mlp.contenders(task)
