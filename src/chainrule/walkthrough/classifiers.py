"""C3 and C4: the spiral and the handwritten digits, trained by the programs of `chainrule train` on several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.training import digits, spiral
from chainrule.training.history import History
from chainrule.training.loop import Run
from chainrule.walkthrough.measurement import Measurement

SEEDS = 5
QUICK_SEEDS = {"spiral": 5, "mlp": 2, "cnn": 1}
REFERENCE = {
    "C3": {"training_accuracy": 1.0, "test_accuracy": 0.90},
    "C4": {"mlp_test_accuracy": 0.9756, "cnn_test_accuracy": 0.99},
}
COLUMNS = 180


@dataclass(frozen=True)
class Trained:
    """One finished run: its seed and epochs, its curves, its outcome, and the model."""

    seed: int
    epochs: int
    history: History
    outcome: dict[str, Any]
    model: Any


def train(program: Any, seed: int, **given: Any) -> Trained:
    """All steps of one run, as the command would do them."""
    run: Any = Run(program.task(program.settings.made(seed=seed, **given)))
    outcome = run.finish()
    return Trained(seed, run.task.settings.epochs, run.history, outcome, run.task.model.eval())


def measure_spiral(seed: int, quick: bool, advance: Callable[[float], None]) -> list[Trained]:
    """The spiral, a run for each seed."""
    return _runs(spiral.PROGRAM, seed, QUICK_SEEDS["spiral"] if quick else SEEDS, advance)


def measure_digits(seed: int, quick: bool, advance: Callable[[float], None]) -> dict[str, list[Trained]]:
    """The digits by perceptron and by convolutions; quick: fewer seeds."""
    counts = QUICK_SEEDS if quick else {"mlp": SEEDS, "cnn": SEEDS}
    first = _runs(digits.PROGRAM, seed, counts["mlp"], lambda part: advance(0.2 * part), model="mlp")
    second = _runs(digits.PROGRAM, seed, counts["cnn"], lambda part: advance(0.2 + 0.8 * part), model="cnn")
    return {"mlp": first, "cnn": second}


def _runs(program: Any, seed: int, count: int, advance: Callable[[float], None], **given: Any) -> list[Trained]:
    found: list[Trained] = []
    for k in range(count):
        found.append(train(program, seed + k, **given))
        advance((k + 1) / count)
    return found


def grid(columns: int = COLUMNS) -> tuple[Any, Any]:
    """Places f[columns] along both axes, and all of the square's points f[columns * columns, 2]."""
    axis = np.linspace(-1.15 * spiral.SCALE, 1.15 * spiral.SCALE, columns)
    return axis, np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def margins(trained: Trained, points: Any) -> Any:
    """By how much the second arm's score exceeds the first's at `points`."""
    with cr.no_grad():
        scores = trained.model(np.asarray(points, np.float32)).detach().numpy()
    return scores[:, 1] - scores[:, 0]


def _shares(runs: Sequence[Trained], name: str) -> list[float]:
    return [float(run.outcome[name]) for run in runs]


def _in_words(shares: Sequence[float]) -> str:
    return f"{np.mean(shares):.2%} ± {np.std(shares):.2%}" if len(shares) > 1 else f"{shares[0]:.2%}"


def arms(runs: list[Trained]) -> Measurement:
    """C3: both accuracies on the spiral."""
    training, test = _shares(runs, "training_accuracy"), _shares(runs, "test_accuracy")
    return Measurement(
        "C3",
        "two-arm spiral, 350 points to learn from and 150 held out, MLP 2-64-64-2 (4,482 parameters), 900 epochs of Adam, "
        f"falling rate, {len(runs)} seeds",
        f"training {_in_words(training)}, held out {_in_words(test)}",
        "training 100%, held out 90.0%",
        {"training_accuracy": training, "test_accuracy": test, "parameters": _parameters(runs[0])},
        REFERENCE["C3"],
        float(np.mean(training)) >= 0.995 and float(np.mean(test)) >= REFERENCE["C3"]["test_accuracy"],
        firm=False,
        note="A seed fixes points, weights and their order. Mean ± standard deviation over seeds.",
    )


def handwriting(found: dict[str, list[Trained]]) -> Measurement:
    """C4: accuracy of both models on the digits held out."""
    mlp, cnn = (_shares(found[name], "test_accuracy") for name in ("mlp", "cnn"))
    best = REFERENCE["C4"]
    sizes = {name: _parameters(runs[0]) for name, runs in found.items()}
    return Measurement(
        "C4",
        "handwritten digits, 1,347 to learn from and 450 held out, stratified: MLP 64-64-32-10, 60 epochs, batch 64; and three "
        "convolutions",
        f"MLP ({sizes['mlp']:,} parameters) {_in_words(mlp)} over {len(mlp)} seeds; convolutions ({sizes['cnn']:,}) "
        f"{_in_words(cnn)} over {len(cnn)}",
        "MLP 97.56%; convolutions 99%",
        {"mlp_test_accuracy": mlp, "cnn_test_accuracy": cnn, "parameters": sizes},
        best,
        float(np.mean(mlp)) >= best["mlp_test_accuracy"] and float(np.mean(cnn)) >= best["cnn_test_accuracy"],
        firm=False,
        note="A seed fixes the split, the weights and the order of the batches. Mean ± standard deviation over seeds.",
    )


def _parameters(run: Trained) -> int:
    return sum(p.size for p in run.model.parameters())
