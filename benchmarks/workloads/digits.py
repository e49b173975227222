"""Epoch of an MLP 64-64-32-10 on 1,347 images of 8x8 pixels: 21 batches of 64, cross-entropy, Adam, float32.

The images are drawn, not scikit-learn's: ten patterns and noise, in the 17 greys of the originals.  Times are the same,
and nothing has to be there.
"""

import numpy as np

from benchmarks.workloads import mlp
from benchmarks.workloads.contender import FUSED, JAX_SCAN, OURS_JIT, Budget, Case
from benchmarks.workloads.training import Task

IMAGES, BATCH, EPOCHS = 1347, 64, 8

CASES = [
    Case(
        "digits",
        f"epoch of an MLP 64-64-32-10, 6,570 parameters, {IMAGES // BATCH} batches of {BATCH}, cross-entropy, Adam",
        "float32",
        tolerance=1e-3,
        steps=EPOCHS,
        budgets=(
            Budget(1.8, 2.4),
            Budget(1.5, 1.8, peer=FUSED),
            Budget(1.0, ours=OURS_JIT, peer=JAX_SCAN),
            Budget(10.0, ours=OURS_JIT),
        ),
        sizes={"layers": (64, 64, 32, 10)},
    )
]


def images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """(count, 64), from 0 to 1, and classes from 0 to 9."""
    rng = np.random.default_rng(0)
    patterns = rng.uniform(0, 16, (10, 64))
    y = rng.integers(0, 10, count)
    x = np.clip(np.round(patterns[y] + rng.normal(scale=4, size=(count, 64))), 0, 16) / 16
    return x.astype(np.float32), y.astype(np.int64)


def batches(count: int, epochs: int) -> list[np.ndarray]:
    """The rows of every batch, epoch after epoch, each shuffled anew; what does not fill a batch is left out."""
    rng = np.random.default_rng(1)
    return [rows for _ in range(epochs) for rows in rng.permutation(count)[: count // BATCH * BATCH].reshape(-1, BATCH)]


def task(case: Case) -> Task:
    return Task(
        mlp.weights(case.sizes["layers"]),
        [images(IMAGES)],
        rows=batches(IMAGES, EPOCHS),
        per_step=IMAGES // BATCH,
        options={"lr": 1e-3},
    )


CONTENDERS = mlp.contenders(task, scan=True)
