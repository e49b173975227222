"""L-BFGS: a quasi-Newton method that remembers the last steps and how the gradient changed along them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from chainrule import modes
from chainrule.core.calls import raw
from chainrule.core.graph import before_write
from chainrule.errors import ArgumentError, BackendError, DTypeError, ShapeError, explain
from chainrule.optim.arithmetic import number
from chainrule.optim.limits import COUNT, NOT_NEGATIVE, Limit, is_a, options
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.states import Group
from chainrule.optim.wolfe import Point, Search
from chainrule.types import Array


class Pair(NamedTuple):
    """A step, how the gradient changed along it, and the product of the two."""

    step: Array
    change: Array
    curvature: Any


class Memory:
    """What one step leaves for the next.  A step works on a copy, so one that fails leaves the old one."""

    def __init__(self) -> None:
        self.evaluations = self.iterations = 0
        self.direction: Array = None
        self.gradient: Array = None
        self.t = self.loss = 0.0
        self.scale: Any = 1.0
        self.pairs: list[Pair] = []

    def copy(self) -> Memory:
        """One that can be changed without this one."""
        made = Memory()
        made.__dict__.update(self.__dict__, pairs=list(self.pairs))
        return made

    def advance(self, gradient: Array, history: int) -> None:
        """Learn from the last step, and take the next direction: -H g, for the inverse Hessian H of what is known.

        **Source** Nocedal and Wright, Numerical optimization (2006), algorithm 7.4.
        """
        if self.iterations:
            change, step = gradient - self.gradient, self.direction * self.t
            curvature = change.dot(step)
            if curvature > 1e-10:
                self.pairs = [*self.pairs, Pair(step, change, curvature)][-history:]
                self.scale = curvature / change.dot(change)
        q, weights = -gradient, list[Any]()
        for step, change, curvature in reversed(self.pairs):
            weights.append(step.dot(q) / curvature)
            q -= weights[-1] * change
        q *= self.scale
        for (step, change, curvature), weight in zip(self.pairs, reversed(weights), strict=True):
            q += (weight - change.dot(q) / curvature) * step
        self.direction, self.gradient = q, gradient


class LBFGS(Optimizer):
    """L-BFGS: each iteration goes along -H g, where H is made of the last `history_size` steps.

    One `step(closure)` makes up to `max_iter` iterations, with up to `max_eval` calls of the closure (by default 5/4
    of `max_iter`), which forgets the gradients, computes the loss, walks back, and returns the loss.  It ends when the
    largest entry of the gradient is at most `tolerance_grad`, or when the parameters or the loss change by less than
    `tolerance_change`.  `line_search_fn="strong_wolfe"` searches along each direction; without it, lr is the step.

    All parameters are in one group.  What a step does depends on values, so it cannot be traced.
    **Raises** ArgumentError, DTypeError, GraphError for options and parameters that cannot be.  Where the closure raises, the
    parameters and the memory are as before the step.
    **Source** Liu and Nocedal, On the limited memory BFGS method for large scale optimization (1989).

    >>> import chainrule as cr
    >>> w = cr.tensor([-1.5, 2.0], requires_grad=True)
    >>> opt = cr.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = (1.0 - w[0]) ** 2 + 100.0 * (w[1] - w[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(3):
    ...     loss = opt.step(closure)
    >>> w.data.round(4)
    array([1., 1.])
    """

    limits = options(
        lr=NOT_NEGATIVE, max_iter=COUNT, max_eval=COUNT, history_size=COUNT, tolerance_grad=NOT_NEGATIVE,
        tolerance_change=NOT_NEGATIVE, line_search_fn=Limit("'strong_wolfe' or None", (None, "strong_wolfe").__contains__),
    )  # fmt: skip
    _elementwise = False

    def __init__(self, params: Iterable[Any], lr: float = 1.0, max_iter: int = 20, max_eval: int | None = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:  # fmt: skip
        self._memory = Memory()
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, locals())

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        if self.param_groups:
            raise ArgumentError(explain("LBFGS", "all parameters are in one group"))
        super().add_param_group(param_group)

    def _trainable(self, name: str, p: Any) -> None:
        super()._trainable(name, p)
        if type(p.data) is not np.ndarray:
            raise BackendError(
                explain("LBFGS", f"{name} is no array of NumPy's, which alone it can search", parameter=p)
            )

    def _state_names(self, group: Group) -> dict[str, float]:
        return {}

    # ------------------------------------------------------------ a step
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to `max_iter` iterations; returns what the closure returned first."""
        if closure is None:
            remedy = "step(closure), where closure() computes the loss anew, gradients included"
            raise ArgumentError(explain("LBFGS", "a step evaluates the loss several times", remedy=remedy))
        start, memory = self._values(), self._memory.copy()
        try:
            with modes.enable_grad():
                loss = closure()
                self._iterate(memory, Point(0.0, _number(loss), self._gradient(), 0.0), closure)
        except BaseException:
            self._place(start)
            raise
        self._memory = memory
        return loss

    def _iterate(self, memory: Memory, point: Point, closure: Callable[[], Any]) -> None:
        group = self.param_groups[0]
        lr, tolerance = number(group["lr"]), number(group["tolerance_change"])
        budget = memory.evaluations + group["max_eval"]
        memory.evaluations += 1
        for last in [False] * (group["max_iter"] - 1) + [True]:
            if not _largest(point.gradient) > group["tolerance_grad"]:
                return
            memory.advance(point.gradient, group["history_size"])
            memory.t = lr if memory.iterations else min(1.0, 1.0 / float(np.abs(point.gradient).sum())) * lr
            memory.iterations += 1
            memory.loss = point.loss
            slope = float(point.gradient.dot(memory.direction))
            if slope > -tolerance:
                return
            here = point._replace(t=0.0, slope=slope)
            point = self._along(memory, here, closure, budget, last)
            moved = _largest(memory.direction) * memory.t
            if memory.evaluations >= budget or moved <= tolerance or abs(point.loss - here.loss) < tolerance:
                return

    def _along(self, memory: Memory, here: Point, closure: Callable[[], Any], budget: int, last: bool) -> Point:
        """The next point along the direction; without a search, that of the last iteration is not evaluated."""
        values, direction = self._values(), memory.direction

        def evaluate(t: float) -> Point:
            self._place(values + t * direction)
            memory.evaluations += 1
            loss, gradient = _number(closure()), self._gradient()
            return Point(t, loss, gradient, float(gradient.dot(direction)))

        if self.param_groups[0]["line_search_fn"]:
            point = Search(evaluate, here, _largest(direction), budget - memory.evaluations).run(memory.t)
            memory.t = point.t
            self._place(values + point.t * direction)
            return point
        if last:
            self._place(values + memory.t * direction)
            return here
        return evaluate(memory.t)

    # ------------------------------------------------------------ all parameters as one vector
    def _values(self) -> Array:
        return np.concatenate([p.data.reshape(-1) for p in self._members[0]])

    def _gradient(self) -> Array:
        """The gradients end to end, zeros where none came; a copy."""
        found = [(unit.params[0].data, unit.gradients("LBFGS")[0][0]) for unit in self._units[0]]
        return np.concatenate([np.zeros(p.size, p.dtype) if g is None else g.reshape(-1) for p, g in found])

    def _place(self, values: Array) -> None:
        start = 0
        for p in self._members[0]:
            before_write(p)
            p.data[...] = values[start : start + p.size].reshape(p.shape)
            start += p.size

    # ------------------------------------------------------------ state
    def state_dict(self) -> dict[str, Any]:
        """As all optimisers; the memory stands at the first parameter, under PyTorch's names."""
        memory, saved = self._memory, super().state_dict()
        if memory.iterations:
            size = memory.gradient.size
            saved["state"][0] = {
                "func_evals": np.array(memory.evaluations),
                "n_iter": np.array(memory.iterations),
                "d": memory.direction.copy(),
                "t": np.array(memory.t),
                "old_dirs": np.array([pair.change for pair in memory.pairs]).reshape(-1, size),
                "old_stps": np.array([pair.step for pair in memory.pairs]).reshape(-1, size),
                "ro": np.array([1.0 / pair.curvature for pair in memory.pairs]),
                "H_diag": np.array(memory.scale),
                "prev_flat_grad": memory.gradient.copy(),
                "prev_loss": np.array(memory.loss),
            }
        return saved

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        group, _ = self._options(state_dict)[0]
        entries: Any = state_dict["state"]
        memory = Memory()
        saved: dict[str, Any] = entries.get(0, entries.get("0")) or {}
        if "n_iter" in saved:
            self._restore(memory, saved)
        self.param_groups[0].update(group)
        self._memory = memory

    def _restore(self, memory: Memory, saved: Mapping[str, Any]) -> None:
        like = self._values()
        vectors = [np.array(np.asarray(saved[name]), like.dtype) for name in ("d", "prev_flat_grad")]
        rows = [[np.asarray(row) for row in saved[name]] for name in ("old_stps", "old_dirs")]
        steps, changes = [[np.array(row, like.dtype) for row in many] for many in rows]
        if len(steps) != len(changes) or any(v.shape != like.shape for v in (*vectors, *steps, *changes)):
            fault = "the saved memory does not fit the parameters"
            raise ShapeError(explain("LBFGS", fault, parameters=like, saved=vectors[0]))
        memory.direction, memory.gradient = vectors
        memory.pairs = [Pair(step, change, change.dot(step)) for step, change in zip(steps, changes, strict=True)]
        memory.evaluations, memory.iterations = int(saved["func_evals"]), int(saved["n_iter"])
        memory.t, memory.loss = float(saved["t"]), float(saved["prev_loss"])
        memory.scale = like.dtype.type(saved["H_diag"])


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))


def _number(loss: Any) -> float:
    value: Any = raw(loss)
    if not is_a(value, int, float, np.ndarray, np.generic) or np.size(value) != 1:
        remedy = "`return loss` at the end of the closure"
        raise DTypeError(explain("LBFGS", "the closure returned no loss", returned=loss, remedy=remedy))
    return float(np.asarray(value).item())
