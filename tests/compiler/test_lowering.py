"""Every record, lowered, means what its own forward does; so do whole steps of training."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.compiler.expressions import evaluate, reach
from chainrule.compiler.lowering import lower
from chainrule.compiler.lowering.phases import helps
from chainrule.compiler.lowering.sliding import expanded
from chainrule.ops.index import Index
from chainrule.ops.windows import Windows
from tests.compiler.lowered import eager, program_of, traced, values
from tests.laws.examples import examples, is_elementwise, records

RECORDS = records()
OPAQUE = {"argsort", "searchsorted", "running_sum", "running_product", "recurrence"}
FLOATS = (np.float64, np.float32)


def assert_agrees(primitive, arrays, parameters, units=60):
    """Lowered and eager: shapes, dtypes, and values to some units in the last place of the largest."""
    want = eager(primitive, arrays, parameters)
    got, opaque = values(program_of(primitive, arrays, parameters), arrays)
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if w.dtype.kind == "f":
            eps = units * np.finfo(w.dtype).eps
            np.testing.assert_allclose(
                g, w, rtol=eps, atol=eps * max(1.0, np.nan_to_num(np.abs(w), posinf=0).max(initial=0))
            )
        else:
            np.testing.assert_array_equal(g, w)
    return opaque


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_lowers_to_what_it_computes(name):
    primitive = RECORDS[name]
    for example in examples(primitive):
        for dtype in FLOATS:
            of = example.with_dtype(dtype)
            opaque = assert_agrees(primitive, of.arrays, of.parameters)
            assert set(opaque) == ({name} if name in OPAQUE else set())


PAIRS = [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float32, np.float64]


@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if is_elementwise(record)])
def test_elementwise_records_promote_as_numpy_does(name):
    primitive = RECORDS[name]
    parameters = examples(primitive)[0].parameters
    for one in PAIRS:
        for two in PAIRS if len(primitive.inputs) > 1 else PAIRS[:1]:
            arrays = [np.array([[0, 1, 2], [3, 1, 0]]).astype(one), np.array([1, 0, 2]).astype(two)]
            if name in ("sigmoid", "silu") and one is np.uint64:
                continue  # the absolute value of a negated unsigned integer: eager is wrong here
            if name == "where":
                arrays.insert(0, np.array([True, False, True]))
            arrays = arrays[: len(primitive.inputs)]
            try:
                want = eager(primitive, arrays, parameters)[0].dtype
            except (TypeError, ValueError):
                continue  # NumPy refuses these
            if want.kind in "biuf":
                opaque = assert_agrees(primitive, arrays, parameters, units=2000 if want == np.float16 else 60)
                assert not (opaque and want.itemsize > 2 and want.kind == "f" and one is two), (one, two)


REDUCTIONS = ("sum", "prod", "max", "min", "count_nonzero", "all", "any")


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", PAIRS)
def test_reductions_widen_as_numpy_does(name, dtype):
    x = np.array([[[0, 1, 2], [3, 1, 0]]] * 2).astype(dtype)
    for axes in ((0, 1, 2), (1,), (0, 2), ()):
        for keepdims in (False, True):
            assert not assert_agrees(RECORDS[name], [x], (axes, keepdims))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (1, 1), (1,), (17, 1), (2, 1, 5)])
def test_odd_shapes(shape):
    rng = np.random.default_rng(0)
    x, axes = rng.normal(size=shape), tuple(range(len(shape)))
    for name in ("sum", "prod", "any", "norm"):
        assert_agrees(RECORDS[name], [x], (axes, False))
    for name in ("relu", "exp", "gelu"):
        assert_agrees(RECORDS[name], [x], ("none",) if name == "gelu" else ())
    if 0 not in shape:
        for name in ("softmax", "log_softmax"):
            assert_agrees(RECORDS[name], [x], (len(shape) - 1,))
        assert_agrees(RECORDS["logsumexp"], [x], (axes, True))
        assert_agrees(RECORDS["logsumexp"], [x], ((), False))
    assert_agrees(RECORDS["linear"], [x, rng.normal(size=(1, shape[-1]))], ())
    assert_agrees(RECORDS["affine"], [x, rng.normal(size=(3, shape[-1])), rng.normal(size=3)], ())
    assert_agrees(RECORDS["concat"], [x, x[..., :0], x], (len(shape) - 1, (0, shape[-1], shape[-1], 2 * shape[-1])))


@pytest.mark.parametrize("dtype", [*FLOATS, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize(
    ("a", "b"),
    [((1, 5), (5, 3)), ((4, 5), (5, 1)), ((4, 1), (1, 3)), ((1, 1), (1, 1)), ((2, 3, 4), (4, 2)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3))],
)  # fmt: skip
def test_products_of_every_shape(a, b, dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=s) * 3 for s in (a, b))
    assert_agrees(RECORDS["matmul"], [x.astype(dtype), y.astype(dtype)], ())


# ---------------------------------------------------------------- indexes
BASIC = [0, -1, slice(1, 4), slice(None, None, -1), slice(4, 0, -2), (..., 2), (slice(None), None, slice(0, 0)), (slice(2), -1, slice(5, None, 3)), (2, 1, 3), ...]  # fmt: skip


@pytest.mark.parametrize("index", BASIC, ids=repr)
def test_a_basic_index_is_a_view_and_back(index):
    x = np.arange(5 * 3 * 7.0).reshape(5, 3, 7)
    index = index if isinstance(index, tuple) else (index,)
    for name, arrays, parameters in (
        ("getitem", [x], (index,)),
        ("setitem", [x, x[index] * 2], (index,)),
        ("setitem", [x, np.array(1.5)], (index,)),
        ("setitem", [x, (x[index] * 3)[None] if np.ndim(x[index]) else x[index]], (index,)),
        ("scatter", [np.asarray(x[index])], (index, x.shape)),
    ):
        assert_agrees(RECORDS[name], arrays, parameters)
    (out,) = lower(program_of(RECORDS["getitem"], [x], (index,))).outputs
    assert {e.op for e in reach([out])} <= {"input", "view", "reshape", "literal"}


ADVANCED = [
    (np.array([0, 2, 2]),), (slice(None), np.array([2, 0])), (np.array([1, 3]), slice(None), np.array([[0], [6]])),
    (slice(None), np.array([1, 1]), np.array([0, 6])), (..., np.array([[3, -1], [0, 0]])), (np.array([[4], [0]]), np.array([0, 2])),
    (slice(None), np.array([1, 2]), None, np.array([0, 4])), (0, slice(None), np.array([1, 5])), (slice(None), 1, np.array([1, 5])), (None, np.array([1, 2])), (np.arange(5) % 2 == 0,),
    (slice(1, 3), np.array([True, False, True])), (True,), (np.array([4, 0]), None, slice(1)), (slice(None), np.array([0, 1]), slice(None, None, 2)),
]  # fmt: skip


@pytest.mark.parametrize("entries", ADVANCED, ids=repr)
def test_an_index_with_arrays_and_back(entries):
    x = np.arange(5 * 3 * 7.0).reshape(5, 3, 7)
    index = Index(entries)
    assert_agrees(RECORDS["gather"], [x], (index,))
    assert_agrees(RECORDS["scatter"], [np.cos(x[entries])], (index, x.shape))
    assert_agrees(RECORDS["setitem"], [x, np.cos(x[entries])], (index,))
    assert_agrees(RECORDS["setitem"], [x, np.array(0.5, np.float32)], (index,))


def test_known_even_positions_become_views():
    x = np.arange(20.0).reshape(4, 5)

    def function(x):
        take = RECORDS["take"].call
        return [
            take(x, np.array([4, 2, 0]), 1),
            take(x, np.array([[0], [-1]]), 0),
            take(x, np.array([1, 1]), 0),
            take(x, np.array(3), 0),
        ]

    lowered = lower(traced(function, [x]))
    assert {e.op for e in reach(lowered.outputs)} <= {"input", "view"}
    out = evaluate(lowered.outputs, [x])
    for got, want in zip(out, [x[:, [4, 2, 0]], x[[[0], [-1]]], x[[1, 1]], x[3]], strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["take", "take_along_axis", "surprisal"])
@pytest.mark.parametrize("bad", [3, -4])
def test_a_dynamic_index_out_of_range_stops_the_program(name, bad):
    x, at = np.arange(6.0).reshape(2, 3), np.array([0, bad])
    arrays = [x, at[:, None] if name == "take_along_axis" else at]
    parameters = ("mean",) if name == "surprisal" else (1,)
    program = program_of(RECORDS[name], arrays, parameters)
    values(program, [x, arrays[1] * 0])
    with pytest.raises(IndexError):
        values(program, arrays)


def test_the_gradient_of_a_loss_looks_at_classes_once_more_for_nothing():
    x, y = np.random.default_rng(0).normal(size=(5, 3)), np.array([0, 1, 2, 0, 1])

    def function(x, y):
        column = RECORDS["reshape"].call(y, (5, 1))
        ones = np.ones((5, 1))
        return [RECORDS["surprisal"].call(x, y, "sum"), RECORDS["scatter_along_axis"].call(ones, column, 1, 3)]

    lowered = lower(traced(function, [x, y]))
    assert [e.op for e in reach(lowered.outputs)].count("bounded") == 1
    np.testing.assert_array_equal(evaluate(lowered.outputs, [x, y])[1], np.eye(3)[y])


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_of_nothing_but_minus_infinity(dtype):
    x = np.full((2, 5), -np.inf, dtype)
    x[1, 2] = 3.0
    for name, parameters in (
        ("softmax", (1,)),
        ("log_softmax", (1,)),
        ("logsumexp", ((1,), False)),
        ("attention_weights", (0.5, None)),
    ):
        assert_agrees(RECORDS[name], [x], parameters)
    assert_agrees(RECORDS["surprisal"], [x, np.array([1, 2])], ("none",))


# ---------------------------------------------------------------- windows
WINDOWS = [
    Windows((5, 4), (2, 3), (2, 1), (1, 1), (0, 1), (2, 4)), Windows((6,), (2,), (3,), (2,), (3,), (3,)),
    Windows((6, 6), (2, 2), (2, 2), (1, 1), (0, 0), (3, 3)), Windows((7, 5), (3, 3), (1, 1), (1, 1), (1, 1), (7, 5)),
    Windows((9, 8), (3, 3), (2, 2), (1, 1), (1, 1), (5, 4)), Windows((8, 8), (8, 8), (8, 8), (1, 1), (0, 0), (1, 1)),
    Windows((9,), (2,), (3,), (1,), (0,), (3,)), Windows((5, 5, 5), (2, 2, 2), (1, 2, 1), (2, 1, 1), (1, 0, 1), (5, 2, 6)),
    Windows((4, 4), (1, 1), (1, 1), (1, 1), (0, 0), (4, 4)), Windows((4, 4), (1, 1), (2, 2), (1, 1), (0, 0), (2, 2)),
]  # fmt: skip
CONVOLUTIONS = ("convolve", "convolve_to_input", "convolve_to_weight")


def operands_of(windows, groups, width, count, dtype, n=2):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, groups * width, *windows.size)).astype(dtype)
    w = rng.normal(size=(groups * count, width, *windows.kernel)).astype(dtype)
    y = rng.normal(size=(n, groups * count, *windows.out)).astype(dtype)
    return {"convolve": [x, w], "convolve_to_input": [y, w], "convolve_to_weight": [x, y]}


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("groups", [(1, 2, 3), (2, 2, 1), (3, 1, 1), (1, 1, 1)], ids=str)
def test_convolutions_are_views_and_products(windows, groups):
    """Against the eager kernels, which are other formulas: pieces of matrices of windows, with channels last."""
    for name, arrays in operands_of(windows, *groups, np.float64).items():
        assert_agrees(RECORDS[name], arrays, (windows, groups[0]))
        lowered = lower(program_of(RECORDS[name], arrays, (windows, groups[0])))
        (out,) = lowered.outputs
        is_native = out.op == name
        in_phases = name == "convolve_to_input" and helps(windows)
        assert is_native == (len(windows.out) < 3 and groups != (3, 1, 1) and not in_phases)
        if is_native:
            got = evaluate([expanded(lowered.graph, out)], arrays)[0]
            want = eager(RECORDS[name], arrays, (windows, groups[0]))[0]
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_pooling(windows, dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, 3, *windows.size)).astype(dtype)  # with ties
    (top,) = eager(RECORDS["max_pool"], [x], (windows,))
    (won,) = eager(RECORDS["winners"], [x, top], (windows,))
    y = rng.normal(size=top.shape).astype(np.float64)
    for name, arrays in (
        ("max_pool", [x]), ("winners", [x, top]), ("window_sums", [x]), ("over_windows", [y]), ("to_winners", [y, won]),
        ("from_winners", [x.astype(np.float64), won]),
    ):  # fmt: skip
        assert_agrees(RECORDS[name], arrays, (windows,))


# ---------------------------------------------------------------- whole programs
def test_a_program_of_a_hundred_thousand_equations():
    def function(x):
        for _ in range(50_000):
            x = x * 1.5 + x
        return [x]

    program = traced(function, [np.ones(2)])
    lowered = lower(program)
    assert len(reach(lowered.outputs)) > 100_000


def test_a_custom_operation_is_opaque_and_computes():
    @cr.operation(lambda ct: ct)
    def twice(x):
        return np.multiply(x, 2.0)

    def function(x):
        return [twice(x * 3.0) + 1.0]

    got, opaque = values(traced(function, [np.ones(3)]), [np.ones(3)])
    np.testing.assert_array_equal(got[0], [7.0] * 3)
    assert opaque == ("twice",)


def test_half_precision_is_opaque():
    x = np.array([1.0, 2.0], np.float16)
    got, opaque = values(program_of(RECORDS["exp"], [x], ()), [x])
    np.testing.assert_array_equal(got[0], np.exp(x))
    assert opaque == ("exp",)


def test_several_outputs_of_an_opaque_operation():
    x = np.arange(6.0).astype(np.float16).reshape(2, 3)
    got, opaque = values(program_of(RECORDS["unstack"], [x], (0,)), [x])
    np.testing.assert_array_equal(got, x)
    assert opaque == ("unstack",)


def test_a_watched_input_is_looked_at_where_loops_read_it():
    rng = np.random.default_rng(0)
    x, w, y = rng.normal(size=(4, 3)), rng.normal(size=(3, 3)), rng.integers(0, 3, 4)

    def function(x, w, y):
        z = RECORDS["softmax"].call(x, 1)
        return [RECORDS["surprisal"].call(x, y, "none"), RECORDS["matmul"].call(z, w)]

    program = traced(function, [x, w, y])._replace(watched=(0, 1))
    lowered = lower(program)
    assert lowered.watched == (1,)  # a product reads memory, so nobody looks at w on the way
    looks = [e for e in reach(lowered.outputs) if e.op == "watched"]
    assert [e.arguments[0].attribute for e in looks] == [0]
    for g, w_ in zip(evaluate(lowered.outputs, [x, w, y]), values(program, [x, w, y])[0], strict=True):
        np.testing.assert_array_equal(g, w_)
    assert lower(program._replace(targets=(0, None))).watched == (0, 1)
    assert lower(program, watch=False).watched == (0, 1)
