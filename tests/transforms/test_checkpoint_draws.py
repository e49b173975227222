"""J8: a function that draws at random draws the same when a checkpoint runs it again, and no generator notices."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import StaleGraphError

random = cr.random
X, V = np.random.default_rng(1).normal(size=(2, 4, 5))
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@pytest.fixture(autouse=True)
def generator_of_the_process():
    before = random.state()
    yield
    random.set_state(before)


def dropped(h, generator=None, p=0.5):
    """Dropout, with the mask drawn through the library."""
    return h * random.bernoulli(h.shape, 1.0 - p, generator=generator) / (1.0 - p)


class Layer:
    """What holds a generator, as a layer does."""

    def __init__(self, generator):
        self.generator = generator

    def __call__(self, h):
        return dropped(cr.tanh(h), self.generator)


def use_inside(h, g):
    with random.use(g):
        return dropped(h) + dropped(h, p=0.25)


def alternately(h, g):
    """Given, used and by itself: one stream."""
    with random.use(g):
        return dropped(h, g) + dropped(h) + h * random.current().normal(size=h.shape)


def made_inside(h, _):
    return dropped(h, random.generator(3)) + dropped(h, random.generator(3, 1)) + dropped(h)


# How a piece of a program, run with `wrap`, gets at its draws; `g` is the generator that all of them come from.
WAYS: dict[str, Callable[[Wrap, Any, np.random.Generator], Any]] = {
    "whatever is current": lambda wrap, h, g: wrap(lambda h: dropped(cr.tanh(h)))(h),
    "current, by itself": lambda wrap, h, g: wrap(lambda h: h * random.current().normal(size=h.shape))(h),
    "closed over": lambda wrap, h, g: wrap(lambda h: dropped(cr.tanh(h), g))(h),
    "in an object": lambda wrap, h, g: wrap(Layer(g))(h),
    "in an object among the arguments": lambda wrap, h, g: wrap(lambda layer, h: layer(h))(Layer(g), h),
    "an argument": lambda wrap, h, g: wrap(lambda h, g: dropped(cr.sin(h), g))(h, g),
    "an argument, by itself": lambda wrap, h, g: wrap(lambda h, g: h * g.normal(size=h.shape))(h, g),
    "by keyword, in a tree": lambda wrap, h, g: wrap(lambda h, of: h * of["g"][0].normal(size=h.shape))(h, of={"g": [g]}),
    "used inside": lambda wrap, h, g: wrap(lambda h: use_inside(h, g))(h),
    "in three ways": lambda wrap, h, g: wrap(lambda h: alternately(h, g))(h),
    "argument and closed over": lambda wrap, h, g: wrap(lambda h, a: dropped(h, a) + dropped(h, g) + h * a.normal())(h, g),
    "made inside": lambda wrap, h, g: wrap(lambda h: made_inside(h, g))(h),
}  # fmt: skip

Way = Callable[[Wrap, Any, np.random.Generator], Any]
PROGRAMS: dict[str, Callable[[Wrap, Way, Any, np.random.Generator], Any]] = {
    "once": lambda wrap, way, h, g: way(wrap, h, g),
    "in a row": lambda wrap, way, h, g: way(wrap, dropped(way(wrap, h, g), g), g) * random.uniform((), generator=g),
    "nested": lambda wrap, way, h, g: wrap(
        lambda h: dropped(way(wrap, dropped(h, g), g) * way(wrap, h, g) + dropped(h), g)
    )(h),
    "three deep": lambda wrap, way, h, g: wrap(
        lambda h: way(wrap, wrap(lambda h: way(wrap, h, g) + dropped(h) * way(wrap, h, g))(h), g) + dropped(h, g)
    )(h),
}  # fmt: skip

plain: Wrap = lambda f: f


def outcome(take: Callable[[Callable[..., Any]], Any], wrap: Wrap, program: str, way: str, whose: str):
    """A derivative, where both generators stand afterwards, and what they draw next."""
    random.seed(5)
    g = random.current() if whose == "process" else random.generator(6)
    f = lambda x: (PROGRAMS[program](wrap, WAYS[way], x, g) ** 2).sum()
    if whose == "used":
        with random.use(g):
            found = take(f)
    else:
        found = take(f)
    return np.asarray(found), (random.state(g), random.state())


TAKE = {
    "grad": lambda f: cr.grad(f)(X),
    "jvp": lambda f: cr.jvp(f, (X,), (V,))[1],
    "hvp": lambda f: cr.hvp(f, X, V),
    "reverse twice": lambda f: cr.grad(lambda x: (cr.grad(f)(x) * V).sum())(X),
    "third": lambda f: cr.grad(lambda x: (cr.hvp(f, x, V) * V).sum())(X),
}


@pytest.mark.parametrize("whose", ["process", "used", "explicit"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_equal_to_the_bit_and_generators_end_alike(program, way, whose):
    ours, theirs = (outcome(TAKE["grad"], wrap, program, way, whose) for wrap in (cr.checkpoint, plain))
    assert np.any(theirs[0])
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[1] == theirs[1]


@pytest.mark.parametrize("take", ["jvp", "hvp", "reverse twice", "third"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", ["once", "nested"])
def test_every_order_and_mode_draws_the_same(program, way, take):
    ours, theirs = (outcome(TAKE[take], wrap, program, way, "explicit") for wrap in (cr.checkpoint, plain))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9, atol=1e-9)
    assert ours[1] == theirs[1]


def test_other_draws_follow_each_other_as_if_nothing_ran_again():
    random.seed(5)
    expected = random.draw.uniform(12)
    x = cr.tensor(X, requires_grad=True)
    random.seed(5)
    y = cr.checkpoint(lambda x: x * random.draw.uniform(2)[1])(x).sum()
    between = random.draw.uniform(4)
    y.backward(retain_graph=True)
    with ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(random.draw.uniform, 3).result()
    y.backward()
    np.testing.assert_array_equal(np.concatenate([between, elsewhere, random.draw.uniform(3)]), expected[2:])
    np.testing.assert_allclose(x.grad, np.full(X.shape, 2 * expected[1]), rtol=1e-15)


def test_another_thread_may_draw_while_the_function_runs_again():
    first, seen = True, []

    def f(x):
        if not first:
            with ThreadPoolExecutor(1) as pool:
                seen.append(pool.submit(random.draw.uniform, ()).result())
        return x * random.draw.uniform(())

    random.seed(8)
    expected = random.draw.uniform(3)
    random.seed(8)
    x = cr.tensor(1.0, requires_grad=True)
    y = cr.checkpoint(f)(x)
    first = False
    y.backward()
    assert x.grad == expected[0]
    assert seen == [expected[1]]
    assert random.draw.uniform(()) == expected[2]


def test_a_later_seed_changes_nothing():
    x = cr.tensor(1.0, requires_grad=True)
    random.seed(1)
    y = cr.checkpoint(lambda x: x * random.draw.uniform(()))(x)
    random.seed(2)
    y.backward()
    assert x.grad == y.item()
    assert random.state() == random.state(random.generator(2))


def test_a_function_that_seeds_leaves_the_seed_of_its_first_run_alone():
    def f(x):
        before = random.draw.uniform(())
        random.seed(3)
        return x * before * random.draw.uniform(())

    inside: Wrap = lambda f: cr.checkpoint(lambda x: cr.checkpoint(f)(x) * random.draw.uniform(()))
    for wrap, count in ((plain, 1), (cr.checkpoint, 1), (inside, 2)):
        first, then = np.random.default_rng(1), np.random.default_rng(3)
        random.seed(1)
        x = cr.tensor(1.0, requires_grad=True)
        y = wrap(f)(x)
        y.backward()
        assert x.grad == pytest.approx(first.random() * np.prod(then.random(count)), rel=1e-15)
        assert random.draw.uniform(()) == then.random()


def test_a_derivative_inside_the_function():
    """The inner checkpoint runs again within the first run of the outer one."""

    def program(wrap, x):
        inner = wrap(lambda v: (dropped(v * v)).sum())
        return wrap(lambda x: (cr.grad(inner)(x) * dropped(x)).sum() * random.draw.uniform(()))(x)

    results = []
    for wrap in (plain, cr.checkpoint):
        random.seed(4)
        results.append((cr.grad(lambda x, wrap=wrap: program(wrap, x))(X), random.state()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


@pytest.mark.parametrize("wrap", [plain, cr.checkpoint])
def test_an_error_in_the_first_run_leaves_the_generator_where_the_function_left_it(wrap):
    def fails(x):
        dropped(x)
        raise KeyError

    random.seed(5)
    expected = (random.draw.bernoulli(X.shape, 0.5), random.draw.uniform(()))[1]
    random.seed(5)
    with pytest.raises(KeyError):
        wrap(fails)(cr.tensor(X, requires_grad=True))
    x = cr.tensor(1.0, requires_grad=True)
    wrap(lambda x: x * random.draw.uniform(()))(x).backward()
    assert x.grad == expected


def test_an_error_in_a_later_run_moves_nothing():
    fails = False

    def f(x, g):
        y = x * g.random() * random.draw.uniform((), generator=g)
        if fails:
            raise KeyError
        return y * random.draw.uniform(())

    g, x = random.generator(1), cr.tensor(1.0, requires_grad=True)
    random.seed(2)
    y = cr.checkpoint(f)(x, g)
    before = (random.state(g), random.state(), random.current())
    fails = True
    with pytest.raises(KeyError):
        cr.gradients(y, [x])
    fails = False
    assert (random.state(g), random.state(), random.current()) == before
    assert float(cr.gradients(y, [x])[0]) == pytest.approx(y.item(), rel=1e-15)


def test_debug_mode_finds_a_function_that_computes_something_else():
    g, x = random.generator(1), cr.tensor(1.0, requires_grad=True)
    with cr.debug():
        y = cr.checkpoint(lambda x: x * g.random())(x)  # not seen: by itself, from a generator that it closes over
        with pytest.raises(StaleGraphError, match="computes something else"):
            y.backward()
        x.grad = None
        cr.checkpoint(lambda x: x * random.draw.uniform((), generator=g))(x).backward()
    assert 0.0 < x.grad < 1.0


@pytest.mark.parametrize("given", [False, True])
def test_within_a_trace_both_runs_draw_the_same(given):
    from tests.compiler.traced import run

    def step(x, g):
        x = cr.Tensor(x, requires_grad=True)
        inner = cr.checkpoint(lambda x: x * random.draw.normal((3,), generator=g))
        y = cr.checkpoint(
            lambda x: inner(x * random.draw.uniform((3,), 1.0, 2.0, generator=g)) + random.draw.normal((3,))
        )(x)
        y.sum().backward()
        return [y, x.grad]

    ends = []
    for how in (lambda f, x: [np.asarray(getattr(a, "data", a)) for a in f(x)], run):
        random.seed(3)
        g = random.generator(5) if given else None
        found = how(lambda x, g=g: step(x, g), np.ones(3))
        ends.append([*(a.tolist() for a in found), random.state(g), random.state()])
    assert ends[0] == ends[1]


def test_generators_of_every_kind_are_drawn_from_again():
    for bits in (np.random.MT19937, np.random.Philox, np.random.SFC64):
        g, x = np.random.Generator(bits(1)), cr.tensor(X, requires_grad=True)
        y = cr.checkpoint(lambda x, g=g: x * random.draw.normal(X.shape, generator=g))(x)
        y.sum().backward()
        np.testing.assert_array_equal(x.grad * X, y.data)


def test_children_are_spawned_again():
    x = cr.tensor(1.0, requires_grad=True)
    y = cr.checkpoint(lambda x, g: x * g.spawn(2)[1].random())(x, random.generator(1))
    y.backward()
    assert x.grad == y.item() == np.random.default_rng(1).spawn(2)[1].random()
