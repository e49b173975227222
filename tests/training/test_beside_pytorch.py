"""Side by side with PyTorch: same initial weights, same batches, and in float64 the same losses over 20 steps to 1e-9."""

import numpy as np
import pytest

from chainrule.training import characters, digits
from chainrule.training.loop import Run

pytest.importorskip("torch")

from scripts import beside_pytorch  # after the skip

STEPS = 20


def character_task(text, dtype, **more):
    small = {"layers": 2, "heads": 4, "width": 64, "block": 32, "batch": 8, "learning_rate": 3e-3}
    settings = characters.CharacterSettings.made(
        **small, text=text, dtype=dtype, iterations=40, warm_up=5, evaluate_every=10**6, **more
    )
    return characters.build(settings)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Words of a small language, so that there is something to learn."""
    generator = np.random.default_rng(5)
    words = ["".join(generator.choice(list("aeioulnrst"), generator.integers(2, 7))) for _ in range(50)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(" ".join(generator.choice(words, 3000)))
    return str(path)


def losses(task, steps):
    run = Run(task)
    found = [run.advance() for _ in range(steps)]
    return np.array(found), np.array(run.history.rate)


@pytest.mark.parametrize("more", [{}, {"untied": True, "bias": True}], ids=["tied", "untied with biases"])
def test_transformer_in_float64(text, more):
    (ours, rates), (theirs, their_rates) = (
        losses(make(character_task(text, "float64", **more)), STEPS)
        for make in (lambda task: task, beside_pytorch.twin)
    )
    np.testing.assert_allclose(rates, their_rates, rtol=1e-12)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert theirs[-1] < theirs[0] - 0.3  # they have gone somewhere together


def test_transformer_in_float32(text):
    ours, theirs = (
        losses(make(character_task(text, "float32")), STEPS)[0] for make in (lambda task: task, beside_pytorch.twin)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_evaluations_agree(text):
    task = character_task(text, "float64")
    ours, theirs = Run(task), Run(beside_pytorch.twin(task))
    np.testing.assert_allclose(ours.measure()["validation_loss"], theirs.measure()["validation_loss"], rtol=1e-12)
    np.testing.assert_allclose(ours.conclude()["validation_loss"], theirs.conclude()["validation_loss"], rtol=1e-12)


def their_layers():
    from torch import nn

    def layer(before, after):
        return [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]

    features = [*layer(1, 16), *layer(16, 16), nn.MaxPool2d(2), *layer(16, 32), nn.MaxPool2d(2)]
    return nn.Sequential(*features, nn.Flatten(), nn.Dropout(0.0), nn.Linear(128, 10))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-3)])
def test_convolutions(dtype, tolerance):
    settings = digits.DigitSettings.made(model="cnn", dtype=dtype, dropout=0.0, epochs=1)
    last = settings.learning_rate / 100
    ours, rates = losses(digits.build(settings), STEPS)
    twin = beside_pytorch.twin_of_layers(digits.build(settings), their_layers, 22, last)
    theirs, their_rates = losses(twin, STEPS)
    np.testing.assert_allclose(rates, their_rates, rtol=1e-12)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance)
    assert theirs[-1] < theirs[0] / 2
