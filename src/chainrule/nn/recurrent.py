"""Recurrent layers: `GRU`, `LSTM` and their cells, as a plain loop over the places of a sequence.

What comes from the input is one product for all places; what comes from the state is one product for each.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, ClassVar

import numpy as np

from chainrule.core.calls import raw, wrap
from chainrule.errors import ShapeError, dtype_name, explain
from chainrule.nn import initialisers
from chainrule.nn.linear import check_sizes
from chainrule.nn.module import Module, parameter
from chainrule.nn.plain import dropout
from chainrule.ops.arguments import as_floating
from chainrule.ops.arranging import swapaxes
from chainrule.ops.creation import filled
from chainrule.ops.elementwise import sigmoid, tanh
from chainrule.ops.joining import concat, split, stack, unstack
from chainrule.ops.linear import linear
from chainrule.ops.views import reshape_to

Generator = np.random.Generator | None
States = tuple[Any, ...]
"""What is carried from place to place, arrays f[n, hidden_size]: the output first."""


def _gru(given: Any, carried: Any, states: States) -> States:
    """One place of a GRU: gates r, z and the candidate n, whose part from the state r scales."""
    (state,) = states
    reset, update, new = split(given, 3, axis=-1)
    reset_too, update_too, new_too = split(carried, 3, axis=-1)
    keep = sigmoid(update + update_too)
    new = tanh(new + sigmoid(reset + reset_too) * new_too)
    return (new + keep * (state - new),)


def _lstm(given: Any, carried: Any, states: States) -> States:
    """One place of an LSTM: gates i, f, the candidate g, and o."""
    enter, forget, new, leave = split(given + carried, 4, axis=-1)
    cell = sigmoid(forget) * states[1] + sigmoid(enter) * tanh(new)
    return sigmoid(leave) * tanh(cell), cell


class _Recurrent(Module):
    """What layers and cells share: parameters by PyTorch's names, evenly between ±1/sqrt(hidden_size) at first."""

    step: ClassVar[Any]
    gates: ClassVar[int]
    carried: ClassVar[int]
    hidden_size: int

    def _add(self, suffix: str, width: int, bias: bool, dtype: Any, generator: Generator) -> None:
        size = self.hidden_size
        shapes: dict[str, Any] = {"weight_ih": (self.gates * size, width), "weight_hh": (self.gates * size, size)}
        shapes |= {"bias_ih": self.gates * size, "bias_hh": self.gates * size} if bias else {}
        for name, shape in shapes.items():
            made = initialisers.uniform_(parameter(shape, dtype), -1 / sqrt(size), 1 / sqrt(size), generator)
            setattr(self, name + suffix, made)

    def _by(self, name: str, suffix: str, x: Any) -> Any:
        """What the input ("ih") or the state ("hh") brings to the gates."""
        return linear(x, getattr(self, f"weight_{name}{suffix}"), getattr(self, f"bias_{name}{suffix}", None))

    def _start(self, hx: Any, shape: tuple[int, ...], beside: Any) -> list[Any]:
        """The states before the first place: those given, or zeros."""
        if hx is None:
            return [wrap(filled(shape, 0.0, raw(beside)), None)] * self.carried
        given: list[Any] = list(hx) if self.carried > 1 else [hx]
        for state in given:
            if getattr(state, "shape", None) != shape or len(given) != self.carried:
                wanted = f"{dtype_name(raw(beside).dtype)}[{', '.join(map(str, shape))}]"
                expected = wanted if self.carried == 1 else f"a pair of {wanted}"
                fault = "the states at the beginning are of another shape"
                raise ShapeError(explain(type(self).__name__, fault, hx=state, expected=expected))
        return given

    def _pack(self, states: Any) -> Any:
        return tuple(states) if self.carried > 1 else states[0]


class _Layers(_Recurrent):
    """Any number of layers, each one way or both ways along the sequence."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: Any = None,
        generator: Generator = None,
    ) -> None:
        check_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        for layer in range(num_layers):
            width = hidden_size * len(self._ways) if layer else input_size
            for way in self._ways:
                self._add(f"_l{layer}{way}", width, bias, dtype, generator)

    @property
    def _ways(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def forward(self, input: Any, hx: Any = None, *, generator: Generator = None) -> tuple[Any, Any]:
        """The outputs at all places, and the states after the last one."""
        x = as_floating(input)
        alone = len(x.shape) == 2
        if len(x.shape) not in (2, 3) or x.shape[-1] != self.input_size or 0 in x.shape:
            expected = f"f[places, {self.input_size}], or a batch of such, with at least one place"
            raise ShapeError(explain(type(self).__name__, "no sequence", input=input, expected=expected))
        turned = self.batch_first and not alone
        x = swapaxes(x, 0, 1) if turned else reshape_to(x, (x.shape[0], 1, x.shape[1])) if alone else x
        rows = self.num_layers * len(self._ways)
        shape = (rows, self.hidden_size) if alone else (rows, x.shape[1], self.hidden_size)
        start = [
            reshape_to(state, (rows, 1, self.hidden_size)) if alone else state for state in self._start(hx, shape, x)
        ]
        x, ends = self._all(x, list(zip(*map(unstack, start), strict=True)), generator)
        final = [reshape_to(stack(parts), shape) for parts in zip(*ends, strict=True)]
        x = swapaxes(x, 0, 1) if turned else reshape_to(x, (x.shape[0], x.shape[2])) if alone else x
        return x, self._pack(final)

    def _all(self, x: Any, states: list[States], generator: Generator) -> tuple[Any, list[States]]:
        """All layers over x f[places, n, width], from these states of every layer and way."""
        ends: list[States] = []
        for layer in range(self.num_layers):
            if layer:
                x = dropout(x, self.dropout, self.training, generator)
            sides: list[Any] = []
            for way in self._ways:
                out, end = self._along(x, f"_l{layer}{way}", states[len(ends)], bool(way))
                sides.append(out)
                ends.append(end)
            x = sides[0] if len(sides) == 1 else concat(sides, axis=-1)
        return x, ends

    def _along(self, x: Any, suffix: str, states: States, backwards: bool) -> tuple[Any, States]:
        """One layer one way along the sequence."""
        given = unstack(self._by("ih", suffix, x))
        outs: list[Any] = []
        for part in reversed(given) if backwards else given:
            states = type(self).step(part, self._by("hh", suffix, states[0]), states)
            outs.append(states[0])
        return stack(outs[::-1] if backwards else outs), states


class _Cell(_Recurrent):
    """One place at a time."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *, dtype: Any = None, generator: Generator = None
    ) -> None:
        check_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        self._add("", input_size, bias, dtype, generator)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The states after this input."""
        x = as_floating(input)
        states = self._start(hx, (*x.shape[:-1], self.hidden_size), x)
        return self._pack(type(self).step(self._by("ih", "", x), self._by("hh", "", states[0]), tuple(states)))


class GRU(_Layers):
    """Gated recurrent units along a sequence, in `num_layers` layers.

    r = sigmoid(W_ir x + b_ir + W_hr h + b_hr), z likewise, n = tanh(W_in x + b_in + r (W_hn h + b_hn)),
    h' = (1 - z) n + z h.  **Shapes** `input f[l, n, input_size], hx f[k, n, hidden_size] -> f[l, n, d hidden_size],
    f[k, n, hidden_size]`, d = 2 if `bidirectional`, k = d num_layers; without n for one sequence, and with n first if
    `batch_first`, hx excepted.  Parameters as PyTorch's: weight_ih_l0, the rows of r, z, n below one another, and so
    on.  `dropout` between layers.  **Raises** ShapeError, ArgumentError.  **Source** Cho and others, 2014; the form
    with r after the product: cuDNN's, and PyTorch's.

    >>> import chainrule as cr
    >>> y, h = cr.nn.GRU(3, 4, generator=cr.random.generator(0))(cr.ones((5, 2, 3)))
    >>> y.shape, h.shape, bool((y[-1] == h[0]).all())
    ((5, 2, 4), (1, 2, 4), True)
    """

    step, gates, carried = staticmethod(_gru), 3, 1


class LSTM(_Layers):
    """Long short-term memory along a sequence, in `num_layers` layers.

    i = sigmoid(W_ii x + b_ii + W_hi h + b_hi), f and o likewise, g = tanh(W_ig x + b_ig + W_hg h + b_hg),
    c' = f c + i g, h' = o tanh(c').  **Shapes** as in `GRU`, where hx and the states after the last place are pairs
    (h, c).  Parameters as PyTorch's: weight_ih_l0, the rows of i, f, g, o below one another, and so on; its
    `proj_size` is left out.  `dropout` between layers.  **Raises** ShapeError, ArgumentError.
    **Source** Hochreiter and Schmidhuber, 1997; the forget gate: Gers, Schmidhuber and Cummins, 2000.

    >>> import chainrule as cr
    >>> y, (h, c) = cr.nn.LSTM(3, 4, batch_first=True, generator=cr.random.generator(0))(cr.ones((2, 5, 3)))
    >>> y.shape, h.shape, c.shape
    ((2, 5, 4), (1, 2, 4), (1, 2, 4))
    """

    step, gates, carried = staticmethod(_lstm), 4, 2


class GRUCell(_Cell):
    """One place of a `GRU`.

    **Shapes** `input f[n, input_size], hx f[n, hidden_size] -> f[n, hidden_size]`, n or none.  **Raises** ShapeError,
    ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.GRUCell(3, 4, generator=cr.random.generator(0))(cr.ones((2, 3))).shape
    (2, 4)
    """

    step, gates, carried = staticmethod(_gru), 3, 1


class LSTMCell(_Cell):
    """One place of an `LSTM`.

    **Shapes** `input f[n, input_size], (h, c) f[n, hidden_size] -> (h', c')`, n or none.  **Raises** ShapeError,
    ArgumentError.

    >>> import chainrule as cr
    >>> h, c = cr.nn.LSTMCell(3, 4, generator=cr.random.generator(0))(cr.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    step, gates, carried = staticmethod(_lstm), 4, 2
