"""Random numbers: distributions, bit for bit repetition, whose generator draws, states, arguments out of range."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np
import pytest
from scipy import stats

import chainrule as cr
from chainrule.core.calls import raw
from chainrule.errors import ArgumentError, DTypeError, SideEffectError

random, draw = cr.random, cr.random.draw
N = 200_000
DRAWS = {
    "normal": lambda generator=None: random.normal((3, 4), 1.0, 2.0, generator=generator),
    "uniform": lambda generator=None: random.uniform(5, -1.0, 2.0, generator=generator),
    "integers": lambda generator=None: random.integers((2, 3), -5, 50, generator=generator),
    "permutation": lambda generator=None: random.permutation(9, generator=generator),
    "bernoulli": lambda generator=None: random.bernoulli((4, 8), 0.3, generator=generator),
}
every_draw = pytest.mark.parametrize("name", DRAWS)


@pytest.fixture(autouse=True)
def generator_of_the_process():
    before = random.state()
    yield
    random.set_state(before)


# ------------------------------------------------------------ distributions
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_and_uniform_have_their_distributions(dtype):
    x = draw.normal(N, 3.0, 0.5, dtype=dtype, generator=random.generator(1))
    assert x.dtype == dtype
    assert stats.kstest(x, stats.norm(3.0, 0.5).cdf).pvalue > 0.01
    u = draw.uniform(N, -2.0, 6.0, dtype=dtype, generator=random.generator(2))
    assert u.dtype == dtype
    assert stats.kstest(u, stats.uniform(-2.0, 8.0).cdf).pvalue > 0.01


def test_integers_bernoulli_and_permutation_have_their_distributions():
    k = draw.integers(N, -1, 5, generator=random.generator(3))
    assert (k.dtype, k.min(), k.max()) == (np.int64, -1, 4)
    assert stats.chisquare(np.bincount(k + 1)).pvalue > 0.01
    b = draw.bernoulli(N, 0.1, generator=random.generator(4))
    assert b.dtype == np.bool_
    assert stats.binomtest(int(b.sum()), N, 0.1).pvalue > 0.01
    assert draw.bernoulli(N, 0.0).sum() == 0
    assert draw.bernoulli(N, 1.0).sum() == N
    g = random.generator(5)
    first = [tuple(draw.permutation(3, generator=g)) for _ in range(6000)]
    assert len(set(first)) == 6
    assert stats.chisquare(np.unique(first, axis=0, return_counts=True)[1]).pvalue > 0.01


def test_float64_draws_are_those_of_numpy():
    ours, theirs = random.generator(7), np.random.default_rng(7)
    np.testing.assert_array_equal(draw.normal((5, 6), 1.5, 0.25, generator=ours), theirs.normal(1.5, 0.25, (5, 6)))
    np.testing.assert_array_equal(draw.uniform(40, -3.0, 2.0, generator=ours), theirs.uniform(-3.0, 2.0, 40))
    np.testing.assert_array_equal(draw.integers(40, 3, 99, generator=ours), theirs.integers(3, 99, 40))
    np.testing.assert_array_equal(draw.permutation(40, generator=ours), theirs.permutation(40))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (1.0, 2.0), (-1.0, 0.1)])
def test_uniform_never_reaches_its_upper_end(dtype, low, high):
    """The largest float32 below 1, times 1, plus 1, rounds to 2."""

    class Largest(np.random.Generator):
        def random(self, size=None, dtype=np.float64, out=None):
            return np.full(size, np.nextafter(dtype(1), dtype(0)))

    x = draw.uniform(3, low, high, dtype=dtype, generator=Largest(np.random.PCG64(0)))
    assert (x < dtype(high)).all()
    assert (x >= dtype(low)).all()
    assert draw.uniform(3, 2.0, 2.0).tolist() == [2.0, 2.0, 2.0]


def test_dtypes_shapes_and_gradients():
    assert random.normal((2, 3)).dtype == np.float64
    with cr.set_default_dtype(np.float32):
        assert random.normal(3).dtype == np.float32
        assert random.uniform(3, 1.0, 2.0).dtype == np.float32
    assert random.integers(3, 0, 256, dtype=np.uint8).dtype == np.uint8
    for x in (random.normal(()), random.uniform(()), random.integers((), 0, 9), random.bernoulli((), 0.5)):
        assert isinstance(x, cr.Tensor)
        assert x.shape == ()
        assert isinstance(x.data, np.ndarray)
    assert random.normal((0, 4)).shape == (0, 4)
    assert random.permutation(0).shape == (0,)
    w = random.normal(3, requires_grad=True)
    (w * w).sum().backward()
    np.testing.assert_array_equal(w.grad, 2 * w.data)
    assert isinstance(draw.normal(3), np.ndarray)


def test_float32_is_drawn_as_float32():
    theirs = np.random.default_rng(3).standard_normal(8, dtype=np.float32)
    np.testing.assert_array_equal(draw.normal(8, dtype=np.float32, generator=random.generator(3)), theirs)


# ------------------------------------------------------------ whose generator
@every_draw
def test_one_seed_one_result(name):
    results = []
    for seed in (3, 3, 4):
        random.seed(seed)
        results.append([DRAWS[name]().data, DRAWS[name]().data])
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])
    assert not np.array_equal(results[0][0], results[0][1])


@every_draw
def test_given_used_and_process_wide_generators_draw_the_same(name):
    given = DRAWS[name](random.generator(11)).data
    with random.use(random.generator(11)) as g:
        assert random.current() is g
        np.testing.assert_array_equal(DRAWS[name]().data, given)
    random.seed(11)
    np.testing.assert_array_equal(DRAWS[name]().data, given)
    twin = np.random.default_rng(12)
    with random.use(random.generator(11)):  # what is given goes before what is used
        np.testing.assert_array_equal(DRAWS[name](np.random.default_rng(12)).data, DRAWS[name](twin).data)


def test_use_nests_and_ends_also_after_an_error():
    a, b = random.generator(1), random.generator(2)
    outside = random.current()
    with random.use(a):
        with random.use(b):
            assert random.current() is b
        with pytest.raises(KeyError), random.use(b):
            raise KeyError
        assert random.current() is a
    assert random.current() is outside

    @random.use(b)
    def decorated():
        return random.current()

    assert decorated() is decorated() is b


def test_use_stays_in_its_thread_and_context():
    with random.use(random.generator(1)) as g, ThreadPoolExecutor(1) as pool:
        assert pool.submit(random.current).result() is not g
        assert pool.submit(copy_context().run, random.current).result() is g


def test_threads_share_the_generator_of_the_process_without_losing_a_draw():
    random.seed(5)
    expected = draw.uniform(8 * 50 * 1000)
    random.seed(5)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: [draw.uniform(1000) for _ in range(50)], range(8)))
    np.testing.assert_array_equal(np.sort(np.ravel(parts)), np.sort(expected))


def test_without_a_seed_every_process_draws_something_else():
    code = "import chainrule as cr; print(cr.random.normal(4).tolist())"
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(runs) == 2


def test_reading_the_module_does_not_read_numpys():
    code = "import sys, chainrule as cr; cr.random.seed; print('numpy.random' in sys.modules)"
    beyond = "import sys, numpy; print('numpy.random' in sys.modules)"
    ours, theirs = (
        subprocess.run([sys.executable, "-c", c], capture_output=True, check=True).stdout for c in (code, beyond)
    )
    assert ours == theirs


def test_streams_of_one_seed_are_distinct():
    keys = [(0,), (1,), (0, 0), (0, 0, 0), (0, 1), (1, 0), (2**32,), (2**32, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]
    first = [float(draw.uniform((), generator=random.generator(*key))) for key in keys]
    assert len(set(first)) == len(keys)
    assert first == [float(draw.uniform((), generator=random.generator(*key))) for key in keys]
    assert first[0] == np.random.default_rng(0).random()


# ------------------------------------------------------------ states
@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_a_state_goes_through_json_and_continues(kind):
    bits = getattr(np.random, kind)
    g = np.random.Generator(bits(3))
    g.integers(0, 5, dtype=np.int32)  # leaves half of a 64-bit number in the generator
    text = json.dumps(random.state(g))
    expected = [g.integers(0, 99, 3, dtype=np.int32).tolist(), g.normal(size=4).tolist()]
    other = np.random.Generator(bits(9))
    random.set_state(json.loads(text), other)
    assert [other.integers(0, 99, 3, dtype=np.int32).tolist(), other.normal(size=4).tolist()] == expected
    random.set_state(other.bit_generator.state, g)  # NumPy's own form, arrays within
    np.testing.assert_array_equal(g.random(3), other.random(3))


def test_the_state_of_the_process_and_of_a_block():
    random.seed(3)
    assert random.state() == random.state(np.random.default_rng(3))
    with random.use(random.generator(4)):
        inside = random.state()
        assert inside == random.state(np.random.default_rng(4))
    random.set_state(inside)
    assert float(draw.uniform(())) == np.random.default_rng(4).random()


GOOD = random.state(np.random.default_rng(0))


@pytest.mark.parametrize(
    "bad",
    [
        {},
        3,
        None,
        {"bit_generator": "PCG64"},
        {**GOOD, "bit_generator": "MT19937"},
        {**GOOD, "state": {"state": "many", "inc": 3}},
        {**GOOD, "state": {"state": 1.5, "inc": 3}},
        {**GOOD, "state": {"state": -1, "inc": 3}},
        {**GOOD, "state": {"state": 2**200, "inc": 3}},
        {**GOOD, "uinteger": -1},
        {**GOOD, "has_uint32": None},
    ],
)
def test_what_is_no_state_changes_nothing(bad):
    g = random.generator(8)
    before = random.state(g)
    with pytest.raises(ArgumentError, match="set_state: this is no state of a generator of kind PCG64"):
        random.set_state(bad, g)
    assert random.state(g) == before


# ------------------------------------------------------------ arguments out of range
@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ArgumentError, lambda g: random.normal(2, std=-1.0, generator=g)),
        (ArgumentError, lambda g: random.normal(2, std=float("nan"), generator=g)),
        (ArgumentError, lambda g: random.normal(2, mean=float("inf"), generator=g)),
        (ArgumentError, lambda g: random.normal(2, std=1e39, dtype=np.float32, generator=g)),
        (ArgumentError, lambda g: random.normal(2, mean=np.zeros(2), generator=g)),
        (ArgumentError, lambda g: random.normal(-2, generator=g)),
        (ArgumentError, lambda g: random.normal(2.5, generator=g)),
        (DTypeError, lambda g: random.normal(2, dtype=np.int64, generator=g)),
        (DTypeError, lambda g: random.uniform(2, dtype=np.complex128, generator=g)),
        (ArgumentError, lambda g: random.uniform(2, 1.0, 0.5, generator=g)),
        (ArgumentError, lambda g: random.uniform(2, -1e308, 1e308, generator=g)),
        (ArgumentError, lambda g: random.integers(2, 3, 3, generator=g)),
        (ArgumentError, lambda g: random.integers(2, 0, 1.5, generator=g)),
        (ArgumentError, lambda g: random.integers(2, -1, 5, dtype=np.uint8, generator=g)),
        (ArgumentError, lambda g: random.integers(2, 0, 257, dtype=np.uint8, generator=g)),
        (DTypeError, lambda g: random.integers(2, 0, 5, dtype=np.float64, generator=g)),
        (ArgumentError, lambda g: random.permutation(-1, generator=g)),
        (ArgumentError, lambda g: random.permutation(2.0, generator=g)),
        (ArgumentError, lambda g: random.bernoulli(2, 1.5, generator=g)),
        (ArgumentError, lambda g: random.bernoulli(2, -0.1, generator=g)),
        (ArgumentError, lambda g: random.bernoulli(2, float("nan"), generator=g)),
    ],
)
def test_bad_arguments_draw_nothing(error, call):
    g = random.generator(0)
    before = random.state(g)
    with pytest.raises(error):
        call(g)
    assert random.state(g) == before


@pytest.mark.parametrize("seed", [-1, 1.0, "1", None, 2**128, [1, 2]])
def test_bad_seeds(seed):
    before = random.state()
    for call in (random.seed, random.generator):
        with pytest.raises(ArgumentError, match="this is no seed"):
            call(seed)
    assert random.state() == before
    with pytest.raises(ArgumentError, match="this is no stream"):
        random.generator(0, 2**32)


@pytest.mark.parametrize("other", [np.random.RandomState(0), np.random, 3, None])
def test_what_is_no_generator(other):
    with pytest.raises(DTypeError), random.use(other):
        pass
    if other is not None:
        for call in DRAWS.values():
            with pytest.raises(DTypeError, match="generator"):
                call(other)


@every_draw
def test_a_draw_within_a_trace_is_an_input(name):
    from tests.compiler.traced import run

    for given in (False, True):
        ends = []
        for how in (lambda f: [raw(a) for a in f()], run):
            random.seed(1)
            g = random.generator(0) if given else None
            first, second = how(lambda g=g: [DRAWS[name](g), DRAWS[name](g)])
            ends.append((first.dtype, first.tolist(), second.tolist(), random.state(g), random.state()))
        assert ends[0] == ends[1]


def test_a_block_inside_a_trace_and_one_around_it():
    from tests.compiler.traced import program_of

    def f():
        outside = random.normal(2)
        with random.use(inside):
            return [outside, random.normal(2)]

    inside = random.generator(1)
    with random.use(random.generator(2)):
        _, _, draws = program_of(f, [])
    assert [draw.generator for draw in draws] == [None, inside]
    with random.use(random.generator(3)):
        np.testing.assert_array_equal(draws[0](), random.normal(2, generator=random.generator(3)).data)


def test_who_draws_by_himself_within_a_trace_is_told():
    from chainrule.core.equations import tracing

    g = random.generator(0)
    with tracing(), pytest.raises(SideEffectError, match="while a program is traced"):
        random.current()
    with tracing(), ThreadPoolExecutor(1) as pool:  # another thread traces nothing
        assert isinstance(pool.submit(DRAWS["normal"], g).result().data, np.ndarray)


def test_other_unusual_modes_do_not_matter():
    with cr.debug(), cr.no_grad():
        np.testing.assert_array_equal(
            draw.normal(3, generator=random.generator(0)), np.random.default_rng(0).normal(size=3)
        )
