"""Graphs, DOT source, and the two adapters."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule as cr
from chainrule import scalar
from chainrule.draw import Box, Graph, graph_of, to_dot
from chainrule.draw.adapters import short
from chainrule.draw.graph import printable
from chainrule.errors import ArgumentError, FreedGraphError
from tests.draw import engines

QUOTED = re.compile(r'label="((?:[^"\\]|\\.)*)"', re.DOTALL)


def read_label(text):
    """What Graphviz shows for a quoted label, by its documentation: escapes first, then HTML entities."""
    text = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text, flags=re.DOTALL)
    return text.replace("&amp;", "&")


def lines_of(graph, kind):
    return [box.lines for box in graph.boxes if box.kind == kind]


# ---------------------------------------------------------------- DOT


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_every_text_survives_dot(lines):
    source = to_dot(Graph((Box(tuple(lines)),)))
    [label] = QUOTED.findall(source)
    assert read_label(label) == printable("\n".join(lines))
    source.encode()


HARD = [
    '"',
    "\\",
    "\\n",
    "\\N",
    "ends in \\",
    "&lt;",
    "&",
    "<b>",
    "α → β",
    "日本",
    "{a|b}",
    "a\nb",
    "];b9 ->",
    "#",
    "//",
]


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's dot is not installed: read_label stands in for it")
@pytest.mark.parametrize("text", HARD)
def test_graphviz_itself_shows_what_was_meant(text):
    source = to_dot(Graph((Box((text,)),)))
    read = subprocess.run(["dot", "-Tsvg"], input=source.encode(), capture_output=True, check=True).stdout.decode()
    shown = re.findall(r"<text [^>]*>(.*?)</text>", read)
    plain = [re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), line) for line in shown]
    for name, character in (("lt", "<"), ("gt", ">"), ("quot", '"'), ("amp", "&")):
        plain = [line.replace(f"&{name};", character) for line in plain]
    assert [line.replace("\xa0", " ") for line in plain] == text.split("\n")


def test_dot_is_the_same_each_time_and_has_every_box_and_arrow():
    first, second = (to_dot(graph_of(engines.squared_loss()[0])) for _ in range(2))
    assert first == second
    graph = graph_of(engines.squared_loss()[0])
    assert len(QUOTED.findall(first)) == len(graph.boxes)
    assert re.findall(r"b(\d+) -> b(\d+)", first) == [(str(tail), str(head)) for tail, head in graph.arrows]


def test_kinds_differ_in_outline_as_well_as_in_colour():
    kinds = ("leaf", "operation", "value", "output", "rest")
    source = to_dot(Graph(tuple(Box(("x",), kind) for kind in kinds)))
    assert len(set(re.findall(r'style="[^"]*"|penwidth=[\d.]*', source))) == 3 + 4
    outlines = re.findall(r'(style="[^"]*").*(penwidth=[\d.]*)', source)
    assert len(set(outlines)) == len(kinds)


def test_characters_that_no_font_shows_are_replaced():
    assert printable("a\x00b\ud800c\td\r\ne") == "a\ufffdb\ufffdc d\ne"


def test_a_graph_refuses_what_cannot_be_drawn():
    with pytest.raises(ArgumentError, match=r"arrow \(0, 1\) leads to no box"):
        Graph((Box(("x",)),), ((0, 1),))
    with pytest.raises(ArgumentError, match="unknown kind 'tree'"):
        Graph((Box(("x",), "tree"),))


# ---------------------------------------------------------------- scalar values


def test_a_value_becomes_an_operation_and_a_value():
    loss, names = engines.squared_loss()
    graph = graph_of(loss, names=names)
    assert lines_of(graph, "leaf")[:2] == [("w", "data 2", "grad -6"), ("x", "data -1.5", "grad 0")]
    assert [lines[0] for lines in lines_of(graph, "operation")] == ["*", "+", "*", "+", "** 2"]
    assert lines_of(graph, "output") == [("data 14.06", "grad 1")]
    assert len(graph.arrows) == 2 * 4 + 1 + 5  # operands, and each operation's own result
    assert all(tail < head for tail, head in graph.arrows)


def test_a_value_used_twice_is_one_box_with_two_arrows():
    x = engines.Value(3.0, name="x")
    graph = graph_of(x * x)
    assert lines_of(graph, "leaf") == [("x", "data 3", "grad 0")]
    assert graph.arrows == ((0, 1), (0, 1), (1, 2))


def test_a_single_value_is_a_single_box():
    assert graph_of(engines.Value(1.0)) == Graph((Box(("data 1", "grad 0"), "leaf"),))


# ---------------------------------------------------------------- tensors


def test_a_tensor_shows_operation_shape_and_dtype():
    loss, names = engines.residual_block()
    graph = graph_of(loss, names=names)
    assert ("matmul with a constant", "f64[32, 8]") in lines_of(graph, "operation")
    assert ("w1", "f64[8, 8]", "|grad| 1") in lines_of(graph, "leaf")
    assert ("scale", "f64[1]", "data 0.5", "grad 0.125") in lines_of(graph, "leaf")
    [output] = lines_of(graph, "output")
    assert output[:2] == ("mean", "f64[]")
    assert output[2] == f"data {float(loss.data):.4g}"


def test_a_leaf_whose_tensor_is_gone_keeps_its_type():
    result = engines.Tensor([1.0, 2.0]).tanh()
    assert graph_of(result).boxes[0] == Box(("f64[2]",), "leaf")


def test_a_gradient_that_is_a_tensor_itself_is_read():
    x = engines.Tensor([3.0, 4.0])
    x.grad = engines.Tensor([3.0, 4.0])
    assert graph_of(x).boxes == (Box(("f64[2]", "|grad| 5"), "leaf"),)


def test_a_constant_tensor_is_a_single_box():
    constant = engines.Tensor(np.zeros((2, 3)), requires_grad=False)
    assert graph_of(constant, names={"c": constant}).boxes == (Box(("c", "f64[2, 3]"), "leaf", headed=True),)


def test_a_freed_graph_is_refused():
    result = engines.Tensor([1.0]).tanh()
    result.node[2:4] = None, None
    with pytest.raises(FreedGraphError, match=r"freed by an earlier backward · try draw before backward\(\)"):
        graph_of(result)


# ---------------------------------------------------------------- size


def test_the_rest_is_one_box_that_counts():
    graph = graph_of(engines.chain(10_000), max_nodes=100)
    assert lines_of(graph, "rest") == [("… 9,902 more",)]  # 10,002 values, 100 of them drawn
    assert len(graph.boxes) == 1 + 2 * 99 + 1  # an operation and a value each, one leaf
    assert lines_of(graph, "leaf") == [("data 1", "grad 0")]  # a leaf is drawn with the operation that uses it
    assert lines_of(graph, "output") == [("data 10000", "grad 0")]


@pytest.mark.parametrize("max_nodes", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("make", [lambda: engines.residual_block()[0], lambda: engines.multilayer([3, 2, 1], [1, 2])])
def test_any_cut_leaves_a_graph_without_cycles_and_counts_everything(make, max_nodes):
    from chainrule.draw.order import layers

    result = make()
    whole, part = graph_of(result), graph_of(result, max_nodes=max_nodes)
    layers(len(part.boxes), part.arrows)

    def values(graph):
        tensors = hasattr(result, "node")
        return sum(
            box.kind in ("leaf", "value", "output") or (tensors and box.kind == "operation") for box in graph.boxes
        )

    [[line]] = lines_of(part, "rest")
    assert values(part) == max_nodes
    assert int(line.split()[1]) == values(whole) - max_nodes


def test_too_many_values_are_an_error_if_asked():
    with pytest.raises(ArgumentError, match=r"has 10,002 values, more than max_nodes=500 · try a larger max_nodes"):
        graph_of(engines.chain(10_000), max_nodes=500, excess="error")
    assert graph_of(engines.chain(10), max_nodes=12, excess="error").boxes


def test_a_chain_longer_than_the_stack_is_walked():
    assert len(graph_of(engines.chain(50_000), max_nodes=10).boxes) == 20


def test_arguments_outside_their_range():
    with pytest.raises(ArgumentError, match="max_nodes=0"):
        graph_of(engines.Value(1.0), max_nodes=0)
    with pytest.raises(ArgumentError, match="excess='drop'"):
        graph_of(engines.Value(1.0), excess="drop")
    with pytest.raises(
        ArgumentError, match=r"result 1\.5, expected a scalar Value, a Tensor, a lowered program or a Graph"
    ):
        graph_of(1.5)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.123456, "0.1235"),
        (-6.0, "-6"),
        (123456.7, "1.235e+05"),
        (1e6, "1e+06"),
        (float("nan"), "nan"),
        (-float("inf"), "-inf"),
        (True, "True"),
        (np.float32(0.1), "0.1"),
        (1j, "0+1j"),
        (10**400, "10000000000…"),
    ],
)
def test_numbers_are_short(number, text):
    assert short(number) == text


# ---------------------------------------------------------------- the real engines


def test_the_scalar_engine_is_drawn():
    w, x, b, y = (scalar.Value(number, name) for number, name in ((0.5, "w"), (2.0, "x"), (1.0, "b"), (3.0, "y")))
    loss = ((w * x + b) - y) ** 2
    loss.backward()
    graph = graph_of(loss)
    assert ("w", "data 0.5", "grad -4") in lines_of(graph, "leaf")
    assert lines_of(graph, "operation")[-1] == ("** 2",)
    assert lines_of(graph, "output") == [("data 1", "grad 1")]


def test_the_tensor_engine_is_drawn():
    x = cr.tensor(np.ones((2, 3)), requires_grad=True)
    w = cr.tensor(np.ones((3, 4)), requires_grad=True)
    loss = cr.tanh(x @ w).sum()
    loss.backward(retain_graph=True)
    graph = graph_of(loss, names={"w": w})
    assert [line[:2] for line in lines_of(graph, "operation")] == [("matmul", "f64[2, 4]"), ("tanh", "f64[2, 4]")]
    assert lines_of(graph, "output")[0][:2] == ("sum", "f64[]")
    assert [line[0] for line in lines_of(graph, "leaf")] == ["f64[2, 3]", "w"]
    loss.backward()
    with pytest.raises(FreedGraphError):
        graph_of(loss)


def test_an_operation_with_several_outputs_has_a_box_for_itself_and_one_for_each():
    first, last = cr.unstack(cr.tensor([1.0, 2.0], requires_grad=True))
    graph = graph_of(first * last)
    assert lines_of(graph, "operation") == [("unstack",), ("pick", "f64[]"), ("pick", "f64[]")]
