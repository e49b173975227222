"""Schedules that go along a curve: half a cosine, with restarts, and one cycle up and down."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, explain
from chainrule.optim.arithmetic import number, write
from chainrule.optim.limits import COUNT, FINITE, FLAG, FRACTION, NOT_NEGATIVE, POSITIVE, UNIT, Limit, is_a
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.schedules import LRScheduler, count_of, half_turn, pick


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the rate to `eta_min` in `T_max` steps, and back up in as many: η = eta_min + (lr - eta_min) (1 + cos(π n / T_max)) / 2.

    **Source** Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts (2017), without restarts.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = cr.optim.CosineAnnealingLR(opt, T_max=4)
    >>> for _ in range(5):
    ...     print(f"{opt.param_groups[0]['lr']:.3f}")
    ...     schedule.step()
    1.000
    0.854
    0.500
    0.146
    0.000
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = self._option(COUNT, T_max=T_max)
        self.eta_min = self._option(FINITE, eta_min=eta_min)
        super().__init__(optimizer, last_epoch)

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        whole, low = self.T_max, self.eta_min

        def from_below() -> Any:  # the rate was at eta_min, where a ratio would be 0/0
            return lr + (base - low) * (2.0 - half_turn(1, whole)) / 2.0

        def along() -> Any:
            return half_turn(n, whole) / half_turn(n - 1, whole) * (lr - low) + low

        return pick(n == 0, lambda: lr, lambda: pick((n - 1 - whole) % (2 * whole) == 0, from_below, along))


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the rate to `eta_min` in `T_0` steps, then again from the top, `T_mult` times as long each time.

    `step(epoch)` goes to a place, which may be a fraction: epoch + batch / batches.

    **Source** Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts (2017), formula 5.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=0.5)
    >>> schedule = cr.optim.CosineAnnealingWarmRestarts(opt, T_0=1, T_mult=2)
    >>> for _ in range(9):
    ...     print(f"{opt.param_groups[0]['lr']:.4f}", end=" ")
    ...     schedule.step()
    0.5000 0.5000 0.2500 0.5000 0.4268 0.2500 0.0732 0.5000 0.4810
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_0 = self._option(COUNT, T_0=T_0)
        self.T_mult = self._option(COUNT, T_mult=T_mult)
        self.eta_min = self._option(FINITE, eta_min=eta_min)
        self.T_cur = np.array(-1.0)
        self.T_i = np.array(float(self.T_0))
        if last_epoch >= 0:
            self.T_cur[...], self.T_i[...] = self._place(last_epoch)
        super().__init__(optimizer, last_epoch)

    def step(self, epoch: float | None = None) -> None:
        """Set the next rate of every group; with `epoch`, the rate of that place."""
        if epoch is not None:
            self._go(floor(self._option(NOT_NEGATIVE, epoch=epoch)), *self._place(epoch))
            return
        t, length = count_of(self.T_cur) + 1.0, count_of(self.T_i)
        again = t >= length
        t, length = (
            pick(again, lambda: t - length, lambda: t),
            pick(again, lambda: length * self.T_mult, lambda: length),
        )
        self._go(count_of(self.last_epoch) + 1, t, length)

    def _place(self, epoch: float) -> tuple[float, float]:
        """How far `epoch` lies in its stretch, and how long that is."""
        t, length = float(epoch), float(self.T_0)
        if self.T_mult == 1:
            return t % length, length
        while t >= length:
            t, length = t - length, length * self.T_mult
        return t, length

    def _set(self, n: Any) -> None:
        self._go(n, 0.0, float(self.T_0))

    def _go(self, n: Any, t: Any, length: Any) -> None:
        self._groups()  # raises before anything is changed
        for array, value in ((self.T_cur, t), (self.T_i, length)):
            write(array, np.asarray(value) if is_a(value, float) else value)
        super()._set(n)

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        turn = half_turn(count_of(self.T_cur), count_of(self.T_i))
        return self.eta_min + (base - self.eta_min) * turn / 2.0

    def state_dict(self) -> dict[str, Any]:
        """As all schedules; and how far it is in the present stretch, and how long that is."""
        return {**super().state_dict(), "T_cur": np.array(self.T_cur), "T_i": np.array(self.T_i)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self._fits(state_dict, "T_cur", "T_i")
        super().load_state_dict(state_dict)
        self.T_cur[...], self.T_i[...] = state_dict["T_cur"], state_dict["T_i"]


class OneCycleLR(LRScheduler):
    """From max_lr/div_factor up to `max_lr` in the first `pct_start` of the steps, then down to 1/final_div_factor of the first.

    `total_steps`, or `epochs` times `steps_per_epoch`, is how often `step` will be called.  `three_phase` goes down as it came,
    and then to the end.  Along a cosine, or a line for `anneal_strategy="linear"`.  With `cycle_momentum` the momentum,
    or β₁, goes from `max_momentum` to `base_momentum` and back meanwhile.  Rates and momenta may be lists, one for each
    group.  The optimiser's own rate is replaced.

    **Source** Smith and Topin, Super-convergence: very fast training of neural networks using large learning rates (2018).

    >>> import chainrule as cr
    >>> opt = cr.optim.Adam([cr.tensor(1.0, requires_grad=True)])
    >>> schedule = cr.optim.OneCycleLR(opt, max_lr=1.0, total_steps=5, pct_start=0.4, anneal_strategy="linear")
    >>> for _ in range(4):
    ...     print(f"{opt.param_groups[0]['lr']:.3f} {opt.param_groups[0]['betas'][0]:.3f}")
    ...     schedule.step()
    0.040 0.950
    1.000 0.850
    0.667 0.883
    0.333 0.917
    """

    def __init__(self, optimizer: Optimizer, max_lr: float | list[float], total_steps: int | None = None,
                 epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
                 anneal_strategy: str = "cos", cycle_momentum: bool = True,
                 base_momentum: float | list[float] = 0.85, max_momentum: float | list[float] = 0.95,
                 div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False,
                 last_epoch: int = -1) -> None:  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                fault = "it must know total_steps, or epochs and steps_per_epoch"
                raise ArgumentError(explain("OneCycleLR", fault))
            total_steps = self._option(COUNT, epochs=epochs) * self._option(COUNT, steps_per_epoch=steps_per_epoch)
        self.total_steps = self._option(COUNT, total_steps=total_steps)
        top = self._option(UNIT, pct_start=pct_start) * self.total_steps
        three = self._option(FLAG, three_phase=three_phase)
        self._ends = (0.0, top - 1, *([2 * top - 2] if three else []), self.total_steps - 1.0)
        self._cosine = self._option(_STRATEGY, anneal_strategy=anneal_strategy) == "cos"
        count = len(optimizer.param_groups) if is_a(optimizer, Optimizer) else 0
        down = self._option(POSITIVE, div_factor=div_factor)
        end = self._option(POSITIVE, final_div_factor=final_div_factor)
        rates = [(lr / down, lr) for lr in self._each(count, POSITIVE, max_lr=max_lr)]
        self._rates = [(low, high, *([low] if three else []), low / end) for low, high in rates]
        self._momenta: list[tuple[float, ...]] = []
        if self._option(FLAG, cycle_momentum=cycle_momentum) and count:
            lows = self._each(count, FRACTION, base_momentum=base_momentum)
            highs = self._each(count, FRACTION, max_momentum=max_momentum)
            self._momenta = [(high, low, high, high)[: len(self._ends)] for low, high in zip(lows, highs, strict=True)]
            if not {"momentum", "betas"} & set(optimizer.defaults):
                remedy = "cycle_momentum=False"
                raise ArgumentError(explain("OneCycleLR", "the optimiser has no momentum", remedy=remedy))
        if count and last_epoch == -1:
            for group, points in zip(optimizer.param_groups, self._rates, strict=True):
                group.update(initial_lr=points[0], max_lr=points[1], min_lr=points[-1])
        super().__init__(optimizer, last_epoch)

    def _each(self, count: int, limit: Limit, **given: Any) -> list[float]:
        """An argument as a number for each group."""
        ((name, value),) = given.items()
        values = list(value) if is_a(value, list, tuple) else [value] * count
        if len(values) != count:
            fault = f"{name} has {len(values)} numbers for {count} groups"
            raise ArgumentError(explain("OneCycleLR", fault))
        return [self._option(limit, **{name: number}) for number in values]

    def _set(self, n: Any) -> None:
        if is_a(n, int) and n > self.total_steps:
            fault = f"the cycle is over: step was called {n} times"
            raise ArgumentError(explain("OneCycleLR", fault, total_steps=self.total_steps))
        super()._set(n)
        self._set_momenta(n)

    def _set_momenta(self, n: Any) -> None:
        for group, points in zip(self._groups(), self._momenta, strict=False):
            momentum = number(self._at(points, n))
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._set_momenta(count_of(self.last_epoch))

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        return self._at(self._rates[k], n)

    def _at(self, points: tuple[float, ...], n: Any) -> Any:
        """The value at step n of the curve through `points`, which are reached at `self._ends`."""

        def leg(i: int) -> Any:
            begin, end, a, b = self._ends[i], self._ends[i + 1], points[i], points[i + 1]
            length = end - begin or 1.0  # a leg of no length is at its end
            if self._cosine:
                return b + (a - b) / 2.0 * half_turn(n - begin if end > begin else 1.0, length)
            return (b - a) * (n - begin if end > begin else 1.0) / length + a

        def from_leg(i: int) -> Any:
            if i == len(points) - 2:
                return leg(i)
            return pick(n <= self._ends[i + 1], lambda: leg(i), lambda: from_leg(i + 1))

        return from_leg(0)


_STRATEGY = Limit("'cos' or 'linear'", ("cos", "linear").__contains__)
