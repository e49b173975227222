"""Laws of the second recording: what is written, looked at, drawn and hidden while a program is traced.

No fixtures: the mutants call these functions as they stand.
"""

import numpy as np
import pytest

import chainrule as cr
from chainrule.backends.abstract import Abstract, reach_equations
from chainrule.compiler.numpy_executor import compile_program
from chainrule.compiler.simplify import assemble
from chainrule.core.equations import Trace, tracing
from chainrule.errors import DTypeError, SideEffectError, TraceError
from tests.laws.written import same


def box_of(value):
    weak = type(value) in (int, float)
    like = np.asarray(value)
    return Abstract(like.shape, like.dtype, weak=weak, fixed=isinstance(value, np.generic))


def run(f, *values):
    """What f leaves and gives, compiled: its results, then the arrays that it was handed."""
    for careful in (False, True):
        boxes = [box_of(value) for value in values]
        inputs = [box.equation for box in boxes]
        with tracing(Trace(careful)) as trace:
            results = [getattr(r, "data", r) if isinstance(r, cr.Tensor) else r for r in f(*boxes)]
        wanted = [*(r.equation for r in results), *(box.equation for box in boxes)]
        program = assemble(trace, [*inputs, *(e for e, _ in trace.draws)], wanted, [None] * len(wanted))
        found = compile_program(program)([*map(np.asarray, values), *(draw() for _, draw in trace.draws)])
        if found is not None:
            return found
    raise AssertionError("nobody is careful enough")


def test_a_number_takes_the_dtype_of_its_partner():
    x = np.ones(2, np.float32)
    found = run(lambda x, n, r: [x * r, r * x, x + n, cr.Tensor(x) * r, n * r, x[n], cr.where(x > 0, r, x)], x, 1, 0.5)
    assert [a.dtype.name for a in found[:7]] == ["float32"] * 4 + ["float64", "float32", "float32"]
    same(found[0], [0.5, 0.5])
    with tracing():
        n, r = box_of(1), box_of(0.5)
        assert [w.weak for w in (n + 1, n * r, 2.0**n, n < r)] == [True] * 4
        assert [w.weak for w in (cr.exp(r), r * box_of(np.float64(1.0)), r * box_of(x))] == [False] * 3


def test_powers_of_numbers_are_pythons():
    for t in (1, 7, 12, 29, 100):
        found = run(lambda b, t: [b**t, 0.9**t, b**0.5, t**2, (1.0 - b**t) ** 0.5], 0.999, t)
        assert [a.item() for a in found[:5]] == [0.999**t, 0.9**t, 0.999**0.5, t**2, (1.0 - 0.999**t) ** 0.5]


def test_arrays_are_written_and_numbers_replaced():
    def f(a, s, n):
        held, was = a, (s, n)
        a += 1.0
        a *= 2.0
        s += 1.0
        n += 1
        return [held, *was, s, n]

    def g(a):
        total, entry = a.sum(), a[0]
        same_total = total
        total += 1.0
        a *= 2.0
        return [total, same_total, entry]

    assert [float(v) for v in run(g, np.ones(2))[:3]] == [3.0, 2.0, 1.0]
    found = run(f, np.zeros(2), np.float64(3.0), 4)
    same(found[0], [2.0, 2.0])
    assert [float(v) for v in found[1:5]] == [3.0, 4.0, 4.0, 5.0]
    same(found[5], [2.0, 2.0])
    with tracing():
        box = box_of(np.zeros(2, int))
        with pytest.raises(DTypeError):
            box += 0.5


def test_views_and_their_sources_are_alike():
    def f(a):
        row, turned, flat = a[1], a.T, a.reshape(-1)
        row += 1.0
        turned[0] = 5.0
        flat[3] = 7.0
        a[0, 1] = 9.0
        kept = a.copy()
        a *= 2.0
        return [row, turned, flat, kept]

    def g(a):
        return [np.array(r) for r in f(a)]

    a = np.arange(6.0).reshape(2, 3)
    found = run(f, a)
    for one, other in zip(found, [*g(a), a], strict=True):
        same(one, other)
    with tracing():
        box = box_of(a)
        turned = box.T.reshape(-1)
        with pytest.raises(TraceError):
            box += 1.0
        with pytest.raises(TraceError):
            turned += 1.0
        assert turned.shape == (6,)


def test_a_constant_is_what_it_was_when_it_was_met():
    known = np.ones(2)

    def f(x):
        first = x + known
        known[...] = 5.0
        second = x + known
        known[...] = 1.0
        return [first, second]

    found = run(f, np.zeros(2))
    same(found[0], [1.0, 1.0])
    same(found[1], [5.0, 5.0])


def test_nan_that_hides():
    """Of 0/0 in a walk, of a NaN that was there before, and of one that an operation before the walk makes."""

    def f(x):
        t = cr.Tensor(x, requires_grad=True)
        cr.where(x > 0.0, cr.sqrt(t * 1.0) * t, 0.0).sum().backward()
        return [t.grad]

    for bad in (0.0, np.nan, -1.0):
        same(run(f, np.array([4.0, bad]))[0], [3.0, 0.0])

    def pushed(x):
        return [cr.jvp(lambda v: cr.sqrt(v * 1.0), (x,), (np.array([1.0, 0.0]),))[1]]

    same(run(pushed, np.array([4.0, 0.0]))[0], [0.25, 0.0])
    with tracing() as trace:
        f(box_of(np.ones(2)))
    assert trace.watched
    assert trace.flagged
    with tracing(Trace(careful=True)) as trace:
        (g,) = f(box_of(np.ones(2)))
    assert sum(getattr(e.primitive, "name", "") == "isnan" for e in reach_equations([g.equation]))


def test_draws_are_inputs_in_their_order():
    def f(x, g=None):
        first = cr.random.normal(2, generator=g)
        inner = cr.checkpoint(lambda v: v * cr.random.uniform(2, 1.0, 2.0))
        t = cr.Tensor(x, requires_grad=True)
        y = cr.checkpoint(lambda v: inner(v) * cr.random.normal(2))(t)
        y.sum().backward()
        return [first * y, t.grad, cr.random.bernoulli(2, 0.5) * x]

    x = np.ones(2)
    cr.random.seed(1)
    expected = [np.asarray(getattr(r, "data", r)) for r in f(x)]
    state = cr.random.state()
    cr.random.seed(1)
    for one, other in zip(run(f, x), expected, strict=False):
        same(one, other)
    assert cr.random.state() == state
    with cr.random.use(cr.random.generator(4)), tracing() as trace:
        with cr.random.use(cr.random.generator(3)) as g:
            cr.random.normal(2)
        cr.random.normal(2)
        with pytest.raises(SideEffectError):
            cr.random.current()
    assert [draw.generator for _, draw in trace.draws] == [g, None]


def test_a_branch_leaves_what_it_wrote_only_where_it_is_taken():
    def f(x, a):
        def yes():
            a[0] = 7.0
            return x.sum()

        def no():
            a[...] *= 2.0
            return x.sum() * 3.0

        return [cr.cond(x.sum() > 0, yes, no)]

    total, _, a = run(f, np.ones(2), np.ones(2))
    assert (float(total), a.tolist()) == (2.0, [7.0, 1.0])
    total, _, a = run(f, -np.ones(2), np.ones(2))
    assert (float(total), a.tolist()) == (-6.0, [2.0, 2.0])
