"""PyTorch and JAX on the examples of every record that has a namesake there: values and gradients, in the same dtype."""

import importlib
from typing import Any

import numpy as np
import pytest

from tests.laws.derivatives import cotangents, expect, pull, values
from tests.laws.examples import (
    Example,
    differentiable,
    examples,
    generator,
    is_elementwise,
    records,
)
from tests.oracle.peers import peer

TOLERANCE = {"float64": 1e-12, "float32": 1e-6}


def _sum(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return x.sum(axes, keepdims=keepdims) if axes else x  # PyTorch reads no axes as all axes


# Only what is called differently; an operation of one name and signature is found by it. (library, *arrays, *parameters)
SPELLINGS: dict[str, dict[str, Any]] = {
    "torch": {
        "equal": lambda torch, x, y: torch.eq(x, y),
        "log_sigmoid": lambda torch, x: torch.nn.functional.logsigmoid(x),
        "softplus": lambda torch, x: torch.nn.functional.softplus(x),
        "power_by": lambda torch, x, exponent: x**exponent,
        "bitwise_invert": lambda torch, x: torch.bitwise_not(x),
        "at_least": lambda torch, x, y: torch.clamp(x, min=y),
        "at_most": lambda torch, x, y: torch.clamp(x, max=y),
        "sum": lambda torch, *of: _sum(*of),
        "permute_dims": lambda torch, x, axes: x.permute(axes),
        "matrix_transpose": lambda torch, x: x.mT,
        "matmul": lambda torch, x, y: x @ y,
        "reshape": lambda torch, x, shape: x.reshape(shape),
        "broadcast_to": lambda torch, x, shape: x.broadcast_to(shape),
    },
    "jax": {
        **{
            name: lambda jax, x, name=name: getattr(jax.nn, name)(x)
            for name in ("sigmoid", "log_sigmoid", "softplus", "relu")
        },
        "power_by": lambda jax, x, exponent: x**exponent,
        "at_least": lambda jax, x, y: jax.numpy.clip(x, min=y),
        "at_most": lambda jax, x, y: jax.numpy.clip(x, max=y),
        "sum": lambda jax, *of: _sum(*of),
        "permute_dims": lambda jax, x, axes: jax.numpy.permute_dims(x, axes),
        "matrix_transpose": lambda jax, x: x.mT,
        "matmul": lambda jax, x, y: x @ y,
        "reshape": lambda jax, x, shape: x.reshape(shape),
        "broadcast_to": lambda jax, x, shape: jax.numpy.broadcast_to(x, shape),
    },
}
RECORDS = records()


def spelling(library: str, name: str) -> Any:
    """How the library says it, or None."""
    if name in SPELLINGS[library]:
        return SPELLINGS[library][name]
    if not is_elementwise(RECORDS[name]):
        return None
    try:
        module = importlib.import_module({"torch": "torch", "jax": "jax.numpy"}[library])
    except ImportError:
        return None
    found = getattr(module, name, None)
    return found and (lambda _, *of: found(*of))


CASES = [
    pytest.param(library, name, dtype, id=f"{library}-{dtype}-{name}")
    for library in SPELLINGS
    for name in RECORDS
    if spelling(library, name) is not None
    for dtype in TOLERANCE
]


def by_torch(spell: Any, example: Example, wanted: list[int], ct: Any) -> tuple[Any, list[Any]]:
    torch = peer("torch")
    arrays = [torch.tensor(a, requires_grad=k in wanted) for k, a in enumerate(example.arrays)]
    out = spell(torch, *arrays, *example.parameters)
    if wanted:
        out.backward(torch.tensor(ct))
    return out.detach().numpy(), [arrays[k].grad.numpy() for k in wanted]


def by_jax(spell: Any, example: Example, wanted: list[int], ct: Any) -> tuple[Any, list[Any]]:
    jax = peer("jax")
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(a) for a in example.arrays]

        def f(*xs: Any) -> Any:
            operands = list(arrays)
            for k, x in zip(wanted, xs, strict=True):
                operands[k] = x
            return spell(jax, *operands, *example.parameters)

        out, back = jax.vjp(f, *[arrays[k] for k in wanted])
        return np.asarray(out), [np.asarray(g) for g in back(jax.numpy.asarray(ct))] if wanted else []


@pytest.mark.parametrize(("library", "name", "dtype"), CASES)
def test_record(library, name, dtype):
    record = RECORDS[name]
    spell = spelling(library, name)
    for plain in examples(record):
        example = plain.with_dtype(dtype)
        (out,) = values(record, example)
        wanted = differentiable(record, example)
        (ct,) = cotangents(generator(record, "oracle"), [out])
        by = by_torch if library == "torch" else by_jax
        their_out, their_gradients = by(spell, example, wanted, ct)
        assert their_out.dtype == out.dtype
        expect(out, their_out, TOLERANCE[dtype], f"value of {name}")
        for g, theirs in zip(pull(record, example, [ct]), their_gradients, strict=True):
            assert g.dtype == theirs.dtype == np.dtype(dtype)
            expect(g, theirs, TOLERANCE[dtype], f"gradient of {name}")


@pytest.mark.parametrize("library", sorted(SPELLINGS))
def test_enough_is_compared(library):
    """A library that is there has a namesake of most operations."""
    peer(library)
    assert len({case.values[1] for case in CASES if case.values[0] == library}) >= 60
