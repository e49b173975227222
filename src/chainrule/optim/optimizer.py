"""What all optimisers have: parameters in groups, checks, the step that is all or nothing, and their state in a file.

An optimiser states its hyper-parameters with their limits, the names of its state arrays, the numbers that a step
needs, and a formula for the change; how that runs over the parameters is `units`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from chainrule import modes
from chainrule.core.calls import is_tensor
from chainrule.errors import ArgumentError, DTypeError, GraphError, dtype_kind, explain
from chainrule.ops.creation import full_like
from chainrule.optim.arithmetic import Arithmetic, in_dtype, is_off, number
from chainrule.optim.limits import is_a
from chainrule.optim.states import Group, States
from chainrule.optim.units import Arrays, Factors, Member, Scratch, Unit, partition
from chainrule.types import Array


class Optimizer(States):
    """The base of all optimisers: `param_groups`, `step`, `zero_grad`, `state_dict`, `load_state_dict`.

    `params`: tensors, or (name, tensor) pairs, or dictionaries of `params` and the hyper-parameters that differ.
    `param_groups` holds the hyper-parameters as Python numbers, read at each step.
    """

    _elementwise: ClassVar[bool] = True
    """Whether the formula looks at one entry at a time, so that parameters may be put together or cut up."""

    def __init__(self, params: Iterable[Any], given: Mapping[str, Any]) -> None:
        """`given`: the options by name, among whatever else (the constructor's `locals()`)."""
        self.defaults = self._checked({name: given[name] for name in self.limits})
        self.param_groups: list[Group] = []
        self._units: list[list[Unit]] = []
        self._members: list[tuple[Any, ...]] = []
        self._scratch = Scratch()
        for group in self._groups(params):
            self.add_param_group(group)

    # ------------------------------------------------------------ what an optimiser states
    def _numbers(self, group: Group, t: Any) -> Factors:
        """The factors of the formula, for a group at its step number `t`, which in a trace is abstract."""
        raise NotImplementedError

    def _change(self, x: Any, h: Factors, g: Array, p: Array, s: Arrays, out: Any, spare: Any) -> Array:
        """Advance the states `s` and give what is to be subtracted from `p`, in `out`; `g` is not to be written."""
        raise NotImplementedError

    # ------------------------------------------------------------ parameters
    def _groups(self, params: Iterable[Any]) -> list[Group]:
        remedy = "model.parameters(), or a list of tensors"
        if is_tensor(params) or is_a(params, Mapping, str) or not is_a(params, Iterable):
            kind = type(params).__name__
            raise DTypeError(explain(self._name, f"params is no list of tensors but one {kind}", remedy=remedy))
        given: list[Any] = list(params)
        if not given:
            raise ArgumentError(explain(self._name, "got an empty list of parameters", remedy=remedy))
        return given if isinstance(given[0], dict) else [{"params": given}]

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """One more group: a dictionary of `params` and the hyper-parameters in which it differs.

        **Raises** ArgumentError, DTypeError, GraphError for what cannot be trained; then nothing was added.
        """
        if not is_a(param_group, dict) or "params" not in param_group:
            fault = "a group is a dictionary with the key 'params'"
            raise DTypeError(explain(self._name, fault, group=param_group))
        given = param_group["params"]
        entries: list[Any] = [given] if is_tensor(given) else self._groups(given)[0]["params"]
        first = sum(len(group["params"]) for group in self.param_groups)
        members = self._members_of(entries, first)
        options = {name: value for name, value in param_group.items() if name != "params"}
        group: Group = {"params": tuple(m.tensor for m in members), **self.defaults, **self._checked(options)}
        self._complete(group)
        if any(isinstance(entry, tuple) for entry in entries):
            group["param_names"] = [m.name for m in members]
        units = partition(members, self._scratch, self._elementwise)
        for unit in units:
            for name, value in self._state_names(group).items():
                unit.create(name, value)
        self.param_groups.append(group)
        self._units.append(units)
        self._members.append(group["params"])

    def _members_of(self, entries: list[Any], first: int) -> list[Member]:
        """A group's entries, each of which can be trained and comes once."""
        seen = {id(p): f"in group {k}" for k, group in enumerate(self.param_groups) for p in group["params"]}
        members: list[Member] = []
        for k, entry in enumerate(entries, first):
            name, p = entry if is_a(entry, tuple) and len(entry) == 2 else (f"params[{k}]", entry)
            self._trainable(name, p)
            if id(p) in seen:
                fault = f"{name} is {seen[id(p)]} already, and would be updated twice in a step"
                raise ArgumentError(explain(self._name, fault, parameter=p))
            seen[id(p)] = name
            members.append(Member(k, name, p))
        if not any(m.tensor.requires_grad for m in members):
            fault = "no parameter of the group wants a gradient"
            remedy = "cr.tensor(..., requires_grad=True), or requires_grad_(True) on a module"
            raise GraphError(explain(self._name, fault, remedy=remedy, parameter=members[0].tensor))
        return members

    def _trainable(self, name: str, p: Any) -> None:
        if not is_tensor(p):
            raise DTypeError(explain(self._name, f"{name} is no tensor", remedy="model.parameters()", given=p))
        if dtype_kind(p.dtype) != "f":  # a frozen one, in contrast, is skipped while it gets no gradient
            raise DTypeError(explain(self._name, f"{name} is of {p.dtype}, which has no gradients", parameter=p))
        if not p.is_leaf:
            fault = f"{name} was computed, and only leaves can be trained"
            raise GraphError(explain(self._name, fault, remedy="the tensors that it was computed from", parameter=p))

    # ------------------------------------------------------------ a step
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters; with `set_to_none=False` new zeros in their place."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None if set_to_none or p.grad is None else full_like(p.data, 0.0)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient, in their own memory; the others stay, and their state.

        All or nothing.  `closure` computes the loss anew, gradients included, and is called first; its result is
        returned.  **Raises** ShapeError, DTypeError, GraphError for a gradient that does not fit.
        """
        loss = None
        if closure is not None:
            with modes.enable_grad():
                loss = closure()
        todo = [entry for k in range(len(self.param_groups)) for entry in self._ready(k)]
        with np.errstate(all="ignore"):  # what overflows shows in the parameters; a warning must not end a step halfway
            for unit, grads, x, h, reads in todo:
                unit.advance(x, grads, self._change, h, reads, self._elementwise)
        return loss

    def _ready(self, k: int) -> list[tuple[Unit, list[Array], Arithmetic, Factors, bool]]:
        """Everything that the step of group `k` needs, with all that can be wrong found out."""
        group, found = self.param_groups[k], list[Any]()
        if group["params"] is not self._members[k]:
            fault = "the parameters of a group were replaced, and their states know nothing of it"
            raise ArgumentError(explain(self._name, fault, remedy="add_param_group, or a new optimiser"))
        names, reads = self._state_names(group), not is_off(group.get("weight_decay", 0.0))
        known: dict[Any, Factors] = {}
        for unit in tuple(self._units[k]):
            grads, x = unit.gradients(self._name)
            for name, value in names.items():
                if name not in unit.state:  # an option that was off when the optimiser was made
                    unit.create(name, value)
            parts, missing = [(unit, grads)], sum(g is None for g in grads)
            if 0 < missing < len(grads):  # some are left out, so their counts and states stay behind from now on
                parts = [(part, [g]) for part, g in zip(self._split(k, unit), grads, strict=True)]
            found += [
                (part, gs, x, self._factors(group, part, known), reads) for part, gs in parts if gs[0] is not None
            ]
        return found

    def _factors(self, group: Group, unit: Unit, known: dict[Any, Factors]) -> Factors:
        """The factors at the unit's next step.  Most units are at the same one, so they are computed once."""
        step: Any = unit.state.get("step", 0.0)
        t = float(step) + 1.0 if is_a(step, float, np.ndarray) else number(step) + 1.0
        key = (t, unit.dtype) if is_a(t, float) else None
        if key is None or key not in known:
            known[key] = tuple(in_dtype(factor, unit.dtype) for factor in self._numbers(group, t))
        return known[key]
