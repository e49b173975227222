"""Items held out: how many, of each class its share, none twice, fixed by the seed."""

import numpy as np
import pytest

from chainrule.data import split
from chainrule.errors import ArgumentError, ShapeError

X = np.arange(60.0).reshape(30, 2)
Y = np.repeat([3, 1, 7], [15, 10, 5])


@pytest.mark.parametrize("labels", [None, Y, np.array(list("abc"))[Y // 3]])
@pytest.mark.parametrize(("held_out", "count"), [(6, 6), (0.2, 6), (0.25, 8), (1, 1), (29, 29), (np.float32(0.5), 15)])
def test_both_parts_are_the_whole(labels, held_out, count):
    (x, y), (x_test, y_test) = split(X, Y, held_out=held_out, labels=labels)
    assert (len(x), len(x_test), len(y_test)) == (30 - count, count, count)
    np.testing.assert_array_equal(np.sort(np.concatenate([x, x_test]), axis=0), X)
    for points, of in ((x, y), (x_test, y_test)):
        np.testing.assert_array_equal(Y[(points[:, 0] / 2).astype(int)], of)
        assert len(of) < 8 or np.any(np.diff(points[:, 0]) < 0)  # mixed


def test_each_class_is_held_out_in_proportion():
    _, (_, y_test) = split(X, Y, held_out=6, labels=Y)
    assert np.unique(y_test, return_counts=True)[1].tolist() == [2, 3, 1]
    for count in range(1, 30):
        _, (y_test,) = split(Y, held_out=count, labels=Y, seed=count)
        shares = np.array([10, 5, 15]) * count / 30
        held = np.array([np.sum(y_test == kind) for kind in (1, 7, 3)])
        assert held.sum() == count
        assert np.all(np.abs(held - shares) < 1)


def test_a_share_is_rounded_up_but_not_for_a_rounding_error():
    assert len(split(np.arange(100), held_out=0.07)[1][0]) == 7
    assert len(split(np.arange(10), held_out=0.01)[1][0]) == 1


def test_the_seed_fixes_it():
    parts = [split(X, held_out=10, labels=Y, seed=seed)[1][0].tolist() for seed in (0, 0, 1)]
    assert parts[0] == parts[1] != parts[2]


@pytest.mark.parametrize("held_out", [0, 30, -1, 31, 0.0, 1.0, -0.5, 1.5, float("nan"), float("inf"), None, "all"])
def test_parts_that_cannot_be(held_out):
    with pytest.raises(ArgumentError, match="split: no part of 30 items"):
        split(X, held_out=held_out)


def test_arrays_that_do_not_fit():
    with pytest.raises(ShapeError):
        split(X, Y[:5])
    with pytest.raises(ShapeError):
        split(X, labels=X)
    with pytest.raises(ArgumentError):
        split()
    with pytest.raises(ArgumentError):
        split(np.float64(2.0))
