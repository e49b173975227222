"""concat, stack, split, unstack, pad."""

import time

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, ShapeError
from tests.ops.derivatives import agrees, gradient

RNG = np.random.default_rng(11)
X = RNG.normal(size=(2, 3))
Y = RNG.normal(size=(2, 3))


def variable(x, **how):
    return cr.tensor(x, requires_grad=True, **how)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_concat_agrees_with_numpy(axis):
    agrees(lambda x: cr.concat([x, Y, x * x], axis=axis), X, lambda x: np.concatenate([x, Y, x * x], axis))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_stack_agrees_with_numpy(axis):
    agrees(lambda x: cr.stack([x, Y, x * x], axis=axis), X, lambda x: np.stack([x, Y, x * x], axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unstack_agrees_with_numpy(axis):
    def some(pieces):  # one piece is not used: its cotangent stays missing
        return pieces[1] * pieces[1] * 3.0 + pieces[0]

    agrees(lambda x: some(cr.unstack(x, axis=axis)), X, lambda x: some(np.unstack(x, axis=axis)))


@pytest.mark.parametrize("where", [2, [1], [1, 1, 3], [-1], (0, 4), np.array([2, 3])])
def test_split_agrees_with_numpy(where):
    x = RNG.normal(size=(3, 4))
    ours, theirs = cr.split(cr.tensor(x), where, axis=1), np.split(x, where, axis=1)
    assert [p.tolist() for p in ours] == [p.tolist() for p in theirs]
    agrees(lambda x: cr.split(x, where, axis=1)[1] ** 2, x, lambda x: np.split(x, where, axis=1)[1] ** 2)
    g = gradient(lambda t: cr.concat([p * float(k) for k, p in enumerate(cr.split(t, where, axis=1))], axis=1), x)
    expected = np.concatenate([np.full(p.shape, float(k)) for k, p in enumerate(theirs)], axis=1)
    assert np.array_equal(g, expected)


def test_pieces_are_values_not_views():
    base = np.arange(6.0).reshape(2, 3)
    x = cr.tensor(base)
    rows, halves = cr.unstack(x), cr.split(x, [1], axis=1)
    with cr.no_grad():
        x += 100.0
    assert rows[1].tolist() == [3.0, 4.0, 5.0]
    assert halves[0].tolist() == [[0.0], [3.0]]
    with cr.no_grad():
        first = rows[0]
        first += 50.0
    assert rows[1].tolist() == [3.0, 4.0, 5.0]


def test_rows_of_a_long_matrix_cost_one_pass():
    x = variable(np.ones((4_000, 50)))
    start = time.perf_counter()
    total = x[0]
    for row in list(x)[1:]:
        total = total + row * 2.0
    g = cr.gradients(cr.sum(total), x)
    assert time.perf_counter() - start < 2.0  # 4,000 scatters into the whole matrix take ten times that
    assert g[0].tolist() == [1.0] * 50
    assert (g[1:] == 2.0).all()


def test_mixed_operands():
    x = variable(np.ones(2, np.float32))
    y = cr.concat([x, np.zeros(1, np.float32), [2.0]])
    assert y.shape == (4,)
    assert cr.gradients(cr.sum(y), x).dtype == np.float32
    z = variable(2.0)
    s = cr.stack([z, 1.0, z * z])
    assert s.tolist() == [2.0, 1.0, 4.0]
    assert cr.gradients(cr.sum(s), z) == 5.0
    assert isinstance(cr.concat([np.ones(1), np.ones(2)]), np.ndarray)
    owner = np.zeros(2)
    joined = cr.concat([x, owner])
    owner[:] = 9.0
    assert joined.tolist() == [1.0, 1.0, 0.0, 0.0]


def test_dtypes_of_cotangents():
    x, y = variable(np.ones(2, np.float32)), variable(np.ones(1))
    z = cr.concat([x, y])
    assert z.dtype == np.float64
    gx, gy = cr.gradients(cr.sum(z * z), [x, y])
    assert (gx.dtype, gy.dtype) == (np.float32, np.float64)
    half = variable(np.ones((2, 2), np.float16))
    assert cr.gradients(cr.sum(cr.unstack(half)[1] * 2.0), half).dtype == np.float16


def test_empty_pieces():
    assert gradient(lambda t: cr.concat([t, np.ones(2)]), np.zeros(0)).shape == (0,)
    assert cr.unstack(np.zeros((0, 3))) == ()
    assert [p.shape for p in cr.split(np.zeros((0, 3)), 2)] == [(0, 3), (0, 3)]
    assert cr.pad(np.zeros((0, 2)), 1).shape == (2, 4)


def test_errors():
    with pytest.raises(ShapeError, match=r"concat: shapes do not fit · xs\[0\] f64\[2, 3\] · xs\[1\] f64\[3, 2\]"):
        cr.concat([X, X.T])
    with pytest.raises(ShapeError, match=r"stack: shapes do not fit .* the same shape"):
        cr.stack([X, X[0]])
    with pytest.raises(ArgumentError, match="concat: no arrays"):
        cr.concat([])
    with pytest.raises(ArgumentError, match="concat: axis 0 of a 0-d array"):
        cr.concat([1.0, 2.0])
    with pytest.raises(ArgumentError, match="stack: axis 3 is out of range"):
        cr.stack([X, X], axis=3)
    with pytest.raises(ArgumentError, match="unstack: axis 0 of a 0-d"):
        cr.unstack(1.0)
    with pytest.raises(ShapeError, match="split: 3 entries do not make 2 equal parts"):
        cr.split(X, 2, axis=1)
    with pytest.raises(ArgumentError, match="go backwards"):
        cr.split(X, [2, 1], axis=1)


# ---------------------------------------------------------------- pad
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("width", [1, (1, 2), ((0, 1), (2, 0)), 5, 0])
def test_pad_agrees_with_numpy(mode, width):
    agrees(lambda x: cr.pad(x, width, mode=mode) ** 2, X, lambda x: np.pad(x, width, mode=mode) ** 2)


@pytest.mark.parametrize("value", [3.5, -np.inf])
def test_pad_with_another_constant(value):
    assert np.array_equal(cr.pad(X, 1, constant_values=value), np.pad(X, 1, constant_values=value))
    t = variable(X.astype(np.float32))
    y = cr.pad(t, 1, constant_values=value)
    assert y.dtype == np.float32
    assert cr.gradients(cr.sum(y), t).tolist() == np.ones((2, 3)).tolist()
    assert cr.pad(np.array([1, 2]), 1, constant_values=7).tolist() == [7, 1, 2, 7]


def test_pad_refuses_what_makes_no_sense():
    with pytest.raises(ArgumentError, match="pad: unknown mode 'mirror'"):
        cr.pad(X, 1, mode="mirror")
    with pytest.raises(ArgumentError, match="pad: negative margin"):
        cr.pad(X, -1)
    with pytest.raises(ArgumentError, match="pad: odd pad_width"):
        cr.pad(X, (1, 2, 3))
    with pytest.raises(ArgumentError, match="pad: odd pad_width"):
        cr.pad(X, 1.5)
    with pytest.raises(ShapeError, match="no entry to repeat"):
        cr.pad(np.zeros((0, 2)), 1, mode="edge")
