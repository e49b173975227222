"""Adam and AdamW: a rate for each entry, from running means of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chainrule.optim.arithmetic import gradient, is_off, number
from chainrule.optim.limits import BETAS, FLAG, NOT_NEGATIVE, options
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.states import Group
from chainrule.optim.units import Arrays, Factors
from chainrule.types import Array


class Adam(Optimizer):
    """Adam: m ← β₁ m + (1-β₁) g, v ← β₂ v + (1-β₂) g², p ← p - lr m̂ / (√v̂ + eps), m̂ = m/(1-β₁ᵗ), v̂ = v/(1-β₂ᵗ).

    `weight_decay` adds weight_decay p to g, so it is scaled as the gradient is; AdamW decays p itself.  `amsgrad`
    takes the largest v so far in place of v.  `maximize` turns g round.

    **Raises** ArgumentError, DTypeError, GraphError for options and parameters that cannot be.
    **Source** Kingma and Ba, Adam: a method for stochastic optimization (2015), algorithm 1; Reddi et al., On the
    convergence of Adam and beyond (2018).

    >>> import chainrule as cr
    >>> w = cr.tensor([1.0, -2.0], requires_grad=True)
    >>> opt = cr.optim.Adam([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.tolist()
    [0.5000000025, -1.50000000125]
    """

    limits = options(
        lr=NOT_NEGATIVE, betas=BETAS, eps=NOT_NEGATIVE, weight_decay=NOT_NEGATIVE, amsgrad=FLAG, maximize=FLAG,
    )  # fmt: skip
    _decoupled = False

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _state_names(self, group: Group) -> dict[str, float]:
        names = {"step": 0.0, "exp_avg": 0.0, "exp_avg_sq": 0.0}
        return {**names, "max_exp_avg_sq": 0.0} if group["amsgrad"] else names

    def _numbers(self, group: Group, t: Any) -> Factors:
        lr, decay = number(group["lr"]), number(group["weight_decay"])
        beta1, beta2 = map(number, group["betas"])
        # lr m̂/(√v̂ + eps) with both corrections in two numbers
        root = (1.0 - beta2**t) ** 0.5
        size = lr * root / (1.0 - beta1**t)
        shrink = None if is_off(decay) or not self._decoupled else lr * decay
        coupled = 0.0 if self._decoupled else decay
        return beta1, beta2, number(group["eps"]) * root, size, coupled, shrink, group["amsgrad"], group["maximize"]

    def _change(self, x: Any, h: Factors, g: Array, p: Array, s: Arrays, out: Any, spare: Any) -> Array:
        beta1, beta2, eps, size, decay, shrink, amsgrad, maximize = h
        m, v = s["exp_avg"], s["exp_avg_sq"]
        g = gradient(x, g, p, decay, maximize, spare)
        x.multiply(m, beta1, m)
        x.add(m, x.multiply(g, 1.0 - beta1, out), m)
        x.multiply(v, beta2, v)
        out = x.multiply(g, g, out)
        x.add(v, x.multiply(out, 1.0 - beta2, out), v)
        if amsgrad:
            v = x.maximum(s["max_exp_avg_sq"], v, out=s["max_exp_avg_sq"])
        out = x.add(x.sqrt(v, out), eps, out)
        out = x.multiply(x.divide(m, out, out), size, out)
        return out if shrink is None else x.add(out, x.multiply(p, shrink, spare), out)


class AdamW(Adam):
    """Adam with decoupled decay: p ← (1 - lr weight_decay) p, then Adam's step, whose means know nothing of the decay.

    **Source** Loshchilov and Hutter, Decoupled weight decay regularization (2019), algorithm 2.

    >>> import chainrule as cr
    >>> w = cr.tensor([1.0], requires_grad=True)
    >>> opt = cr.optim.AdamW([w], lr=0.1, weight_decay=0.1)
    >>> (0.0 * w).sum().backward()
    >>> opt.step()
    >>> w.tolist()
    [0.99]
    """

    _decoupled = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
