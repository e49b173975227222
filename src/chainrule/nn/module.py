"""The module: a thing with parameters, made of things with parameters.

The idea: nothing is registered.  A module is an ordinary object; what its attributes are says what they are for, and
`places` looks when somebody asks.  As a container of `tree` it goes through transforms and `tree.map` as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from chainrule import modes, tree
from chainrule.backends.registry import is_foreign, is_number, is_numpy
from chainrule.core.calls import raw
from chainrule.core.graph import own_copy
from chainrule.errors import ArgumentError, DTypeError, ShapeError, describe, dtype_kind, explain
from chainrule.nn import places
from chainrule.nn.places import ARRAY, GROUP, MODULE, TENSOR
from chainrule.ops.arguments import as_shape, real_dtype
from chainrule.tensor import Tensor


class Loaded(NamedTuple):
    """What `load_state_dict` did not find, and what it did not need."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module(places.Owner):
    """A network, or a part of one: write `forward`, and assign what it needs to attributes.

    An attribute that is a Tensor is a parameter (frozen where `requires_grad` is False, but still listed and saved);
    a NumPy array is a buffer (saved, not trained); a Module, or a list, tuple or dictionary of any of these, is a
    child; anything else is configuration.  A tensor that was computed, such as an activation that forward keeps, is no
    parameter; `transient` names attributes that are nothing of all this, whatever they hold.

    Nothing is registered, so attributes may be rebound and lists may grow, and `super().__init__()` is not needed.
    `copy.deepcopy` and `pickle` keep values, ties and buffers, and leave out the graph of what forward kept.

    `cr.grad(f)(model)` hands f the model itself, and gives an object of its class with gradients in place of the
    trained parameters and None in place of frozen ones and buffers.  Meanwhile the parameters stand for the variables
    of that derivative, so another thread has to leave the model alone, or take a copy.

    >>> import chainrule as cr
    >>> class Line(cr.nn.Module):
    ...     def __init__(self):
    ...         self.slope = cr.tensor(2.0, requires_grad=True)
    ...     def forward(self, x):
    ...         return self.slope * x
    >>> line = Line()
    >>> line(3.0).item(), len(line.parameters())
    (6.0, 1)
    """

    training: bool = True
    """Whether dropout drops and normalisation counts; see `train` and `eval`."""
    transient: ClassVar[tuple[str, ...]] | tuple[str, ...] = ()

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.forward(*args, **keywords)

    def forward(self, *args: Any, **keywords: Any) -> Any:
        """What the module computes; a subclass says it."""
        name = type(self).__name__
        raise ArgumentError(explain(name, "it has no forward", remedy=f"def forward(self, x) in {name}"))

    # ------------------------------------------------------------------------------------------- what it is made of
    def parameters(self) -> list[Tensor]:
        """All parameters, frozen ones too, each once, in PyTorch's order."""
        return [tensor for _, tensor in places.unique(self, TENSOR)]

    def named_parameters(self) -> list[tuple[str, Tensor]]:
        """(name, parameter) for each parameter, under the first of its names: "layers.0.weight"."""
        return places.unique(self, TENSOR)

    def buffers(self) -> list[Any]:
        """All arrays that are saved and not trained, each once."""
        return [array for _, array in places.unique(self, ARRAY)]

    def named_buffers(self) -> list[tuple[str, Any]]:
        """(name, buffer) for each buffer."""
        return places.unique(self, ARRAY)

    def modules(self) -> list[Module]:
        """All modules, this one first, each once."""
        return [module for _, module in places.unique(self, MODULE)]

    def named_modules(self) -> list[tuple[str, Module]]:
        """(name, module) for this module, whose name is empty, and all within it."""
        return places.unique(self, MODULE)

    def children(self) -> list[Module]:
        """The modules directly within this one."""
        return [value for _, value, kind, owner in places.walk(self) if kind == MODULE and owner is self][1:]

    # ------------------------------------------------------------------------------------------------------ settings
    def train(self, mode: bool = True) -> Self:
        """Training behaviour, here and in all modules within; returns the module."""
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self) -> Self:
        """The opposite of `train`: nothing is dropped, and running averages are used and stay as they are."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forget the gradients, which `backward` would otherwise add to."""
        for parameter in self.parameters():
            parameter.grad = None

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Train all parameters, or freeze them; returns the module."""
        for parameter in self.parameters():
            if not requires_grad or dtype_kind(parameter.dtype) == "f":
                parameter.requires_grad = requires_grad
        return self

    def apply(self, f: Callable[[Module], Any]) -> Self:
        """Call `f` with every module, innermost first; returns the module."""
        for module in reversed(self.modules()):
            f(module)
        return self

    # ---------------------------------------------------------------------------------------------- saving, loading
    def state_dict(self) -> dict[str, Any]:
        """Copies of all parameters and buffers, under PyTorch's names; what is tied is one array under both names.

        **Raises** ArgumentError where two entries have one name.
        """
        copies: dict[int, Any] = {}
        found = places.named(self)
        for value in found.values():
            if id(value) not in copies:
                copies[id(value)] = own_copy(raw(value))
        return {name: copies[id(value)] for name, value in found.items()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Loaded:
        """Write the arrays of a mapping into the parameters' and buffers' own memory; dtypes stay the module's.

        Returns the names that it missed and did not need, which are errors if `strict`; a tied tensor needs one of its
        names.  **Raises** ShapeError, DTypeError, ArgumentError, and then nothing was changed.
        """
        found = places.named(self)
        values, faults = _compared(found, state_dict)
        given = {id(found[name]) for name in values}
        missing = [name for name, own in found.items() if id(own) not in given and name not in state_dict]
        unexpected = [name for name in state_dict if name not in found]
        if strict or faults:
            _refuse(type(self).__name__, missing if strict else [], unexpected if strict else [], faults)
        for name, value in values.items():
            places.write(found[name], value)
        return Loaded(missing, unexpected)

    def __getstate__(self) -> dict[str, Any]:
        """What copies are made of.  What forward computed and left here is in the copy a constant, and transient."""
        state = dict(vars(self))
        left = [name for name, value in state.items() if name not in self.transient and _is_left(value, self)]
        return state | {"transient": (*self.transient, *left)} if left else state

    # -------------------------------------------------------------------------------------------------------- in words
    def extra_repr(self) -> str:
        """The configuration, as `repr` shows it; a subclass may word it otherwise."""
        hidden = ("training", "transient", "is_filled")
        shown = {name: value for name, value in vars(self).items() if name not in hidden and _is_plain(value)}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items() if not name.startswith("_"))

    def __repr__(self) -> str:
        lines: dict[int, str] = {}
        depths: dict[int, int] = {id(self): -1}
        names: dict[int, str] = {}
        for name, value, kind, owner in places.walk(self):
            inside = name.removeprefix(names[id(owner)] + ".") if names.get(id(owner)) else name
            if kind == MODULE:
                depth = depths[id(value)] = depths[id(owner)] + 1
                names[id(value)] = name
                lines[id(value)] = f"{'  ' * depth}{inside}{': ' if depth else ''}{_title(value)}"
            elif id(value) in names:
                lines[id(owner)] += f" · {inside} is {names[id(value)]}"
            else:
                names[id(value)] = name
                lines[id(owner)] += f" · {inside} {describe(value)}{_role(value, kind)}"
        return "\n".join(line + _count(module) for module, line in zip(self.modules(), lines.values(), strict=True))


tree.register(Module, places.flatten, places.unflatten, places.match, is_object=True)


def parameter(shape: Any, dtype: Any = None) -> Tensor:
    """A parameter of that shape, of the default dtype unless told, whose entries an initialiser has to fill.

    **Raises** DTypeError for a dtype that is not floating, ArgumentError for what is no shape.

    >>> import chainrule as cr
    >>> cr.nn.init.ones_(cr.nn.parameter(2))
    tensor([1., 1.], requires_grad=True)
    """
    wanted = modes.default_dtype() if dtype is None else real_dtype("parameter", dtype)
    if wanted.kind != "f":
        raise DTypeError(explain("parameter", f"{wanted} is not floating", remedy="np.float32"))
    return Tensor(np.empty(as_shape("parameter", shape), wanted), None, True)


def _title(module: Module) -> str:
    settings = module.extra_repr()
    return f"{type(module).__name__}({settings})" if settings else type(module).__name__


def _role(value: Any, kind: int) -> str:
    if kind == ARRAY:
        return " buffer"
    return "" if value.requires_grad else " frozen"


def _count(module: Module) -> str:
    """How many numbers are trained, and how many are frozen."""
    sizes = [(parameter.size, parameter.requires_grad) for parameter in module.parameters()]
    trained, frozen = (sum(size for size, wanted in sizes if wanted is flag) for flag in (True, False))
    if not sizes:
        return ""
    return f" · {trained:,} parameter{'' if trained == 1 else 's'}" + (f", {frozen:,} frozen" if frozen else "")


def _is_plain(value: Any) -> bool:
    """Whether this is a number, a name or a short tuple of such: configuration that fits into a line."""
    if isinstance(value, tuple):
        return 0 < len(value) <= 4 and all(map(_is_plain, value))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return isinstance(value, (bool, int, float, str))


def _is_left(value: Any, owner: Module) -> bool:
    """Whether an attribute holds what forward computed, and nothing that belongs to the module."""
    kind = places.kind_of(value)
    if kind == TENSOR:
        return not places.belongs(value, kind, owner)
    if kind != GROUP or places.is_holding(value, owner):
        return False
    return any(_is_left(entry, owner) for entry in places.entries_of(value))


# ------------------------------------------------------------------------------------------------------------- loading
def _compared(found: dict[str, Any], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[type, str]]]:
    """What to write under which name, once for what is tied, and what does not fit, as (error, words)."""
    values, faults, first = dict[str, Any](), list[tuple[type, str]](), dict[int, str]()
    for name, place in found.items():
        if name not in given:
            continue
        value, own = raw(given[name]), raw(place)
        value = value if is_foreign(value) else np.asarray(value)
        fault = _misfit(value, own)
        if fault is not None:
            faults.append((fault, f"{name} {describe(value)}, expected {describe(own)}"))
        elif id(place) not in first:
            first[id(place)] = name
            values[name] = value
        elif not np.array_equal(np.asarray(value), np.asarray(values[first[id(place)]]), equal_nan=True):
            faults.append((ArgumentError, f"{name} and {first[id(place)]} are one tensor and differ"))
    return values, faults


def _misfit(value: Any, own: Any) -> type | None:
    if value.shape != own.shape:
        return ShapeError
    if is_numpy(own) and not (own.flags.writeable or is_number(own)):
        return ArgumentError
    same = not (is_numpy(value) and is_numpy(own)) or np.can_cast(value.dtype, own.dtype, "same_kind")
    return None if same else DTypeError


def _refuse(name: str, missing: list[str], unexpected: list[str], faults: list[tuple[type, str]]) -> None:
    """**Raises** one error that says everything that is wrong."""
    kinds = [("missing", missing), ("unexpected", unexpected), ("different", [words for _, words in faults])]
    told = [f"{kind}: {_several(names)}" for kind, names in kinds if names]
    if told:
        remedy = "" if faults else "strict=False" if not missing else "the file of this model, or strict=False"
        error = faults[0][0] if faults else ArgumentError
        raise error(explain("load_state_dict", " · ".join([f"the arrays do not fit {name}", *told]), remedy=remedy))


def _several(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return "; ".join(names[:most]) + more
