"""What kernels must do beyond giving the right numbers: one pass where one is enough, nothing written too early, no trap."""

import math

import numpy as np
import pytest
from scipy import special

from chainrule.compiler.expressions import Graph, evaluate
from chainrule.compiler.native.executable import OutOfRange
from tests.compiler.native_harness import HOST, MACHINES, compiled, labels

RNG = np.random.default_rng(3)
ROWS = [(1, 1), (7, 5), (64, 10), (33, 16), (9, 65), (5, 128), (3, 1000), (2, 5000)]


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def along(graph, e, shape):
    """A number for each row, repeated along the row."""
    return graph.view(e, shape, [(0, ((k, 1),)) for k in range(e.ndim)])


def softmax(graph, x):
    last = [x.ndim - 1]
    e = graph.apply("exp", graph.apply("subtract", x, along(graph, graph.reduce("max", x, last), x.shape)))
    return graph.apply("divide", e, along(graph, graph.reduce("sum", e, last), x.shape))


def scaled(graph, x, factor):
    return graph.apply("multiply", x, graph.literal(factor, x.dtype, x.shape))


# ---------------------------------------------------------------- rows
@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{8 * m.vector_bytes} bits")
def test_softmax_is_one_kernel(shape, machine):
    graph = Graph()
    x = graph.input(0, shape, np.float32)
    program = compiled([softmax(graph, x)], [None], [x], machine)
    array = normal(*shape) * 5
    (got,) = program([array])
    np.testing.assert_allclose(got, special.softmax(array.astype(np.float64), -1), rtol=1e-5)
    assert program.kernels == 1


def test_minus_infinity_in_a_softmax_is_no_reason_to_be_careful():
    graph = Graph()
    x = graph.input(0, (6, 37), np.float32)
    out = softmax(graph, x)
    array = normal(6, 37)
    array[:, 20:] = -np.inf
    got = compiled([out], [None], [x], flagged=[out])([array])
    np.testing.assert_allclose(got[0], special.softmax(array.astype(np.float64), -1), rtol=1e-5)


@pytest.mark.parametrize("n", [10, 65, 512, 3000])
def test_cross_entropy_and_its_gradient(n):
    graph, rows = Graph(), 40
    x, classes = graph.input(0, (rows, n), np.float32), graph.input(1, (rows,), np.int64)
    shifted = graph.apply("subtract", x, along(graph, graph.reduce("max", x, [1]), x.shape))
    e = graph.apply("exp", shifted)
    total = graph.reduce("sum", e, [1])
    here = graph.apply("equal", graph.iota(x.shape, 1, np.int32), along(graph, graph.cast(graph.bounded(classes, n), np.int32), x.shape))  # fmt: skip
    picked = graph.reduce("sum", graph.apply("select", here, shifted, graph.literal(0, np.float32, x.shape)), [1])
    loss = scaled(graph, graph.reduce("sum", graph.apply("subtract", graph.apply("log", total), picked), [0]), 1 / rows)
    hot = graph.cast(here, np.float32)
    slope = scaled(
        graph, graph.apply("subtract", graph.apply("divide", e, along(graph, total, x.shape)), hot), 1 / rows
    )
    program = compiled([loss, slope], [None, None], [x, classes])
    array, labelled = normal(rows, n), RNG.integers(0, n, rows)
    got = program([array, labelled])
    probabilities = special.softmax(array.astype(np.float64), -1)
    np.testing.assert_allclose(got[0], -np.log(probabilities[np.arange(rows), labelled]).mean(), rtol=1e-6)
    np.testing.assert_allclose(got[1], (probabilities - np.eye(n)[labelled]) / rows, rtol=1e-5, atol=1e-8)
    assert program.kernels <= 2  # rows, and the mean of what they gave
    with pytest.raises(OutOfRange):
        program([array, np.full(rows, n)])
    with pytest.raises(OutOfRange):
        program([array, np.full(rows, -1)])


def test_siblings_share_a_loop():
    graph = Graph()
    x = graph.input(0, (50, 40), np.float32)
    doubled, square = scaled(graph, x, 2), graph.apply("multiply", x, x)
    sums = [graph.reduce("sum", square, [1]), graph.reduce("max", x, [1])]
    program = compiled([doubled, square, *sums], [None] * 4, [x])
    array = normal(50, 40)
    got = program([array])
    for g, w in zip(got, [2 * array, array**2, (array**2).sum(1), array.max(1)], strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)
    assert program.kernels == 1


# ---------------------------------------------------------------- results in place
def adam(graph, p, m, v, slope, rate):
    m2 = graph.apply("add", scaled(graph, m, 0.9), scaled(graph, slope, 0.1))
    v2 = graph.apply("add", scaled(graph, v, 0.99), scaled(graph, graph.apply("multiply", slope, slope), 0.01))
    step = graph.apply("divide", m2, graph.apply("add", graph.apply("sqrt", v2), graph.literal(1e-8, p.dtype, p.shape)))
    return graph.apply("subtract", p, graph.apply("multiply", step, graph.broadcast(rate, p.shape))), m2, v2


def test_adam_is_one_loop_in_place():
    graph, shape = Graph(), (37, 53)
    p, m, v, slope = (graph.input(k, shape, np.float64) for k in range(4))
    rate = graph.input(4, (), np.float64)
    program = compiled(adam(graph, p, m, v, slope, rate), [0, 1, 2], [p, m, v, slope, rate])
    arrays = [*(abs(normal(*shape, dtype=np.float64)) for _ in range(4)), np.array(0.1)]
    old = [a.copy() for a in arrays]
    assert program(arrays) == []
    m2, v2 = 0.9 * old[1] + 0.1 * old[3], 0.99 * old[2] + 0.01 * old[3] ** 2
    for got, want in zip(arrays, [old[0] - 0.1 * m2 / (np.sqrt(v2) + 1e-8), m2, v2, *old[3:]], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    assert (program.kernels, program.schedule.commit, program.schedule.arena) == (1, 0, 0)


def test_inputs_change_places():
    graph = Graph()
    x, y, z = (graph.input(k, (45,), np.float32) for k in range(3))
    program = compiled([y, z, x], [0, 1, 2], [x, y, z])
    arrays = [normal(45) for _ in range(3)]
    old = [a.copy() for a in arrays]
    program(arrays)
    np.testing.assert_array_equal(arrays, [old[1], old[2], old[0]])


def test_who_reads_the_old_value_reads_it_before_it_is_gone():
    graph = Graph()
    x, y = graph.input(0, (30, 30), np.float32), graph.input(1, (30, 30), np.float32)
    turned = graph.apply("add", graph.permute(x, (1, 0)), y)  # reads x elsewhere than where it writes
    mixed = graph.apply("multiply", graph.permute(y, (1, 0)), x)
    program = compiled([turned, mixed, x], [0, 1, None], [x, y])
    arrays = [normal(30, 30), normal(30, 30)]
    a, b = (v.copy() for v in arrays)
    (kept,) = program(arrays)
    np.testing.assert_array_equal(arrays, [a.T + b, b.T * a])
    np.testing.assert_array_equal(kept, a)
    assert not np.shares_memory(kept, arrays[0])


def test_nothing_is_written_where_an_index_is_out_of_range():
    graph = Graph()
    x, indices = graph.input(0, (20, 8), np.float32), graph.input(1, (5,), np.int64)
    rows = graph.reduce("sum", graph.gather(x, indices, 0), [0])
    program = compiled([graph.apply("add", x, graph.broadcast(rows, x.shape)), rows], [0, None], [x, indices])
    array = normal(20, 8)
    before = array.copy()
    for bad in (20, -1, 2**40):
        with pytest.raises(OutOfRange):
            program([array, np.array([0, 1, 2, 3, bad])])
        np.testing.assert_array_equal(array, before)
    (got,) = program([array, np.array([0, 1, 2, 3, 19])])
    np.testing.assert_allclose(array, before + got, rtol=1e-6)


def test_nothing_is_written_after_an_invalid_operation():
    graph = Graph()
    x = graph.input(0, (50,), np.float32)
    slope = graph.apply("sqrt", x)
    program = compiled([graph.apply("subtract", x, slope)], [0], [x], flagged=[slope])
    array = np.ones(50, np.float32)
    array[49] = -1.0
    assert program([array]) is None
    assert array[0] == 1.0
    array[49] = 4.0
    assert program([array]) == []
    np.testing.assert_array_equal(array, [0.0] * 49 + [2.0])


@pytest.mark.parametrize("n", [1, 7, 31, 33, 47, 100])
def test_lanes_that_do_not_count_compute_nothing_invalid(n):
    """Were they zeros, they would divide zero by zero."""
    graph = Graph()
    x, y = graph.input(0, (n,), np.float32), graph.input(1, (n,), np.float32)
    out = graph.apply("divide", graph.apply("log", x), graph.apply("subtract", x, y))
    assert compiled([out], [None], [x, y], flagged=[out])([np.full(n, 2.0, "f"), np.full(n, 3.0, "f")]) is not None


def test_watched_inputs():
    graph = Graph()
    x = graph.input(0, (100,), np.float64)
    program = compiled([scaled(graph, graph.watched(x), 2)], [None], [x])
    array = np.full(100, np.inf)
    assert program([array]) is not None
    array[70] = np.nan
    assert program([array]) is None


# ---------------------------------------------------------------- numbers
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{8 * m.vector_bytes} bits")
def test_integers_are_numpys(dtype, machine):
    limits = np.iinfo(dtype)
    some = np.array([0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min + 1, 5], dtype)
    some = np.concatenate([some, -some]) if limits.min else some
    a, b = (np.ascontiguousarray(v) for v in np.meshgrid(some, some))
    graph = Graph()
    x, y = graph.input(0, a.shape, dtype), graph.input(1, a.shape, dtype)
    binary = [
        "add",
        "subtract",
        "multiply",
        "floor_divide",
        "remainder",
        "maximum",
        "minimum",
        "and",
        "or",
        "xor",
        "less",
    ]
    outputs = [graph.apply(op, x, y) for op in binary]
    outputs += [graph.apply(op, x, graph.apply("and", y, graph.literal(31, dtype, a.shape))) for op in ("shift_left", "shift_right", "power")]  # fmt: skip
    outputs += [graph.apply(op, x) for op in ("negative", "absolute", "sign", "not", "isfinite", "signbit") if op != "signbit"]  # fmt: skip
    outputs += [graph.cast(x, other) for other in (np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_)]
    outputs += [graph.reduce(op, x, [0]) for op in ("sum", "prod", "max", "min")]
    got = compiled(outputs, [None] * len(outputs), [x, y], machine)([a, b])
    for e, g, w in zip(outputs, got, evaluate(outputs, [a, b]), strict=True):
        np.testing.assert_array_equal(g, w, err_msg=repr(e))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{8 * m.vector_bytes} bits")
def test_special_values_are_numpys(dtype, machine):
    some = np.array([0.0, -0.0, 1.5, -2.5, 3.0, np.inf, -np.inf, np.nan, np.finfo(dtype).tiny, -7.5], dtype)
    a, b = (np.ascontiguousarray(v) for v in np.meshgrid(some, some))
    graph = Graph()
    x, y = graph.input(0, a.shape, dtype), graph.input(1, a.shape, dtype)
    binary = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "copysign", "less", "less_equal", "greater",
              "greater_equal", "equal", "not_equal", "floor_divide", "remainder"]  # fmt: skip
    unary = [
        "negative",
        "absolute",
        "sign",
        "sqrt",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
    ]
    outputs = [graph.apply(op, x, y) for op in binary] + [graph.apply(op, x) for op in unary]
    outputs += [graph.reduce(op, x, [axis]) for op in ("max", "min", "sum") for axis in (0, 1)]
    outputs += [graph.position(op, x, axis) for op in ("argmax", "argmin") for axis in (0, 1)]
    outputs += [graph.cast(x, np.bool_), graph.cast(x, np.float16)]
    got = compiled(outputs, [None] * len(outputs), [x, y], machine)([a, b])
    for e, g, w in zip(outputs, got, evaluate(outputs, [a, b]), strict=True):
        np.testing.assert_array_equal(g, w, err_msg=repr(e))


def test_casts_of_what_no_integer_holds_do_not_trap():
    graph = Graph()
    x = graph.input(0, (6,), np.float64)
    outputs = [graph.cast(x, dtype) for dtype in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64)]
    array = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 3.9])
    assert [int(g[5]) for g in compiled(outputs, [None] * 6, [x])([array])] == [3] * 6


@pytest.mark.parametrize(("shape", "axis"), [((3_000_000,), 0), ((300_000, 3), 0), ((3, 300_000), 1)])
def test_long_sums_lose_little(shape, axis):
    graph = Graph()
    x = graph.input(0, shape, np.float32)
    array = (RNG.random(shape) + 0.5).astype(np.float32)
    (got,) = compiled([graph.reduce("sum", x, [axis])], [None], [x])([array])
    for column, sum_ in zip(np.moveaxis(array, axis, 0).reshape(shape[axis], -1).T, got.reshape(-1), strict=True):
        assert abs(float(sum_) / math.fsum(column) - 1) < 5e-6


# ---------------------------------------------------------------- size
def test_long_chains():
    graph = Graph()
    x = e = graph.input(0, (100,), np.float64)
    for _ in range(5000):
        e = graph.apply("add", e, graph.literal(1, e.dtype, e.shape))
    program = compiled([e], [None], [x])
    np.testing.assert_array_equal(program([np.zeros(100)])[0], np.full(100, 5000.0))


def test_squares_of_squares():
    graph = Graph()
    x = e = graph.input(0, (70,), np.float64)
    rows = graph.input(1, (70, 9), np.float64)
    for _ in range(50):
        e = graph.apply("multiply", e, e)
    folded = graph.reduce("max", rows, [1])
    for _ in range(50):
        folded = graph.apply("multiply", folded, folded)
    arrays = [np.ones(70), np.ones((70, 9))]
    (got,) = compiled([e, folded], [0, None], [x, rows])(arrays)
    np.testing.assert_array_equal([got, arrays[0]], np.ones((2, 70)))


def test_equal_layers_share_their_kernels():
    graph = Graph()
    x = e = graph.input(0, (64, 64), np.float32)
    weights = [graph.input(k, (64, 64), np.float32) for k in range(1, 7)]
    for weight in weights:
        e = softmax(graph, graph.dot(e, weight))
    program = compiled([e], [None], [x, *weights])
    assert (len(labels(program)), len({step.kernel.body for step in program.schedule.steps})) == (12, 2)


def test_memory_is_used_again():
    graph = Graph()
    x = e = graph.input(0, (64, 64), np.float32)
    for _ in range(20):
        e = graph.dot(e, x)
    assert compiled([e], [None], [x]).schedule.arena == 2 * 64 * 64 * 4


def test_parts_of_a_concatenation_are_computed_in_their_place():
    graph = Graph()
    x, y = graph.input(0, (6, 7), np.float32), graph.input(1, (5, 7), np.float32)
    product = graph.dot(y, graph.permute(x, (1, 0)))
    sums = graph.reduce("sum", x, [1])
    flat = graph.concat([graph.reshape(product, (30,)), sums, sums, graph.reshape(y, (35,))], 0)
    outer = graph.concat([flat, graph.reshape(graph.dot(x, graph.permute(x, (1, 0))), (36,))], 0)
    outputs = [scaled(graph, outer, 2), scaled(graph, graph.apply("exp", product), 3)]
    program = compiled(outputs, [None, None], [x, y])
    a, b = normal(6, 7), normal(5, 7)
    got = program([a, b])
    parts = [b @ a.T, a.sum(1), a.sum(1), b, a @ a.T]
    np.testing.assert_allclose(got[0], 2 * np.concatenate([p.reshape(-1) for p in parts]), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[1], 3 * np.exp(parts[0]), rtol=1e-5)
    assert (
        sum(label.startswith("concat") for label in labels(program)) == 2
    )  # the second copy of the sums, and the input


def test_work_is_counted():
    graph = Graph()
    x, y = graph.input(0, (1000, 100), np.float32), graph.input(1, (1000, 100), np.float32)
    (step,) = compiled([graph.apply("add", x, y)], [None], [x, y]).schedule.steps
    assert (step.kernel.moved, step.kernel.flop) == (12e5, 1e5)
    assert step.kernel.extent >= 1e5 / (2 * HOST.vector_bytes)
