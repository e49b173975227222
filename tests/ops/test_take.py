"""Indexing, against NumPy's own reading and writing, `np.add.at` in float64, and loops written out."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.ops.indexing import scatter_add
from tests.ops.derivatives import gradient, hessian
from tests.ops.indices import CASES, X


@pytest.mark.parametrize(("indices", "axis"), [([0, 1, 1], 0), ([[2, -1]], 1), (3, -1), ([5, 5, -1], None)])
def test_take(indices, axis):
    flat = np.take(np.arange(X.size).reshape(X.shape), indices, axis=axis)
    w = np.random.default_rng(1).normal(size=flat.shape)
    expected = np.bincount(flat.ravel(), np.ravel(w), X.size).reshape(X.shape)
    np.testing.assert_array_equal(cr.take(cr.tensor(X), indices, axis=axis).data, np.take(X, indices, axis=axis))
    np.testing.assert_allclose(gradient(lambda x: cr.take(x, indices, axis=axis) * w, X), expected)
    np.testing.assert_array_equal(cr.tensor(X).take(indices, axis).data, np.take(X, indices, axis=axis))
    turned = np.asfortranarray(X)
    np.testing.assert_array_equal(cr.take(turned, indices, axis=axis), np.take(X, indices, axis=axis))


@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 1), -1), ((2, 5, 4), 1), ((1, 3, 6), 2), ((2, 1, 4), 0)])
def test_take_along_axis(shape, axis):
    rng = np.random.default_rng(5)
    at = rng.integers(-X.shape[axis], X.shape[axis], shape)
    flat = np.take_along_axis(np.arange(X.size).reshape(X.shape), at, axis)
    w = rng.normal(size=flat.shape)
    expected = np.bincount(flat.ravel(), w.ravel(), X.size).reshape(X.shape)
    np.testing.assert_allclose(gradient(lambda x: cr.take_along_axis(x, at, axis) * w, X), expected)
    diagonal = np.bincount(flat.ravel(), 6.0 * X.ravel()[flat.ravel()], X.size)
    np.testing.assert_allclose(hessian(lambda x: cr.take_along_axis(x, at, axis) ** 3, X), np.diag(diagonal))


def test_take_along_an_axis_of_length_1_broadcasts():
    x = np.array([[1.0, 2.0]])
    assert gradient(lambda x: cr.take_along_axis(x, [[0], [1], [1]], 1), x).tolist() == [[1.0, 2.0]]


@CASES
def test_scatter_add(index):
    v = np.random.default_rng(2).normal(size=X[index].shape)
    w = np.random.default_rng(4).normal(size=X.shape)
    expected = X.copy()
    np.add.at(expected, index, v)
    np.testing.assert_allclose(scatter_add(cr.tensor(X), index, cr.tensor(v)).data, expected, rtol=1e-14)
    np.testing.assert_allclose(gradient(lambda v: scatter_add(cr.tensor(X), index, v) * w, v), w[index])
    np.testing.assert_allclose(gradient(lambda x: scatter_add(x, index, v) * w, X), w)


def test_without_a_gradient():
    x = cr.tensor([[0.0, 2.0], [3.0, 0.0]], requires_grad=True)
    rows, columns = cr.nonzero(x)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    assert x[rows, columns].tolist() == [2.0, 3.0]
    assert cr.searchsorted(cr.tensor([1.0, 2.0]), [0.5, 1.0, 9.0], side="right").tolist() == [0, 1, 2]
    assert isinstance(cr.nonzero(np.array([1.0]))[0], np.ndarray)
