"""RMSprop and Adagrad: the gradient of each entry, divided by the size that its gradients have had."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chainrule.optim.arithmetic import gradient, is_off, number
from chainrule.optim.limits import FLAG, FRACTION, NOT_NEGATIVE, options
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.states import Group
from chainrule.optim.units import Arrays, Factors
from chainrule.types import Array


class RMSprop(Optimizer):
    """RMSprop: v ← α v + (1-α) g², p ← p - lr g / (√v + eps).

    `centered` divides by √(v - m²), with m the running mean of g; `momentum` μ accumulates b ← μ b + g/(√v + eps), and
    p ← p - lr b.  `weight_decay` adds weight_decay p to g; `maximize` turns g round.

    **Raises** ArgumentError, DTypeError, GraphError for options and parameters that cannot be.
    **Source** Tieleman and Hinton, lecture 6.5 (2012); centred: Graves, Generating sequences with recurrent neural
    networks (2013), section 4.2.

    >>> import chainrule as cr
    >>> w = cr.tensor([4.0], requires_grad=True)
    >>> opt = cr.optim.RMSprop([w], lr=0.5, alpha=0.75)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> round(w.item(), 6)
    3.0
    """

    limits = options(
        lr=NOT_NEGATIVE, alpha=FRACTION, eps=NOT_NEGATIVE, weight_decay=NOT_NEGATIVE, momentum=NOT_NEGATIVE,
        centered=FLAG, maximize=FLAG,
    )  # fmt: skip

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, *,
                 maximize: bool = False) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _state_names(self, group: Group) -> dict[str, float]:
        wanted = {"momentum_buffer": not is_off(group["momentum"]), "grad_avg": group["centered"]}
        return {"step": 0.0, "square_avg": 0.0, **{name: 0.0 for name, wants in wanted.items() if wants}}

    def _numbers(self, group: Group, t: Any) -> Factors:
        momentum = None if is_off(group["momentum"]) else number(group["momentum"])
        numbers = [number(group[name]) for name in ("lr", "alpha", "eps", "weight_decay")]
        return *numbers, momentum, group["centered"], group["maximize"]

    def _change(self, x: Any, h: Factors, g: Array, p: Array, s: Arrays, out: Any, spare: Any) -> Array:
        lr, alpha, eps, decay, momentum, centered, maximize = h
        v = s["square_avg"]
        g = gradient(x, g, p, decay, maximize, spare)
        x.multiply(v, alpha, v)
        out = x.multiply(g, g, out)
        x.add(v, x.multiply(out, 1.0 - alpha, out), v)
        if centered:
            m = x.multiply(s["grad_avg"], alpha, s["grad_avg"])
            x.add(m, x.multiply(g, 1.0 - alpha, out), m)
            out = x.subtract(v, x.multiply(m, m, out), out)
            out = x.sqrt(x.maximum(out, 0.0, out=out), out)  # equal gradients may round to a little below zero
        else:
            out = x.sqrt(v, out)
        out = x.divide(g, x.add(out, eps, out), out)
        if momentum is None:
            return x.multiply(out, lr, out)
        buffer = x.multiply(s["momentum_buffer"], momentum, s["momentum_buffer"])
        return x.multiply(x.add(buffer, out, buffer), lr, out)


class Adagrad(Optimizer):
    """Adagrad: v ← v + g², p ← p - lr / (1 + (t-1) lr_decay) g / (√v + eps); v begins at `initial_accumulator_value`.

    `weight_decay` adds weight_decay p to g; `maximize` turns g round.

    **Raises** ArgumentError, DTypeError, GraphError for options and parameters that cannot be.
    **Source** Duchi et al., Adaptive subgradient methods for online learning and stochastic optimization (2011).

    >>> import chainrule as cr
    >>> w = cr.tensor([4.0], requires_grad=True)
    >>> opt = cr.optim.Adagrad([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> round(w.item(), 6)
    3.5
    """

    limits = options(
        lr=NOT_NEGATIVE, lr_decay=NOT_NEGATIVE, weight_decay=NOT_NEGATIVE, initial_accumulator_value=NOT_NEGATIVE,
        eps=NOT_NEGATIVE, maximize=FLAG,
    )  # fmt: skip

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0.0,
                 weight_decay: float = 0.0, initial_accumulator_value: float = 0.0, eps: float = 1e-10, *,
                 maximize: bool = False) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _state_names(self, group: Group) -> dict[str, float]:
        return {"step": 0.0, "sum": group["initial_accumulator_value"]}

    def _numbers(self, group: Group, t: Any) -> Factors:
        size = number(group["lr"]) / (1.0 + (t - 1.0) * number(group["lr_decay"]))
        return size, number(group["weight_decay"]), number(group["eps"]), group["maximize"]

    def _change(self, x: Any, h: Factors, g: Array, p: Array, s: Arrays, out: Any, spare: Any) -> Array:
        size, decay, eps, maximize = h
        g = gradient(x, g, p, decay, maximize, spare)
        total = x.add(s["sum"], x.multiply(g, g, out), s["sum"])
        out = x.add(x.sqrt(total, out), eps, out)
        return x.multiply(x.divide(g, out, out), size, out)
