"""The rate of a run: a warm-up, the fall of a cosine, and from then on its last value."""

from __future__ import annotations

from typing import Any

from chainrule import optim

FOR_EVER = 2**53  # steps


def falling(optimizer: optim.Optimizer, rate: float, last_step: int, warm_up: int = 0, last: float = 0.0) -> Any:
    """The schedule for an optimiser made with `rate`, before step k counted from 0.

    (k + 1) / (warm_up + 1) of it for k below `warm_up`; then `last` + (`rate` - `last`) (1 + cos(pi t)) / 2, where t goes from 0
    to 1 at `last_step`; `last` after that.

    **Source** Loshchilov and Hutter, SGDR, 2017, eq. 5; the warm-up as in nanoGPT.
    """
    cosine = optim.CosineAnnealingLR(optimizer, T_max=last_step - warm_up, eta_min=last)
    constant = optim.ConstantLR(optimizer, factor=last / rate, total_iters=FOR_EVER)
    if not warm_up:
        return optim.SequentialLR(optimizer, [cosine, constant], milestones=[last_step])
    rise = optim.LinearLR(optimizer, start_factor=1 / (warm_up + 1), total_iters=warm_up)
    return optim.SequentialLR(optimizer, [rise, cosine, constant], milestones=[warm_up, last_step])
