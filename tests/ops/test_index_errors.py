"""What an index, or a value to be written, can be wrong about."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import IndexingError, ShapeError
from chainrule.ops.indexing import assign, scatter_add, setitem
from tests.ops.indices import X


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (5, r"getitem: index 5 is out of bounds for axis 0 with size 2 · x f64\[2, 3, 4\]"),
        ((0, -4), "index -4 is out of bounds for axis 1 with size 3"),
        ([0, 7], r"index 7 \(entry \(1,\)\) is outside axis 0 of length 2"),
        ((slice(None), 0, [9, 9]), "index 9 is out of bounds for axis 2 with size 4"),
        ((0, 0, 0, 0), "too many indices"),
        (([0], 0, 0, 0), "too many indices, 4 for 3 axes"),
        (1.5, r"1.5 cannot index, its dtype is float64 .* expected integers, slices.* try int\(i\)"),
        ([0.0, 1.0], "cannot index, its dtype is float64"),
        (slice(0.5, None), r"0.5: cannot index"),
        ("a", "'a' cannot index"),
        ((..., [0], ...), "at most one `...`"),
        (np.array([True]), r"a boolean mask of shape \(1,\) meets axis 0 of shape \(2,\)"),
        ((0, np.zeros((3, 3), bool)), r"a boolean mask of shape \(3, 3\) meets axes 1 to 2 of shape \(3, 4\)"),
        ((..., np.zeros(3, bool)), r"meets axis 2 of shape \(4,\)"),
        (([0, 1], [0, 1, 2]), r"do not broadcast .* i64\[2\], i64\[3\]"),
    ],
)
def test_errors_of_an_index(index, message):
    x = cr.tensor(X, requires_grad=True)
    with pytest.raises(IndexingError, match=message):
        x[index]
    with pytest.raises(IndexingError):
        setitem(x, 1.0, index)
    with pytest.raises(IndexingError):
        setitem(X, 1.0, index)
    with pytest.raises(IndexingError):
        scatter_add(x, index, 1.0)
    with pytest.raises(IndexingError):
        assign(X.copy(), 1.0, index)


def test_errors_of_a_value():
    with pytest.raises(ShapeError, match=r"setitem: v does not fill the selected entries .* broadcasts to \(3, 4\)"):
        setitem(cr.tensor(X), np.zeros(3), 0)
    with pytest.raises(ShapeError, match="setitem"):
        assign(X.copy(), np.zeros(3), 0)
    with pytest.raises(ShapeError):
        scatter_add(cr.tensor(X), 0, np.zeros(3))


def test_errors_of_take():
    x = cr.tensor(X)
    with pytest.raises(IndexingError, match=r"take: .* their dtype is float64"):
        cr.take(x, [0.5], axis=0)
    with pytest.raises(IndexingError, match=r"take: index 3 \(entry \(0, 1\)\) is outside axis 1 of length 3"):
        cr.take(x, [[0, 3]], axis=1)
    with pytest.raises(ValueError, match="take: axis 3 is out of range"):
        cr.take(x, [0], axis=3)
    with pytest.raises(ValueError, match="same number of axes"):
        cr.take_along_axis(x, [0])
    with pytest.raises(IndexingError, match="is outside axis 1 of length 3"):
        cr.take_along_axis(x, np.full((2, 1, 4), 3), 1)
