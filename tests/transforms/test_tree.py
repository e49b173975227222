from collections import OrderedDict, namedtuple

import pytest

from chainrule import tree
from chainrule.errors import ArgumentError

Point = namedtuple("Point", "x y")  # noqa: PYI024 - the plain kind, which users have

TREES = [
    (1.0, [1.0]),
    ((), []),
    (None, []),
    ([1, (2, {"a": 3, "b": None}), []], [1, 2, 3]),
    (Point(1, [2, 3]), [1, 2, 3]),
    (OrderedDict(b=1, a=2), [1, 2]),
    ({"b": 1, "a": (2,)}, [1, 2]),
]


@pytest.mark.parametrize(("value", "leaves"), TREES)
def test_there_and_back(value, leaves):
    found, structure = tree.flatten(value)
    assert found == leaves
    again = tree.unflatten(structure, found)
    assert again == value
    assert type(again) is type(value)


def test_deep_trees_need_no_recursion():
    value = 0
    for _ in range(100_000):
        value = [value]
    leaves, structure = tree.flatten(value)
    again = tree.unflatten(structure, [1])
    assert leaves == [0]
    for _ in range(100_000):
        (again,) = again
    assert again == 1
    while isinstance(value, list):
        (value,) = value


def test_map_goes_by_the_first_tree():
    assert tree.map(lambda a, b: (a, b), {"p": 1, "q": [2]}, {"q": [None], "p": [5, 6]}) == {
        "p": (1, [5, 6]),
        "q": [(2, None)],
    }


@pytest.mark.parametrize(
    ("value", "other"),
    [([1, 2], (1, 2)), ([1, 2], [1]), ({"a": 1}, {"b": 1}), (None, 1), (Point(1, 2), (1, 2)), ([1], 1)],
)
def test_containers_that_differ(value, other):
    with pytest.raises(ArgumentError, match="tree"):
        tree.map(lambda a, b: a, value, other)


def test_wrong_number_of_leaves():
    with pytest.raises(ArgumentError, match="3 leaves do not fill a structure of 2"):
        tree.unflatten(tree.flatten([1, 2])[1], [1, 2, 3])


def test_registered_class_and_what_is_derived_from_it():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    class Twin(Pair):
        pass

    assert tree.flatten(Pair(1, 2))[0][0].a == 1  # a leaf before
    tree.register(Pair, lambda p: ((p.a, p.b), type(p)), lambda kind, children: kind(*children))
    doubled = tree.map(lambda v: 2 * v, [Twin(1, 2), Pair(3, 4)])
    assert [(type(p), p.a, p.b) for p in doubled] == [(Twin, 2, 4), (Pair, 6, 8)]


def test_derived_from_a_builtin_container_is_a_leaf():
    class Names(list):
        pass

    assert len(tree.flatten([Names([1, 2])])[0]) == 1
