"""X: reading and writing by index, with places that come up more than once in every form of an index.

The witness counts places: NumPy indexes an array of place numbers, and whoever reads place 7 adds to the gradient at 7.
"""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import chainrule as cr
from tests.cases.ways import by_backward, by_hessian, derivatives_are, leaf, reverse_over_reverse

RNG = np.random.default_rng(13)


def places(shape):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


def counted(read, weights, size):
    """The sum of the weights of everybody who read a place, for every place."""
    return np.bincount(np.ravel(read), np.ravel(weights), size)


def reading_is(read, x, index):
    """All derivatives of a weighted sum of cubes of `read(x, index)` against a count of places."""
    at = places(x.shape)[index]
    weights = RNG.normal(size=np.shape(at))
    first = counted(at, weights * 3 * x[index] ** 2, x.size).reshape(x.shape)
    second = np.diag(counted(at, weights * 6 * x[index], x.size))
    f = lambda t: (read(t) ** 3 * weights).sum()
    derivatives_are(f, x, first, second, rtol=1e-11, value=(x[index] ** 3 * weights).sum())


# ---------------------------------------------------------------- X1
def test_x1_repeated_gather():
    x = np.array([1.0, 2.0, 3.0])
    f = lambda x: x[[0, 0, 2]].sum()
    assert by_backward(f, x).tolist() == [2.0, 0.0, 1.0]
    derivatives_are(f, x, [2.0, 0.0, 1.0], 0.0)
    derivatives_are(lambda x: (x[[0, 0, 2]] ** 2).sum(), x, [4.0, 0.0, 6.0], np.diag([4.0, 0.0, 2.0]))


REPEATED = {
    "list": ([0, 0, 2], (3, 2)),
    "array": (np.array([2, 2, 2, 0]), (3, 2)),
    "negative": (np.array([-1, 2, -3, 0]), (3, 2)),
    "small_dtype": (np.array([1, 1], np.uint8), (3, 2)),
    "two_axes": ((np.array([0, 0, 2]), np.array([1, 1, 0])), (3, 2)),
    "grid": (np.ix_([0, 0, 1], [1, 1]), (3, 2)),
    "outer_by_hand": ((np.array([[0], [0]]), np.array([1, 0, 1])), (3, 2)),
    "matrix_of_places": (np.array([[0, 1], [1, 0]]), (3, 2)),
    "array_and_slice": ((np.array([0, 0]), slice(1, None)), (3, 2)),
    "slice_and_array": ((slice(None), np.array([1, 1, 1])), (3, 2)),
    "ellipsis_and_array": ((..., np.array([1, 1])), (3, 2)),
    "none_and_array": ((None, np.array([1, 1])), (3, 2)),
    "array_slice_array": ((np.array([0, 0]), slice(None), np.array([1, 1])), (2, 3, 2)),
    "integer_slice_array": ((0, slice(None), [1, 1, 2]), (2, 3, 4)),
    "array_none_array": ((np.array([0, 0]), None, np.array([1, 1])), (2, 3, 2)),
    "integer_and_array": ((1, np.array([2, 2])), (2, 3, 2)),
    "mask": (np.array([[True, False], [True, True], [False, False]]), (3, 2)),
    "mask_of_rows": (np.array([True, False, True]), (3, 2)),
    "mask_and_array": ((np.array([True, False, True]), np.array([1, 1])), (3, 2)),
    "mask_twice": ((np.array([True, False, True]), np.array([True, True])), (3, 2)),
    "mask_and_slice": ((np.array([True, False, True]), slice(None, None, -1)), (3, 2)),
    "empty_list": ([], (3, 2)),
    "empty_mask": (np.zeros((3, 2), bool), (3, 2)),
    "true": (True, (3, 2)),
    "false": (False, (3, 2)),
    "zero_dimensional_array": (np.array(1), (3, 2)),
    "numpy_integer": (np.int64(-1), (3, 2)),
    "negative_step": ((slice(None, None, -2), slice(1, None)), (3, 2)),
    "nothing": ((), (3, 2)),
    "ellipsis": (..., (3, 2)),
    "nones": ((None, 1, None, ..., None), (3, 2)),
}


@pytest.mark.parametrize("name", REPEATED)
def test_x1_reading_by_every_form_of_index(name):
    index, shape = REPEATED[name]
    x = RNG.uniform(0.5, 2.0, shape)
    reading_is(lambda t: t[index], x, index)


def as_tensors(index):
    """The same index, its arrays as tensors."""
    if isinstance(index, tuple):
        return tuple(map(as_tensors, index))
    return cr.tensor(np.array(index)) if isinstance(index, (list, np.ndarray)) and np.size(index) else index


@pytest.mark.parametrize("name", REPEATED)
def test_x1_tensors_as_indices(name):
    index, shape = REPEATED[name]
    x = RNG.uniform(0.5, 2.0, shape)
    at = places(shape)[index]
    got = by_backward(lambda t: (t[as_tensors(index)] ** 2).sum(), x)
    np.testing.assert_allclose(got, 2 * x * counted(at, np.ones(np.shape(at)), x.size).reshape(shape), rtol=1e-12)


def test_x1_an_index_that_is_changed_afterwards():
    index = np.array([0, 0, 2])
    t = leaf([1.0, 2.0, 3.0])
    y = t[index].sum()
    index[:] = 1
    y.backward()
    assert t.grad.tolist() == [2.0, 0.0, 1.0]


@pytest.mark.parametrize("mode", ["getitem", "take", "np.take", "take_along_axis"])
def test_x1_embeddings_with_repeated_ids(mode):
    table = RNG.normal(size=(5, 3))
    ids = np.array([[0, 4, 4], [4, 0, 1]])
    weights = RNG.normal(size=(2, 3, 3))
    look_up = {
        "getitem": lambda t: t[ids],
        "take": lambda t: cr.take(t, ids, axis=0),
        "np.take": lambda t: np.take(t, ids, axis=0),
        "take_along_axis": lambda t: cr.take_along_axis(t, np.repeat(ids.reshape(-1, 1), 3, 1), axis=0).reshape(
            2, 3, 3
        ),
    }[mode]
    first, second = np.zeros_like(table), np.zeros_like(table)
    for place, row in np.ndenumerate(ids):
        first[row] += 2 * weights[place] * table[row]
        second[row] += 2 * weights[place]
    derivatives_are(lambda t: (look_up(t) ** 2 * weights).sum(), table, first, np.diag(second.ravel()), rtol=1e-11)


def test_x1_repeats_in_every_other_way_of_reading():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    derivatives_are(lambda t: (cr.repeat(t, 3, axis=0) ** 2).sum(), x, 6 * x, 6 * np.eye(4))
    derivatives_are(lambda t: (cr.tile(t, (2, 2)) ** 2).sum(), x, 8 * x, 8 * np.eye(4))
    derivatives_are(lambda t: (cr.broadcast_to(t, (3, 2, 2)) ** 2).sum(), x, 6 * x, 6 * np.eye(4))
    derivatives_are(lambda t: (cr.stack([t, t, t]) ** 2).sum(), x, 6 * x, 6 * np.eye(4))
    derivatives_are(lambda t: (cr.concat([t, t[::-1]]) ** 2).sum(), x, 4 * x, 4 * np.eye(4))
    derivatives_are(
        lambda t: (sum(row for row in t) ** 2).sum(), x, 2 * np.tile(x.sum(0), (2, 1)), 2 * np.tile(np.eye(2), (2, 2))
    )
    derivatives_are(lambda t: (t[0] * t[0] * t[1]).sum(), x, [2 * x[0] * x[1], x[0] ** 2],
                    np.block([[np.diag(2 * x[1]), np.diag(2 * x[0])], [np.diag(2 * x[0]), np.zeros((2, 2))]]))  # fmt: skip


@st.composite
def indices(draw, shape):
    """Any index of NumPy for an array of this shape, mixed of all kinds."""
    entries, axis = [], 0
    common = draw(arrays.array_shapes(min_dims=0, max_dims=2, max_side=3))
    ellipsis = False
    while axis < len(shape) and draw(st.integers(0, 5)) > 0:
        n = shape[axis]
        kind = draw(st.sampled_from(["slice", "integer", "array", "array", "mask", "none", "ellipsis"]))
        if kind == "none":
            entries.append(None)
            continue
        if kind == "ellipsis":
            if not ellipsis:
                entries.append(...)
                axis += draw(st.integers(0, len(shape) - axis))
                ellipsis = True
            continue
        if kind == "slice":
            entries.append(draw(st.slices(n)))
        elif kind == "mask":
            entries.append(draw(arrays.arrays(bool, n)))
        elif n == 0:
            entries.append(slice(None))
        elif kind == "integer":
            entries.append(draw(st.integers(-n, n - 1)))
        else:
            lengths = draw(arrays.broadcastable_shapes(common, max_dims=len(common)))
            entries.append(draw(arrays.arrays(np.intp, lengths, elements=st.integers(-n, n - 1))))
        axis += 1
    return tuple(entries)


def legal(shape, index):
    # NumPy lets a mask without entries lie on any axis, np.ones((2, 3))[..., np.zeros(0, bool)]; the standard and we do not.
    if any(
        isinstance(entry, np.ndarray) and entry.dtype.kind == "b" and entry.size in (0, *({entry.size} - set(shape)))
        for entry in index
    ):
        return False
    try:
        return places(shape)[index] is not None
    except IndexError:  # masks and arrays that do not broadcast
        return False


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_x1_any_index_reads_and_counts(data):
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
    index = data.draw(indices(shape))
    assume(legal(shape, index))
    x = np.linspace(0.5, 2.0, int(np.prod(shape))).reshape(shape)
    at = places(shape)[index]
    weights = np.linspace(-1.0, 2.0, at.size).reshape(at.shape)
    f = lambda t: (t[index] ** 2 * weights).sum()
    first = counted(at, weights * 2 * x[index], x.size).reshape(shape)
    np.testing.assert_allclose(by_backward(f, x), first, rtol=1e-11, atol=1e-12)
    second = np.diag(counted(at, 2 * weights, x.size))
    np.testing.assert_allclose(reverse_over_reverse(f, x), second, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(by_hessian(f, x), second, rtol=1e-11, atol=1e-12)


# ---------------------------------------------------------------- X4
def test_x4_fill_at_repeated_positions():
    v = leaf(3.0)
    t = cr.zeros(5)
    t[[2, 2]] = v
    assert t.tolist() == [0.0, 0.0, 3.0, 0.0, 0.0]
    t.sum().backward()
    assert v.grad == 1.0


def test_x4_fill_to_second_order():
    def f(v):
        t = cr.zeros(5)
        t[[2, 2]] = v * v
        return (t * t).sum()

    derivatives_are(f, 3.0, 4 * 27.0, [[12 * 9.0]])


def test_x4_of_several_writes_to_a_place_the_last_counts():
    def f(v):
        t = cr.ones(3)
        t[[1, 1, 0]] = v
        return (t * np.array([1.0, 10.0, 100.0])).sum()

    derivatives_are(f, [5.0, 6.0, 7.0], [0.0, 10.0, 1.0], 0.0)
    g = lambda v: f(v * v)
    derivatives_are(g, [5.0, 6.0, 7.0], [0.0, 120.0, 14.0], np.diag([0.0, 20.0, 2.0]))


def writing_is(x, v, index, write):
    """Who lives where after the write, by an assignment of numbers in NumPy: places of x, then places of v."""
    n, m = x.size, v.size
    owner = places(x.shape)
    owner[index] = n + places(v.shape)
    weights = np.linspace(-1.0, 2.0, n).reshape(x.shape)
    value = np.concatenate([x.ravel(), v.ravel()])[owner]
    first = counted(owner, weights * 2 * value, n + m)
    second = np.diag(counted(owner, 2 * weights, n + m))

    def f(z):
        t = write(z[:n].reshape(x.shape), z[n:].reshape(v.shape))
        return (t**2 * weights).sum()

    z = np.concatenate([x.ravel(), v.ravel()])
    np.testing.assert_allclose(by_backward(f, z), first, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(reverse_over_reverse(f, z), second, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(by_hessian(f, z), second, rtol=1e-11, atol=1e-12)


def written(index):
    def write(x, v):
        x[index] = v
        return x

    return write


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("fill", [True, False])
def test_x4_writing_by_every_form_of_index(name, fill):
    index, shape = REPEATED[name]
    x = RNG.uniform(0.5, 2.0, shape)
    v = RNG.uniform(0.5, 2.0, () if fill else x[index].shape)
    writing_is(x, v, index, written(index))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_x4_any_index_writes_and_the_last_counts(data):
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
    index = data.draw(indices(shape))
    assume(legal(shape, index))
    read = places(shape)[index].shape
    ones = data.draw(st.lists(st.booleans(), max_size=len(read)))
    v_shape = tuple(1 if one else n for one, n in zip(ones, read[len(read) - len(ones) :], strict=True))
    x = np.linspace(0.5, 2.0, int(np.prod(shape))).reshape(shape)
    v = np.linspace(3.0, 4.0, int(np.prod(v_shape))).reshape(v_shape)
    writing_is(x, v, index, written(index))


@pytest.mark.parametrize("name", REPEATED)
def test_x4_scatter_add_counts_every_time(name):
    index, shape = REPEATED[name]
    x = RNG.uniform(0.5, 2.0, shape)
    v = RNG.uniform(0.5, 2.0, x[index].shape)
    expected = x.copy()
    np.add.at(expected, index, v)
    got = cr.scatter_add(cr.tensor(x), index, cr.tensor(v))
    np.testing.assert_allclose(got.data, expected, rtol=1e-12)
    total = got.data
    at = places(shape)[index]
    derivatives_are(lambda v: (cr.scatter_add(cr.tensor(x), index, v) ** 2).sum(), v, 2 * total.ravel()[at])
    derivatives_are(lambda x: (cr.scatter_add(x, index, v) ** 2).sum(), x, 2 * total, 2 * np.eye(x.size))


def test_x4_augmented_assignment_by_index():
    """`t[i] += v` reads and writes back, so a repeated place gets one of the two sums, as in NumPy."""
    x, v = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0])
    expected = x.copy()
    expected[[1, 1]] += v
    t, u = leaf(x), leaf(v)
    y = t * 1.0
    y[[1, 1]] += u
    assert y.tolist() == expected.tolist() == [1.0, 22.0, 3.0]
    (y * np.array([1.0, 5.0, 9.0])).sum().backward()
    assert t.grad.tolist() == [1.0, 5.0, 9.0]
    assert u.grad.tolist() == [0.0, 5.0]


# ---------------------------------------------------------------- X7
def test_x7_index_arrays_split_by_a_slice():
    x = np.zeros((2, 3, 4))
    t = leaf(x)
    y = t[0, :, [1, 2]]
    assert y.shape == (2, 3) == x[0, :, [1, 2]].shape
    (y * np.arange(6.0).reshape(2, 3)).sum().backward()
    expected = np.zeros((2, 3, 4))
    expected[0, :, 1], expected[0, :, 2] = [0, 1, 2], [3, 4, 5]
    assert t.grad.tolist() == expected.tolist()


SPLIT = [
    (0, slice(None), [1, 2]),
    ([0, 1], slice(None), [1, 2]),
    ([0, 1], slice(None), 2),
    ([[0], [1]], slice(None), [1, 2]),
    ([0, 1], None, [1, 2]),
    ([0, 1], ..., [1, 2]),
    (0, ..., [1, 2]),
    (slice(None), 0, [1, 2]),
    (slice(None), [0, 1], [1, 2]),
    (slice(None), [0, 1], None, [1, 2]),
    (None, [0, 1], slice(1, None), [1, 1]),
    ([True, False], slice(None), [0, 0]),
    ([True, True], slice(None), [0, 0]),
    (1, slice(None, None, -1), [3, 3, 0]),
]


@pytest.mark.parametrize("index", SPLIT, ids=str)
def test_x7_every_split_index_reads_and_writes(index):
    x = RNG.uniform(0.5, 2.0, (2, 3, 4))
    reading_is(lambda t: t[index], x, index)
    writing_is(x, RNG.uniform(0.5, 2.0, x[index].shape), index, written(index))


@pytest.mark.parametrize(
    "index", [3, -4, [0, 3], (slice(None), 2), (0, 0, 0), np.zeros((2, 2), bool), [0.5], "a", (..., ...), 1.0]
)
def test_x_what_cannot_index_says_so(index):
    t = leaf(np.zeros((3, 2)))
    with pytest.raises(IndexError) as caught:
        t[index]
    assert isinstance(caught.value, cr.errors.IndexingError)
    assert "f64[3, 2]" in str(caught.value)
    u = t * 1.0
    before = u.data.copy()
    with pytest.raises(cr.errors.IndexingError):
        u[index] = 1.0
    assert u.data.tolist() == before.tolist()
