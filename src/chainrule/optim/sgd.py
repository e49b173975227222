"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chainrule.errors import ArgumentError, explain
from chainrule.optim.arithmetic import gradient, is_off, number
from chainrule.optim.limits import FINITE, FLAG, NOT_NEGATIVE, options
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.states import Group
from chainrule.optim.units import Arrays, Factors
from chainrule.types import Array


class SGD(Optimizer):
    """Gradient descent: p ← p - lr g; with momentum μ: b ← μ b + (1 - dampening) g, p ← p - lr b.

    Before that g ← g + weight_decay p, and -g for `maximize`.  The first b is g itself, undamped.  `nesterov` takes
    g + μ b in place of b.

    **Raises** ArgumentError, DTypeError, GraphError for options and parameters that cannot be.
    **Source** Sutskever et al., On the importance of initialization and momentum in deep learning (2013), with the
    rate outside of b, as in PyTorch.

    >>> import chainrule as cr
    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> opt = cr.optim.SGD([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.tolist()
    [0.5, 1.0]
    """

    limits = options(
        lr=NOT_NEGATIVE, momentum=NOT_NEGATIVE, dampening=FINITE, weight_decay=NOT_NEGATIVE, nesterov=FLAG,
        maximize=FLAG,
    )  # fmt: skip

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False, *, maximize: bool = False) -> None:  # fmt: skip
        super().__init__(params, locals())

    def _complete(self, group: Group) -> None:
        if group["nesterov"] and (not group["momentum"] > 0 or group["dampening"] != 0):
            fault = "nesterov needs a momentum above 0 and no dampening"
            raise ArgumentError(explain("SGD", fault, momentum=group["momentum"], dampening=group["dampening"]))

    def _state_names(self, group: Group) -> dict[str, float]:
        return {} if is_off(group["momentum"]) else {"step": 0.0, "momentum_buffer": 0.0}

    def _numbers(self, group: Group, t: Any) -> Factors:
        lr, momentum, decay, dampening = [
            number(group[name]) for name in ("lr", "momentum", "weight_decay", "dampening")
        ]
        weight = None if is_off(dampening) else 1.0 - dampening * (t > 1.5)
        return lr, decay, None if is_off(momentum) else momentum, weight, group["nesterov"], group["maximize"]

    def _change(self, x: Any, h: Factors, g: Array, p: Array, s: Arrays, out: Any, spare: Any) -> Array:
        lr, decay, momentum, weight, nesterov, maximize = h
        g = gradient(x, g, p, decay, maximize, spare)
        if momentum is None:
            return x.multiply(g, lr, out)
        buffer = x.multiply(s["momentum_buffer"], momentum, s["momentum_buffer"])
        x.add(buffer, g if weight is None else x.multiply(g, weight, out), buffer)
        if not nesterov:
            return x.multiply(buffer, lr, out)
        out = x.multiply(buffer, momentum, out)
        return x.multiply(x.add(out, g, out), lr, out)
