"""What a compiled function cannot do is refused, with its line; and everything is as it was before."""

import gc
import random
import time
import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import BranchError, SideEffectError
from tests.compiler.jitted import executor, jit  # noqa: F401


def line(f, offset):
    return f"line {f.__code__.co_firstlineno + offset} of {f.__name__} in {__file__.rsplit('/', 1)[-1]}"


def test_a_branch_on_a_traced_value_names_its_line():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return y
        return -y

    with pytest.raises(BranchError) as found:
        jit(f)(np.ones(2))
    assert line(f, 2) in str(found.value)


def test_a_shape_that_depends_on_a_traced_value():
    def f(x, n):
        return cr.zeros(int(n.sum())) + x.sum()

    with pytest.raises(BranchError) as found:
        jit(f)(np.ones(2), np.array([2]))
    assert line(f, 1) in str(found.value)


def test_an_index_that_depends_on_a_traced_value():
    words = ["a", "b"]

    def f(x, i):
        return x * len(words[i])

    with pytest.raises(BranchError) as found:
        jit(f)(np.ones(2), np.array(1))
    assert line(f, 1) in str(found.value)


@pytest.mark.parametrize(
    ("f", "remedy"),
    [
        (lambda x: x.sum().item(), "its value asked for outside"),
        (lambda x: float(x.sum()), "its value asked for outside"),
        (lambda x: np.array([x, x]), "np.stack"),
        (lambda x: [1, 2][x], "np.take"),
        (lambda x: 1 if x.sum() > 0 else np.array([1]), "`where` instead of a branch"),
    ],
)
def test_a_value_that_is_asked_for_says_what_to_write(f, remedy):
    with pytest.raises(BranchError, match=remedy):
        jit(f)(np.array(1))


LOG = []


def appending(x):
    LOG.append(x * 2)
    return x


def adding(x):
    y = x + 1
    LOG[len(LOG) :] = [y]
    return y


def popping(x):
    while KEPT:
        KEPT.pop()
    return x


KEPT = [1]
NAMES = {"a"}


def naming(x):
    NAMES.add("b")
    return x


@pytest.mark.parametrize(("f", "offset"), [(appending, 1), (adding, 2), (popping, 2), (naming, 1)])
def test_a_container_that_changes_its_length(f, offset):
    before = list(LOG), list(KEPT), set(NAMES)
    with pytest.raises(SideEffectError) as found:
        jit(f)(np.ones(2))
    assert line(f, offset) in str(found.value)
    assert before == (LOG, KEPT, NAMES)


def test_an_object_that_keeps_a_traced_value():
    class Node:
        __slots__ = ("value",)

    holder = {"node": None}

    def f(x):
        node = Node()
        node.value = x * 2
        holder["node"] = node
        return x

    with pytest.raises(SideEffectError, match="keeps a traced value") as found:
        jit(f)(np.ones(2))
    assert line(f, 3) in str(found.value)
    assert holder == {"node": None}


def printing(x):
    print("hello")
    return x


def opening(x):
    with open(__file__) as file:  # noqa: PTH123
        return x * len(file.name)


def reading_a_clock(x):
    return x * time.perf_counter()


def drawing(x):
    return x * random.random()


def drawing_integers(x):
    return x * random.randint(1, 2)


def drawing_by_numpy(x):
    return x * np.random.normal()  # noqa: NPY002


def warning(x):
    warnings.warn("hello", stacklevel=1)
    return x


RNG = np.random.default_rng(0)


def drawing_by_a_generator(x):
    return x * RNG.normal()


@pytest.mark.parametrize(
    "f",
    [printing, opening, reading_a_clock, drawing, drawing_integers, drawing_by_numpy, drawing_by_a_generator, warning],
)
def test_effects_that_would_be_lost(f, capsys):
    states = RNG.bit_generator.state, random.getstate()
    with pytest.raises(SideEffectError) as found:
        jit(f)(np.ones(2))
    assert line(f, 1) in str(found.value)
    assert capsys.readouterr().out == ""
    assert (RNG.bit_generator.state, random.getstate()) == states
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert f(np.ones(1)).shape == (1,)  # eager it may


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (printing, "print"),
        (reading_a_clock, "time.perf_counter"),
        (drawing_integers, "random.randint"),
        (warning, "warnings.warn"),
    ],
)
def test_effects_are_named_in_full(f, name):
    with pytest.raises(SideEffectError, match=f"jit: {name} at line"):
        jit(f)(np.ones(2))


def test_what_the_collector_calls_is_no_part_of_the_function():
    called = []

    def at_a_collection(phase, info):
        called.append((phase, time.perf_counter()))

    gc.callbacks.append(at_a_collection)
    threshold = gc.get_threshold()
    try:
        gc.set_threshold(5)  # a collection at nearly every line
        assert jit(lambda x: sum([x * k for k in range(20)], x))(np.ones(1)).item() == 191
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(at_a_collection)
    assert called
    assert gc.isenabled()


def test_everything_is_restored_after_a_refusal():
    model = cr.nn.Linear(2, 2)
    opt = cr.optim.Adam(model.parameters(), lr=0.1)
    kept = {"n": 0}

    def step(x):
        kept["n"] += 1
        opt.zero_grad()
        loss = model(x).sum()
        loss.backward()
        opt.step()
        if loss > 0:
            kept["n"] = 7
        return loss

    state, data = opt.state_dict(), [p.data for p in model.parameters()]
    copies = [p.data.copy() for p in model.parameters()]
    nodes = [p.node for p in model.parameters()]
    graph = (model.weight * model.weight).sum()
    with pytest.raises(BranchError):
        jit(step)(np.ones((1, 2)))
    assert kept == {"n": 0}
    assert all(
        p.data is d and p.node is n and p.grad is None for p, d, n in zip(model.parameters(), data, nodes, strict=True)
    )
    for d, c in zip(data, copies, strict=True):
        np.testing.assert_array_equal(d, c)
    for k, entry in opt.state_dict()["state"].items():
        for name, array in entry.items():
            np.testing.assert_array_equal(array, state["state"][k][name])
    graph.backward()  # not stale: nothing was written


def test_what_is_refused_works_without_the_compiler():
    found = cr.where(np.array([True, False]), np.ones(2), 0.0)
    np.testing.assert_array_equal(jit(lambda x: cr.where(x > 0, x, 0.0))(np.array([1.0, -1.0])), found)
