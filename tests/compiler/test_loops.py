"""Loops as one equation: the same to the bit as written out, with whatever a body leaves behind carried along."""

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.backends.abstract import Abstract, reach_equations
from chainrule.compiler import loops
from chainrule.compiler.numpy_executor import compile_program
from chainrule.compiler.simplify import assemble
from chainrule.core.calls import raw
from chainrule.core.equations import Trace, tracing


class Places(Trace):
    """A trace that knows some places, dictionary entries, as the compiler knows all."""

    def __init__(self, places: list[tuple[Any, Any]], careful: bool = False) -> None:
        super().__init__(careful)
        self.known = places

    def slots(self) -> Any:
        def put_at(owner: Any, key: Any) -> Any:
            return (
                (lambda v: owner.__setitem__(key, v)) if isinstance(owner, dict) else lambda v: setattr(owner, key, v)
            )

        return [(get(owner, key), put_at(owner, key)) for owner, key in self.known]

    def loop(self, *of: Any) -> Any:
        return loops.looped(self, *of)


def get(owner: Any, key: Any) -> Any:
    return owner[key] if isinstance(owner, dict) else getattr(owner, key)


def compiled(f: Any, places: list[tuple[Any, Any]], *arrays: Any) -> tuple[list[Any], list[Any]]:
    """What f gives, and the loops among its equations; the places hold afterwards what f left there."""
    for careful in (False, True):
        boxes = [Abstract(a.shape, a.dtype) for a in arrays]
        before = [get(owner, key) for owner, key in places]
        of = {id(v): Abstract(np.shape(v), np.asarray(v).dtype, weak=isinstance(v, (int, float))) for v in before}
        inputs = [*(box.equation for box in boxes), *(box.equation for box in of.values())]
        values = [*arrays, *({id(v): np.asarray(v) for v in before}.values())]
        trace = Places(places, careful)
        for (_, put), value in zip(trace.slots(), before, strict=True):
            put(of[id(value)])
        with tracing(trace):
            results = [raw(r) for r in f(*boxes)]
        left = [v for v, _ in trace.slots()]
        for (_, put), value in zip(trace.slots(), before, strict=True):
            put(value)
        wanted = [r.equation for r in results] + [v.equation for v in left]
        program = assemble(trace, [*inputs, *(e for e, _ in trace.draws)], wanted, [None] * len(wanted))
        found = compile_program(program)([np.array(v) for v in values] + [draw() for _, draw in trace.draws])
        if found is not None:
            break
    assert found is not None
    for (_, put), value, was in zip(trace.slots(), found[len(results) :], before, strict=True):
        put(value if isinstance(was, np.ndarray) else value.item())
    made = [e.primitive for e in reach_equations(wanted) if isinstance(e.primitive, loops.Loop)]
    return found[: len(results)], made


@pytest.fixture(autouse=True)
def every_loop_is_one_equation(monkeypatch):
    monkeypatch.setattr(loops, "_AT_MOST", 0)


X = np.random.default_rng(0).normal(size=(7, 3))


def check(f: Any, *arrays: Any, loops_made: int = 1, places: Any = list) -> None:
    """Compiled and eager give the same, and leave the same."""
    mine, other = places(), places()
    with np.errstate(all="ignore"):
        expected = [np.asarray(raw(r)) for r in f(mine)(*arrays)]
    found, made = compiled(f(other), other, *arrays)
    assert len(made) == loops_made
    left = [[np.asarray(get(owner, key)) for owner, key in of] for of in (mine, other)]
    for one, two in zip([*found, *left[1]], [*expected, *left[0]], strict=True):
        assert (one.shape, one.dtype) == (two.shape, two.dtype)
        np.testing.assert_array_equal(one, two)


def test_a_carry_and_results():
    def f(_):
        def turn(carry, row):
            (a, n), (x, k) = carry, row
            a = np.tanh(a * x + n * 0.5)
            return (a, n + 1), {"a": a, "k": k * 2, "none": None}

        def run(x, ks):
            carry, ys = cr.scan(turn, (x[0], 1), (x, ks))
            return [carry[0], carry[1] * np.ones(1), ys["a"], ys["k"]]

        return run

    check(f, X, np.arange(7))


def test_what_stays_is_handed_over_once():
    def f(_):
        def run(x, w):
            shifted = w * 2.0
            known = np.arange(3.0)
            return list(cr.scan(lambda c, row: (c + row @ shifted + known, (c * w.sum()).sum()), x[0] * 0.0, x))

        return run

    check(f, X, np.ones((3, 3)))


def test_boxes_that_are_written_and_places_that_are_rebound():
    def places():
        state = {"p": np.ones(3), "grad": np.zeros(3), "lr": 0.5, "idle": np.full(3, 2.0), "t": 0}
        return [(state, key) for key in state]

    def f(places):
        state = places[0][0]

        def turn(count, row):
            state["grad"] = 2.0 * (state["p"] - row) * state["idle"]
            state["p"] -= state["lr"] * 0.1 * state["grad"]
            state["lr"] = state["lr"] * 0.9
            state["t"] += 1
            return count + 1, state["p"].sum()

        def run(x):
            local = np.zeros_like(x[0])  # in no place that anybody knows

            def both(count, row):
                nonlocal local
                local += row
                return turn(count, row)

            count, sums = cr.scan(both, 0, x)
            return [count * np.ones(1), sums, local * 1.0]

        return run

    check(f, X, places=places)


def test_views_follow():
    def places():
        owner = {"a": np.arange(6.0).reshape(2, 3)}
        return [(owner, "a")]

    def f(places):
        owner = places[0][0]

        def run(x):
            view = owner["a"][1]

            def turn(c, row):
                owner["a"] += row
                view[0] = c.sum()
                return c * 0.5 + view, None

            c, _ = cr.scan(turn, x[0], x)
            return [c, view * 1.0]

        return run

    check(f, X, places=places)


def test_a_training_step_with_dropout_is_a_body():
    """The losses and the parameters of eager steps, by Adam, with draws of the same generator."""

    def trained():
        cr.random.seed(4)
        w = cr.tensor(np.ones((3, 2)), requires_grad=True)
        opt = cr.optim.Adam([w], lr=0.1)
        w.grad = np.zeros((3, 2))
        state = opt._units[0][0].state
        return w, opt, [(w, "data"), (w, "grad"), *((state, key) for key in state)]

    def epoch(w, opt):
        def turn(count, x):
            opt.zero_grad()
            mask = cr.random.bernoulli((4, 3), 0.5)
            noise = cr.random.normal((2,))
            loss = ((cr.tensor(x) * mask @ w - noise) ** 2).mean()
            loss.backward()
            opt.step()
            return count + 1, loss.detach()

        return lambda x: list(cr.scan(turn, 0, x))[1:]

    x = np.random.default_rng(2).normal(size=(6, 4, 3))
    w, opt, _ = trained()
    (losses,) = epoch(w, opt)(x)
    state = cr.random.state()
    v, twin, places = trained()
    (found,), made = compiled(epoch(v, twin), places, x)
    assert len(made) == 1
    assert cr.random.state() == state
    np.testing.assert_array_equal(found, losses.data)
    np.testing.assert_array_equal(v.data, w.data)
    np.testing.assert_array_equal(v.grad, w.grad)


def test_a_loop_of_counts():
    def f(_):
        def run(x):
            value = cr.fori_loop(2, 9, lambda i, v: v * 0.5 + i * x[i - 2], x[0])
            branching = cr.fori_loop(
                0, 5, lambda i, v: v + 1.0 if i % 2 else v * 2.0, x[0]
            )  # on the count: written out
            return [value, branching]

        return run

    check(f, X)


def test_a_loop_in_a_loop():
    def f(_):
        def run(x):
            def outer(c, row):
                inner, _ = cr.scan(lambda d, k: (np.sin(d) + k * c, None), row, np.arange(4.0))
                return inner * 0.5, inner

            return list(cr.scan(outer, x[0], x))

        return run

    check(f, X, loops_made=2)  # that of the first turn, which is written out, and the one of all others


def test_what_a_gradient_flows_through_is_written_out():
    def f(_):
        def run(x):
            def loss(v):
                last, ys = cr.scan(lambda h, row: (cr.tanh(h * v + row), h.sum()), cr.tensor(x[0]), x)
                return (last * last).sum() + ys.sum()

            return [cr.grad(loss)(x[1])]

        return run

    check(f, X, loops_made=0)


@pytest.mark.parametrize("bad", [0.0, np.nan])
def test_an_invalid_operation_in_a_turn_calls_for_the_careful_program(bad):
    def f(_):
        def run(x):
            def turn(c, row):
                g = cr.grad(lambda v: cr.where(v > 0.5, cr.log(v) / v, 0.0).sum())(row)
                return c + g, g

            return list(cr.scan(turn, x[0] * 0.0, x))

        return run

    x = np.abs(X)
    x[4, 1] = bad
    found, made = compiled(f([]), [], x)
    with np.errstate(all="ignore"):
        expected = [raw(r) for r in f([])(x)]
    assert len(made) == 1
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-14)


def test_short_loops_are_written_out(monkeypatch):
    monkeypatch.setattr(loops, "_AT_MOST", 5000)
    check(lambda _: lambda x: list(cr.scan(lambda c, row: (c + row, c), x[0], x)), X, loops_made=0)
    long = np.ones((4000, 3))
    check(lambda _: lambda x: list(cr.scan(lambda c, row: (c * 0.5 + row, c.sum()), x[0], x)), long)
