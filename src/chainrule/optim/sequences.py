"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from chainrule.backends.abstract import Abstract
from chainrule.control import cond
from chainrule.errors import ArgumentError, explain
from chainrule.ops.elementwise import logical_and
from chainrule.optim.arithmetic import write
from chainrule.optim.limits import COUNT, is_a
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.schedules import LRScheduler


class SequentialLR(LRScheduler):
    """One schedule after the other: the next one begins, with its first rate, after each number of steps in `milestones`.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> warmup = cr.optim.LinearLR(opt, start_factor=0.25, total_iters=3)
    >>> decay = cr.optim.ExponentialLR(opt, gamma=0.5)
    >>> schedule = cr.optim.SequentialLR(opt, [warmup, decay], milestones=[3])
    >>> for _ in range(6):
    ...     print(opt.param_groups[0]["lr"], end=" ")
    ...     schedule.step()
    0.25 0.5 0.75 1.0 0.5 0.25
    """

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int],
                 last_epoch: int = -1) -> None:  # fmt: skip
        self.schedulers = _of_one_optimizer("SequentialLR", optimizer, schedulers)
        self.milestones = tuple(self._option(COUNT, milestones=m) for m in milestones)
        if len(self.milestones) != len(self.schedulers) - 1 or list(self.milestones) != sorted(set(self.milestones)):
            fault = "there must be one milestone fewer than schedules, in growing order"
            raise ArgumentError(explain(self._name, fault, milestones=self.milestones, schedules=len(self.schedulers)))
        super().__init__(optimizer, last_epoch)

    def restart(self, rates: list[float] | None = None) -> None:
        """Begin again, with the first schedule."""
        self.schedulers[0].restart(rates)
        self.last_epoch[...] = 0

    def _set(self, n: Any) -> None:
        if isinstance(n, Abstract):
            return self._set_traced(n)
        if n in self.milestones or n == 0:
            self.schedulers[(0, *self.milestones).index(n)].restart()
        else:
            self.schedulers[sum(m <= n for m in self.milestones)].step()
        self.last_epoch[...] = n
        return None

    def _set_traced(self, n: Any) -> None:
        """The same where nobody knows yet which schedule it is."""
        starts = (0, *self.milestones)
        for schedule, start, end in zip(self.schedulers, starts, (*self.milestones, inf), strict=True):
            self._when(n == start, schedule.restart)
            self._when(logical_and(n > start, n < end), schedule.step)
        write(self.last_epoch, n)

    def _when(self, condition: Any, act: Callable[[], None]) -> None:
        """`act()`, which sets numbers in groups and counts in place, if the condition holds."""
        places = [(group, name) for group in self._groups() for name in ("lr", "momentum", "betas") if name in group]
        before = [group[name] for group, name in places]

        def put(values: list[Any]) -> None:
            for (group, name), value in zip(places, values, strict=True):
                group[name] = value

        def acted() -> list[Any]:
            act()
            after = [group[name] for group, name in places]
            put(before)
            return after

        put(cond(condition, acted, lambda: before))

    def state_dict(self) -> dict[str, Any]:
        """As all schedules; and the states of the schedules that it is made of."""
        return {**super().state_dict(), "_schedulers": [schedule.state_dict() for schedule in self.schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        _load_all(self, self.schedulers, state_dict)
        super().load_state_dict(state_dict)


class ChainedScheduler(LRScheduler):
    """Several schedules at once: at each step each of them changes what the one before it made of the rate.

    >>> import chainrule as cr
    >>> opt = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> warmup = cr.optim.ConstantLR(opt, factor=0.5, total_iters=2)
    >>> decay = cr.optim.ExponentialLR(opt, gamma=0.5)
    >>> schedule = cr.optim.ChainedScheduler([warmup, decay])
    >>> for _ in range(4):
    ...     print(opt.param_groups[0]["lr"], end=" ")
    ...     schedule.step()
    0.5 0.25 0.25 0.125
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self.schedulers = _of_one_optimizer("ChainedScheduler", optimizer, schedulers)
        self.optimizer = self.schedulers[0].optimizer

    def step(self) -> None:
        """Set the next rate of every group."""
        for schedule in self.schedulers:
            schedule.step()

    def restart(self, rates: list[float] | None = None) -> None:
        """All begin again, each with what the one before it made of the rate."""
        for schedule in self.schedulers:
            schedule.restart(rates)
            rates = self.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """The states of the schedules that it is made of."""
        return {"_schedulers": [schedule.state_dict() for schedule in self.schedulers], "_last_lr": self.get_last_lr()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        _load_all(self, self.schedulers, state_dict)


def _of_one_optimizer(name: str, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> list[LRScheduler]:
    given = list(schedulers)
    owners = {id(s.optimizer) if is_a(s, LRScheduler) else None for s in given}
    if len(owners) != 1 or None in owners or (optimizer is not None and id(optimizer) not in owners):
        raise ArgumentError(explain(name, "it is made of schedules, at least one, all of the same optimiser"))
    return given


def _load_all(whole: LRScheduler, schedulers: list[LRScheduler], state_dict: Mapping[str, Any]) -> None:
    """Load the state of every part, or of none."""
    states: Any = state_dict.get("_schedulers")
    if not is_a(states, list, tuple) or len(states) != len(schedulers):
        fault = "the saved schedule is made of other schedules"
        raise ArgumentError(explain(type(whole).__name__, fault, remedy="what state_dict() of the same schedule gave"))
    before = [schedule.state_dict() for schedule in schedulers]
    try:
        for schedule, state in zip(schedulers, states, strict=True):
            schedule.load_state_dict(state)
    except Exception:
        for schedule, state in zip(schedulers, before, strict=True):
            schedule.load_state_dict(state)
        raise
