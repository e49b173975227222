"""Geometry: laws that every layered drawing keeps, on random graphs."""

import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.draw import graph_of
from chainrule.draw.layout import MARGIN, arrange
from chainrule.draw.order import layers, make_levels, order
from chainrule.errors import ArgumentError
from tests.draw import engines

EPSILON = 1e-6  # points


@st.composite
def graphs(draw):
    """Sizes and arrows from earlier to later boxes, under a random renumbering."""
    count = draw(st.integers(1, 14))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] != pair[1])
    names = draw(st.permutations(range(count)))
    arrows = [(names[min(pair)], names[max(pair)]) for pair in draw(st.lists(pairs, max_size=30))]
    sizes = draw(st.lists(st.tuples(st.floats(10, 200), st.floats(10, 80)), min_size=count, max_size=count))
    return sizes, arrows


def rectangles(sizes, layout):
    return [
        (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        for (width, height), (x, y) in zip(sizes, layout.centres, strict=True)
    ]


@given(graphs())
def test_arrows_go_down_the_layers_and_none_is_higher_than_it_must(graph):
    sizes, arrows = graph
    layer = layers(len(sizes), arrows)
    assert all(layer[tail] < layer[head] for tail, head in arrows)
    for box, own in enumerate(layer):
        heads = [layer[head] for tail, head in arrows if tail == box]
        assert own == min(heads, default=max(layer) + 1) - 1


@given(graphs())
@settings(deadline=None)
def test_boxes_do_not_overlap_and_stay_on_the_page(graph):
    sizes, arrows = graph
    layout = arrange(sizes, arrows)
    boxes = rectangles(sizes, layout)
    for place, (left, top, right, bottom) in enumerate(boxes):
        assert left >= MARGIN - EPSILON
        assert top >= MARGIN - EPSILON
        assert right <= layout.width - MARGIN + EPSILON
        assert bottom <= layout.height - MARGIN + EPSILON
        for other in boxes[:place]:
            apart = (left - other[2], other[0] - right, top - other[3], other[1] - bottom)
            assert max(apart) > 5


@given(graphs())
@settings(deadline=None)
def test_every_arrow_joins_its_boxes_downwards_through_free_space(graph):
    sizes, arrows = graph
    layout = arrange(sizes, arrows)
    boxes = rectangles(sizes, layout)
    assert len(layout.routes) == len(arrows)
    for (tail, head), route in zip(arrows, layout.routes, strict=True):
        assert route[0] == pytest.approx((layout.centres[tail][0], boxes[tail][3]))
        assert route[-1][1] == pytest.approx(boxes[head][1])
        assert boxes[head][0] < route[-1][0] < boxes[head][2]
        assert all(y0 < y1 for (_, y0), (_, y1) in pairwise(route))
        for (x0, y0), (x1, y1) in pairwise(route):  # an S-curve stays in the rectangle between its ends
            for left, top, right, bottom in boxes:
                beside = max(x0, x1) <= left + EPSILON or min(x0, x1) >= right - EPSILON
                assert beside or y1 <= top + EPSILON or y0 >= bottom - EPSILON


@given(graphs())
@settings(deadline=None)
def test_each_layer_holds_each_of_its_boxes_once(graph):
    sizes, arrows = graph
    levels = make_levels(len(sizes), arrows)
    order(levels)
    assert sorted(box for row in levels.rows for box in row) == list(range(len(levels.layer)))
    assert all(levels.layer[box] == index for index, row in enumerate(levels.rows) for box in row)


def test_the_same_graph_gives_the_same_drawing():
    graph = graph_of(engines.residual_block()[0])
    sizes = [(60.0, 30.0)] * len(graph.boxes)
    assert arrange(sizes, graph.arrows) == arrange(sizes, graph.arrows)


def test_a_result_stands_in_the_middle_of_its_operands():
    layout = arrange([(40, 20), (80, 20), (40, 20)], [(0, 2), (1, 2)])
    assert layout.centres[2][0] == pytest.approx((layout.centres[0][0] + layout.centres[1][0]) / 2)


def test_a_plain_chain_is_a_straight_line():
    layout = arrange([(40, 20)] * 60, list(pairwise(range(60))))
    assert {x for x, _ in layout.centres} == {30.0}


def test_a_long_arrow_is_straight_between_its_ends():
    arrows = [*pairwise(range(12)), (0, 11)]
    [*_, route] = arrange([(40, 20)] * 12, arrows).routes
    inner = [x for x, _ in route[1:-1]]
    assert len(inner) == 20
    assert max(inner) - min(inner) < EPSILON


def crossings(count, arrows):
    """Counted from the definition: pairs of links between the same two layers whose ends are in opposite orders."""
    levels = make_levels(count, arrows)
    order(levels)
    place = {box: position for row in levels.rows for position, box in enumerate(row)}
    links = [(levels.layer[a], place[a], place[b]) for a in place for b in levels.below[a]]
    return sum(
        one[0] == other[0] and (one[1] - other[1]) * (one[2] - other[2]) < 0 for one, other in combinations(links, 2)
    )


def test_crossings_that_can_be_avoided_are():
    size = 6
    cells = [(row, column) for row in range(size) for column in range(size)]
    arrows = [(r * size + c, (r + 1) * size + c) for r, c in cells if r + 1 < size]
    arrows += [(r * size + c, r * size + c + 1) for r, c in cells if c + 1 < size]
    random.Random(1).shuffle(arrows)  # a grid can be drawn without any; in the order in which it is met it has many
    assert crossings(size * size, arrows) == 0


def test_a_perceptron_has_few_crossings():
    graph = graph_of(engines.multilayer([4, 4, 1], [0.1, 0.2]))
    assert crossings(len(graph.boxes), graph.arrows) <= 25  # 47 in the order in which they are met


def test_long_arrows_are_straight_beside_boxes_that_wander():
    graph = graph_of(engines.residual_block()[0])
    routes = arrange([(60.0 + 7 * (i % 5), 30.0) for i in range(len(graph.boxes))], graph.arrows).routes
    long = [route for route in routes if len(route) > 10]
    assert len(long) >= 3
    for route in long:
        inner = [x for x, _ in route[1:-1]]
        assert max(inner) - min(inner) < EPSILON


def test_a_cycle_is_refused_and_nothing_is_a_drawing():
    with pytest.raises(ArgumentError, match="the arrows form a cycle"):
        arrange([(40, 20)] * 3, [(0, 1), (1, 2), (2, 1)])
    with pytest.raises(ArgumentError, match="cycle"):
        layers(1, [(0, 0)])
    assert arrange([], []).centres == ()
