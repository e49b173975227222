"""Every record, compiled for NumPy, against the same in eager mode: bit for bit, values and both modes of derivatives."""

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.calls import raw, wrap
from tests.compiler.traced import program_of, run
from tests.laws.derivatives import call, cotangents, differentiable, leaf, sweep
from tests.laws.examples import Example, examples, generator, is_elementwise, is_real, records, resized

RECORDS = records()
# their rules take a shorter way on NumPy's arrays than on those of a trace, where a kernel makes one loop of them all
REASSOCIATED = {
    "attention_weights", "batch_normal", "gelu", "layer_norm", "log_softmax", "softmax", "surprisal",
}  # fmt: skip
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
    """Equal to a few units of the last place of the largest entry."""
    assert (found is None) == (expected is None), what
    if expected is not None:
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype), what
        tolerance = 8 * np.finfo(expected.dtype).eps * max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        np.testing.assert_allclose(found, expected, 0.0, tolerance, err_msg=what)


def variants(record: Any) -> list[Example]:
    """The examples in several precisions and layouts, and where shapes are free, under odd shapes."""
    found = [example.with_dtype(dtype) for dtype in FLOATS for example in examples(record)]
    found += [e.map(odd) for e in examples(record) for odd in (strided, backwards, transposed, read_only)]
    if is_elementwise(record):
        for example in examples(record):
            count = len(example.arrays)
            if count == 1 or not record.samples:
                found += [resized(example, *[shape] * count) for shape in ((), (0,), (3, 0, 2), (1, 1, 5))]
            if count == 2 and not record.samples:
                found += [resized(example, *shapes) for shapes in (((), (3,)), ((3, 1), (1, 4)), ((0,), ()), ((2, 0), (1,)))]  # fmt: skip
    return found


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
    except cr.errors.DTypeError:
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
