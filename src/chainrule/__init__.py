"""Automatic differentiation for NumPy people, from first principles.

Arrays that record: `tensor`, with `backward()` and `.grad`; `gradients`, `no_grad`, `set_default_dtype`, `debug`.
Functions of functions: `grad`, `value_and_grad`, `jacobian`, `hessian`, `hvp`, `jvp`, `vjp`, `linearize`;
`stop_gradient`, `checkpoint`.  Operations: the Python array API's under its names, and `relu`, `softmax`, `einsum` and
others; NumPy's functions reach them.  `operation` declares a new one, `primitive` with all it can state.
Modules: `scalar` explains it all on single numbers, `verify.check` holds derivatives against differences, `draw.draw`
draws a graph, `errors`, `linalg`.

>>> import chainrule as cr
>>> cr.grad(lambda x: cr.sin(x) * x)(0.5)
0.9182168195493894
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# fmt: off
from chainrule import errors, linalg
from chainrule.backward import gradients
from chainrule.core.primitive import primitive
from chainrule.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    set_default_dtype,
    tensor,
    zeros,
    zeros_like,
)
from chainrule.modes import debug, no_grad
from chainrule.ops.arranging import (
    broadcast_arrays,
    diag,
    diagonal,
    flip,
    meshgrid,
    moveaxis,
    repeat,
    roll,
    swapaxes,
    tile,
    tril,
    triu,
)
from chainrule.ops.einsum import einsum
from chainrule.ops.elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_or,
    bitwise_xor,
    ceil,
    clip,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    log_sigmoid,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    positive,
    pow,
    reciprocal,
    relu,
    remainder,
    round,
    sigmoid,
    sign,
    signbit,
    sin,
    sinc,
    sinh,
    softplus,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)
from chainrule.ops.indexing import scatter_add
from chainrule.ops.joining import concat, pad, split, stack, unstack
from chainrule.ops.linalg import kron, matmul, outer, tensordot, trace, vecdot
from chainrule.ops.normalised import log_softmax, logsumexp, softmax
from chainrule.ops.norms import std, var
from chainrule.ops.reductions import all, any, argmax, argmin, count_nonzero, max, mean, min, prod, sum
from chainrule.ops.scans import argsort, cumulative_prod, cumulative_sum, sort
from chainrule.ops.take import nonzero, searchsorted, take, take_along_axis
from chainrule.ops.views import astype, broadcast_to, expand_dims, matrix_transpose, permute_dims, reshape, squeeze
from chainrule.tensor import Tensor
from chainrule.transforms import (
    checkpoint,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    linearize,
    operation,
    stop_gradient,
    value_and_grad,
    vjp,
)

if TYPE_CHECKING:
    from chainrule import data, draw, io, nn, optim, random, scalar, verify
    from chainrule.compiler.jit import jit
    from chainrule.compiler.native.threads import get_num_threads, set_num_threads
    from chainrule.control import cond, fori_loop, scan

__version__ = "0.1.0"
__all__ = [
    "Tensor", "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort", "asarray",
    "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_or",
    "bitwise_xor", "broadcast_arrays", "broadcast_to", "ceil", "checkpoint", "clip", "concat", "cond", "copysign", "cos",
    "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum", "data", "debug", "diag", "diagonal", "divide", "draw",
    "einsum", "empty", "empty_like", "equal", "errors", "exp", "exp2", "expand_dims", "expm1", "eye", "flip",
    "floor", "floor_divide", "fori_loop", "full", "full_like", "get_num_threads", "grad", "gradients", "greater", "greater_equal", "hessian", "hvp",
    "hypot", "io", "isfinite", "isinf", "isnan", "jacobian", "jit", "jvp", "kron", "less", "less_equal", "linalg", "linearize",
    "linspace", "log", "log1p", "log2", "log10", "log_sigmoid", "log_softmax", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logsumexp", "matmul", "matrix_transpose", "max", "maximum", "mean",
    "meshgrid", "min", "minimum", "moveaxis", "multiply", "negative", "nn", "no_grad", "nonzero", "not_equal", "ones",
    "ones_like", "operation", "optim", "outer", "pad", "permute_dims", "positive", "pow", "primitive", "prod", "random", "reciprocal",
    "relu", "remainder", "repeat", "reshape", "roll", "round", "scalar", "scan", "scatter_add", "searchsorted",
    "set_default_dtype", "set_num_threads", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "softmax", "softplus", "sort",
    "split", "sqrt", "square", "squeeze", "stack", "std", "stop_gradient", "subtract", "sum", "swapaxes", "take",
    "take_along_axis", "tan", "tanh", "tensor", "tensordot", "tile", "trace", "tril", "triu", "trunc", "unstack",
    "value_and_grad", "var", "vecdot", "verify", "vjp", "where", "zeros", "zeros_like",
]
# fmt: on
_ELSEWHERE = {
    "chainrule.compiler.jit": ("jit",),
    "chainrule.compiler.native.threads": ("get_num_threads", "set_num_threads"),
    "chainrule.control": ("cond", "fori_loop", "scan"),
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """The modules that are read when they are first asked for: a plain `import chainrule` stays within its 30 ms."""
    if name in ("data", "draw", "io", "nn", "optim", "random", "scalar", "verify"):
        return import_module(f"chainrule.{name}")
    for module, names in _ELSEWHERE.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'chainrule' has no attribute {name!r}")
