"""Lion: steps of one size, whose signs come from two momenta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chainrule.optim.arithmetic import is_off, number
from chainrule.optim.limits import BETAS, FLAG, NOT_NEGATIVE, options
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.states import Group
from chainrule.optim.units import Arrays, Factors
from chainrule.types import Array


class Lion(Optimizer):
    """Lion: c = β₁ m + (1-β₁) g, p ← p - lr (sign(c) + weight_decay p), m ← β₂ m + (1-β₂) g.

    Every entry moves by lr; a rate three to ten times below Adam's and a decay as much above suit it, say the authors.
    `maximize` turns g round.

    **Raises** ArgumentError, DTypeError, GraphError for options and parameters that cannot be.
    **Source** Chen et al., Symbolic discovery of optimization algorithms (2023), algorithm 2.

    >>> import chainrule as cr
    >>> w = cr.tensor([4.0, -3.0, 0.0], requires_grad=True)
    >>> opt = cr.optim.Lion([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.tolist()
    [3.5, -2.5, 0.0]
    """

    limits = options(lr=NOT_NEGATIVE, betas=BETAS, weight_decay=NOT_NEGATIVE, maximize=FLAG)

    def __init__(self, params: Iterable[Any], lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, *, maximize: bool = False) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _state_names(self, group: Group) -> dict[str, float]:
        return {"exp_avg": 0.0}

    def _numbers(self, group: Group, t: Any) -> Factors:
        lr, decay = number(group["lr"]), number(group["weight_decay"])
        beta1, beta2 = map(number, group["betas"])
        sign = -1.0 if group["maximize"] else 1.0
        return lr, beta1, beta2, sign * (1.0 - beta1), sign * (1.0 - beta2), None if is_off(decay) else lr * decay

    def _change(self, x: Any, h: Factors, g: Array, p: Array, s: Arrays, out: Any, spare: Any) -> Array:
        lr, beta1, beta2, new1, new2, shrink = h
        m = s["exp_avg"]
        out = x.multiply(m, beta1, out)
        out = x.add(out, x.multiply(g, new1, spare), out)
        x.multiply(m, beta2, m)
        x.add(m, x.multiply(g, new2, spare), m)
        out = x.multiply(x.sign(out, spare), lr, out)  # the sign in place takes NumPy seventeen times as long
        return out if shrink is None else x.add(out, x.multiply(p, shrink, spare), out)
