"""A graph that simplifies gives what the plain one gives, bit for bit, on numbers that are easy to get wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.compiler.expressions import Graph, evaluate, reach
from chainrule.compiler.lowering.peephole import Simplifying, scalar_of

SHAPE = (2, 3)
ODD = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, float("inf"), float("-inf"), float("nan"), 1e-310, 1e300, -7.25]
UNARY = ["negative", "absolute", "sqrt", "exp", "floor"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
COMPARE = ["less", "equal", "greater_equal", "not_equal"]
LOGIC = ["and", "or", "xor"]

steps = st.lists(
    st.tuples(
        st.sampled_from([*UNARY, *BINARY, *COMPARE, *LOGIC, "not", "select", "literal", "cast", "flip", "turn", "slice", "repeat", "join", "margin", "flat"]),
        st.integers(0, 30), st.integers(0, 30), st.integers(0, len(ODD) - 1),
    ),
    min_size=1, max_size=14,
)  # fmt: skip


def built(graph, program):
    """The expressions of a random program: numbers pick operands among what there is; floats and truths apart."""
    floats = [graph.input(0, SHAPE, np.float64), graph.input(1, SHAPE, np.float64)]
    truths = [graph.literal(True, np.bool_, SHAPE), graph.input(2, SHAPE, np.bool_)]
    for op, i, j, k in program:
        x, y, p, q = floats[i % len(floats)], floats[j % len(floats)], truths[i % len(truths)], truths[j % len(truths)]
        if op in UNARY:
            floats.append(graph.apply(op, x))
        elif op in BINARY:
            floats.append(graph.apply(op, x, y))
        elif op in COMPARE:
            truths.append(graph.apply(op, x, y))
        elif op in LOGIC:
            truths.append(graph.apply(op, p, q))
        elif op == "not":
            truths.append(graph.apply("not", p))
        elif op == "select":
            floats.append(graph.apply("select", q, x, y))
        elif op == "literal":
            floats.append(graph.literal(ODD[k], np.float64, SHAPE))
        elif op == "cast":
            floats.append(graph.cast(graph.cast(p, np.float32), np.float64))
            truths.append(graph.cast(x, np.bool_))
        else:
            floats.append(moved(graph, op, x, y, k))
    return [floats[-1], truths[-1], floats[len(floats) // 2]]


def moved(graph, op, x, y, k):
    if op == "flip":
        return graph.slice(x, (1, 0), SHAPE, (-1, 1))
    if op == "turn":
        return graph.permute(graph.permute(graph.reshape(x, (3, 2)), (1, 0)), (0, 1))
    if op == "slice":
        return graph.broadcast(graph.slice(x, (0, k % 3), (2, 1), (1, 1)), SHAPE)
    if op == "repeat":
        return graph.broadcast(graph.slice(x, (1, 2), (1, 1), (1, 1)), SHAPE)
    if op == "join":
        joined = graph.concat([x, y], k % 2)
        joined = graph.apply("multiply", joined, graph.literal(3.0, np.float64, joined.shape))
        start = [0, 0]
        start[k % 2] = k % (SHAPE[k % 2] + 1)
        return graph.slice(joined, start, SHAPE, (1, 1))
    if op == "margin":
        wide = graph.pad(x, [(1, 0), (0, 2)], ODD[k])
        return graph.slice(wide, (k % 2, k % 3), SHAPE, (1, 1))
    return graph.reshape(graph.reshape(x, (6,)), SHAPE)


@settings(max_examples=300, deadline=None)
@given(steps, st.lists(st.sampled_from(ODD), min_size=12, max_size=12), st.lists(st.booleans(), min_size=6, max_size=6))
def test_simplified_is_the_same_to_the_bit(program, numbers, bits):
    inputs = [np.reshape(numbers[:6], SHAPE), np.reshape(numbers[6:], SHAPE), np.reshape(bits, SHAPE)]
    want = evaluate(built(Graph(), program), inputs)
    got = evaluate(built(Simplifying(), program), inputs)
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        np.testing.assert_array_equal(g, w)
        number = ~np.isnan(w) if w.dtype.kind == "f" else np.zeros(w.shape, bool)
        np.testing.assert_array_equal(np.signbit(g[number]), np.signbit(w[number]))


def counted(out):
    return [e.op for e in reach([out])]


def test_what_changes_nothing_leaves_no_operation():
    g = Simplifying()
    x = g.input(0, (4,), np.float64)
    one, zero, eight = (g.literal(n, np.float64, (4,)) for n in (1.0, 0.0, 8.0))
    for same in (
        g.apply("multiply", one, x), g.apply("subtract", x, zero), g.apply("negative", g.apply("negative", x)),
        g.apply("divide", x, one), g.cast(g.cast(g.cast(x, np.float64), np.float64), np.float64), g.apply("select", g.literal(False, np.bool_, (4,)), one, x),
        g.view(g.pad(x, [(2, 2)]), (4,), [(2, ((0, 1),))]), g.view(g.concat([x, one], 0), (4,), [(0, ((0, 1),))]),
    ):  # fmt: skip
        assert same is x
    assert g.apply("add", x, zero) is not x  # -0.0 + 0.0 is 0.0
    assert g.apply("subtract", zero, x).op == "subtract"  # and 0.0 - 0.0 too
    assert counted(g.apply("divide", x, eight)) == ["input", "literal", "view", "multiply"]
    assert "divide" in counted(g.apply("divide", x, g.literal(3.0, np.float64, (4,))))
    assert g.apply("add", x, eight) is g.apply("add", eight, x)


def test_sums_of_what_is_repeated_are_products():
    g = Simplifying()
    x = g.input(0, (3,), np.float64)
    total = g.reduce("sum", g.broadcast(x, (5, 4, 3)), (0, 2))
    assert total.shape == (4,)
    np.testing.assert_allclose(evaluate([total], [np.array([1.0, 2.0, 4.0])])[0], [35.0] * 4)
    assert scalar_of(g.reduce("sum", g.literal(0.5, np.float64, (6, 2)), (0, 1))) == 6.0


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
def test_short_rows_are_folded_across(op):
    rows = np.random.default_rng(0).normal(size=(40, 3))
    rows[1, 1] = np.nan
    for graph in (Graph(), Simplifying()):
        out = graph.reduce(op, graph.input(0, rows.shape, rows.dtype), (1,))
        np.testing.assert_allclose(evaluate([out], [rows])[0], getattr(np, op)(rows, axis=1), rtol=1e-15)
    assert op not in counted(out)


def test_a_part_of_joined_gradients_is_worked_out_alone():
    g = Simplifying()
    a, b = g.input(0, (3,), np.float32), g.input(1, (5,), np.float32)
    rate = g.broadcast(g.input(2, (), np.float32), (8,))
    whole = g.apply("multiply", g.concat([a, b], 0), rate)
    part = g.slice(whole, (3,), (5,), (1,))
    assert "concat" not in counted(part)
    assert "concat" in counted(g.slice(whole, (2,), (5,), (1,)))  # it meets both


@pytest.mark.parametrize("source", ["int8", "uint8", "int32", "int64", "float32", "bool"])
@pytest.mark.parametrize("between", ["int16", "int64", "float32", "float64"])
def test_a_cast_of_a_cast_goes_only_where_nothing_is_lost(source, between):
    values = np.array([0, 1, 100, 16_777_217, 9_007_199_254_740_993])[: 3 if source == "float32" else 5].astype(source)
    g = Simplifying()
    x = g.input(0, values.shape, values.dtype)
    for target in ("float64", "int64", source):
        out = g.cast(g.cast(x, between), target)
        np.testing.assert_array_equal(evaluate([out], [values])[0], values.astype(between).astype(target))
