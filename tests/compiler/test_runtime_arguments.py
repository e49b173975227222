"""The native entry takes an address from an argument only after it has seen that all of it fits."""

import gc
import pickle
import sys
import warnings
import weakref
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

from chainrule.compiler.native import context, executable
from chainrule.compiler.native.executable import Executable, OutOfRange
from chainrule.compiler.native.layout import layout
from tests.compiler.handmade import add_number, pick, program

TYPES = [((3,), "float32"), ((2, 2), "float64"), ((), "float64"), ((), "int64"), ((0, 3), "float32"), ((5,), "bool")]


@cache
def reader() -> Executable:
    """Adds 1 to two arrays, into fresh ones, and wants the other arguments only to fit."""
    calls = [(add_number(*TYPES[k]), (("input", k), ("output", k))) for k in (0, 1)]
    return program(*calls, inputs=TYPES, outputs=TYPES[:2])


@cache
def writer() -> Executable:
    """Adds 1 to its first argument, in place."""
    kernel = add_number((3,), "float32")
    steps = [(kernel, (("input", 0), ("arena", 0))), (add_number((3,), "float32", "0.0"), (("arena", 0), ("input", 0)))]
    return program(*steps, inputs=[((3,), "float32"), ((4,), "float32")], commit=1, arena=64)


def well() -> list:
    return [np.ones(s, d) for s, d in TYPES]


def test_objects_are_laid_out_as_we_know_them():
    assert layout() is not None  # on the systems that the tests run on; elsewhere programs are called through Python


def test_what_fits_is_computed():
    first, second = reader().entry(tuple(well()))
    assert first.tolist() == [2.0] * 3
    assert second.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert first.dtype == np.float32
    assert second.flags.c_contiguous
    assert second.flags.owndata


class Sub(np.ndarray):
    pass


def misfits(k: int) -> list:
    """Things that are not argument k, near to it and far from it."""
    shape, dtype = TYPES[k]
    good = np.ones(shape, dtype)
    made = [
        None, "text", [1.0, 2.0, 3.0], (1.0,), object(), True, 2 + 0j, np.float32(1), np.ones((7, 9)), good.view(Sub),
        np.ma.ones(shape, dtype), good[None], np.ones((*shape, 2), dtype), np.array(good, object),
        good.astype(good.dtype.newbyteorder()) if good.dtype.itemsize > 1 else None, good.astype("complex128"),
        good.astype("float16"), good.astype("U3"), np.zeros(shape, "M8[s]"), np.zeros(shape, [("a", dtype)]), np.dtype(dtype), type,
        good.tolist() if shape else str(good), 10**30,
    ]  # fmt: skip
    made += [np.ones(shape, d) for d in "?bBhHiIqQfd" if np.dtype(d) != np.dtype(dtype)]
    if entries := good.size:
        bytes_ = np.zeros(entries * good.itemsize + 1, np.uint8)
        if good.itemsize > 1:
            made.append(bytes_[1:].view(dtype).reshape(shape))  # misaligned
        if entries > 1:
            made += [np.ones((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2], good[..., ::-1]]
        if good.ndim > 1:
            made.append(np.asfortranarray(good))
        if shape:
            made.append(np.broadcast_to(np.ones((), dtype), shape) if entries > 1 else None)
    return made


@pytest.mark.parametrize("k", range(len(TYPES)))
def test_what_does_not_fit_is_told_by_its_number(k: int):
    for thing in misfits(k):
        values = well()
        values[k] = thing
        assert reader().entry(tuple(values)) == k + 1, (k, thing)


def test_the_first_that_does_not_fit_is_told():
    assert reader().entry((*well()[:2], None, None, None, None)) == 3


def test_python_numbers_stand_for_arrays_of_their_type():
    calls = [(add_number((), "float64"), (("input", 0), ("output", 0))), (add_number((), "int64", "1"), (("input", 1), ("output", 1)))]  # fmt: skip
    run = program(*calls, inputs=[((), "float64"), ((), "int64")], outputs=[((), "float64"), ((), "int64")]).entry
    assert [a.item() for a in run((2.5, 41))] == [3.5, 42]
    assert [a.item() for a in run((float("-inf"), -1))] == [float("-inf"), 0]
    assert [a.item() for a in run((-0.0, 2**63 - 1))] == [1.0, -(2**63)]
    assert run((1, 1)) == 1
    assert run((1.0, 1.0)) == 2
    assert run((1.0, 2**63)) == 2
    assert run((1.0, True)) == 2
    assert run((np.float64(1.0), 1)) == 1


def test_equal_dtypes_of_other_objects_fit():
    run = program((add_number((3,), "int64", "1"), (("input", 0), ("output", 0))), inputs=[((3,), "int64")], outputs=[((3,), "int64")]).entry  # fmt: skip
    other = pickle.loads(pickle.dumps(np.dtype("int64")))
    assert other is not np.dtype("int64")
    for dtype in (other, np.dtype(np.longlong), np.dtype(np.intp), np.dtype("int64", metadata={"a": 1})):
        assert run((np.arange(3).astype(dtype),))[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "values", [(), [np.ones(3, "f4")] * 2, (1.0,) * 5, (1.0,) * 7, None, np.ones(6), "abcdef", 6, {}]
)
def test_anything_but_one_tuple_of_the_right_length_is_refused(values: object):
    with pytest.raises(TypeError):
        reader().entry(values)


def test_the_entry_takes_exactly_one_argument():
    with pytest.raises(TypeError):
        reader().entry()
    with pytest.raises(TypeError):
        reader().entry((), ())
    with pytest.raises(TypeError):
        reader().entry(values=())


def test_read_only_arrays_may_be_read_and_not_written():
    x = np.ones(3, "f4")
    x.flags.writeable = False
    assert reader().entry((x, *well()[1:]))[0].tolist() == [2.0] * 3
    assert writer().entry((x, np.ones(4, "f4"))) == 1
    assert x.tolist() == [1.0] * 3


def test_what_is_written_overlaps_with_nothing():
    memory = np.arange(12, dtype="f4")
    for first in range(10):
        for second in range(9):
            x, y = memory[first : first + 3], memory[second : second + 4]
            before = memory.copy()
            told = writer().entry((x, y))
            if np.shares_memory(x, y):
                assert told == 1, (first, second)
                assert memory.tolist() == before.tolist()
            else:
                assert told == ()
                before[first : first + 3] += 1
                assert memory.tolist() == before.tolist()


@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 33])
def test_overlaps_are_found_among_many(count: int):
    kernel, zero = add_number((2,), "float64"), add_number((2,), "float64", "0.0")
    computed = [(kernel, (("input", k), ("arena", 16 * k))) for k in range(count)]
    committed = [(zero, (("arena", 16 * k), ("input", k))) for k in range(count)]
    e = program(*computed, *committed, inputs=[((2,), "float64")] * (count + 1), commit=count, arena=16 * count)
    values = [np.full(2, float(k)) for k in range(count + 1)]
    assert e.entry(tuple(values)) == ()
    assert [v[0] for v in values] == [*(k + 1.0 for k in range(count)), float(count)]
    for k in range(count):
        for other in {0, count // 2, count - 1, count} - {k}:
            changed = list(values)
            changed[k] = values[other]
            before = [v.copy() for v in values]
            assert e.entry(tuple(changed)) == min(k, other) + 1
            assert all((a == b).all() for a, b in zip(values, before, strict=True))


def test_empty_arrays_overlap_with_nothing():
    memory = np.ones(8, "f4")
    kernel = add_number((0,), "float32")
    e = program((kernel, (("input", 1), ("input", 0))), inputs=[((0,), "float32"), ((8,), "float32")], commit=0)
    assert e.entry((memory[4:4], memory)) == ()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_arguments_at_all(data: st.DataObject):
    """What fits is computed; what does not is told, and nothing has changed."""
    values = well()
    for k in data.draw(st.lists(st.integers(0, len(TYPES) - 1), max_size=3)):
        values[k] = data.draw(
            st.sampled_from([*misfits(k), np.full(TYPES[k][0], 2, TYPES[k][1]), *misfits(data.draw(st.integers(0, 5)))])
        )
    before = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
    told = reader().entry(tuple(values))
    wrong = [k for k, (v, (s, d)) in enumerate(zip(values, TYPES, strict=True)) if not fits(v, s, np.dtype(d))]
    if wrong:
        assert told == wrong[0] + 1
    else:
        assert told[0].tolist() == (values[0] + 1).tolist()
        assert told[1].tolist() == (values[1] + 1).tolist()
    for old, new in zip(before, values, strict=True):
        if isinstance(new, np.ndarray):
            assert old.tobytes() == new.tobytes()


def fits(value: object, shape: tuple, dtype: np.dtype) -> bool:
    """What an argument must be, in NumPy's words."""
    if shape == () and type(value) is float:
        return dtype == np.float64
    if shape == () and type(value) is int:
        return dtype == np.int64 and -(2**63) <= value < 2**63
    return (
        type(value) is np.ndarray
        and value.dtype == dtype
        and value.dtype.isnative
        and value.shape == shape
        and value.flags.c_contiguous
        and value.flags.aligned
    )


def test_references_are_neither_lost_nor_kept():
    arrays = [np.ones((3,), "f4"), np.ones((2, 2))]
    things = [*arrays, np.dtype("f4"), np.dtype("f8"), OutOfRange]
    number = pick(3)
    picking = program((number, (("input", 0), ("input", 1), ("output", 0))), inputs=[((3,), "f4"), ((1,), "int64")], outputs=[((1,), "f4")])  # fmt: skip
    gc.collect()
    before = [sys.getrefcount(t) for t in things]
    for _ in range(1000):
        reader().entry((*arrays, 1.0, 1, *well()[4:]))
        reader().entry((arrays[1], *arrays, 1, *well()[4:]))
        with pytest.raises(OutOfRange):
            picking.entry((arrays[0], np.array([3])))
    after = [sys.getrefcount(t) for t in things]
    assert all(abs(a - b) < 200 for a, b in zip(after, before, strict=True)), (before, after)  # others come and go too


def test_an_index_out_of_range_raises_and_commits_nothing():
    calls = [(pick(3), (("input", 0), ("input", 1), ("arena", 0))), (add_number((1,), "f4", "0.0"), (("arena", 0), ("input", 2)))]  # fmt: skip
    e = program(*calls, inputs=[((3,), "f4"), ((1,), "int64"), ((1,), "f4")], commit=1, arena=64)
    x, target = np.array([1, 2, 3], "f4"), np.zeros(1, "f4")
    assert e.entry((x, np.array([2]), target)) == ()
    assert target.tolist() == [3.0]
    for index in (3, -1, 2**62, -(2**63)):
        with pytest.raises(OutOfRange):
            e.entry((x, np.array([index]), target))
        assert target.tolist() == [3.0]


@pytest.mark.parametrize("infinite", [False, True])
def test_an_invalid_operation_among_the_checked_steps_calls_for_the_careful_program(infinite: bool):
    minus = add_number((3,), "float32", "0xFFF0000000000000")  # minus infinity
    calls = [(minus, (("input", 0), ("arena", 0))), (add_number((3,), "float32"), (("input", 1), ("input", 1)))]
    e = program(*calls, inputs=[((3,), "f4")] * 2, commit=1, checked=1, arena=64)
    unchecked = program(*calls, inputs=[((3,), "f4")] * 2, commit=1, arena=64)
    x, target = np.full(3, np.inf if infinite else 1.0, "f4"), np.zeros(3, "f4")
    assert e.entry((x, target)) == (None if infinite else ())
    assert target.tolist() == [0.0 if infinite else 1.0] * 3
    assert unchecked.entry((x, target)) == ()
    with np.errstate(invalid="ignore"):
        np.inf - np.array([np.inf])  # an invalid operation before the call is none of ours
    assert e.entry((np.ones(3, "f4"), target)) == ()


def test_python_looks_at_nothing_and_computes_the_same(monkeypatch: pytest.MonkeyPatch):
    """Where objects are laid out in another way than we know, programs run through Python."""
    monkeypatch.setattr(context, "layout", lambda: None)
    calls = [(add_number((3,), "f4"), (("input", 0), ("output", 0))), (pick(3), (("input", 0), ("input", 1), ("output", 1)))]  # fmt: skip
    e = program(*calls, inputs=[((3,), "f4"), ((1,), "int64")], outputs=[((3,), "f4"), ((1,), "f4")])
    assert not e.guards
    out = e([np.arange(3, dtype="f4"), np.array([2])])
    assert out is not None
    assert [o.tolist() for o in out] == [[1.0, 2.0, 3.0], [2.0]]
    with pytest.raises(OutOfRange):
        e([np.arange(3, dtype="f4"), np.array([3])])


def test_the_entry_outlives_its_executable():
    run = program((add_number((3,), "f4", "3.25"), (("input", 0), ("output", 0))), inputs=[((3,), "f4")], outputs=[((3,), "f4")]).entry  # fmt: skip
    assert run((np.ones(3, "f4"),))[0].tolist() == [4.25] * 3


def test_constants_reach_kernels_and_are_kept():
    e = program((add_number((3,), "f4"), (("constant", 1), ("output", 0))), inputs=[], outputs=[((3,), "f4")], constants=[np.zeros(2), np.arange(3, dtype="f4")])  # fmt: skip
    assert e.entry(())[0].tolist() == [1.0, 2.0, 3.0]


def test_a_profile_tells_every_kernel_and_writes_nothing():
    calls = [(add_number((1000,), "f4"), (("input", 0), ("arena", 0))), (add_number((1000,), "f4"), (("arena", 0), ("input", 0)))]  # fmt: skip
    e = program(*calls, inputs=[((1000,), "f4")], commit=1, arena=4000)
    x = np.zeros(1000, "f4")
    times = e.profile([x], seconds=0.01)
    assert [t.kernel.label for t in times] == ["x + 1.0", "x + 1.0"]
    assert all(1e-8 < t.seconds < 1e-2 for t in times)
    assert not x.any()
    assert executable.KernelTime._fields == ("kernel", "seconds")


def identity() -> Executable:
    return program((add_number((3,), "f4"), (("input", 0), ("output", 0))), inputs=[((3,), "f4")], outputs=[((3,), "f4")])  # fmt: skip


def test_memory_of_results_that_nobody_holds_is_used_again():
    run, x = identity().entry, np.ones(3, "f4")
    assert len({run((x,))[0].ctypes.data for _ in range(50)}) == 1
    held = run((x,))[0]
    assert len({run((x,))[0].ctypes.data for _ in range(50)} | {held.ctypes.data}) == 2


HOLDERS = {
    "the array": lambda a: a,
    "a view": lambda a: a[1:],
    "a view of other entries": lambda a: a.view("u1"),
    "a memoryview": lambda a: memoryview(a),
    "a buffer of ctypes": lambda a: np.ctypeslib.as_ctypes(a),
    "a weak reference": lambda a: (weakref.ref(a), a.__array_interface__["data"]),
    "a list": lambda a: [a],
    "an iterator": lambda a: iter(a),
    "another library": lambda a: np.from_dlpack(a),
}


@pytest.mark.parametrize("how", HOLDERS)
def test_results_that_somebody_holds_are_never_written(how: str):
    run = identity().entry
    for _ in range(3):
        first = run((np.zeros(3, "f4"),))[0]
        address = first.ctypes.data
        held = HOLDERS[how](first)
        del first
        later = [run((np.full(3, float(k), "f4"),))[0] for k in range(5)]
        if how == "a weak reference":
            assert held[0]() is None  # it was not kept alive for anybody
        else:
            assert address not in {a.ctypes.data for a in later}
            assert set(np.ravel(list(held) if how == "an iterator" else held)) <= {0, 63, 128, 1.0}  # 1.0, or its bytes
        assert [a.tolist() for a in later] == [[k + 1.0] * 3 for k in range(5)]


@pytest.mark.parametrize(
    "change",
    [
        lambda a: setattr(a, "shape", (3, 1)),
        lambda a: setattr(a, "dtype", "i4"),
        lambda a: a.setflags(write=False),
        lambda a: a.resize((1,), refcheck=False),
        lambda a: a.resize((9,), refcheck=False),
        lambda a: a.byteswap(inplace=True),
    ],
)
def test_results_that_were_changed_in_kind_are_not_used_again(change):
    run = identity().entry
    for _ in range(4):
        a = run((np.zeros(3, "f4"),))[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions of NumPy advise against some of these
            change(a)
        del a
        b = run((np.zeros(3, "f4"),))[0]
        assert (b.shape, b.dtype, b.flags.writeable, b.tolist()) == ((3,), np.dtype("f4"), True, [1.0] * 3)
