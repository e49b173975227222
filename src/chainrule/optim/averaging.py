"""Averages of parameters along the way: often better than the parameters at the end.

The averages are arrays beside the parameters, updated after a step; `average_parameters` puts them in the parameters'
place for a while.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from chainrule.core.calls import is_tensor, raw
from chainrule.core.graph import before_write, own_copy
from chainrule.errors import ArgumentError, DTypeError, ShapeError, dtype_kind, explain
from chainrule.optim.arithmetic import PLAIN, in_dtype, write
from chainrule.optim.limits import UNIT, is_a, plain
from chainrule.types import Array


class Averages:
    """What the two kinds of averages share: `update`, `average_parameters`, `copy_to`, `state_dict`.

    `parameters`: tensors, and arrays such as the buffers of a network, of which floating ones are averaged and others
    followed.  `averages` holds an array for each.
    """

    def __init__(self, parameters: Iterable[Any]) -> None:
        given: list[Any] = [] if is_tensor(parameters) or is_a(parameters, np.ndarray, Mapping) else list(parameters)
        unique = {id(p): p for p in given}
        if not unique or not all(is_tensor(p) or type(p) is np.ndarray for p in unique.values()):
            remedy = "a list of tensors or arrays, such as model.parameters()"
            raise DTypeError(explain(self._name, "there is nothing to average", parameters=parameters, remedy=remedy))
        self.parameters: tuple[Any, ...] = tuple(unique.values())
        self.averages: list[Array] = [own_copy(raw(p)) for p in self.parameters]
        self.n_averaged = np.array(0)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _weights(self, n: Any) -> tuple[Any, Any]:
        """What the average weighs, and what a new value, after `n` updates before."""
        raise NotImplementedError

    def update(self) -> None:
        """Take the present values into the averages; call it after each `step` of the optimiser.

        **Raises** ShapeError, with nothing changed, where a parameter has got another shape.
        """
        for p, average in zip(self.parameters, self.averages, strict=True):
            if p.shape != average.shape:
                raise ShapeError(explain(self._name, "a parameter has another shape now", parameter=p, average=average))
        count: Any = self.n_averaged
        weights = self._weights(count.item() if type(count) is np.ndarray else count)
        for p, average in zip(self.parameters, self.averages, strict=True):
            data = raw(p)
            if dtype_kind(average.dtype) != "f":
                write(average, data)
                continue
            x = np if type(average) is type(data) is np.ndarray else PLAIN
            old, new = [in_dtype(weight, average.dtype) for weight in weights]
            x.multiply(average, old, average)
            x.add(average, x.multiply(data, new, None), average)
        PLAIN.add(count, 1, count)

    def copy_to(self) -> None:
        """Put the averages into the parameters, for good."""
        self._place(self.averages)

    @contextmanager
    def average_parameters(self) -> Generator[None]:
        """Inside the block the parameters have their average values, afterwards again their own."""
        kept = [own_copy(raw(p)) for p in self.parameters]
        self._place(self.averages)
        try:
            yield
        finally:
            self._place(kept)

    def _place(self, values: list[Array]) -> None:
        for p, value in zip(self.parameters, values, strict=True):
            if is_tensor(p):
                before_write(p)
            write(raw(p), value)

    def state_dict(self) -> dict[str, Any]:
        """The averages and their count, as copies."""
        return {"n_averaged": np.array(self.n_averaged), "averages": [own_copy(a) for a in self.averages]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken.  **Raises** ArgumentError, ShapeError, with nothing changed."""
        saved = [np.asarray(array) for array in state_dict.get("averages", ())]
        if len(saved) != len(self.averages) or "n_averaged" not in state_dict:
            fault = "the saved averages are those of other parameters"
            raise ArgumentError(explain(self._name, fault, saved=len(saved), here=len(self.averages)))
        for array, average in zip(saved, self.averages, strict=True):
            if array.shape != average.shape:
                raise ShapeError(explain(self._name, "a saved average has another shape", saved=array, here=average))
        for array, average in zip(saved, self.averages, strict=True):
            write(average, array)
        self.n_averaged[...] = state_dict["n_averaged"]


class ExponentialMovingAverage(Averages):
    """a ← decay a + (1 - decay) p after each step, from a = p at the beginning.

    `warmup` follows more closely at first: the decay is at most (1 + n) / (10 + n) after n updates.

    **Raises** ArgumentError for a decay outside 0 to 1, DTypeError where there is nothing to average.
    **Source** Polyak and Juditsky, Acceleration of stochastic approximation by averaging (1992), weighted.

    >>> import chainrule as cr
    >>> w = cr.tensor([0.0], requires_grad=True)
    >>> ema = cr.optim.ExponentialMovingAverage([w], decay=0.75)
    >>> with cr.no_grad():
    ...     w += 1.0
    >>> ema.update()
    >>> with ema.average_parameters():
    ...     w.tolist()
    [0.25]
    >>> w.tolist()
    [1.0]
    """

    def __init__(self, parameters: Iterable[Any], decay: float, *, warmup: bool = False) -> None:
        self.decay = plain(decay)
        self.warmup = warmup
        if not UNIT.holds(self.decay):
            raise ArgumentError(explain(self._name, f"decay must be {UNIT.text}", decay=decay))
        super().__init__(parameters)

    def _weights(self, n: Any) -> tuple[Any, Any]:
        decay: Any = self.decay
        if self.warmup:
            early = (1.0 + n) / (10.0 + n)
            decay = min(decay, early) if is_a(early, float) else PLAIN.minimum(early, decay, None)
        return decay, 1.0 - decay


class AveragedWeights(Averages):
    """The plain mean of the values at each `update`: stochastic weight averaging, once an epoch near the end.

    Networks with BatchNorm need its statistics anew for the averages: a pass over the data in training mode.

    **Source** Izmailov et al., Averaging weights leads to wider optima and better generalization (2018).

    >>> import chainrule as cr
    >>> w = cr.tensor([0.0], requires_grad=True)
    >>> swa = cr.optim.AveragedWeights([w])
    >>> for _ in range(3):
    ...     with cr.no_grad():
    ...         w += 1.0
    ...     swa.update()
    >>> swa.averages
    [array([2.])]
    """

    def _weights(self, n: Any) -> tuple[Any, Any]:
        return n / (n + 1.0), 1.0 / (n + 1.0)
