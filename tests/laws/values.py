"""Laws of values: what a record computes, whoever computes it and however the arrays lie in memory."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import array_api_strict as strict
import numpy as np

from chainrule import modes
from chainrule.backends import registry
from chainrule.backends.abstract import Abstract
from chainrule.core import equations
from chainrule.core.calls import raw
from chainrule.core.primitive import Primitive
from chainrule.errors import ChainruleError
from tests.laws.derivatives import call, cotangents, expect, leaf, pull, recorded, sweep, values
from tests.laws.examples import Example, examples, generator, is_elementwise, is_real, resized
from tests.laws.registry import every, has_rules, law

LENGTH_FREE = {"axes", "axis", "keepdims", "exponent", "order", "dtype", "correction", "condition"}
DTYPES = (np.float64, np.float32, np.int64, np.int8, np.bool_)

NORMAL: dict[str, Any] = {
    "none": lambda x: 0.5 * math.erfc(-x / math.sqrt(2)),
    "tanh": lambda x: 0.5 + 0.5 * math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
}
# Where NumPy has no function of that name: the textbook's.
TEXTBOOK: dict[str, Any] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "log_sigmoid": lambda x: np.log(1 / (1 + np.exp(-x))),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "relu": lambda x: np.where(x > 0, x, 0 * x),
    "erf": np.vectorize(math.erf),
    "gelu": lambda x, approximate: x * np.vectorize(NORMAL[approximate])(x),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gate": lambda x, y: np.heaviside(y, 0.0) * x,
    "identity": lambda x: x,  # NumPy means the matrix
    "at_least": np.maximum,
    "at_most": np.minimum,
    "share_of_win": lambda x, y: np.heaviside(x - y, 0.5),
    "power_by": np.float_power,
    "power_of_numbers": np.float_power,
    "bitwise_invert": np.logical_not,
    "getitem": lambda x, index: x[index],
    "gather": lambda x, index: x[index.entries],
    "sum": lambda x, axes, keepdims: np.sum(x, axis=axes, keepdims=keepdims),
    "all": lambda x, axes, keepdims: np.all(x, axis=axes, keepdims=keepdims),
    "any": lambda x, axes, keepdims: np.any(x, axis=axes, keepdims=keepdims),
}


def by_numpy(record: Primitive, example: Example) -> Any:
    """What NumPy says, or the textbook; None where neither has the operation."""
    namesake = None if record.parameters or record.variadic or record.multiple else getattr(np, record.name, None)
    spelling = TEXTBOOK.get(record.name) or namesake
    return None if spelling is None else spelling(*example.arrays, *example.parameters)


@law()
def value(record: Primitive) -> None:
    for example in examples(record):
        plain = values(record, example)
        expected = by_numpy(record, example)
        if expected is not None:
            expect(plain[0], expected, 1e-13, f"{record.name} beside NumPy")
            assert plain[0].dtype == np.asarray(expected).dtype
        _, outs = recorded(record, example)
        for out, array in zip(outs, plain, strict=True):
            np.testing.assert_array_equal(raw(out), array, strict=True)


STRICT = type(strict.asarray(0.0))


@contextmanager
def strict_backend() -> Generator[None]:
    """Known inside only: a library that is known sends every call to the slow path."""
    registry.use(strict, STRICT)
    try:
        yield
    finally:
        del registry._namespaces[STRICT]
        modes.add_unusual(-1)


def expect_strict(given: Any, expected: Any, what: str) -> None:
    assert type(given) is STRICT, f"{what}: {type(given).__name__} came back"
    given = np.asarray(given)
    expect(given, expected, 1e-12, what)
    assert given.dtype == expected.dtype, f"{what}: {given.dtype}, expected {expected.dtype}"


@law()
def strict_value(record: Primitive) -> None:
    """array-api-strict computes the same, and nothing comes back as NumPy's."""
    for example in examples(record):
        with strict_backend():
            theirs = values(record, example.map(strict.asarray))
        for ours, b in zip(values(record, example), theirs, strict=True):
            expect_strict(b, ours, "array-api-strict")


@law(has_rules)
def strict_gradient(record: Primitive) -> None:
    for example in examples(record):
        cts = cotangents(generator(record, "strict"), values(record, example))
        with strict_backend():
            strict_cts = [None if ct is None else strict.asarray(ct) for ct in cts]
            theirs = pull(record, example.map(strict.asarray), strict_cts)
        for a, b in zip(pull(record, example, cts), theirs, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                expect_strict(b, a, "gradient by array-api-strict")


@law()
def slow_path(record: Primitive) -> None:
    """While something unusual is open the same comes out as on the fast path: values, types and gradients."""
    for example in examples(record):
        cts = cotangents(generator(record, "slow"), values(record, example))
        fast = [*values(record, example), *pull(record, example, cts)]
        with equations.tracing():
            slow = [*values(record, example), *pull(record, example, cts)]
        for a, b in zip(fast, slow, strict=True):
            assert type(a) is type(b)
            np.testing.assert_array_equal(a, b, strict=True)


# ------------------------------------------------------------------------------------------------------------------- types
def variants(record: Primitive) -> list[Example]:
    """The examples in every dtype, and with axes of length 0, so far as NumPy computes them."""
    tried = [e.map(lambda a, d=d: a.astype(d)) for e in examples(record) for d in DTYPES]
    tried += emptied(record)
    if is_elementwise(record):
        count = len(tried[0].arrays)
        tried += [resized(e, *shapes) for e in examples(record) for shapes in broadcasts(count)]
    return [example for example in tried if numpy_computes(record, example)]


def numpy_computes(record: Primitive, example: Example) -> bool:
    try:
        values(record, example)
    except (ChainruleError, ArithmeticError):
        return False
    return True


def broadcasts(count: int) -> list[tuple[tuple[int, ...], ...]]:
    """Shapes for `count` inputs that broadcast, 0-d and empty ones included."""
    if count == 1:
        return [((),), ((1,),), ((0,),), ((2, 0),)]
    pairs = [((), (2, 3)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((1,), (5, 4)), ((), ()), ((0,), (1,)), ((2, 1), (2, 0))]
    pairs += [(b, a) for a, b in pairs]
    return [(*pair, *((1,),) * (count - 2)) for pair in pairs] + ([((3,), (2, 1), (2, 3))] if count == 3 else [])


def emptied(record: Primitive) -> list[Example]:
    """The first or the last axis of every array cut to nothing, where the parameters say nothing about lengths."""
    if not set(record.parameters) <= LENGTH_FREE:
        return []

    def cut(a: Any, axis: int) -> Any:
        return np.take(a, [], axis) if a.ndim else a

    return [e.map(lambda a, axis=axis: cut(a, axis)) for e in examples(record) for axis in (0, -1)]


@law()
def type_rule(record: Primitive) -> None:
    """On abstract arrays it gives the shape and dtype that NumPy gives."""
    for example in variants(record):
        with equations.tracing():
            given = call(record, [Abstract(a.shape, a.dtype) for a in example.arrays], example.parameters)
        for abstract, array in zip(given, values(record, example), strict=True):
            assert isinstance(abstract, Abstract)
            assert (abstract.shape, abstract.dtype) == (array.shape, array.dtype), f"for {example}"


@law(has_rules)
def type_rule_of_pullback(record: Primitive) -> None:
    """A backward pass records on abstract arrays, and gives the types that it gives on numbers."""
    for example in [*examples(record), *(e for e in emptied(record) if numpy_computes(record, e))]:
        cts = cotangents(generator(record, "abstract"), values(record, example))
        expected = pull(record, example, cts)
        with equations.tracing():
            abstract = example.map(lambda a: Abstract(a.shape, a.dtype) if a.dtype.kind == "f" else a)
            given = pull(record, abstract, [ct if ct is None else Abstract(ct.shape, ct.dtype) for ct in cts])
        for a, b in zip(given, expected, strict=True):
            assert (a is None) == (b is None)
            assert a is None or (a.shape, a.dtype) == (b.shape, b.dtype)


@law()
def precision(record: Primitive) -> None:
    """float32 and float16 stay what they are, in values and in gradients."""
    for example in examples(record):
        wide = values(record, example)
        cts = cotangents(generator(record, "precision"), wide)
        gradients = pull(record, example, cts)
        for dtype, tolerance in ((np.float32, 2e-5), (np.float16, 3e-2)):
            narrow = example.with_dtype(dtype)
            if dtype == np.float16 and not numpy_computes(record, narrow):
                continue
            outs = values(record, narrow)
            for a, b in zip(outs, wide, strict=True):
                if record.dtype_rule is None and is_real(b):
                    assert a.dtype == dtype, f"{np.dtype(dtype)} became {a.dtype}"
                expect(a.astype(b.dtype), b, tolerance, f"value in {np.dtype(dtype)}")
            given = pull(
                record, narrow, [None if c is None else c.astype(a.dtype) for a, c in zip(outs, cts, strict=True)]
            )
            for a, b in zip(given, gradients, strict=True):
                if a is not None:
                    assert a.dtype == dtype, f"{np.dtype(dtype)} has a gradient in {a.dtype}"
                    expect(a.astype(float), b, tolerance * 4, f"gradient in {np.dtype(dtype)}")


@law()
def empty_and_scalar_shapes(record: Primitive) -> None:
    """Where NumPy computes, there are a value and a gradient of the right shape; where it refuses, the error is ours."""
    tried = emptied(record)
    if is_elementwise(record):
        tried += [
            resized(e, *((shape,) * len(e.arrays))) for e in examples(record) for shape in ((), (0,), (2, 0), (1,))
        ]
    for example in tried:
        try:
            outs = values(record, example)
        except ChainruleError:
            continue
        leaves, recorded_outs = recorded(record, example)
        for a, b in zip(recorded_outs, outs, strict=True):
            assert a.data.shape == b.shape
        for x, g in zip(leaves, sweep(leaves, recorded_outs, cotangents(generator(record), outs)), strict=True):
            assert g is None or (g.shape, g.dtype) == (x.data.shape, x.data.dtype)


# ------------------------------------------------------------------------------------------------------------------ memory
def layouts(a: Any) -> dict[str, Any]:
    """The same values, otherwise in memory."""
    if not a.ndim:
        return {}
    spaced = np.full([2 * n + 1 for n in a.shape], 7, a.dtype)
    strided = spaced[tuple(slice(1, None, 2) for _ in a.shape)]
    strided[...] = a
    backwards = a[(slice(None, None, -1),) * a.ndim].copy()[(slice(None, None, -1),) * a.ndim]
    return {"strided": strided, "backwards": backwards, "columns first": np.asfortranarray(a)}


@law()
def memory_layout(record: Primitive) -> None:
    """Strides, negative ones included, change nothing."""
    for example in examples(record):
        outs = values(record, example)
        cts = cotangents(generator(record, "layout"), outs)
        gradients = pull(record, example, cts)
        for kind in ("strided", "backwards", "columns first"):
            laid = example.map(lambda a, kind=kind: layouts(a).get(kind, a))
            for a, b in zip(values(record, laid), outs, strict=True):
                expect(a, b, 1e-14, f"value of arrays laid {kind}")
            odd = [None if ct is None else layouts(ct).get(kind, ct) for ct in cts]
            for a, b in zip(pull(record, laid, odd), gradients, strict=True):
                if b is not None:
                    expect(a, b, 1e-14, f"gradient of arrays laid {kind}")


def frozen(example: Example) -> Example:
    """Copies that refuse to be written to."""

    def freeze(a: Any) -> Any:
        a = np.array(a)
        a.flags.writeable = False
        return a

    return example.map(freeze)


@law()
def inputs_unchanged(record: Primitive) -> None:
    """Neither the operation nor its rules write into arrays, cotangents or residuals; run twice they give the same."""
    for example in map(frozen, examples(record)):
        before = [a.copy() for a in example.arrays]
        leaves, outs = recorded(record, example)
        results = [np.array(out.data) for out in outs]
        cts = cotangents(generator(record, "pure"), results)
        for ct in cts:
            if ct is not None:
                ct.flags.writeable = False
        first, second = sweep(leaves, outs, cts), sweep(leaves, outs, cts)
        for a, b in zip(first, second, strict=True):
            if a is not None:
                np.testing.assert_array_equal(a, b, strict=True)
        for a, b in zip([*example.arrays, *(out.data for out in outs)], [*before, *results], strict=True):
            np.testing.assert_array_equal(a, b)


@law()
def memory_of_its_own(record: Primitive) -> None:
    """A result shares memory with no input, unless the record says that it is a view; then a view of the first alone."""
    for example in examples(record):
        for out in values(record, example):
            for k, a in enumerate(example.arrays):
                if not (record.is_view and k == 0):
                    assert not np.shares_memory(out, a), f"the result shares memory with input {k}"


@law(every)
def numbers_as_operands(record: Primitive) -> None:
    """A Python number is weak: it takes the partner's dtype, on either side, on arrays and on tensors."""
    if not is_elementwise(record) or len(record.inputs) != 2:
        return
    for example in examples(record):
        x, y = example.with_dtype(np.float32).arrays
        if x.dtype.kind != "f":
            return
        for a, b in ((x, float(y.flat[0])), (float(x.flat[0]), y)):
            plain = record.call(a, b)
            tensor = record.call(*(leaf_or_number(v) for v in (a, b)))
            assert raw(tensor).dtype == plain.dtype
            np.testing.assert_array_equal(raw(tensor), plain)
            if is_real(plain):
                assert plain.dtype == np.float32
                expect(
                    plain,
                    record.call(a, np.full_like(x, b)) if a is x else record.call(np.full_like(y, a), b),
                    1e-6,
                    "number",
                )


def leaf_or_number(v: Any) -> Any:
    return v if isinstance(v, float) else leaf(v)
