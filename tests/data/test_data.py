"""The data sets are what they say: on their curves, balanced, shuffled, and fixed by the generator."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import chainrule as cr
from chainrule.data import line, split, two_arm_spiral, two_moons
from chainrule.errors import ArgumentError


def generator(seed=0):
    return np.random.default_rng(seed)


def in_order(points, labels):
    """Rows sorted, so that only the set of points counts."""
    rows = np.column_stack([labels, points])
    return rows[np.lexsort(rows.round(9).T)]


@pytest.mark.parametrize("n", [2, 3, 100, 101])
def test_moons_without_noise_are_those_of_scikit_learn(n):
    ours = in_order(*two_moons(n, 0.0, generator=generator()))
    theirs = in_order(*make_moons(n, shuffle=False))
    np.testing.assert_allclose(ours, theirs, atol=1e-15)


def test_moons_are_mixed_and_noise_has_its_size():
    points, labels = two_moons(20_000, 0.1, generator=generator())
    assert labels.sum() == 10_000
    assert 0.4 < labels[:1000].mean() < 0.6
    radius = np.hypot(*points[labels == 0].T)
    assert np.std(radius) == pytest.approx(0.1, rel=0.05)


def test_spiral_without_noise_lies_on_its_arms():
    points, labels = two_arm_spiral(201, 2.5, 0.0, generator=generator())
    radius = np.hypot(*points.T)
    angle = 5 * np.pi * radius + np.pi * labels
    np.testing.assert_allclose(points, np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), atol=1e-12)
    assert np.bincount(labels).tolist() == [100, 101]
    assert radius.max() == pytest.approx(1.0)


def test_spiral_noise_turns_and_keeps_the_radius():
    still, _ = two_arm_spiral(400, 2.5, 0.0, generator=generator())
    turned, _ = two_arm_spiral(400, 2.5, 0.5, generator=generator())
    np.testing.assert_allclose(np.sort(np.hypot(*still.T)), np.sort(np.hypot(*turned.T)))


@pytest.mark.parametrize("make", [two_moons, two_arm_spiral])
def test_the_generator_fixes_everything(make):
    first, again, other = (make(50, generator=generator(seed)) for seed in (3, 3, 4))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])


def test_line():
    x, y = line()
    assert (x.shape, y.shape) == ((100_000,), (100_000,))
    assert (x[0], y[0], x[-1], y[-1]) == (0.0, -1e-5, 0.99999, 0.99998)


@pytest.mark.parametrize(
    "call",
    [
        lambda: line(1),
        lambda: two_moons(1, generator=generator()),
        lambda: two_moons(10, -0.1, generator=generator()),
        lambda: two_arm_spiral(1, generator=generator()),
        lambda: two_arm_spiral(10, noise=float("nan"), generator=generator()),
    ],
)
def test_arguments_out_of_range(call):
    with pytest.raises(ArgumentError):
        call()


@pytest.mark.parametrize("make", [two_moons, two_arm_spiral])
def test_without_a_generator_they_draw_from_the_current_one(make):
    expected = make(30, generator=generator(5))
    with cr.random.use(generator(5)):
        points, labels = make(30)
    assert np.array_equal(points, expected[0])
    assert np.array_equal(labels, expected[1])
    with cr.set_default_dtype(np.float32):
        assert np.array_equal(make(30, generator=generator(5))[0], expected[0])  # float64, as it says


def test_the_spiral_of_row_c3():
    points, labels = two_arm_spiral(500, 2.5, 0.5, generator=generator(1))
    (x, y), (x_test, y_test) = split(points, labels, held_out=150)
    assert (x.shape, y.shape, x_test.shape, y_test.shape) == ((350, 2), (350,), (150, 2), (150,))
