"""Suite: the same expression built in PyTorch, in the same dtype; value and every leaf's gradient compared."""

# Tables of formulas: lambdas of any number of parameters leave a type checker nothing to infer.
# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.verify.suites import Check

Function = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]
TOLERANCE = {"float64": 1e-12, "float32": 1e-6}


def _attention(lib: Any, q: Any, k: Any, v: Any) -> Any:
    return _softmax(lib, q @ k.mT / 2.0) @ v


def _softmax(lib: Any, x: Any) -> Any:
    return lib.softmax(x, axis=-1)


def _layer_norm(lib: Any, x: Any, g: Any, b: Any) -> Any:
    centred = x - _mean(x)
    return centred / lib.sqrt(_mean(centred * centred) + 1e-5) * g + b


def _mean(x: Any) -> Any:
    return x.sum(-1).reshape(*x.shape[:-1], 1) / x.shape[-1]


def _mlp(lib: Any, x: Any, w0: Any, b0: Any, w1: Any, b1: Any) -> Any:
    return lib.tanh(x @ w0 + b0) @ w1 + b1


def _chain(lib: Any, x: Any) -> Any:
    t = x
    for _ in range(10):
        t = lib.tanh(t * t + x)
    return t


# One spelling that both libraries understand: name, expression, shapes of the leaves.
EXPRESSIONS: list[tuple[str, Function, Shapes]] = [
    ("a polynomial", lambda lib, x: 3.0 * x**3 - x**2 / 2.0 + x, ((4, 3),)),
    ("a quotient", lambda lib, x, y: (x + 1.0) / (y * y + x), ((4, 3), (3,))),
    ("x ** y", lambda lib, x, y: (x * x + 0.5) ** y, ((4, 3), (4, 1))),
    ("exp, log and sqrt", lambda lib, x: lib.log(lib.exp(x) + 1.0) + lib.sqrt(x * x + 0.1), ((4, 3),)),
    ("sin, cos and tan", lambda lib, x: lib.sin(x) * lib.cos(2.0 * x) + lib.tan(x / 4.0), ((4, 3),)),
    ("sinh, cosh and atan", lambda lib, x: lib.sinh(x) / lib.cosh(x) + lib.atan(x), ((4, 3),)),
    ("sigmoid and relu", lambda lib, x: lib.sigmoid(x) + lib.relu(x), ((4, 3),)),
    ("expm1 and log1p", lambda lib, x: lib.expm1(x / 3.0) * lib.log1p(x * x), ((4, 3),)),
    ("atan2", lambda lib, x, y: lib.atan2(x, y), ((4, 3), (3,))),
    ("logaddexp", lambda lib, x, y: lib.logaddexp(x, y), ((4, 3), (4, 1))),
    ("maximum and minimum", lambda lib, x, y: lib.maximum(x, y) * lib.minimum(x, 2.0 * y), ((4, 3), (3,))),
    ("where", lambda lib, x, y: lib.where(x > y, x * y, x - y), ((4, 3), (3,))),
    ("sums", lambda lib, x: x.sum(0) * x.sum(), ((4, 3),)),
    ("softmax", _softmax, ((4, 3),)),
    ("logsumexp", lambda lib, x: lib.logsumexp(x, axis=-1), ((4, 3),)),
    ("matrix times matrix", lambda lib, x, y: x @ y, ((4, 3), (3, 5))),
    ("matrix times vector", lambda lib, x, y: x @ y, ((4, 3), (3,))),
    ("batches of matrices", lambda lib, x, y: x @ y, ((2, 1, 4, 3), (5, 3, 2))),
    ("einsum", lambda lib, x, y: lib.einsum("bij,bkj->bik", x, y), ((2, 4, 3), (2, 5, 3))),
    ("reshape and transpose", lambda lib, x: x.reshape(2, 6).mT * 2.0, ((4, 3),)),
    ("slices", lambda lib, x: x[1:, ::2] * x[:-1, :2], ((4, 3),)),
    ("rows by number, one twice", lambda lib, x: x[[0, 2, 2, 1]] ** 2, ((4, 3),)),
    ("outer product by broadcasting", lambda lib, x, y: x[:, None] * y[None, :], ((4,), (3,))),
    ("one leaf in many places", lambda lib, x: x * x + x / (x * x + 1.0) - x, ((4, 3),)),
    ("ten tanh in a chain", _chain, ((4, 3),)),
    ("a perceptron", _mlp, ((6, 3), (3, 8), (8,), (8, 2), (2,))),
    ("layer normalisation", _layer_norm, ((6, 8), (8,), (8,))),
    ("attention", _attention, ((2, 5, 4), (2, 5, 4), (2, 5, 4))),
]


def _leaves(shapes: Shapes, dtype: str) -> list[Any]:
    rng = np.random.default_rng(17)
    return [np.asarray(rng.normal(size=shape)).astype(dtype) for shape in shapes]


def _compare(f: Function, shapes: Shapes, dtype: str) -> tuple[Any, Any]:
    """Value and gradients in one row; their dtypes must be the same as well."""
    torch: Any = import_module("torch")
    arrays = _leaves(shapes, dtype)
    ours = [cr.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out, expected = f(cr, *ours), f(torch, *theirs)
    w = np.cos(np.arange(1.0, out.size + 1)).reshape(out.shape).astype(dtype)
    out.backward(w)
    expected.backward(torch.tensor(w))
    given = [out.data, *(x.grad for x in ours)]
    if {g.dtype for g in given} != {np.dtype(dtype)}:
        raise AssertionError(f"dtypes {[str(g.dtype) for g in given]}, expected {dtype} throughout")
    peers = [expected.detach().numpy(), *(x.grad.numpy() for x in theirs)]
    return np.concatenate([np.ravel(g) for g in given]), np.concatenate([np.ravel(g) for g in peers])


def _hessian(f: Function) -> tuple[Any, Any]:
    torch: Any = import_module("torch")
    x = np.random.default_rng(19).normal(size=4)
    expected = torch.autograd.functional.hessian(lambda t: f(torch, t), torch.tensor(x))
    return cr.hessian(lambda t: f(cr, t))(x), expected.numpy()


HESSIANS: list[tuple[str, Function]] = [
    ("sum tanh(x) x[0]", lambda lib, x: (lib.tanh(x) * x[0]).sum()),
    ("logsumexp", lambda lib, x: lib.logsumexp(x, axis=-1)),
    ("sum exp(x) sin(x)", lambda lib, x: (lib.exp(x) * lib.sin(x)).sum()),
    ("(x·x)²", lambda lib, x: (x @ x) ** 2),
]


def checks() -> Iterator[Check]:
    """All checks of the suite."""
    for name, f, shapes in EXPRESSIONS:
        for dtype, tolerance in TOLERANCE.items():
            yield Check(f"{name}, {dtype}", lambda f=f, s=shapes, d=dtype: _compare(f, s, d), tolerance)
    for name, f in HESSIANS:
        yield Check(f"Hessian of {name}", lambda f=f: _hessian(f), 1e-12)
