"""Derivatives of derivatives: `grad`, `derivative`, `gradient` and `hessian` of functions of numbers, to any order.

There is no second set of rules. The engine's rules are written in operations that floats and Values share, and
`pull_back` carries whatever it is given: seeded with 1.0 it brings numbers, seeded with Value(1.0) it brings Values
that remember how they were made. A derivative made so is a graph like any other, and can be differentiated again.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from .engine import Value, next_order, plain, pull_back, reachable

Number: TypeAlias = Value | float


def grad(f: Callable[..., Any], argnum: int = 0) -> Callable[..., Number]:
    """The derivative of f in one of its arguments, as a function of the same arguments. It may be nested at will.

    Plain numbers in, a plain number out. If an argument is a Value, or f uses a Value from outside, the result is a
    Value that depends on it, as a formula written by hand would be.

    Raises: TypeError if f returns no Value (`math.sin(x)` forgets how it was made: use this package's `sin`), or for an
    argument that is no real number; ValueError if there is no such argument.

    >>> from chainrule.scalar import sin
    >>> f = lambda x, y: x**2 * y + sin(x) * y**3
    >>> grad(f)(0.0, 2.0), grad(grad(f))(0.0, 2.0), grad(grad(f), 1)(0.0, 2.0)
    (8.0, 4.0, 12.0)
    """

    def differentiated(*xs: Number) -> Number:
        if not -len(xs) <= argnum < len(xs):
            raise ValueError(f"grad: no argument {argnum} · called with {len(xs)} · give an argnum below that")
        run = Run("grad", f, xs)
        return run.derivatives(run.output, run.recorded)[argnum]

    return differentiated


def derivative(f: Callable[[Any], Any], n: int = 1) -> Callable[[Any], Any]:
    """The n-th derivative of a function of one number. n = 0 is f itself.

    Each order differentiates the graph of the one before, so the work grows by a constant factor per order.

    Raises: ValueError if n is negative or no whole number; what `grad` raises.

    >>> derivative(lambda x: x**4, 3)(2.0)
    48.0
    """
    if not isinstance(n, int) or n < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"derivative: the order n is a whole number from 0 on · got {n!r}")
    for _ in range(n):
        f = grad(f)
    return f


def gradient(f: Callable[..., Any]) -> Callable[..., list[Number]]:
    """The derivatives of f in all its arguments, in one walk however many there are.

    Raises: what `grad` raises.

    >>> gradient(lambda x, y: x * y + y)(2.0, 3.0)
    [3.0, 3.0]
    """

    def differentiated(*xs: Number) -> list[Number]:
        run = Run("gradient", f, xs)
        return run.derivatives(run.output, run.recorded)

    return differentiated


def hessian(f: Callable[..., Any]) -> Callable[..., list[list[Number]]]:
    """All second derivatives of f, a row per argument: one walk for the gradient, then one for each of its entries.

    Raises: what `grad` raises.

    >>> hessian(lambda x, y: x**2 * y)(2.0, 3.0)
    [[6.0, 4.0], [4.0, 0.0]]
    """

    def differentiated(*xs: Number) -> list[list[Number]]:
        run = Run("hessian", f, xs)
        first = run.derivatives(run.output, recorded=True)
        return [run.derivatives(entry, run.recorded) for entry in first]

    return differentiated


class Run:
    """One evaluation of f on inputs of its own, so that a derivative inside f, or around it, never meets this one's.

    Whatever is older than the run cannot depend on its inputs, so walks stop there. And a walk that would have gone on
    tells that the result depends on something from outside, for which it has to be recorded.
    """

    def __init__(self, caller: str, f: Callable[..., Any], xs: Sequence[Number]) -> None:
        self.start = next_order()
        self.inputs = [x * 1.0 if isinstance(x, Value) else Value(plain(caller, x)) for x in xs]
        self.output = f(*self.inputs)
        if not isinstance(self.output, Value):
            raise TypeError(
                f"{caller}: the function must return a Value · got {type(self.output).__name__} {self.output!r:.80} · "
                "compute with operators and this package's functions (math.sin(x) or float(x) forget how x was made)"
            )
        parents = (parent for node in reachable(self.output, self.start) for parent in node.parents)
        self.recorded = any(isinstance(x, Value) for x in xs) or any(parent.order < self.start for parent in parents)

    def derivatives(self, y: Any, recorded: bool) -> list[Number]:
        """The derivative of y in each input: 0 where y does not depend on it, a graph if it is to be recorded."""
        if recorded:
            slopes = pull_back(reachable(y, self.start), Value(1.0))
            return [slopes[x] if x in slopes else Value(0.0) for x in self.inputs]
        numbers = pull_back(reachable(y, self.start), 1.0)
        return [numbers.get(x, 0.0) for x in self.inputs]
