"""Every record, compiled for NumPy, against the same in eager mode: bit for bit, values and both modes of derivatives."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compiler.numpy_executor import compile_program
from chainrule.core.calls import raw, wrap
from tests.compiler.traced import program_of, run
from tests.laws.derivatives import call, cotangents, differentiable, leaf, sweep
from tests.laws.examples import Example, examples, generator, is_elementwise, is_real, records, resized

RECORDS = records()
# their rules take a shorter way on NumPy's arrays than on those of a trace, where a kernel makes one loop of them all
REASSOCIATED = {
    "attention_weights", "batch_normal", "gelu", "layer_norm", "log_softmax", "softmax",
}  # fmt: skip
WHOLE = [np.int64, np.int8, np.uint16, np.bool_]
FLOATS = [np.float64, np.float32, np.float16]


def same(found: Any, expected: Any, what: str) -> None:
    """Equal to the bit, in shape and in dtype."""
    assert (found is None) == (expected is None), what
    if expected is None:
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), what
    np.testing.assert_array_equal(found, expected, what, strict=True)
    if found.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected), what)


def near(found: Any, expected: Any, what: str) -> None:
    """Equal to some units of the last place of the largest entry: forty times a score is rounded before differences are taken."""
    assert (found is None) == (expected is None), what
    if expected is not None:
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype), what
        tolerance = 64 * np.finfo(expected.dtype).eps * max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        np.testing.assert_allclose(found, expected, 0.0, tolerance, err_msg=what)


def variants(record: Any) -> list[Example]:
    """The examples in several precisions and layouts, and where shapes are free, under odd shapes."""
    found = [example.with_dtype(dtype) for dtype in FLOATS for example in examples(record)]
    found += [e.map(odd) for e in examples(record) for odd in (strided, backwards, transposed, read_only)]
    found += [e.map(lambda a, kind=kind: whole(a, kind)) for e in examples(record) for kind in WHOLE]
    if is_elementwise(record):
        for example in examples(record):
            count = len(example.arrays)
            if count == 1 or not record.samples:
                found += [resized(example, *[shape] * count) for shape in ((), (0,), (3, 0, 2), (1, 1, 5))]
            if count == 2 and not record.samples:
                found += [resized(example, *shapes) for shapes in (((), (3,)), ((3, 1), (1, 4)), ((0,), ()), ((2, 0), (1,)))]  # fmt: skip
    return found


def whole(a: Any, kind: Any) -> Any:
    return np.rint(a * 2.0).astype(kind) if a.dtype.kind == "f" else a


def strided(a: Any) -> Any:
    return np.repeat(a, 2, -1)[..., ::2] if a.ndim else a


def backwards(a: Any) -> Any:
    return np.flip(np.flip(a).copy())


def transposed(a: Any) -> Any:
    return a.T.copy().T


def read_only(a: Any) -> Any:
    a = a.copy()
    a.flags.writeable = False
    return a


def taken(record: Any, example: Example) -> bool:
    """Whether NumPy itself takes these operands."""
    try:
        with np.errstate(all="ignore"):
            call(record, example.arrays, example.parameters)
    except (cr.errors.DTypeError, cr.errors.ShapeError):  # NumPy refuses negative powers of integers by a ValueError
        return False
    return True


@pytest.mark.parametrize("name", RECORDS)
def test_values(name: str) -> None:
    record = RECORDS[name]
    for example in variants(record):
        if not taken(record, example):
            continue
        with np.errstate(all="ignore"):
            expected = call(record, example.arrays, example.parameters)
        found = run(lambda *arrays, e=example: call(record, arrays, e.parameters), *example.arrays)
        for one, other in zip(found, expected, strict=True):
            same(one, other, f"{name} of {example}")


@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if any(record.rules)])
def test_gradients(name: str) -> None:
    record = RECORDS[name]
    for example in variants(record):
        if not (taken(record, example) and differentiable(record, example)):
            continue
        with np.errstate(all="ignore"):
            outs = call(record, example.arrays, example.parameters)
        cts = [ct for ct in cotangents(generator(record, "compiled"), outs) if ct is not None]

        def gradients(*given: Any, record: Any = record, example: Example = example) -> list[Any]:
            arrays, weights = given[: len(example.arrays)], iter(given[len(example.arrays) :])
            wanted = differentiable(record, Example(arrays, example.parameters))
            operands = [leaf(a) if k in wanted else wrap(a, None) for k, a in enumerate(arrays)]
            with np.errstate(all="ignore"):
                outs = call(record, operands, example.parameters)
            return sweep([operands[k] for k in wanted], outs, [next(weights) if is_real(o) else None for o in outs])

        expected = gradients(*example.arrays, *cts)
        found = run(gradients, *example.arrays, *cts)
        for one, other in zip(found, expected, strict=True):
            (near if name in REASSOCIATED else same)(one, other, f"gradient of {name} of {example}")


@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if any(record.rules)])
def test_tangents(name: str) -> None:
    record = RECORDS[name]
    for example in [e.with_dtype(dtype) for dtype in FLOATS[:2] for e in examples(record)]:
        wanted = differentiable(record, example)
        if not wanted:
            continue
        ts = cotangents(generator(record, "tangents"), [example.arrays[k] for k in wanted])

        def tangents(*given: Any, example: Example = example, wanted: Any = wanted) -> list[Any]:
            arrays = given[: len(example.arrays)]

            def f(*variables: Any) -> Any:
                of = dict(zip(wanted, variables, strict=True))
                return call(record, [of.get(k, a) for k, a in enumerate(arrays)], example.parameters)

            return cr.jvp(f, tuple(arrays[k] for k in wanted), tuple(given[len(example.arrays) :]))[1]

        expected = [None if t is None else raw(t) for t in tangents(*example.arrays, *ts)]
        for one, other in zip(run(tangents, *example.arrays, *ts), expected, strict=True):
            near(one, other, f"tangent of {name} of {example}")


# ------------------------------------------------------------ memory
@pytest.mark.parametrize("name", RECORDS)
def test_what_may_share_memory_says_so(name: str) -> None:
    """The arena gives memory out again when the last that says it looks there is read."""
    record = RECORDS[name]
    if record.is_view or record.multiple:
        return
    for example in variants(record):
        if taken(record, example):
            with np.errstate(all="ignore"):
                (out,) = call(record, example.arrays, example.parameters)
            assert not any(np.shares_memory(out, a) for a in example.arrays)


def chain(x: Any, y: Any) -> list[Any]:
    """Many values that die, views of them that live longer, turned arrays, and results that are read again."""
    a = np.exp(x) * y
    view = a[1:]
    b = np.maximum(a.T, 0.5).T + x
    for _ in range(5):
        b = np.tanh(b * b + x) - view.sum()
    turned = (b * 2.0).T
    x += turned.T
    y *= view.mean()
    return [b, view, turned, cr.sum(turned, axis=0), cr.sum(turned, axis=1), a, a, x, np.float32(2) * x.T]


def test_the_arena_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    executable = compile_program(program_of(chain, [np.ones((4, 3), np.float32)] * 2)[0])
    kept = []
    for _ in range(4):
        x, y = (rng.normal(size=(4, 3)).astype(np.float32) for _ in range(2))
        mine = [x.copy(), y.copy()]
        found = executable([x, y])
        assert found is not None
        for one, other in zip([*found, x, y], [*chain(*mine), *mine], strict=True):
            same(one, other, "chain")
        kept += [(array, array.copy()) for array in found]
        assert not any(np.shares_memory(a, b) for k, a in enumerate(found) for b in [*found[:k], x, y])
    assert all(np.array_equal(array, copy) for array, copy in kept)  # no later call has written to a result
    assert 0 < executable.arena < 4 * 4 * 64
    assert "out=" in executable.as_text()


def test_an_exchange() -> None:
    def f(x: Any, y: Any) -> list[Any]:
        x[...], y[...] = y.copy(), x.copy()
        return [x]

    x, y = np.arange(3.0), np.ones(3)
    (found,) = run(f, x, y, twice=False)
    assert (x.tolist(), y.tolist(), found.tolist()) == ([1.0] * 3, [0.0, 1.0, 2.0], [1.0] * 3)


def test_calls_at_the_same_time() -> None:
    x = np.random.default_rng(0).normal(size=(64, 64))
    executable = compile_program(program_of(lambda a: [np.exp(np.sin(a) * a) + a @ a, np.cos(a * 2.0).sum()], [x])[0])
    executable([x])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: (k, executable([x + k])), range(200)))
    for k, (product, total) in found:
        a = x + k
        np.testing.assert_array_equal(product, np.exp(np.sin(a) * a) + a @ a)
        np.testing.assert_array_equal(total, np.cos(a * 2.0).sum())


def test_a_hundred_thousand_operations() -> None:
    def f(x: Any) -> list[Any]:
        y = x
        for k in range(100_000):
            y = y + x if k % 2 else y * 0.5
        return [y]

    x = np.ones(3)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(f, x)[0], f(x)[0])


@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if any(record.rules)])
def test_a_cotangent_that_is_known_while_the_operands_are_traced(name: str) -> None:
    record = RECORDS[name]
    for example in examples(record):
        wanted = differentiable(record, example)
        cts = cotangents(generator(record, "known"), call(record, example.arrays, example.parameters))

        def gradients(*arrays: Any, example: Example = example, wanted: Any = wanted, cts: Any = cts) -> list[Any]:
            operands = [leaf(a) if k in wanted else wrap(a, None) for k, a in enumerate(arrays)]
            return sweep([operands[k] for k in wanted], call(record, operands, example.parameters), cts)

        for one, other in zip(run(gradients, *example.arrays), gradients(*example.arrays), strict=True):
            near(one, other, f"gradient of {name} with a known cotangent")
