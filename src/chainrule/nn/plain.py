"""Layers without parameters: activations, dropout, and what only changes shapes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from chainrule.backends.registry import is_foreign, is_numpy_dtype, namespace_of
from chainrule.core.calls import raw
from chainrule.errors import ArgumentError, ShapeError, dtype_kind, explain
from chainrule.nn.module import Module
from chainrule.ops.arguments import as_operand, one_axis
from chainrule.ops.elementwise import multiply, relu, sigmoid, tanh, where
from chainrule.ops.erf import gelu, silu
from chainrule.ops.normalised import softmax
from chainrule.ops.views import reshape
from chainrule.random import draw


def dropout(x: Any, p: float = 0.5, training: bool = True, generator: np.random.Generator | None = None) -> Any:
    """x with each entry set to 0 with probability `p`, and the others divided by 1 - p; x itself if not `training`.

    **Derivative** the cotangent times the same mask.  **Raises** ArgumentError for a p that is not from 0 to 1.
    **Source** Srivastava et al., Dropout, 2014, section 10, where the scaling is in training ("inverted").

    >>> import chainrule as cr
    >>> cr.nn.dropout(cr.ones(6), 0.5, generator=cr.random.generator(0)).tolist()
    [0.0, 2.0, 2.0, 2.0, 0.0, 0.0]
    """
    _check_probability("dropout", p)
    x = as_operand(x)
    if not training or p == 0:
        return x
    if p == 1:  # an infinite x, too
        return where(_beside(np.zeros(x.shape, bool), x), x, 0.0)
    dtype = x.dtype if dtype_kind(x.dtype) == "f" else np.dtype(np.float64)
    kept = draw.bernoulli(x.shape, 1.0 - p, generator=generator)
    return multiply(x, _beside(multiply(kept, np.asarray(1.0 / (1.0 - p), _numpy(dtype))), x))


def _beside(mask: Any, x: Any) -> Any:
    """A mask as an array of the library that x is of."""
    return namespace_of(raw(x)).asarray(mask) if is_foreign(raw(x)) else mask


def _numpy(dtype: Any) -> Any:
    return dtype if is_numpy_dtype(dtype) else str(dtype).rsplit(".", maxsplit=1)[-1]


def _check_probability(operation: str, p: Any) -> None:
    if not isinstance(p, (int, float, np.number)) or not 0 <= p <= 1:
        raise ArgumentError(explain(operation, "p is no probability", p=p, expected="0 to 1"))


class Dropout(Module):
    """In training, entries set to 0 with probability `p`, the others divided by 1 - p; nothing in `eval`.

    `generator` fixes what is drawn; otherwise it is the generator of `chainrule.random`.

    >>> import chainrule as cr
    >>> cr.nn.Dropout(0.5).eval()(cr.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.5, *, generator: np.random.Generator | None = None) -> None:
        _check_probability("Dropout", p)
        self.p, self.generator = p, generator

    def forward(self, x: Any) -> Any:
        """x, thinned out."""
        return dropout(x, self.p, self.training, self.generator)


class ReLU(Module):
    """max(x, 0); its derivative is 0 at 0."""

    def forward(self, x: Any) -> Any:
        """max(x, 0)."""
        return relu(x)


class GELU(Module):
    """x Φ(x); `approximate` "tanh" takes a quicker formula.

    **Raises** ArgumentError for another `approximate`.
    """

    def __init__(self, approximate: str = "none") -> None:
        gelu(0.0, approximate)  # which says what it takes
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        """x Φ(x)."""
        return gelu(x, self.approximate)


class SiLU(Module):
    """x / (1 + exp(-x))."""

    def forward(self, x: Any) -> Any:
        """x / (1 + exp(-x))."""
        return silu(x)


class Tanh(Module):
    """tanh(x)."""

    def forward(self, x: Any) -> Any:
        """tanh(x)."""
        return tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Any) -> Any:
        """1 / (1 + exp(-x))."""
        return sigmoid(x)


class Softmax(Module):
    """exp(x) / sum(exp(x)) along the axis `dim`."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Any:
        """exp(x) / sum(exp(x))."""
        return softmax(x, axis=self.dim)


class Identity(Module):
    """x as it is; arguments are taken and forgotten, so that it can stand in for any layer."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def forward(self, x: Any) -> Any:
        """x."""
        return x


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` as one: all but the first, unless told.

    >>> import chainrule as cr
    >>> cr.nn.Flatten()(cr.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Any) -> Any:
        """x with fewer axes."""
        x = as_operand(x)
        first, last = (one_axis("Flatten", dim, len(x.shape)) for dim in (self.start_dim, self.end_dim))
        if first > last:
            fault = f"start_dim {self.start_dim} comes after end_dim {self.end_dim}"
            raise ShapeError(explain("Flatten", fault, x=x))
        return reshape(x, (*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))
