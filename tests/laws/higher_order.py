"""Laws of second and third derivatives: each order against differences of the one below, which first_order.py ties to the values."""

from typing import Any

from chainrule.core.calls import wrap
from chainrule.core.primitive import Primitive
from chainrule.verify.differences import directional, grain, inner
from tests.laws.derivatives import (
    Arrays,
    Function,
    cotangents,
    draw_like,
    expect,
    function,
    gradient,
    on_arrays,
    pull,
    recorded,
    sweep,
    values,
)
from tests.laws.examples import Example, examples, generator, is_real
from tests.laws.registry import has_rules, law


def pullback(record: Primitive, example: Example) -> tuple[Function, Arrays, int]:
    """The pullback as a function of inputs and cotangents, all of which can be differentiated; how many are inputs."""
    f, xs = function(record, example)
    rng = generator(record, "higher")
    cts = [draw_like(rng, out) for out in f(*xs) if is_real(out)]

    def g(*of: Any) -> list[Any]:
        inputs, weights = of[: len(xs)], list(of[len(xs) :])
        found = sweep(list(inputs), f(*inputs), weights, graph=True)
        return [0.0 * x if v is None else v for x, v in zip(inputs, found, strict=True)]

    return g, [*xs, *cts], len(xs)


def check(below: Function, above: Function, weights: Arrays, xs: Arrays, ts: Arrays, what: str) -> None:
    """`above` is the gradient of <weights, below>: its product with `ts` is a slope of `below`."""
    slopes, tolerance = directional(on_arrays(below), xs, ts)
    expect(inner(on_arrays(above)(*xs), ts), inner(weights, slopes), tolerance * 10, what)


def orders(record: Primitive, example: Example, count: int) -> tuple[list[Function], list[Arrays], Arrays]:
    """The pullback, the gradient of its product with random weights, the gradient of that ..."""
    g, xs, _ = pullback(record, example)
    rng = generator(record, "orders")
    chain, weights = [g], []
    for _ in range(count):
        weights.append([draw_like(rng, out) for out in on_arrays(chain[-1])(*xs)])
        chain.append(gradient(chain[-1], weights[-1]))
    return chain, weights, xs


@law(has_rules)
def second_order(record: Primitive) -> None:
    """With respect to inputs and to cotangents."""
    for example in examples(record):
        chain, weights, xs = orders(record, example, 1)
        rng = generator(record, "second")
        for _ in range(3):
            ts = [draw_like(rng, x) for x in xs]
            check(chain[0], chain[1], weights[0], xs, ts, f"second order of {record.name} with {example.parameters}")


@law(has_rules)
def third_order(record: Primitive) -> None:
    for example in examples(record):
        chain, weights, xs = orders(record, example, 2)
        rng = generator(record, "third")
        for _ in range(2):
            ts = [draw_like(rng, x) for x in xs]
            check(chain[1], chain[2], weights[1], xs, ts, f"third order of {record.name} with {example.parameters}")


@law(has_rules)
def symmetric_hessian(record: Primitive) -> None:
    """<u, H v> = <v, H u>, to rounding."""
    for example in examples(record):
        g, xs, count = pullback(record, example)
        rng = generator(record, "symmetric")
        us, vs = ([draw_like(rng, x) for x in xs[:count]] for _ in range(2))
        hu = on_arrays(gradient(g, us))(*xs)[:count]
        hv = on_arrays(gradient(g, vs))(*xs)[:count]
        expect(inner(hu, vs), inner(hv, us), 5e4 * grain(hu), "symmetry of the Hessian")


@law(has_rules)
def recorded_equals_raw(record: Primitive) -> None:
    """A first derivative is the same whether or not it is recorded."""
    for example in examples(record):
        cts = cotangents(generator(record, "recorded"), values(record, example))
        given = sweep_recorded(record, example, cts)
        for a, b in zip(given, pull(record, example, cts), strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                expect(a.data, b, 1e-14, "recorded")
                assert a.data.dtype == b.dtype


def sweep_recorded(record: Primitive, example: Example, cts: Arrays) -> list[Any]:
    leaves, outs = recorded(record, example)
    return sweep(leaves, outs, [None if ct is None else wrap(ct, None) for ct in cts], graph=True)
