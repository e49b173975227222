"""Units: parameters that one pass of arithmetic updates, and how it runs over them.

The step of a small model costs calls, not arithmetic.  So small parameters share state arrays, end to end: their
gradients are gathered, the formula runs once on the whole, and each parameter has its piece of the change subtracted.
A large parameter is a unit alone; its arrays are worked through in tiles that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np

from chainrule import modes
from chainrule.backends.registry import is_number
from chainrule.core.calls import raw
from chainrule.core.graph import before_write
from chainrule.errors import ArgumentError, DTypeError, GraphError, ShapeError, SideEffectError, explain
from chainrule.ops import joining, views
from chainrule.ops.creation import full_like
from chainrule.ops.elementwise import subtract
from chainrule.optim.arithmetic import PLAIN, Arithmetic, write
from chainrule.types import Array, ArrayType, Shape

SMALL = 8192  # entries of a parameter that shares its unit
TOGETHER = 1 << 15  # entries of a unit that is shared
TILE = 1 << 18  # bytes: what a pass leaves of a tile is still in the cache for the next pass; smaller ones cost calls

Factors = tuple[Any, ...]
Arrays = Mapping[str, Array]
Change = Callable[[Arithmetic, Factors, Array, Array, Arrays, Any, Any], Array]
"""`(x, factors, gradient, parameter, states, out, spare) -> what to subtract`, in `out` where that is given."""


class Member(NamedTuple):
    """One parameter: its number in the optimiser, its name in messages, the tensor."""

    number: int
    name: str
    tensor: Any


class Unit:
    """Some parameters of one dtype; for several of them, each state array holds all of theirs end to end."""

    def __init__(self, members: Sequence[Member], scratch: Scratch | None = None) -> None:
        self.members = tuple(members)
        self.params = tuple(member.tensor for member in members)
        self.shapes: tuple[Shape, ...] = tuple(p.data.shape for p in self.params)
        self.dtype: Any = self.params[0].data.dtype
        ends = list(accumulate(prod(shape) for shape in self.shapes))
        self.bounds = tuple(zip([0, *ends[:-1]], ends, strict=True))
        self.state: dict[str, Array] = {}
        self.scratch = scratch or Scratch()

    @property
    def shared(self) -> bool:
        """Whether several parameters share the state arrays."""
        return len(self.params) > 1

    def create(self, name: str, value: float) -> None:
        """A state array of one value; the step count is a single number."""
        if name == "step":
            self.state[name] = np.array(value)
        elif self.shared:
            self.state[name] = np.full(self.bounds[-1][1], value, self.dtype)
        else:
            data = self.params[0].data  # laid out as the parameter is
            self.state[name] = np.full_like(data, value) if type(data) is np.ndarray else full_like(data, value)

    def piece(self, name: str, k: int) -> Array:
        """The part of a state array that belongs to parameter `k`; it shares memory."""
        whole = self.state[name]
        if name == "step" or not self.shared:
            return whole
        start, stop = self.bounds[k]
        return whole[start:stop].reshape(self.shapes[k])

    def split(self, operation: str) -> list[Unit]:
        """Units of one parameter each, for parameters that go different ways from now on."""
        if modes.tracing.get() is not None or not all(type(a) is np.ndarray for a in self.state.values()):
            fault = "some parameters get no gradient, so their states part, which a trace cannot do"
            raise SideEffectError(explain(operation, fault, remedy="one such step outside the trace first"))
        made = [Unit([member]) for member in self.members]
        for k, unit in enumerate(made):
            unit.state = {name: np.array(self.piece(name, k)) for name in self.state}
        return made

    def gradients(self, operation: str) -> tuple[list[Array | None], Arithmetic]:
        """The gradient of each parameter, and who computes with them.  Raises before anything is changed."""
        found: list[Array | None] = []
        ours = True
        for k, p in enumerate(self.params):
            g, data, node = p.grad, p.data, p.node
            if g is None or node is None:  # none came, or it was frozen since
                g = None
            elif not (
                type(g) is type(data) is np.ndarray
                and g.shape == data.shape == self.shapes[k]
                and g.dtype == data.dtype == self.dtype
                and data.flags.writeable
                and node[1] is None
            ):
                g = self._checked(operation, k)
                ours = ours and type(g) is type(data) is np.ndarray
            found.append(g)
        return found, np if ours else PLAIN

    def _checked(self, operation: str, k: int) -> Array:
        _, name, p = self.members[k]
        g: Any = raw(p.grad)
        shown: dict[str, Any] = {"parameter": p, "grad": g}
        if p.node[1] is not None:
            raise GraphError(explain(operation, f"{name} is no leaf any more: it was rebound to a result", **shown))
        now, then = (p.data.shape, p.data.dtype), (self.shapes[k], self.dtype)
        found = (getattr(g, "shape", None), getattr(g, "dtype", None))
        if now != then or found != now:
            kind = ShapeError if now[0] != then[0] or found[0] not in (now[0], None) else DTypeError
            what = f"{name} has another type than when the optimiser was made"
            what = what if now != then else f"the gradient of {name} has another type than it"
            raise kind(explain(operation, what, **shown, expected=str(ArrayType(*then))))
        if type(p.data) is np.ndarray and not p.data.flags.writeable:
            remedy = "cr.tensor(a), which copies, for cr.asarray(a)"
            raise ArgumentError(explain(operation, f"the memory of {name} is read-only", remedy=remedy, **shown))
        return np.asarray(g) if is_number(g) else g

    def advance(
        self, x: Arithmetic, grads: Sequence[Array], change: Change, h: Factors, reads: bool, elementwise: bool
    ) -> None:
        """Count the step, run the formula, and subtract the change.  `reads`: it looks at the parameters' values."""
        step = self.state.get("step")
        if step is not None:
            x.add(step, 1.0, step)
        for p in self.params:
            before_write(p)
        if x is PLAIN:
            self._plainly(grads, change, h)
        elif self.shared:
            self._together(grads, change, h, reads)
        else:
            self._alone(grads[0], change, h, elementwise)

    def _together(self, grads: Sequence[Array], change: Change, h: Factors, reads: bool) -> None:
        g, p, out, spare, *pieces = self.scratch.take("together", self._buffers)
        np.concatenate([grad.reshape(-1) for grad in grads], out=g)
        if reads:
            np.concatenate([param.data.reshape(-1) for param in self.params], out=p)
        change(np, h, g, p, self.state, out, spare)
        for param, piece in zip(self.params, pieces, strict=True):
            np.subtract(param.data, piece, param.data)

    def _buffers(self) -> list[Array]:
        """Room for gradients, parameters, the change and something to spare; and the change in pieces."""
        made = [np.empty(self.bounds[-1][1], self.dtype) for _ in range(4)]
        return made + [made[2][a:b].reshape(shape) for (a, b), shape in zip(self.bounds, self.shapes, strict=True)]

    def _alone(self, g: Array, change: Change, h: Factors, elementwise: bool) -> None:
        p = self.params[0].data
        length = TILE // p.itemsize
        out, spare = self.scratch.take(self.dtype, lambda: [np.empty(length, self.dtype) for _ in range(2)])
        if p.size <= length:
            views = self.scratch.take(
                (self.dtype, p.shape), lambda: [b[: p.size].reshape(p.shape) for b in (out, spare)]
            )
            np.subtract(p, change(np, h, g, p, self.state, *views), p)
            return
        states = {name: array for name, array in self.state.items() if name != "step"}
        if not (elementwise and all(array.flags.c_contiguous for array in (p, *states.values()))):
            np.subtract(p, change(np, h, g, p, states, np.empty_like(p), np.empty_like(p)), p)
            return
        arrays = [array.reshape(-1) for array in (g, p, *states.values())]
        for start in range(0, p.size, length):
            g, p, *tiles = [array[start : start + length] for array in arrays]
            state = dict(zip(states, tiles, strict=True))
            np.subtract(p, change(np, h, g, p, state, out[: p.size], spare[: p.size]), p)

    def _plainly(self, grads: Sequence[Array], change: Change, h: Factors) -> None:
        """On any arrays, in whole operations: what a trace sees.  States that are shared show as `concat` and slices."""
        if not self.shared:
            p = self.params[0].data
            write(p, subtract(p, change(PLAIN, h, grads[0], p, self.state, None, None)))
            return
        g = joining.concat([views.reshape(grad, (-1,)) for grad in grads])
        p = joining.concat([views.reshape(param.data, (-1,)) for param in self.params])
        whole = change(PLAIN, h, g, p, self.state, None, None)
        for param, (start, stop), shape in zip(self.params, self.bounds, self.shapes, strict=True):
            write(param.data, subtract(param.data, views.reshape(whole[start:stop], shape)))


class Scratch:
    """Buffers that a step uses again.  They hold nothing between steps, and are hidden from copies and from a trace."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[Any, list[Array]] = {}

    def __reduce__(self) -> Any:
        return Scratch, ()

    def take(self, key: Any, make: Callable[[], list[Array]]) -> list[Array]:
        """The buffers of that name, made the first time."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return found


def partition(members: Sequence[Member], scratch: Scratch, elementwise: bool) -> list[Unit]:
    """The units of a group, in the order of their first parameters.  `scratch` is for the large ones."""
    if not elementwise:
        return [Unit([member], scratch) for member in members]
    batches: list[list[Member]] = []
    unfilled: dict[Any, tuple[list[Member], int]] = {}  # by dtype, with the entries in it
    for member in members:
        data = member.tensor.data
        if type(data) is not np.ndarray or data.size > SMALL:
            batches.append([member])
            continue
        batch, held = unfilled.get(data.dtype, ([], TOGETHER))
        if held + data.size > TOGETHER:
            batch, held = list[Member](), 0
            batches.append(batch)
        batch.append(member)
        unfilled[data.dtype] = (batch, held + data.size)
    return [Unit(batch, scratch if len(batch) == 1 else None) for batch in batches]
