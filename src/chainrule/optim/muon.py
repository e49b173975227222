"""Muon: momentum for matrices, whose singular values are all brought near one before each step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chainrule.errors import ShapeError, explain
from chainrule.ops import elementwise, linalg, reductions, views
from chainrule.optim.arithmetic import is_off, number
from chainrule.optim.limits import COUNT, FLAG, FRACTION, NOT_NEGATIVE, Limit, is_a, is_number, options
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.states import Group
from chainrule.optim.units import Arrays, Factors
from chainrule.types import Array


def _coefficients(value: Any) -> bool:
    return is_a(value, tuple) and len(value) == 3 and all(map(is_number, value))


class Muon(Optimizer):
    """Muon, for matrices: b ← μ b + (1-μ) g, p ← (1 - lr weight_decay) p, p ← p - r lr O(u).

    u is b, or with `nesterov` μ b + (1-μ) g.  O(u) has u's singular vectors, and singular values near 1, by `ns_steps`
    steps X ← a X + b X Xᵀ X + c (X Xᵀ)² X from X = u / (|u| + eps), with `ns_coefficients` a, b, c.  For p of shape
    (A, B) the factor r is √max(1, A/B), or for `adjust_lr_fn="match_rms_adamw"` 0.2 √max(A, B), with which Adam's rates
    fit.  Vectors, embeddings and heads belong to another optimiser, such as AdamW.

    It computes in the dtype of the parameter.

    **Raises** ShapeError for a parameter that is no matrix; ArgumentError, DTypeError, GraphError as all optimisers.
    **Source** Jordan et al., Muon: an optimizer for hidden layers in neural networks (2024); Liu et al., Muon is
    scalable for LLM training (2025), for the second r.

    >>> import chainrule as cr
    >>> w = cr.tensor([[3.0, 0.0], [0.0, 4.0]], requires_grad=True)
    >>> opt = cr.optim.Muon([w], lr=0.5, weight_decay=0.0)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.data.round(1)
    array([[2.6, 0. ],
           [0. , 3.4]])
    """

    limits = options(
        lr=NOT_NEGATIVE, weight_decay=NOT_NEGATIVE, momentum=FRACTION, nesterov=FLAG, eps=NOT_NEGATIVE, ns_steps=COUNT,
        ns_coefficients=Limit("three finite numbers", _coefficients),
        adjust_lr_fn=Limit("'original', 'match_rms_adamw' or None", (None, "original", "match_rms_adamw").__contains__),
    )  # fmt: skip
    _elementwise = False

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1,
                 momentum: float = 0.95, nesterov: bool = True,
                 ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7,
                 ns_steps: int = 5, adjust_lr_fn: str | None = None) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _trainable(self, name: str, p: Any) -> None:
        super()._trainable(name, p)
        if p.ndim != 2:
            fault = f"{name} is no matrix"
            remedy = "AdamW for it, and Muon for [p for p in model.parameters() if p.ndim == 2]"
            raise ShapeError(explain(self._name, fault, parameter=p, remedy=remedy))

    def _state_names(self, group: Group) -> dict[str, float]:
        return {"momentum_buffer": 0.0}

    def _numbers(self, group: Group, t: Any) -> Factors:
        lr, decay, momentum, eps = [number(group[name]) for name in ("lr", "weight_decay", "momentum", "eps")]
        shrink = None if is_off(decay) else lr * decay
        flags = group["nesterov"], group["adjust_lr_fn"] == "match_rms_adamw"
        return lr, shrink, momentum, *flags, eps, group["ns_steps"], *map(number, group["ns_coefficients"])

    def _change(self, x: Any, h: Factors, g: Array, p: Array, s: Arrays, out: Any, spare: Any) -> Array:
        lr, shrink, momentum, nesterov, as_adam, eps, steps, *coefficients = h
        buffer = x.multiply(s["momentum_buffer"], momentum, s["momentum_buffer"])
        fresh = x.multiply(g, 1.0 - momentum, spare)
        x.add(buffer, fresh, buffer)
        direction = x.add(x.multiply(buffer, momentum, out), fresh, out) if nesterov else buffer
        rows, columns = p.shape
        ratio = 0.2 * max(rows, columns) ** 0.5 if as_adam else max(1.0, rows / max(columns, 1)) ** 0.5
        out = x.multiply(orthogonalised(direction, coefficients, steps, eps), ratio * lr, out)
        return out if shrink is None else x.add(out, x.multiply(p, shrink, spare), out)


def orthogonalised(u: Array, coefficients: Iterable[float], steps: int, eps: float) -> Array:
    """The matrix with the singular vectors of u, and singular values near 1: `steps` of a Newton-Schulz iteration.

    It works on the side on which u is short.  Written in our own operations, which take arrays of any kind.
    """
    a, b, c = coefficients
    tall = u.shape[0] > u.shape[1]
    x = views.matrix_transpose(u) if tall else u
    norm = elementwise.sqrt(reductions.sum(elementwise.square(x)))
    x = elementwise.divide(x, elementwise.maximum(norm, eps))
    for _ in range(steps):
        gram = linalg.matmul(x, views.matrix_transpose(x))
        mixed = elementwise.add(elementwise.multiply(gram, b), elementwise.multiply(linalg.matmul(gram, gram), c))
        x = elementwise.add(elementwise.multiply(x, a), linalg.matmul(mixed, x))
    return views.matrix_transpose(x) if tall else x
