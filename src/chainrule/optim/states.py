"""The state of an optimiser as arrays to look at, to keep and to load: PyTorch's layout, so files move both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.optim.arithmetic import write
from chainrule.optim.limits import Limit, is_a, plain
from chainrule.optim.units import Unit
from chainrule.types import Array, Shape

Group = dict[str, Any]
NOTES = ("name", "param_names", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum")
"""What users and schedules may note in a group, beside the options of the optimiser."""


class States:
    """`state`, `state_dict` and `load_state_dict` of an optimiser."""

    limits: ClassVar[Mapping[str, Limit]] = {}
    param_groups: list[Group]
    _units: list[list[Unit]]

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _state_names(self, group: Group) -> dict[str, float]:
        """The state arrays of a parameter in this group, and the value each begins with."""
        raise NotImplementedError

    def _complete(self, group: Group) -> None:
        """**Raises** ArgumentError where the options of a group do not go together."""

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options as Python numbers within their limits.  **Raises** ArgumentError."""
        found: dict[str, Any] = {}
        for name, value in options.items():
            limit = self.limits.get(name)
            if limit is None and name not in NOTES:
                remedy = ", ".join(self.limits)
                raise ArgumentError(explain(self._name, f"{name} is no option of this optimiser", remedy=remedy))
            found[name] = plain(value) if limit else value
            if limit and not limit.holds(found[name]):
                raise ArgumentError(explain(self._name, f"{name} must be {limit.text}", **{name: value}))
        return found

    def _split(self, k: int, unit: Unit) -> list[Unit]:
        parts = unit.split(self._name)
        where = self._units[k].index(unit)
        self._units[k][where : where + 1] = parts
        return parts

    @property
    def state(self) -> dict[Any, dict[str, Array]]:
        """The state of each parameter, by the parameter: arrays to look at, in the optimiser's memory."""
        return {
            p: {name: unit.piece(name, k) for name in unit.state}
            for units in self._units
            for unit in units
            for k, p in enumerate(unit.params)
        }

    def state_dict(self) -> dict[str, Any]:
        """Copies of all states and options, laid out as PyTorch's: `state` by the parameter's number, `param_groups`.

        Arrays, Python numbers, strings and flags, nothing else.
        """
        states: dict[int, dict[str, Array]] = {
            index: {name: np.array(unit.piece(name, k)) for name in unit.state}
            for units in self._units
            for unit in units
            for k, (index, _, _) in enumerate(unit.members)
        }
        groups: list[Group] = []
        first = 0
        for group in self.param_groups:
            count = len(group["params"])
            groups.append({**group, "params": list(range(first, first + count))})
            first += count
        return {"state": dict(sorted(states.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken: PyTorch's too, with its tensors or arrays of the same values.

        A parameter without an entry starts afresh.  **Raises** ArgumentError, ShapeError, with nothing changed.
        """
        saved = self._options(state_dict)
        entries: Mapping[Any, Any] = state_dict["state"]
        plans: list[tuple[int, Unit, list[dict[str, Array]]]] = []
        for k, (options, numbers) in enumerate(saved):
            self._complete({**self.param_groups[k], **options})
            names = self._state_names({**self.param_groups[k], **options})
            for unit in self._units[k]:
                found: list[Any] = [
                    entries.get(numbers[i], entries.get(str(numbers[i]))) or {} for i, _, _ in unit.members
                ]
                plans.append((k, unit, [self._entry(unit, j, names, entry) for j, entry in enumerate(found)]))
        for group, (options, _) in zip(self.param_groups, saved, strict=True):
            group.update(options)
        for k, unit, values in plans:
            uneven = len({float(entry.get("step", 0.0)) for entry in values}) > 1
            units = self._split(k, unit) if uneven else [unit] * len(values)
            for j, (target, entry) in enumerate(zip(units, values, strict=True)):
                for name, value in entry.items():
                    if name not in target.state:
                        target.create(name, 0.0)
                    write(target.piece(name, 0 if uneven else j), value)

    def _options(self, state_dict: Mapping[str, Any]) -> list[tuple[Group, dict[int, Any]]]:
        """The options of each saved group that are ours, and the saved number of each of our parameters."""
        given: Any = state_dict
        fits = is_a(given, Mapping) and is_a(given.get("param_groups"), list, tuple)
        if not fits or not is_a(given.get("state"), Mapping):
            fault = "a state is a dictionary of `state` and `param_groups`"
            raise ArgumentError(explain(self._name, fault, remedy="what state_dict() gave"))
        groups: list[dict[str, Any]] = list(given["param_groups"])
        ours, saved = [[len(group["params"]) for group in many] for many in (self.param_groups, groups)]
        if ours != saved:
            fault = "the saved groups hold other numbers of parameters than this optimiser's"
            raise ArgumentError(explain(self._name, fault, saved=saved, here=ours))
        first, found = 0, list[tuple[Group, dict[int, Any]]]()
        for group in groups:
            options = {name: value for name, value in group.items() if name in self.limits or name in NOTES}
            numbers: list[Any] = list(group["params"])
            found.append((self._checked(options), dict(enumerate(numbers, first))))
            first += len(numbers)
        return found

    def _entry(self, unit: Unit, k: int, names: dict[str, float], saved: Mapping[str, Any]) -> dict[str, Array]:
        """The saved states of one parameter, complete and of the right shapes."""
        given = {name: np.asarray(value) for name, value in saved.items() if value is not None}
        foreign = sorted(set(given) - set(names))
        if foreign:
            remedy = f"a state of {self._name}, which has {', '.join(names) or 'none'}"
            raise ArgumentError(explain(self._name, f"the saved state has {foreign[0]}, unknown here", remedy=remedy))
        begins = {**names, "step": 1.0} if given and "step" in names else names  # SGD's of PyTorch counts nothing
        for name, value in begins.items():
            shape: Shape = () if name == "step" else unit.shapes[k]
            array = given.setdefault(name, np.full(shape, value))
            if array.shape != shape or array.dtype.kind not in "fiu":
                fault = f"the saved {name} does not fit {unit.members[k].name}"
                raise ShapeError(explain(self._name, fault, parameter=unit.params[k], saved=array))
        return given
