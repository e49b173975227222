"""Records run and differentiated by the engine, and derivatives that owe nothing to it."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.core.calls import raw, wrap
from chainrule.core.graph import leaf_node
from chainrule.core.primitive import Primitive
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
        return [out for out in call(record, operands, example.parameters) if is_real(out)]

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


# ------------------------------------------------------------------------------------------------------------ independent
def inner(us: Arrays, vs: Arrays) -> float:
    pairs = [(u, v) for u, v in zip(us, vs, strict=True) if u is not None and v is not None]
    return float(sum(np.sum(np.multiply(u, v, dtype=np.float64)) for u, v in pairs))


def grain(arrays: Arrays) -> float:
    """The relative precision of the narrowest of these arrays; casts to float32 are known to no more digits than that."""
    return max((float(np.finfo(a.dtype).eps) for a in arrays if a is not None and is_real(a)), default=2.2e-16)


def directional(f: Function, xs: Arrays, ts: Arrays) -> tuple[Arrays, float]:
    """The derivative of `f` along `ts` by central differences of fourth order, and how well it is known."""
    eps = grain([*f(*xs), *xs])
    step = 0.2 * eps**0.2  # where truncation and rounding are about equal

    def at(k: float) -> Arrays:
        outs = f(*[np.asarray(x + k * step * t) for x, t in zip(xs, ts, strict=True)])
        return [np.asarray(out, np.float64) for out in outs]

    with np.errstate(all="ignore"):
        quotients = [
            (8.0 * (b - a) - (d - c)) / (12.0 * step) for a, b, c, d in zip(at(-1), at(1), at(-2), at(2), strict=True)
        ]
    return quotients, 1e-8 if eps < 1e-15 else 300.0 * eps


def complex_step(f: Function, xs: Arrays, ts: Arrays) -> Arrays | None:
    """The derivative along `ts` to full precision; None where `f` refuses complex numbers or drops their imaginary part."""
    tiny = 1e-30
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            outs = f(*[np.asarray(x + 1j * tiny * t) for x, t in zip(xs, ts, strict=True)])
    except (TypeError, ValueError, np.exceptions.ComplexWarning):
        return None
    return [out.imag / tiny for out in outs] if outs and all(out.dtype.kind == "c" for out in outs) else None


def basis(xs: Arrays) -> list[Arrays]:
    """A direction for every entry."""
    directions: list[Arrays] = []
    for k, x in enumerate(xs):
        for entry in np.ndindex(x.shape):
            direction = [np.zeros(y.shape) for y in xs]
            direction[k][entry] = 1.0
            directions.append(direction)
    return directions


def slopes(f: Function, xs: Arrays, ts: Arrays) -> tuple[Arrays, float]:
    """The derivative along `ts`, and how well it is known.

    The complex step counts only where differences confirm it: abs and maximum take complex numbers and are not analytic.
    """
    rough, tolerance = directional(f, xs, ts)
    sharp = complex_step(f, xs, ts)
    if sharp is not None and all(close(a, b, 1e-7) for a, b in zip(sharp, rough, strict=True)):
        return sharp, 1e-13
    return rough, tolerance


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Equal shapes, and equal to `tolerance`, relative to the larger of 1 and the largest entry."""
    a, b = np.asarray(a), np.asarray(b)
    scale = max(1.0, float(np.max(np.abs(b), initial=0.0)))
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= tolerance * scale))


def expect(given: Any, expected: Any, tolerance: float, what: str) -> None:
    given, expected = (a.astype(float) if a.dtype.kind == "b" else a for a in map(np.asarray, (given, expected)))
    if given.shape != expected.shape:
        raise AssertionError(f"{what}: shape {given.shape}, expected {expected.shape}")
    if not close(given, expected, tolerance):
        raise AssertionError(f"{what}: given\n{given}\nexpected\n{expected}\nto {tolerance:g}")
