"""DESIGN 3: dtypes.

| sentence | test |
|--|--|
| data keep theirs | test_data_keep_their_dtype |
| Python floats become float64, as in NumPy | test_python_floats_become_float64 |
| creation functions use the default dtype, float64 until told | test_creation_functions_use_the_default_dtype |
| data keep theirs under another default, too | test_the_default_does_not_touch_data |
| no rule promotes float32 | test_no_rule_promotes_float32, test_float32_stays_in_every_walk |
| mixed dtypes give each leaf its own | test_mixed_dtypes_give_each_leaf_its_own |
"""

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.primitive import PRIMITIVES
from tests.laws.examples import differentiable, examples, records


def test_data_keep_their_dtype():
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64, np.bool_):
        assert cr.tensor(np.ones(2, dtype)).dtype == dtype
        assert cr.asarray(np.ones(2, dtype)).dtype == dtype
        assert cr.tensor(dtype(1)).dtype == dtype
    assert cr.tensor(cr.tensor(np.float32(1))).dtype == np.float32
    assert cr.tensor([1.0], np.float32).dtype == np.float32
    assert cr.tensor([1.0], "float16").dtype == np.float16


def test_python_floats_become_float64():
    assert cr.tensor(1.0).dtype == np.float64
    assert cr.tensor([1.0, 2]).dtype == np.float64
    assert cr.tensor([1, 2]).dtype == np.int64
    assert cr.tensor(True).dtype == np.bool_
    assert cr.tensor([]).dtype == np.float64


def test_creation_functions_use_the_default_dtype():
    def made():
        return [
            cr.zeros(2), cr.ones(2), cr.empty(2), cr.full(2, 1.0), cr.eye(2), cr.linspace(0, 1, 3), cr.arange(3.0),
            cr.arange(0, 1, 0.5),
        ]  # fmt: skip

    assert {t.dtype for t in made()} == {np.dtype(np.float64)}
    with cr.set_default_dtype(np.float32):
        assert {t.dtype for t in made()} == {np.dtype(np.float32)}
        assert cr.arange(3).dtype == cr.full(2, 1).dtype == np.int64
        assert cr.zeros(2, np.float64).dtype == np.float64
        assert cr.full(2, np.float64(1.0)).dtype == np.float64  # a NumPy scalar is strong
        assert cr.zeros_like(np.ones(2)).dtype == np.float64


def test_the_default_does_not_touch_data():
    with cr.set_default_dtype(np.float32):
        assert cr.tensor(1.0).dtype == np.float64
        assert cr.tensor(np.ones(2)).dtype == np.float64
        assert (cr.tensor([1, 2]) * 0.5).dtype == np.float64
        assert type(cr.grad(lambda x: x * x)(3.0)) is float


# all but the one that is told a dtype
RECORDS = [name for name, record in records().items() if any(record.rules) and name != "astype"]


@pytest.mark.parametrize("name", RECORDS)
def test_no_rule_promotes_float32(name: str):
    """The rules themselves, before the engine fits anything: float32 in, float32 out."""
    record = PRIMITIVES[name]
    example = examples(record)[0].with_dtype(np.float32)
    wanted = differentiable(record, example)
    tensors = [cr.tensor(a, requires_grad=k in wanted) for k, a in enumerate(example.arrays)]
    with np.errstate(all="ignore"):
        out = (
            record.call(tensors, *example.parameters) if record.variadic else record.call(*tensors, *example.parameters)
        )
        pieces = out if record.multiple else [out]
        assert {piece.dtype for piece in pieces} == {np.dtype(np.float32)}
        node = pieces[0].node[2][0] if record.multiple else pieces[0].node
        cts = [np.ones(piece.shape, np.float32) for piece in pieces]
        named = record.residuals(node)
        for k in wanted:
            rule, read = (record.rules[0], record.reads[0]) if record.variadic else (record.rules[k], record.reads[k])
            residuals = {
                residual: k if residual == "index" and record.variadic else named[residual] for residual in read
            }
            g = rule(cts if record.multiple else cts[0], **residuals)
            assert g.dtype == np.float32, f"rule {k}"


def test_float32_stays_in_every_walk():
    x = np.array([0.5, 1.5], np.float32)

    def f(v):
        h = cr.tanh(v * 2.0 + 1) / (1.0 + cr.exp(-v)) + cr.where(v > 1.0, v**2, cr.sqrt(v)) - cr.mean(v) * cr.std(v)
        return cr.logsumexp(cr.softmax(h) * 0.5) + cr.maximum(h, 0.0).sum()

    assert cr.grad(f)(x).dtype == np.float32
    value, tangent = cr.jvp(f, (x,), (x,))
    assert value.dtype == tangent.dtype == np.float32
    assert cr.hessian(f)(x).dtype == np.float32
    assert cr.hvp(f, x, x.astype(np.float64)).dtype == np.float32


def test_mixed_dtypes_give_each_leaf_its_own():
    leaves = [cr.tensor(np.ones(2, dtype), requires_grad=True) for dtype in (np.float16, np.float32, np.float64)]
    product = leaves[0] * leaves[1] * leaves[2] * np.array([1, 2])
    assert product.dtype == np.float64
    product.sum().backward()
    for x in leaves:
        assert x.grad.dtype == x.dtype
        assert x.grad.tolist() == [1.0, 2.0]
