"""Every record as machine code, on every example, dtype and odd shape, against what eager mode computes."""

from itertools import product

import numpy as np
import pytest

from chainrule.backends.abstract import Abstract
from chainrule.compiler.program import Program
from chainrule.core.equations import record
from tests.compiler.lowered import eager
from tests.laws.examples import examples, is_elementwise, records

native = pytest.importorskip("chainrule.compiler.native.program")
pytest.importorskip("llvmlite")

RECORDS = records()
SAME = [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16]
MIXED = [
    (np.int8, np.float32),
    (np.uint8, np.int64),
    (np.bool_, np.float64),
    (np.float32, np.float64),
    (np.int64, np.uint64),
]
SHAPES = [(), (0,), (1,), (33,), (3, 17), (2, 0, 3), (5, 1)]
UNSIGNED_WRONG = {"sigmoid", "silu"}
"""Eager negates an unsigned integer in these, and wraps round."""


def run(primitive, calls):
    """All calls of a record in one program: (arrays, parameters) each, and pairs of what came and what should have."""
    inputs, outputs, values, wanted = [], [], [], []
    for arrays, parameters in calls:
        try:
            want = eager(primitive, arrays, parameters)
        except (TypeError, ValueError):
            continue  # NumPy refuses these
        if any(w.dtype.kind not in "biuf" for w in want):
            continue
        boxes = [Abstract(a.shape, a.dtype) for a in arrays]
        out = record(primitive, boxes, parameters)
        inputs += [box.equation for box in boxes]
        values += [np.array(a, order="C") for a in arrays]
        outputs += [o.equation for o in (out if isinstance(out, tuple) else (out,))]
        wanted += want
    program = Program(tuple(inputs), tuple(outputs), (None,) * len(outputs))
    return zip(native.compile_program(program)(values), wanted, strict=True)


def assert_close(pairs, units=100):
    count = 0
    for got, w in pairs:
        g = np.asarray(got)
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if w.dtype.kind == "f":
            eps = units * np.finfo(w.dtype).eps
            size = np.abs(w[np.isfinite(w)]).max(initial=1.0)
            np.testing.assert_allclose(g, w, rtol=eps, atol=eps * float(size))
        else:
            np.testing.assert_array_equal(g, w)
        count += 1
    assert count


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_as_machine_code(name):
    primitive = RECORDS[name]
    calls = [
        (of.arrays, of.parameters)
        for example in examples(primitive)
        for of in (example, example.with_dtype(np.float32), example.with_dtype(np.float16))
    ]
    assert_close(run(primitive, calls))


def numbers(shape, dtype, shift):
    return ((np.arange(int(np.prod(shape))) + shift) % 4).reshape(shape).astype(dtype)


@pytest.mark.parametrize("name", [name for name, primitive in RECORDS.items() if is_elementwise(primitive)])
def test_elementwise_records_of_every_dtype_and_shape(name):
    primitive, parameters = RECORDS[name], examples(RECORDS[name])[0].parameters
    dtypes = [(d, d) for d in SAME if not (name in UNSIGNED_WRONG and np.dtype(d).kind == "u")]
    if len(primitive.inputs) > 1:
        dtypes += MIXED
    kinds = [(one, two, (3, 5)) for one, two in dtypes]
    kinds += [(np.float32, np.float32, shape) for shape in SHAPES]
    calls = []
    for one, two, shape in kinds:
        arrays = [numbers(shape, one, 0), numbers(shape[-1:], two, 1)]
        if name == "where":
            arrays.insert(0, numbers(shape, np.bool_, 2))
        calls.append((arrays[: len(primitive.inputs)], parameters))
    assert_close(run(primitive, calls))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "count_nonzero", "all", "any", "argmax", "argmin"])
def test_folds_of_every_dtype_and_shape(name):
    calls = []
    for dtype, shape in product([*SAME[:-1], np.float32, np.float64], [(7,), (3, 5), (2, 1, 33), (1, 40)]):
        x = (numbers(shape, np.int64, 1) % 3).astype(dtype)
        if name.startswith("arg"):
            calls += [([x], (k, False)) for k in range(len(shape))]
        else:
            calls += [
                ([x], (axes, k % 2 == 0)) for k, axes in enumerate([tuple(range(len(shape))), (0,), (len(shape) - 1,)])
            ]
    if name in ("sum", "prod", "all", "any", "count_nonzero"):
        calls += [
            ([np.ones(shape, np.float32)], (axes, False))
            for shape, axes in (((0,), (0,)), ((3, 0), (1,)), ((0, 3), (1,)), ((), ()))
        ]
    assert_close(run(RECORDS[name], calls))
