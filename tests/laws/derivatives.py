"""Records run and differentiated by the engine, and derivatives that owe nothing to it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.core.calls import raw, wrap
from chainrule.core.graph import leaf_node
from chainrule.core.primitive import Primitive
from chainrule.verify.differences import close
from chainrule.walks.reverse import reverse
from tests.laws.examples import Example, differentiable, is_real

Arrays = list[Any]


# ------------------------------------------------------------------------------------------------------------- the engine
def leaf(array: Any) -> Any:
    tensor = wrap(array, None)
    tensor.node = leaf_node(tensor)
    return tensor


def call(record: Primitive, operands: Sequence[Any], parameters: tuple[Any, ...]) -> list[Any]:
    """The outputs, always as a list."""
    out = record.call(operands, *parameters) if record.variadic else record.call(*operands, *parameters)
    return list(out) if record.multiple else [out]


def values(record: Primitive, example: Example) -> Arrays:
    """On plain arrays."""
    with np.errstate(all="ignore"):
        return call(record, example.arrays, example.parameters)


def draw_like(rng: np.random.Generator, array: Any) -> Any:
    return np.asarray(rng.normal(size=array.shape)).astype(array.dtype)


def cotangents(rng: np.random.Generator, outs: Arrays) -> Arrays:
    """A random one for each real output, None for the others."""
    return [draw_like(rng, out) if is_real(out) else None for out in outs]


def recorded(record: Primitive, example: Example) -> tuple[list[Any], list[Any]]:
    """The leaves that want a gradient, and the outputs as tensors."""
    wanted = differentiable(record, example)
    operands = [leaf(a) if k in wanted else wrap(a, None) for k, a in enumerate(example.arrays)]
    with np.errstate(all="ignore"):
        return [operands[k] for k in wanted], call(record, operands, example.parameters)


def sweep(leaves: list[Any], outs: list[Any], cts: Arrays, graph: bool = False) -> list[Any]:
    """The cotangent of each leaf, None where the walk did not come by."""
    roots = [(out.node, ct) for out, ct in zip(outs, cts, strict=True) if out.node is not None and ct is not None]
    found = reverse(roots, graph, wanted={x.node[0] for x in leaves}) if roots and leaves else []
    by_number = {node[0]: g for node, g in found}
    return [by_number.get(x.node[0]) for x in leaves]


def pull(record: Primitive, example: Example, cts: Arrays) -> Arrays:
    """The pullback of the record on raw arrays."""
    leaves, outs = recorded(record, example)
    return sweep(leaves, outs, cts)


Function = Callable[..., list[Any]]


def function(record: Primitive, example: Example) -> tuple[Function, Arrays]:
    """The record as a function of its differentiable inputs alone, and their values."""
    wanted = differentiable(record, example)

    def f(*xs: Any) -> list[Any]:
        operands: list[Any] = [wrap(a, None) if xs and not isinstance(xs[0], np.ndarray) else a for a in example.arrays]
        for k, x in zip(wanted, xs, strict=True):
            operands[k] = x
        outs = call(record, operands, example.parameters)
        return [out for out in outs if is_real(out) or "complex" in str(out.dtype)]  # for the complex step

    return f, [example.arrays[k] for k in wanted]


def gradient(f: Function, weights: Arrays) -> Function:
    """The gradient of the inner product of `f` with `weights`, recorded, so that it can be differentiated again."""

    def g(*xs: Any) -> list[Any]:
        found = sweep(list(xs), f(*xs), [wrap(w, None) for w in weights], graph=True)
        return [wrap(np.zeros(x.shape, x.dtype), None) if g is None else g for x, g in zip(xs, found, strict=True)]

    return g


def on_arrays(f: Function) -> Function:
    """`f` of tensors as a function from arrays to arrays; each array becomes a leaf."""
    return lambda *xs: [raw(out) for out in f(*[leaf(x) for x in xs])]


def expect(given: Any, expected: Any, tolerance: float, what: str) -> None:
    given, expected = (a.astype(float) if a.dtype.kind == "b" else a for a in map(np.asarray, (given, expected)))
    if given.shape != expected.shape:
        raise AssertionError(f"{what}: shape {given.shape}, expected {expected.shape}")
    if not close(given, expected, tolerance):
        raise AssertionError(f"{what}: given\n{given}\nexpected\n{expected}\nto {tolerance:g}")
