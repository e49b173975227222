"""Schedules: the rate of each group as a function of how often `step` was called.

A schedule computes the rate from the one before, as PyTorch's do, so a rate that a user changes by hand stays changed,
and schedules can be chained.  The count is an array, the rate a Python number in the optimiser's group; the formulas
know no branch on the count but `pick`, so they can be traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import pi
from typing import Any

import numpy as np

from chainrule.errors import ArgumentError, DTypeError, explain
from chainrule.ops import elementwise
from chainrule.optim.arithmetic import number, write
from chainrule.optim.limits import COUNT, FINITE, NATURAL, POSITIVE_UNIT, UNIT, Limit, is_a, plain
from chainrule.optim.optimizer import Optimizer
from chainrule.types import Array


def pick(condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """`yes()` where the condition holds, otherwise `no()`; of an abstract condition, both."""
    if type(condition) is bool:  # an abstract one says that it is one, too
        return yes() if condition else no()
    return elementwise.where(condition, yes(), no())


def half_turn(n: Any, whole: Any) -> Any:
    """1 + cos(π n / whole): from 2 to 0 as n goes from 0 to `whole`."""
    angle = pi * n / whole
    return 1.0 + number(elementwise.cos(angle))  # NumPy's cosine, of numbers too: a trace gives the same to the bit


def count_of(array: Array) -> Any:
    """A count as a Python number, or what stands for one in a trace."""
    return number(array)


class LRScheduler:
    """The base of all schedules: `step`, `get_last_lr`, `state_dict`, `load_state_dict`.

    The first rate is set when the schedule is made; `step` belongs after the optimiser's.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not is_a(optimizer, Optimizer):
            raise DTypeError(explain(self._name, "the first argument is an optimiser", optimizer=optimizer))
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch != -1 and "initial_lr" not in group:
                fault = "to go on from last_epoch the groups must know their initial_lr"
                raise ArgumentError(explain(self._name, fault, last_epoch=last_epoch, remedy="load_state_dict"))
            group.setdefault("initial_lr", number(group["lr"]))
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = np.array(last_epoch)
        self.step()

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        """The rate of group `k` after `n` steps, from the rate `lr` before and the rate `base` of the beginning."""
        raise NotImplementedError

    def step(self) -> None:
        """Set the next rate of every group."""
        self._set(count_of(self.last_epoch) + 1)

    def restart(self, rates: list[float] | None = None) -> None:
        """Set the first rate of every group again, and count from there; `rates`: what it begins with."""
        for group, lr in zip(self._groups(), self.base_lrs if rates is None else rates, strict=True):
            group["lr"] = lr
        self._set(0)

    def _set(self, n: Any) -> None:
        groups = self._groups()
        rates = [number(self._rate(k, number(g["lr"]), self.base_lrs[k], n)) for k, g in enumerate(groups)]
        write(self.last_epoch, np.asarray(n) if is_a(n, int) else n)
        for group, lr in zip(groups, rates, strict=True):
            group["lr"] = lr

    def _groups(self) -> list[dict[str, Any]]:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.base_lrs):
            fault = "groups were added to the optimiser since the schedule was made"
            raise ArgumentError(explain(self._name, fault, remedy="the schedule after all add_param_group"))
        return groups

    def get_last_lr(self) -> list[float]:
        """The present rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The count, the rates of the beginning, and the present ones: arrays, numbers and lists."""
        return {
            "last_epoch": np.array(self.last_epoch),
            "base_lrs": list(self.base_lrs),
            "_last_lr": self.get_last_lr(),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken, with the rates of then.

        **Raises** ArgumentError, with nothing changed, where the groups are others.
        """
        self._fits(state_dict, "last_epoch", "base_lrs", "_last_lr")
        bases, rates = [[number(lr) for lr in state_dict[name]] for name in ("base_lrs", "_last_lr")]
        groups = self._groups()
        if not len(bases) == len(rates) == len(groups):
            fault = "the saved schedule has another number of groups"
            raise ArgumentError(explain(self._name, fault, saved=len(bases), here=len(groups)))
        self.last_epoch[...] = state_dict["last_epoch"]
        self.base_lrs = bases
        for group, base, lr in zip(groups, bases, rates, strict=True):
            group.update(initial_lr=base, lr=lr)

    def _fits(self, state_dict: Mapping[str, Any], *names: str) -> None:
        missing = [name for name in names if name not in state_dict]
        if missing:
            fault = f"the saved state has no {missing[0]}"
            raise ArgumentError(explain(self._name, fault, remedy="what state_dict() of the same schedule gave"))

    def _option(self, limit: Limit, **given: Any) -> Any:
        """An argument as a Python number within its limit.  **Raises** ArgumentError."""
        ((name, value),) = given.items()
        if not limit.holds(plain(value)):
            raise ArgumentError(explain(self._name, f"{name} must be {limit.text}", **given))
        return plain(value)


class ConstantLR(LRScheduler):
    """The rate times `factor` for the first `total_iters` steps, then the rate itself.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = cr.optim.ConstantLR(opt, factor=0.5, total_iters=2)
    >>> for _ in range(3):
    ...     print(opt.param_groups[0]["lr"])
    ...     schedule.step()
    0.5
    0.5
    1.0
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        self.factor = self._option(UNIT, factor=factor)
        self.total_iters = self._option(NATURAL, total_iters=total_iters)
        super().__init__(optimizer, last_epoch)

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        def later() -> Any:
            return pick(n == self.total_iters, lambda: lr / self.factor if self.factor else base, lambda: lr)

        return pick(n == 0, lambda: lr * self.factor, later)


class LinearLR(LRScheduler):
    """The rate times a factor that goes from `start_factor` to `end_factor` in `total_iters` equal steps: a warm-up.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = cr.optim.LinearLR(opt, start_factor=0.25, total_iters=3)
    >>> for _ in range(4):
    ...     print(opt.param_groups[0]["lr"])
    ...     schedule.step()
    0.25
    0.5
    0.75
    1.0
    """

    def __init__(self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0,
                 total_iters: int = 5, last_epoch: int = -1) -> None:  # fmt: skip
        self.start_factor = self._option(POSITIVE_UNIT, start_factor=start_factor)
        self.end_factor = self._option(UNIT, end_factor=end_factor)
        self.total_iters = self._option(NATURAL, total_iters=total_iters)
        super().__init__(optimizer, last_epoch)

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        rise, first = self.end_factor - self.start_factor, self.total_iters * self.start_factor

        def grown() -> Any:
            return lr * (1.0 + rise / (first + (n - 1) * rise))

        def later() -> Any:
            return pick(n > self.total_iters, lambda: lr, grown)

        return pick(n == 0, lambda: lr * self.start_factor, later)


class StepLR(LRScheduler):
    """The rate times `gamma` after every `step_size` steps.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = cr.optim.StepLR(opt, step_size=2, gamma=0.5)
    >>> for _ in range(5):
    ...     print(opt.param_groups[0]["lr"])
    ...     schedule.step()
    1.0
    1.0
    0.5
    0.5
    0.25
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = self._option(COUNT, step_size=step_size)
        self.gamma = self._option(FINITE, gamma=gamma)
        super().__init__(optimizer, last_epoch)

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        return pick((n > 0) & (n % self.step_size == 0), lambda: lr * self.gamma, lambda: lr)


class MultiStepLR(LRScheduler):
    """The rate times `gamma` after each number of steps in `milestones`; one that is there twice counts twice.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = cr.optim.MultiStepLR(opt, milestones=[1, 3], gamma=0.5)
    >>> for _ in range(4):
    ...     print(opt.param_groups[0]["lr"], end=" ")
    ...     schedule.step()
    1.0 0.5 0.5 0.25
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = tuple(sorted(self._option(NATURAL, milestones=m) for m in milestones))
        self.gamma = self._option(FINITE, gamma=gamma)
        super().__init__(optimizer, last_epoch)

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        for milestone in self.milestones:
            lr = pick(n == milestone, lambda lr=lr: lr * self.gamma, lambda lr=lr: lr)
        return lr


class ExponentialLR(LRScheduler):
    """The rate times `gamma` after each step.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = cr.optim.ExponentialLR(opt, gamma=0.5)
    >>> for _ in range(3):
    ...     print(opt.param_groups[0]["lr"], end=" ")
    ...     schedule.step()
    1.0 0.5 0.25
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = self._option(FINITE, gamma=gamma)
        super().__init__(optimizer, last_epoch)

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        return pick(n == 0, lambda: lr, lambda: lr * self.gamma)


class PolynomialLR(LRScheduler):
    """The rate times (1 - n/total_iters)^power after n steps, and 0 from `total_iters` on.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = cr.optim.PolynomialLR(opt, total_iters=4)
    >>> for _ in range(5):
    ...     print(opt.param_groups[0]["lr"], end=" ")
    ...     schedule.step()
    1.0 0.75 0.5 0.25 0.0
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = self._option(COUNT, total_iters=total_iters)
        self.power = self._option(FINITE, power=power)
        super().__init__(optimizer, last_epoch)

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        def fallen() -> Any:
            return lr * ((self.total_iters - n) / (self.total_iters - (n - 1))) ** self.power

        return pick((n == 0) | (n > self.total_iters), lambda: lr, fallen)


class LambdaLR(LRScheduler):
    """The rate of the beginning times `lr_lambda(n)` after n steps; a list has a function for each group.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = cr.optim.LambdaLR(opt, lambda n: 1 / (1 + n))
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        several = is_a(lr_lambda, list, tuple)
        count = len(optimizer.param_groups) if is_a(optimizer, Optimizer) else 0
        self.lr_lambdas: list[Callable[[Any], Any]] = list(lr_lambda) if several else [lr_lambda] * count
        if several and len(self.lr_lambdas) != count:
            fault = "there must be a function for each group"
            raise ArgumentError(explain(self._name, fault, functions=len(self.lr_lambdas), groups=count))
        super().__init__(optimizer, last_epoch)

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        return base * self.lr_lambdas[k](n)


class MultiplicativeLR(LambdaLR):
    """The rate times `lr_lambda(n)` at each step n; a list has a function for each group.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = cr.optim.MultiplicativeLR(opt, lambda n: 0.5 if n % 2 else 1.0)
    >>> for _ in range(4):
    ...     print(opt.param_groups[0]["lr"], end=" ")
    ...     schedule.step()
    1.0 0.5 0.5 0.25
    """

    def _rate(self, k: int, lr: Any, base: float, n: Any) -> Any:
        return pick(n == 0, lambda: lr, lambda: lr * self.lr_lambdas[k](n))
