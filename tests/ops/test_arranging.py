"""Entries in other places: flip, roll, repeat, tile, triangles, diagonals, axes, grids."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, ShapeError
from tests.ops.derivatives import agrees, gradient

RNG = np.random.default_rng(13)
X = RNG.normal(size=(2, 3, 2))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_flip(axis):
    agrees(lambda x: cr.flip(x, axis=axis) ** 2, X, lambda x: np.flip(x, axis) ** 2)


@pytest.mark.parametrize(
    ("shift", "axis"),
    [(1, None), (-7, None), (2, 1), (1, -1), ((1, -2), (0, 1)), (1, (0, 2)), ((1, 1), (1, 1)), (0, 0)],
)
def test_roll(shift, axis):
    agrees(lambda x: cr.roll(x, shift, axis=axis) ** 2, X, lambda x: np.roll(x, shift, axis) ** 2)


@pytest.mark.parametrize(
    ("repeats", "axis"), [(2, None), (3, 1), (0, 0), ([1, 0, 2], 1), (np.array([2, 1]), -1), ([3], 0), (1, 0)]
)
def test_repeat(repeats, axis):
    agrees(lambda x: cr.repeat(x, repeats, axis=axis) ** 2, X, lambda x: np.repeat(x, repeats, axis) ** 2)


@pytest.mark.parametrize("counts", [2, (1, 2), (2, 1, 1, 2), (0, 1, 1), ()])
def test_tile(counts):
    agrees(lambda x: cr.tile(x, counts) ** 2, X, lambda x: np.tile(x, counts) ** 2)


@pytest.mark.parametrize("k", [0, 1, -1, 5])
def test_triangles(k):
    agrees(lambda x: cr.tril(x, k=k) ** 2, X, lambda x: np.tril(x, k) ** 2)
    agrees(lambda x: cr.triu(x, k=k) ** 2, X, lambda x: np.triu(x, k) ** 2)


@pytest.mark.parametrize("offset", [0, 1, -1, 4])
@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (-1, 0)])
def test_diagonal(offset, axes):
    agrees(
        lambda x: cr.diagonal(x, offset=offset, axis1=axes[0], axis2=axes[1]) ** 2,
        X,
        lambda x: np.diagonal(x, offset, *axes) ** 2,
    )


@pytest.mark.parametrize("k", [0, 2, -1])
def test_diag(k):
    agrees(lambda x: cr.diag(x, k=k) ** 2, X[0, :, 0], lambda x: np.diag(x, k) ** 2)
    agrees(lambda x: cr.diag(x, k=k) ** 2, X[0], lambda x: np.diag(x, k) ** 2)


def test_axes():
    agrees(lambda x: cr.moveaxis(x, 0, -1) ** 2, X, lambda x: np.moveaxis(x, 0, -1) ** 2)
    agrees(lambda x: cr.moveaxis(x, (0, 2), (1, 0)) ** 2, X, lambda x: np.moveaxis(x, (0, 2), (1, 0)) ** 2)
    agrees(lambda x: cr.swapaxes(x, 1, -1) ** 2, X, lambda x: np.swapaxes(x, 1, -1) ** 2)
    agrees(
        lambda x: cr.broadcast_arrays(x, np.ones((4, 2, 1, 1)))[0] ** 2,
        X[:, :1],
        lambda x: np.broadcast_arrays(x, np.ones((4, 2, 1, 1)))[0] ** 2,
    )


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing):
    sides = [RNG.normal(size=n) for n in (2, 3, 4)]
    for count in (1, 2, 3):
        ours, theirs = cr.meshgrid(*sides[:count], indexing=indexing), np.meshgrid(*sides[:count], indexing=indexing)
        assert [a.tolist() for a in ours] == [a.tolist() for a in theirs]
    agrees(
        lambda x: cr.meshgrid(x, sides[1], indexing=indexing)[0] ** 2,
        sides[0],
        lambda x: np.meshgrid(x, sides[1], indexing=indexing)[0] ** 2,
    )


def test_triangle_drops_a_nan_and_its_gradient():
    """The upper half is thrown away, so the NaN in it leaves no trace."""
    x = np.array([[1.0, 0.0], [4.0, 9.0]])
    f = lambda t: cr.tril(cr.where(np.array([[True, False], [True, True]]), cr.sqrt(t), np.nan) * 2.0)
    assert f(x).tolist() == [[2.0, 0.0], [4.0, 6.0]]
    np.testing.assert_allclose(gradient(f, x), [[1.0, 0.0], [0.5, 1 / 3]])
    g = gradient(lambda t: cr.diagonal(cr.sqrt(t)), np.array([[1.0, 0.0], [0.0, 4.0]]))
    assert g.tolist() == [[0.5, 0.0], [0.0, 0.25]]


def test_results_are_values_not_views():
    x = cr.tensor(np.arange(4.0).reshape(2, 2))
    results = [cr.flip(x), cr.diagonal(x), cr.swapaxes(x, 0, 1), cr.tril(x), cr.roll(x, 1)]
    before = [r.tolist() for r in results]
    with cr.no_grad():
        x += 10.0
    assert [r.tolist() for r in results] == before


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_dtypes(dtype):
    t = cr.tensor(X.astype(dtype), requires_grad=True)
    for f in (
        cr.flip,
        lambda x: cr.roll(x, 1),
        lambda x: cr.repeat(x, 2),
        lambda x: cr.tile(x, 2),
        cr.tril,
        cr.triu,
        cr.diagonal,
    ):
        y = f(t)
        assert y.dtype == dtype
        assert cr.gradients(cr.sum(y * y), t).dtype == dtype


def test_empty_and_without_axes():
    for f in (cr.flip, lambda x: cr.roll(x, 1), lambda x: cr.repeat(x, 2), lambda x: cr.tile(x, 2)):
        assert gradient(f, np.zeros((2, 0))).shape == (2, 0)
        assert gradient(f, 1.5).shape == ()
    assert gradient(cr.tril, np.zeros((0, 3))).shape == (0, 3)
    assert cr.diagonal(np.zeros((0, 3))).shape == (0,)
    assert cr.diag(np.zeros(0)).shape == (0, 0)


def test_errors():
    with pytest.raises(ShapeError, match="tril: a matrix has at least two axes"):
        cr.tril(np.ones(2))
    with pytest.raises(ArgumentError, match="diagonal: axis 0 is named twice"):
        cr.diagonal(X, axis1=0, axis2=-3)
    with pytest.raises(ArgumentError, match="roll: 2 shifts for 1 axes"):
        cr.roll(X, (1, 2), axis=0)
    with pytest.raises(ArgumentError, match="roll: several shifts"):
        cr.roll(X, (1, 2))
    with pytest.raises(ArgumentError, match="repeat: odd repeats"):
        cr.repeat(X, [1, 2], axis=1)
    with pytest.raises(ArgumentError, match="repeat: odd repeats"):
        cr.repeat(X, -1)
    with pytest.raises(ArgumentError, match="tile: negative"):
        cr.tile(X, -1)
    with pytest.raises(ArgumentError, match="moveaxis: cannot move"):
        cr.moveaxis(X, (0, 0), (1, 2))
    with pytest.raises(ArgumentError, match="flip: axis 3 is out of range"):
        cr.flip(X, axis=3)
    with pytest.raises(ShapeError, match="broadcast_arrays: shapes do not broadcast"):
        cr.broadcast_arrays(np.ones(2), np.ones(3))
    with pytest.raises(ShapeError, match="diag: neither"):
        cr.diag(X)
    with pytest.raises(ArgumentError, match="meshgrid: unknown indexing"):
        cr.meshgrid(np.ones(2), indexing="yx")
