"""Networks: sizes, seeds, and training whose every loss is known from somewhere else."""

import random
from typing import Any

import pytest

from chainrule.scalar import MLP, Layer, Neuron, Value, hinge_loss, l2_penalty, relu


def moons(random_state: Any) -> tuple[list[list[float]], list[int]]:
    datasets = pytest.importorskip("sklearn.datasets")
    x, y = datasets.make_moons(n_samples=100, noise=0.1, random_state=random_state)
    return x.tolist(), (2 * y - 1).tolist()


def test_sizes_a5() -> None:
    model = MLP(2, [16, 16, 1])
    assert len(model.parameters()) == 337
    assert len(model([1.0, 2.0])) == 1
    assert len(set(map(id, model.parameters()))) == 337
    assert [neuron.linear for layer in model.layers for neuron in layer.neurons] == [False] * 32 + [True]


def test_a_neuron_by_hand() -> None:
    neuron = Neuron(2)
    neuron.weights[0].data, neuron.weights[1].data, neuron.bias.data = 2.0, -3.0, 0.5
    y = neuron([1.0, 0.25])
    assert y.data == 2.0 - 0.75 + 0.5
    y.backward()
    assert [p.grad for p in neuron.parameters()] == [1.0, 0.25, 1.0]
    assert neuron([0.0, 1.0]).data == 0.0
    neuron.linear = True
    assert neuron([0.0, 1.0]).data == -2.5
    x = [Value(1.0), Value(0.0)]
    neuron(x).backward()
    assert [v.grad for v in x] == [2.0, -3.0]


def test_one_seed_fixes_all_weights() -> None:
    def weights(seed: int | random.Random | None) -> list[float]:
        return [p.data for p in MLP(2, [3, 1], seed=seed).parameters()]

    assert weights(5) == weights(5) == weights(random.Random(5))
    assert weights(5) != weights(6)
    assert weights(None) != weights(None)
    generator = random.Random(5)
    assert weights(generator) != weights(generator)
    assert all(-1 <= w <= 1 for w in weights(5))
    assert len({n.weights[0].data for n in Layer(2, 3, seed=5).neurons}) == 3


def test_wrong_number_of_inputs_is_named() -> None:
    with pytest.raises(ValueError, match=r"Neuron\(2, linear=False\): called with 3 inputs, expected 2"):
        Layer(2, 4)([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="hinge_loss: 1 scores and 2 labels"):
        hinge_loss([Value(1.0)], [1, -1])
    with pytest.raises(ValueError, match="hinge_loss: 0 scores"):
        hinge_loss([], [])
    with pytest.raises(ValueError, match="MLP: no layers"):
        MLP(2, [])


def test_zero_grad() -> None:
    model = MLP(2, [3, 1], seed=0)
    model([1.0, 2.0])
    l2_penalty(model.parameters()).backward()
    assert any(p.grad for p in model.parameters())
    model.zero_grad()
    assert not any(p.grad for p in model.parameters())


def train(model: MLP, xs: list[list[float]], ys: list[int], steps: int) -> tuple[list[float], list[int]]:
    """The max-margin training of the references: full batch, rate 1 falling to 0.1 over 100 steps."""
    losses: list[float] = []
    right: list[int] = []
    for k in range(steps):
        scores = [score for x in xs for score in model(x)]
        loss = hinge_loss(scores, ys) + l2_penalty(model.parameters())
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= (1.0 - 0.9 * k / 100) * p.grad
        losses.append(loss.data)
        right.append(sum((s > 0) == (y > 0) for s, y in zip(scores, ys, strict=True)))
    return losses, right


def test_two_moons_repeat_the_published_run_of_micrograd() -> None:
    # The first steps printed in micrograd's demo notebook (github.com/karpathy/micrograd, demo.ipynb): same seeds, same
    # order of draws, so the same run.
    np = pytest.importorskip("numpy")
    losses, right = train(MLP(2, [16, 16, 1], seed=1337), *moons(np.random.RandomState(1337)), steps=3)
    assert losses == pytest.approx([0.8958441028683222, 1.7235905336972022, 0.7429006313851131], rel=1e-12)
    assert right == [50, 81, 77]


def test_two_moons_a6_against_numpy_by_hand() -> None:
    np = pytest.importorskip("numpy")
    xs, ys = moons(0)
    model = MLP(2, [16, 16, 1], seed=0)
    weights = [np.array([[w.data for w in n.weights] for n in layer.neurons]) for layer in model.layers]
    biases = [np.zeros(len(layer.neurons)) for layer in model.layers]
    x, y = np.array(xs), np.array(ys, float)
    expected: list[float] = []
    for k in range(3):
        h1 = np.maximum(x @ weights[0].T + biases[0], 0)
        h2 = np.maximum(h1 @ weights[1].T + biases[1], 0)
        score = (h2 @ weights[2].T + biases[2])[:, 0]
        squares = sum((p**2).sum() for p in weights + biases)
        expected.append(float(np.maximum(1 - y * score, 0).mean() + 1e-4 * squares))
        d3 = (-y * (y * score < 1) / len(y))[:, None]
        d2 = d3 @ weights[2] * (h2 > 0)
        d1 = d2 @ weights[1] * (h1 > 0)
        rate = 1.0 - 0.9 * k / 100
        for i, (d, h) in enumerate(((d1, x), (d2, h1), (d3, h2))):
            weights[i] = weights[i] - rate * (d.T @ h + 2e-4 * weights[i])
            biases[i] = biases[i] - rate * (d.sum(0) + 2e-4 * biases[i])
    losses, _ = train(model, xs, ys, steps=3)
    assert losses == pytest.approx(expected, rel=1e-12)
    for layer, w, b in zip(model.layers, weights, biases, strict=True):
        assert [[p.data for p in n.weights] for n in layer.neurons] == pytest.approx(w, rel=1e-11)
        assert [n.bias.data for n in layer.neurons] == pytest.approx(b, rel=1e-11, abs=1e-15)


def test_linear_regression_lands_on_the_closed_form_a7() -> None:
    # y = x - 1 at x = 0 ... 999, both divided by 1000: w = 1 and b = -1e-3 fit exactly. Single-sample steps, shuffled.
    n = 1000
    points = [(i / n, (i - 1) / n) for i in range(n)]
    shuffle = random.Random(0)
    w, b = Value(0.0, "w"), Value(0.0, "b")
    for _ in range(12):
        shuffle.shuffle(points)
        for x, y in points:
            loss = (w * x + b - y) ** 2
            w.grad = b.grad = 0.0
            loss.backward()
            w.data -= 0.3 * w.grad
            b.data -= 0.3 * b.grad
    assert w.data == pytest.approx(1.0, abs=1e-6)
    assert b.data == pytest.approx(-1.0 / n, abs=1e-6)


def test_hinge_loss_by_hand() -> None:
    scores = [Value(0.5), Value(2.0), Value(-3.0), Value(1.0)]
    loss = hinge_loss(scores, [1, 1, 1, -1])
    assert loss.data == (0.5 + 0.0 + 4.0 + 2.0) / 4
    loss.backward()
    assert [s.grad for s in scores] == [-0.25, 0.0, -0.25, 0.25]
    assert relu(Value(-1.0)).data == 0.0
