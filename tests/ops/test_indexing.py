"""Indexing, against NumPy's own reading and writing, `np.add.at` in float64, and loops written out."""

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule.backends.abstract import Abstract
from chainrule.core.calls import raw, wrap
from chainrule.core.equations import tracing
from chainrule.errors import BranchError, DTypeError
from chainrule.ops.index import lone_array
from chainrule.ops.indexing import assign, getitem, scatter_add, setitem
from tests.ops.derivatives import gradient, hessian, second_differences
from tests.ops.indices import CASES, INDICES, X, added


@CASES
def test_read(index):
    x = cr.tensor(X, requires_grad=True)
    y = x[index]
    np.testing.assert_array_equal(y.data, X[index], strict=False)
    assert y.shape == X[index].shape
    np.testing.assert_array_equal(getitem(X, index), X[index])
    w = np.random.default_rng(1).normal(size=y.shape)
    np.testing.assert_allclose(gradient(lambda x: x[index] * w, X), added(X.shape, index, w), rtol=1e-14)
    if y.size:
        expected = np.diag(added(X.shape, index, np.array(6.0) * X[index]).ravel())
        np.testing.assert_allclose(hessian(lambda x: x[index] ** 3, X), expected, rtol=1e-12)


@CASES
def test_read_on_abstract_arrays_and_by_another_library(index):
    with tracing():
        y = wrap(Abstract(X.shape, X.dtype), None)[index]
        assert (y.shape, y.dtype) == (X[index].shape, X.dtype)
    x = cr.asarray(strict.asarray(X))
    np.testing.assert_array_equal(np.asarray(x[index].data), X[index])


@CASES
def test_write(index):
    shape = X[index].shape
    v = np.random.default_rng(2).normal(size=shape)
    expected = X.copy()
    expected[index] = v
    np.testing.assert_array_equal(setitem(cr.tensor(X), cr.tensor(v), index).data, expected)
    np.testing.assert_array_equal(setitem(X, v, index), expected)
    given = X.copy()
    assign(given, v, index)
    np.testing.assert_array_equal(given, expected)
    other = setitem(cr.asarray(strict.asarray(X)), cr.asarray(strict.asarray(v)), index)
    np.testing.assert_array_equal(np.asarray(other.data), expected)


def last_writes(shape, index):
    """One for what stays of what was written, entry by entry in row-major order."""
    places = np.arange(np.prod(shape)).reshape(shape)[index]
    owner = {place: k for k, place in enumerate(places.ravel().tolist())}
    return np.array([owner[p] == k for k, p in enumerate(places.ravel().tolist())], float).reshape(places.shape)


@CASES
def test_gradients_of_write(index):
    v = np.random.default_rng(2).normal(size=X[index].shape)
    w = np.random.default_rng(4).normal(size=X.shape)
    cleared = w.copy()
    cleared[index] = 0.0
    np.testing.assert_allclose(gradient(lambda x: setitem(x, v, index) * w, X), cleared)
    np.testing.assert_allclose(
        gradient(lambda v: setitem(cr.tensor(X), v, index) * w, v), w[index] * last_writes(X.shape, index)
    )
    once = cleared != 0
    once[index] = False
    np.testing.assert_allclose(hessian(lambda x: setitem(x, v, index) ** 2, X), np.diag(2.0 * once.ravel()))


@pytest.mark.parametrize(
    ("index", "shape"),
    [(0, ()), (0, (4,)), (0, (1, 4)), (slice(None), (3, 1)), ([0, 0], (1, 1, 4)), (X > 0, ()), (X > 0, (1,))],
)
def test_written_values_broadcast(index, shape):
    v = np.random.default_rng(2).normal(size=shape)
    w = np.random.default_rng(4).normal(size=X.shape)

    def ours(v):
        return cr.sum(setitem(cr.tensor(X), v, index) ** 2 * w)

    def theirs(v):
        out = X.copy()
        out[index] = v
        return np.sum(out**2 * w)

    np.testing.assert_allclose(hessian(ours, v), second_differences(theirs, v), rtol=1e-5, atol=1e-6)
    steps = np.eye(v.size).reshape(v.size, *shape) * 1e-6
    slope = np.array([(theirs(v + h) - theirs(v - h)) / 2e-6 for h in steps]).reshape(shape)
    np.testing.assert_allclose(gradient(ours, v), slope, rtol=1e-6, atol=1e-8)


def test_leading_axes_of_length_1_are_dropped_by_a_write():
    v = cr.tensor(np.ones((1, 1, 2)), requires_grad=True)
    y = setitem(cr.zeros(5), v, slice(0, 2))
    assert cr.gradients(y.sum(), v).tolist() == [[[1.0, 1.0]]]


# ---------------------------------------------------------------------------------------------------- cases
def test_x1_repeated_gather():
    assert gradient(lambda x: x[[0, 0, 2]], np.array([1.0, 2.0, 3.0])).tolist() == [2, 0, 1]
    assert gradient(lambda x: cr.take(x, [0, 0, 2]), np.array([1.0, 2.0, 3.0])).tolist() == [2, 0, 1]
    square = hessian(lambda x: x[[0, 0, 2]] ** 2, np.array([1.0, 2.0, 3.0]))
    assert np.array_equal(square, np.diag([4.0, 0.0, 2.0]))


def test_x1_embedding_with_repeated_ids():
    table, ids = np.random.default_rng(0).normal(size=(5, 3)), np.array([[1, 1, 4], [0, 1, 4]])
    w = np.random.default_rng(1).normal(size=(2, 3, 3))
    expected = np.zeros((5, 3))
    for row, weights in zip(ids.ravel(), w.reshape(6, 3), strict=True):
        expected[row] += weights
    np.testing.assert_allclose(gradient(lambda t: t[ids] * w, table), expected)


def test_x4_fill_at_repeated_positions():
    v = cr.tensor(3.0, requires_grad=True)
    t = cr.zeros(5)
    t[[2, 2]] = v
    assert t.tolist() == [0, 0, 3, 0, 0]
    t.sum().backward()
    assert v.grad == 1.0
    w = cr.tensor([3.0, 4.0], requires_grad=True)
    assert cr.gradients(setitem(cr.zeros(5), w, [2, 2]).sum(), w).tolist() == [0.0, 1.0]
    slope = cr.gradients((setitem(cr.zeros(5), w, [2, 2]) ** 3).sum(), w, create_graph=True)
    assert cr.gradients(slope.sum(), w).tolist() == [0.0, 24.0]


def test_x7_arrays_split_by_a_slice():
    weights = np.arange(6.0).reshape(2, 3)
    g = gradient(lambda x: x[0, :, [1, 2]] * weights, np.zeros((2, 3, 4)))
    expected = np.zeros((2, 3, 4))
    expected[0, :, 1], expected[0, :, 2] = [0, 1, 2], [3, 4, 5]
    assert np.array_equal(g, expected)


def test_p1_write_a_tensor_into_fresh_zeros():
    a = cr.tensor(np.random.default_rng(0).normal(size=(2, 2)), requires_grad=True)
    b = cr.zeros((4, 4))
    b[:2, :2] = a
    assert np.array_equal(cr.gradients(b.sum(), a), np.ones((2, 2)))
    assert np.array_equal(cr.gradients(setitem(np.zeros((4, 4)), a, (slice(2), slice(2))).sum(), a), np.ones((2, 2)))


def test_p5_activation_in_place_of_the_last_value():
    x = cr.tensor(np.ones((2, 2)), requires_grad=True)
    y = 2 * x
    y[...] = cr.tanh(y)
    y.sum().backward()
    np.testing.assert_allclose(x.grad, 2 * (1 - np.tanh(2.0) ** 2) * np.ones((2, 2)), rtol=1e-14)


def test_a_hidden_nan_does_not_reach_the_gradient():
    for keep in (slice(1, None), [1, 2], np.array([False, True, True])):
        x = cr.tensor([-1.0, 4.0, 9.0], requires_grad=True)
        with np.errstate(invalid="ignore"):
            root = cr.sqrt(x)
        assert cr.gradients(root[keep].sum(), x).tolist() == [0, 1 / 4, 1 / 6]
        root[cr.isnan(root)] = 0.0
        assert cr.gradients(root.sum(), x).tolist() == [0, 1 / 4, 1 / 6]


def test_row_by_row_of_empty_and_0d():
    assert gradient(lambda x: x[..., None], np.float64(3.0)) == 1.0
    assert gradient(lambda x: x[()], np.float64(3.0)) == 1.0
    assert gradient(lambda x: setitem(x, 0.0, ()), np.float64(3.0)) == 0.0
    assert gradient(lambda x: x[[]], np.zeros((0, 3))).shape == (0, 3)
    assert gradient(lambda x: x[:, [0, 0]], np.zeros((0, 3))).shape == (0, 3)
    assert gradient(lambda x: cr.take_along_axis(x, np.zeros((0, 2), int), 1), np.zeros((0, 3))).shape == (0, 3)


# ---------------------------------------------------------------------------------------------------- dtypes, indices
@pytest.mark.parametrize("index", [0, [0, 0], slice(1), np.array([True, False])])
def test_float32_stays(index):
    x = cr.tensor(np.ones((2, 2), np.float32), requires_grad=True)
    assert cr.gradients(x[index].sum(), x).dtype == np.float32
    y = setitem(x, np.float64(2.0), index)
    assert y.dtype == np.float32
    assert cr.gradients(y.sum(), x).dtype == np.float32
    assert scatter_add(x, index, np.float64(2.0)).dtype == np.float32


def test_tensors_are_indices():
    x = cr.tensor(X, requires_grad=True)
    at = cr.tensor([1, 0])
    np.testing.assert_array_equal(x[at].data, X[[1, 0]])
    np.testing.assert_array_equal(x[at[0], [at[0], 2]].data, X[1, [1, 2]])
    np.testing.assert_array_equal(x[cr.tensor(X) > 0].data, X[X > 0])
    np.testing.assert_array_equal(x[at[1] : at[0]].data, X[0:1])


def test_an_index_may_change_afterwards():
    x = cr.tensor(np.arange(3.0), requires_grad=True)
    ids, mask, slot = np.array([0, 0]), np.array([True, False, False]), cr.tensor([2])
    y = (x[ids].sum() + 10 * x[mask].sum()) + 100 * x[slot].sum()
    ids[:], mask[:] = 1, True
    slot[0] = 0
    assert cr.gradients(y, x).tolist() == [12, 0, 100]


def test_a_write_into_integers_cannot_keep_a_gradient():
    v = cr.tensor(1.0, requires_grad=True)
    for write in (setitem, lambda x, v, at: scatter_add(x, at, v)):
        with pytest.raises(DTypeError, match=r"cannot hold a value that wants a gradient · x i64\[3\]"):
            write(cr.tensor([1, 2, 3]), v, 0)


# ---------------------------------------------------------------------------------------------------- traced indices
LIVE = {k: v for k, v in INDICES.items() if k in {
    "list", "nested list", "middle", "end", "two arrays", "broadcast", "x7", "apart", "apart with none",
    "together behind", "dots between", "mask and array",
}}  # fmt: skip


def traced(entry):
    array = np.asarray(entry) if isinstance(entry, (list, np.ndarray)) else None
    return entry if array is None or array.dtype == bool else Abstract(array.shape, np.dtype(np.intp))


def foreign(entry):
    return strict.asarray(np.asarray(entry)) if isinstance(entry, (list, np.ndarray)) else entry


@pytest.mark.parametrize("index", LIVE.values(), ids=LIVE.keys())
def test_arrays_of_an_index_may_be_traced(index):
    live = tuple(map(traced, index)) if isinstance(index, tuple) else traced(index)
    with tracing():
        assert getitem(Abstract(X.shape, X.dtype), live).shape == X[index].shape
        assert getitem(X, live).shape == X[index].shape
        assert scatter_add(Abstract(X.shape, X.dtype), live, 1.0).shape == X.shape
        if lone_array(live if isinstance(live, tuple) else (live,)):  # compiled in tests/compiler/test_boxes.py
            assert setitem(X, 1.0, live).shape == X.shape
        else:
            with pytest.raises(BranchError, match="`scatter_add`"):
                setitem(X, 1.0, live)


@pytest.mark.parametrize("index", LIVE.values(), ids=LIVE.keys())
def test_arrays_of_an_index_may_be_of_another_library(index):
    live = tuple(map(foreign, index)) if isinstance(index, tuple) else foreign(index)
    x = cr.asarray(strict.asarray(X))
    np.testing.assert_array_equal(np.asarray(x[live].data), X[index])
    expected = X.copy()
    np.add.at(expected, index, 1.0)
    np.testing.assert_allclose(np.asarray(raw(scatter_add(x, live, 1.0))), expected)
    expected[index] = 2.0
    np.testing.assert_allclose(np.asarray(raw(setitem(x, 2.0, live)))[index], expected[index])


def test_a_traced_mask_writes_but_does_not_read():
    mask = Abstract((3,), np.dtype(bool))
    with tracing():
        assert setitem(Abstract((3,), np.dtype(np.float64)), 0.0, mask).shape == (3,)
        with pytest.raises(BranchError, match="traced mask"):
            getitem(np.zeros(3), mask)


def test_a_mask_of_another_library():
    x = cr.asarray(strict.asarray(X))
    mask = strict.asarray(X > 0)
    np.testing.assert_array_equal(np.asarray(x[mask].data), X[X > 0])
    np.testing.assert_array_equal(np.asarray(setitem(x, 0.0, mask).data), np.where(X > 0, 0.0, X))


# ---------------------------------------------------------------------------------------------------- any index at all
SHAPE = (3, 2, 4)
X3 = np.random.default_rng(9).normal(size=SHAPE)


@st.composite
def indices(draw):
    """An index expression for SHAPE that NumPy accepts."""
    rank = draw(st.integers(0, 3))
    wide = draw(st.sampled_from([(), (1,), (3,), (2, 3)]))
    dots = draw(st.integers(-1, rank))
    entries, axis = [], 0
    for k in range(rank):
        if k == dots:
            entries.append(...)
            axis = len(SHAPE) - (rank - k)
        n = SHAPE[axis]
        kind = draw(st.sampled_from(["int", "slice", "array", "mask", "none then slice"]))
        if kind == "int":
            entries.append(draw(st.integers(-n, n - 1)))
        elif kind == "array":
            size = int(np.prod(wide))
            picked = draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size))
            entries.append(np.array(picked, int).reshape(wide))
        elif kind == "mask":
            entries.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n))))
        else:
            bound = st.none() | st.integers(-n - 1, n + 1)
            step = draw(st.none() | st.sampled_from([1, 2, -1, -2]))
            entries += [None] * (kind != "slice") + [slice(draw(bound), draw(bound), step)]
        axis += 1
    return tuple(entries)


@settings(deadline=None)  # a busy machine
@given(indices())
def test_any_index(index):
    try:
        selected = X3[index]
    except IndexError:
        assume(False)
        return
    w = np.random.default_rng(1).normal(size=selected.shape)
    x = cr.tensor(X3, requires_grad=True)
    y = x[index]
    np.testing.assert_array_equal(y.data, selected)
    assert y.shape == selected.shape
    np.testing.assert_allclose(cr.gradients((y * w).sum(), x), added(SHAPE, index, w))
    v = cr.tensor(w, requires_grad=True)
    written = setitem(x, v, index)
    expected = X3.copy()
    expected[index] = w
    np.testing.assert_array_equal(written.data, expected)
    of_x, of_v = cr.gradients((written * X3).sum(), [x, v])
    cleared = X3.copy()
    cleared[index] = 0.0
    np.testing.assert_allclose(of_x, cleared)
    np.testing.assert_allclose(of_v, X3[index] * last_writes(SHAPE, index))
    if any(isinstance(entry, np.ndarray) for entry in index):
        with tracing():
            assert getitem(Abstract(SHAPE, X3.dtype), tuple(map(traced, index))).shape == selected.shape
