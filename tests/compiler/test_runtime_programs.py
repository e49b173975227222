"""Whole programs, from equations to what their callers get: opaque steps, places in memory, flags."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import chainrule as cr
from chainrule.backends.abstract import Abstract
from chainrule.compiler.native import executable, module, threads, watch
from chainrule.compiler.native.kernel import Opaque
from chainrule.compiler.native.machine import machine
from chainrule.compiler.native.program import compile_program
from chainrule.compiler.program import Program
from chainrule.core.equations import tracing
from tests.compiler.handmade import add_number, program


def compiled(function, arrays, *, targets=None, watched=(), flagged=False):
    """`function` of raw arrays, which gives a list of them; `flagged`: an invalid operation anywhere calls for care."""
    boxes = [Abstract(a.shape, a.dtype) for a in arrays]
    inputs = tuple(box.equation for box in boxes)
    with tracing():
        outputs = tuple(o.equation for o in function(*boxes))
    return compile_program(
        Program(inputs, outputs, targets or (None,) * len(outputs), watched, outputs if flagged else ())
    )


X = np.array([3.0, -1.0, 2.0, 0.5, -7.0])


def test_numpy_computes_what_has_no_lowering_between_native_parts():
    e = compiled(lambda x: [cr.take(cr.exp(x), cr.argsort(-x)), cr.argsort(x * x), x + 1], [X])
    assert not e.guards
    assert any(isinstance(part, Opaque) for part in e.module.parts)
    out = e([X])
    want = [np.exp(X)[np.argsort(-X)], np.argsort(X * X), X + 1]
    for got, w in zip(out, want, strict=True):
        np.testing.assert_allclose(got, w, rtol=1e-15)
    assert [t.seconds >= 0 for t in e.profile([X], seconds=0.01)] == [True] * e.kernels


def test_an_opaque_program_writes_its_input_last():
    e = compiled(lambda x: [cr.take(x, cr.argsort(x)), cr.take(x, cr.argsort(x)) * 2], [X], targets=(None, 0))
    x = X.copy()
    assert e([x])[0].tolist() == sorted(X)
    assert x.tolist() == [2 * v for v in sorted(X)]


def test_an_invalid_operation_in_an_opaque_step_is_seen():
    e = compiled(lambda x: [cr.cumulative_sum(x)], [X], targets=(0,), flagged=True)
    assert any(isinstance(part, Opaque) for part in e.module.parts)
    x = np.array([np.inf, -np.inf, 1.0, 2.0, 3.0])
    before = x.copy()
    assert e([x]) is None
    assert x.tolist() == before.tolist()
    unchecked = compiled(lambda x: [cr.cumulative_sum(x)], [X])
    assert np.isnan(unchecked([x])[0][1:]).all()  # a plain result, where nobody asked for care
    y = np.ones(5)
    assert e([y]) == []
    assert y.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_an_invalid_operation_leaves_everything_as_it_was():
    e = compiled(lambda x, y: [x - y, x * y], [X, X], targets=(0, None), flagged=True)
    x, y = np.full(5, np.inf), np.full(5, np.inf)
    assert e.entry((x, y)) is None
    assert np.isinf(x).all()
    y[:] = 1.0
    assert e.entry((x, y))[0].tolist() == [np.inf] * 5
    x = X.copy()
    assert e.entry((x, y))[0].tolist() == X.tolist()
    assert x.tolist() == (X - 1).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
@pytest.mark.parametrize("n", [1, 3, 16, 17, 1000])
def test_a_nan_in_a_watched_input_calls_for_the_careful_program(dtype: str, n: int):
    e = compiled(lambda x, y: [y * 2], [np.ones(n, dtype), np.ones(2)], targets=(1,), watched=(0,))
    x, y = np.full(n, np.inf, dtype), np.ones(2)
    assert e((x, y)) is not None
    for at in {0, n // 2, n - 1}:
        x = np.full(n, -np.inf, dtype)
        x[at] = np.nan
        y = np.ones(2)
        assert e((x, y)) is None
        assert y.tolist() == [1.0, 1.0]
    assert e((np.ones(n, dtype), np.full(2, np.nan))) is not None  # that one nobody watches


def test_a_nan_is_seen_whoever_looks(monkeypatch: pytest.MonkeyPatch):
    """Shares of any length, as threads have them."""
    schedule = program((add_number((1,), "f8"), (("input", 1), ("output", 0))), inputs=[((100,), "f4"), ((1,), "f8")], outputs=[((1,), "f8")]).schedule  # fmt: skip
    looking = watch.watching(schedule, [0], machine())
    assert len(looking.steps) == 2
    monkeypatch.setattr(executable, "build", lambda *a, **k: shared(*a))

    def shared(*arguments):
        made = _build(*arguments)
        text = made.text.replace("i64 0, i64 100)", "i64 17, i64 41)")  # one thread's share
        assert text != made.text
        return made._replace(text=text)

    e = executable.Executable(looking, 2)
    for at in range(100):
        x = np.zeros(100, "f4")
        x[at] = np.nan
        assert (e((x, np.ones(1))) is None) == (17 <= at < 41)


_build = executable.build


@pytest.mark.parametrize(
    "function", [lambda x: [x], lambda x: [x, x, -x], lambda x: [cr.reshape(x, (5, 1))], lambda x: []]
)
def test_results_share_memory_with_nothing(function):
    e = compiled(function, [X])
    x = X.copy()
    first, second = e.entry((x,)), e.entry((x,))
    arrays = [x, *first, *second]
    assert not any(np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])


def test_one_program_compiled_twice_shares_its_code():
    first, second = (compiled(lambda x: [cr.tanh(x) * 3], [X]) for _ in range(2))
    assert second.source == "memory"
    assert first.entry((X,))[0].tolist() == second.entry((X,))[0].tolist()


def test_threads_change_no_bit_of_a_step(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PARALLEL_FROM", 0.0)
    monkeypatch.setattr(module, "SHARED_FROM", 0.0)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(301, 203)).astype("f4"), rng.normal(size=(203, 107)).astype("f4")

    def step(x, w):
        y = cr.softmax(cr.tanh(cr.matmul(x, w)), axis=1)
        return [y, cr.sum(y * y), cr.sum(y, axis=0), w - 0.1 * cr.matmul(cr.swapaxes(x, 0, 1), y)]

    before = threads.get_num_threads()
    try:
        results = []
        for number in (1, 2, 3):
            threads.set_num_threads(number)
            e = compiled(step, [x, w], targets=(None, None, None, 1), flagged=True)
            assert e.module.parallel == (number > 1)
            mine = w.copy()
            results.append([*(o.tobytes() for o in e.entry((x, mine))), mine.tobytes()])
        assert results[0] == results[1] == results[2]
    finally:
        threads.set_num_threads(before)


def test_long_programs_are_written_in_short_functions():
    """LLVM takes time that grows with the square of a function's length."""
    n = 1000
    kernel, places = add_number((3,), "f8"), [("arena", 0), ("arena", 64)]
    calls = [(kernel, (("input", 0), places[0]))]
    calls += [(kernel, (places[k % 2], places[(k + 1) % 2])) for k in range(n)]
    calls += [(kernel, (places[n % 2], ("input", 0))), (kernel, (places[n % 2], ("input", 1)))]
    e = program(*calls, inputs=[((3,), "f8")] * 2, commit=n + 1, checked=n // 2, arena=128)
    assert max(function.count("call void @kernel") for function in e.as_text().split("\ndefine ")) <= 64
    x, y = np.zeros(3), np.zeros(3)
    assert e.entry((x, y)) == ()
    assert x.tolist() == y.tolist() == [n + 2.0] * 3
    x[:] = -np.inf  # no invalid operation
    assert e.entry((x, y)) == ()
