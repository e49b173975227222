"""Reverse-mode automatic differentiation on single numbers, in pure Python: what `.backward()` does, in one file.

A `Value` is a number that remembers how it was made: the operation and its parents. So a computation leaves a graph.
Walking that graph from the result towards the inputs, the chain rule needs one thing per operation: given `ct` (the
cotangent: the derivative of the result with respect to this node's output), how much of it goes to each parent.
`RULES` is that knowledge, a line each; `reachable` is the order of the walk, `pull_back` the walk. Nothing else here
is more than the arithmetic of `float`, recorded.
"""

from collections.abc import Callable
from itertools import count
from numbers import Real
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from . import ieee

# ---- The calculus -------------------------------------------------------------------------------------------------

Rule: TypeAlias = Callable[[Any, Any, Any], tuple[Any, ...]] | Callable[[Any, Any, Any, Any], tuple[Any, ...]]

# Each rule: cotangent, output, inputs -> one contribution per input. A rule is written in operations that floats and
# Values share. On floats it gives numbers; on Values it leaves a graph, which can be differentiated again.
RULES: dict[str, Rule] = {
    "+": lambda ct, out, x, y: (ct, ct),
    "*": lambda ct, out, x, y: (ct * y, ct * x),
    "**": lambda ct, out, x, y: (ct * power_slope(x, y), ct * power_growth(out, x, y)),
    "**c": lambda ct, out, x, c: (ct * constant_power_slope(x, c),),  # the exponent is a constant: it gets nothing
    "exp": lambda ct, out, x: (ct * out,),
    "log": lambda ct, out, x: (ct * power(x, -1.0),),
    "sin": lambda ct, out, x: (ct * cos(x),),
    "cos": lambda ct, out, x: (ct * -sin(x),),
    "tanh": lambda ct, out, x: (ct * (1.0 - out * out),),
    "sigmoid": lambda ct, out, x: (ct * (out * (1.0 - out)),),
    "relu": lambda ct, out, x: (ct * (x > 0),),
    "abs": lambda ct, out, x: (ct * ((x > 0) - (x < 0)),),
    "max": lambda ct, out, x, y: (ct * share(x, y), ct * share(y, x)),
}


def constant_power_slope(x: Any, c: Any) -> Any:
    """The slope of x**c in x. x**0 is 1 everywhere, so its slope is 0 at x = 0 too, where 0 * 0**-1 would be nan."""
    return c * power(x, c - 1.0) if c != 0 else 0.0


def power_slope(x: Any, y: Any) -> Any:
    """The slope of x**y in x, when y varies too: only at 0**0 is there anything to settle."""
    return y * power(x, y - 1.0) if x != 0 or y != 0 else 0.0


def power_growth(out: Any, x: Any, y: Any) -> Any:
    """The slope of x**y in y. 0**y stays 0 however y moves, and 0 * log(0) would be nan."""
    return out * log(x) if x != 0 or y < 0 else 0.0


def share(x: Any, y: Any) -> float:
    """How much of max(x, y) is x: all or nothing, and half of it at a tie."""
    return 1.0 if x > y else 0.5 if x == y else 0.0


# ---- The number that remembers ------------------------------------------------------------------------------------

# Every node draws the next number when it is made, so parents always have smaller numbers than what is made of them.
next_order = count().__next__


class Value:
    """One number in a computation, with its gradient after `backward()`.

    `data` is the number, `grad` the sum of what the calls of `backward()` have brought (0.0 at first), `op` the
    operation that made it (empty for an input) and `parents` its operands; `name` is for drawings. Operators work on
    Values and plain numbers. Comparisons compare numbers, `hash` goes by identity. Arithmetic follows IEEE 754: an
    overflow is inf, 0 / 0 is nan.

    At kinks: relu and abs have slope 0 at 0, `maximum` and `minimum` share evenly at a tie.

    Raises: TypeError for an operand that is no real number; RuntimeError where a result's `data` is assigned.

    >>> w, x, b, y = Value(0.5), Value(2.0), Value(1.0), Value(3.0)
    >>> loss = ((w * x + b) - y) ** 2
    >>> loss.backward()
    >>> loss.data, w.grad, x.grad, b.grad, y.grad
    (1.0, -4.0, -1.0, -2.0, 2.0)
    """

    __slots__ = ("_data", "grad", "name", "op", "parents", "order")
    __array_ufunc__ = None  # tells NumPy's scalars and arrays to leave `array * value` to us

    def __init__(self, data: float, name: str = "", op: str = "", parents: "tuple[Value, ...]" = ()) -> None:
        self._data = data if type(data) is float else plain("Value", data)
        self.grad = 0.0
        self.name = name
        self.op = op
        self.parents = parents
        self.order = next_order()

    @property
    def data(self) -> float:
        """The number. An input's may be assigned, as a training step does; graphs made before then refuse a walk."""
        return self._data

    @data.setter
    def data(self, data: float) -> None:
        if self.parents:
            raise RuntimeError(
                f"data: cannot be assigned on the result of an operation · {self!r}, made by {self.op!r} · "
                "assign to an input, or make a new Value"
            )
        self._data = plain("data", data)
        self.order = next_order()  # younger than all that was made of the old number: `reachable` sees it

    # Two primitives...

    def __add__(self, other: "Operand") -> "Value":
        if not isinstance(other, Value):
            other = Value(plain("+", other, self))
        return Value(self._data + other._data, "", "+", (self, other))

    def __mul__(self, other: "Operand") -> "Value":
        if not isinstance(other, Value):
            other = Value(plain("*", other, self))
        return Value(self._data * other._data, "", "*", (self, other))

    # ...and a third, power, which knows whether its exponent varies.

    def __pow__(self, other: "Operand") -> "Value":
        if isinstance(other, Value):
            return Value(ieee.power(self._data, other._data), "", "**", (self, other))
        exponent = plain("**", other, self)
        return Value(ieee.power(self._data, exponent), "", "**c", (self, Value(exponent)))

    # What follows from them needs no rule.

    __radd__ = __add__
    __rmul__ = __mul__

    def __rpow__(self, other: float) -> "Value":
        return Value(plain("**", other, self)) ** self

    def __pos__(self) -> "Value":
        return self

    def __neg__(self) -> "Value":
        return self * -1.0

    def __sub__(self, other: "Operand") -> "Value":
        return self + (-other if isinstance(other, Value) else -plain("-", other, self))

    def __rsub__(self, other: float) -> "Value":
        return -self + plain("-", other, self)

    def __truediv__(self, other: "Operand") -> "Value":
        return self * power(other if isinstance(other, Value) else plain("/", other, self), -1.0)

    def __rtruediv__(self, other: float) -> "Value":
        return self**-1.0 * plain("/", other, self)

    # Functions of one number, as methods.

    def __abs__(self) -> "Value":
        return Value(abs(self._data), "", "abs", (self,))

    def exp(self) -> "Value":
        return exp(self)

    def log(self) -> "Value":
        return log(self)

    def sin(self) -> "Value":
        return sin(self)

    def cos(self) -> "Value":
        return cos(self)

    def tanh(self) -> "Value":
        return tanh(self)

    def sigmoid(self) -> "Value":
        return sigmoid(self)

    def relu(self) -> "Value":
        return relu(self)

    # A Value in conditions and in print is its number.

    def __eq__(self, other: object) -> bool:
        return self._data == (other._data if isinstance(other, Value) else other)

    __hash__ = object.__hash__

    def __lt__(self, other: "Operand") -> bool:
        return self._data < (other._data if isinstance(other, Value) else other)

    def __le__(self, other: "Operand") -> bool:
        return self._data <= (other._data if isinstance(other, Value) else other)

    def __gt__(self, other: "Operand") -> bool:
        return self._data > (other._data if isinstance(other, Value) else other)

    def __ge__(self, other: "Operand") -> bool:
        return self._data >= (other._data if isinstance(other, Value) else other)

    def __bool__(self) -> bool:
        return self._data != 0

    def __float__(self) -> float:
        return self._data

    def __format__(self, spec: str) -> str:
        return format(self._data, spec) if spec else repr(self)

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"Value({self._data!r}, grad={self.grad!r}{name})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles keep number, name and gradient, and leave the graph behind."""
        return Value, (self._data, self.name), (None, {"grad": self.grad})

    def backward(self) -> None:
        """Add d(self)/d(node) to the `grad` of every node that self was made from, self included.

        What one call brings is worked out on its own and added at the end, so a second call doubles every gradient.

        Raises: RuntimeError if an input was assigned a new number after the graph had used the old one.

        >>> x = Value(3.0)
        >>> y = x * x + x
        >>> y.backward()
        >>> x.grad, y.grad
        (7.0, 1.0)
        >>> y.backward()
        >>> x.grad, y.grad
        (14.0, 2.0)
        """
        for node, cotangent in pull_back(reachable(self), 1.0).items():
            node.grad += cotangent


Operand: TypeAlias = Value | float
T = TypeVar("T", float, Value)
number_of = attrgetter("_data")

# ---- The walk -----------------------------------------------------------------------------------------------------


def reachable(output: Value, since: int = 0) -> list[Value]:
    """The nodes that `output` was made from, consumers before what they consume; only those made from `since` on.

    No recursion: a chain of a million operations is walked like any other.
    """
    reached, waiting = {output}, [output]
    while waiting:
        node = waiting.pop()
        for parent in node.parents:
            if parent.order > node.order:
                raise RuntimeError(
                    f"backward: an input was assigned a new number after {node.op!r} had used the old one · "
                    f"{parent!r} · compute the result again, then call backward()"
                )
            if parent not in reached and parent.order >= since:
                reached.add(parent)
                waiting.append(parent)
    return sorted(reached, key=attrgetter("order"), reverse=True)


def pull_back(nodes: list[Value], seed: T) -> dict[Value, T]:
    """Carry the cotangent `seed` of nodes[0] back through all nodes; what each receives in sum is its derivative.

    The seed chooses the algebra: with 1.0 the rules run on floats, with Value(1.0) on the recorded Values themselves,
    and the derivatives are then graphs like any other.
    """
    recorded = isinstance(seed, Value)
    cotangents: dict[Value, Any] = {nodes[0]: seed}
    for node in nodes:
        ct = cotangents.get(node, 0.0)
        if not node.op or (ct == 0 and not recorded):
            continue
        if recorded:
            contributions = RULES[node.op](ct, node, *node.parents)
        else:
            contributions = RULES[node.op](ct, node.data, *map(number_of, node.parents))
        for parent, part in zip(node.parents, contributions):  # noqa: B905 (strict= costs a fifth of the walk)
            if part == part or ct != 0:  # nan times nothing is nothing: a dead branch stays dead
                cotangents[parent] = cotangents[parent] + part if parent in cotangents else part
    return cotangents


# ---- The functions ------------------------------------------------------------------------------------------------
# They take Values and plain numbers, and give back what they were given, so a formula serves for both.


def plain(op: str, x: Any, other: Value | None = None) -> float:
    """A real number as a float, or the error that says which operation got what."""
    if isinstance(x, Real):
        return float(x)
    beside = f"{other!r} and " if other is not None else ""
    raise TypeError(
        f"{op}: expected a real number or a Value · got {beside}{type(x).__name__} {x!r:.80} · "
        "one Value holds one number: convert it with float(), or go through the elements of a sequence"
    )


def elementary(op: str, forward: Callable[[float], float], x: Any) -> Any:
    """Record `forward` on a Value, or just apply it to a plain number."""
    return Value(forward(x.data), "", op, (x,)) if isinstance(x, Value) else forward(plain(op, x))


def exp(x: T) -> T:
    """e**x, inf where that is too large. Derivative: exp(x).

    >>> exp(0.0), exp(1000.0)
    (1.0, inf)
    """
    return elementary("exp", ieee.exp, x)


def log(x: T) -> T:
    """The natural logarithm; -inf at 0 and nan below. Derivative: 1 / x.

    >>> log(1.0), log(0.0)
    (0.0, -inf)
    """
    return elementary("log", ieee.log, x)


def sin(x: T) -> T:
    """The sine of x in radians. Derivative: cos(x).

    >>> x = Value(0.0); sin(x).backward(); x.grad
    1.0
    """
    return elementary("sin", ieee.sin, x)


def cos(x: T) -> T:
    """The cosine of x in radians. Derivative: -sin(x).

    >>> cos(0.0)
    1.0
    """
    return elementary("cos", ieee.cos, x)


def tanh(x: T) -> T:
    """The hyperbolic tangent, at any size of x. Derivative: 1 - tanh(x)**2.

    >>> x = Value(1000.0); y = tanh(x); y.backward(); y.data, x.grad
    (1.0, 0.0)
    """
    return elementary("tanh", ieee.tanh, x)


def sigmoid(x: T) -> T:
    """1 / (1 + exp(-x)), at any size of x. Derivative: s * (1 - s), where s is the result.

    >>> sigmoid(0.0), sigmoid(-1000.0)
    (0.5, 0.0)
    """
    return elementary("sigmoid", ieee.sigmoid, x)


def relu(x: T) -> T:
    """x where positive, else 0. Derivative: 1 or 0, and 0 at 0.

    >>> relu(2.0), relu(-2.0)
    (2.0, 0.0)
    """
    return elementary("relu", ieee.relu, x)


def power(x: Any, y: Any) -> Any:
    """x ** y for Values and numbers, also where Python's own ** on floats would raise or turn complex.

    >>> power(0.0, -1.0), power(-8.0, 0.5)
    (inf, nan)
    """
    return x**y if isinstance(x, Value) or isinstance(y, Value) else ieee.power(plain("**", x), plain("**", y))


def maximum(x: Any, y: Any) -> Any:
    """The larger of the two, nan if one is nan. Derivative: 1 for the larger, 1/2 each at a tie.

    >>> x, y = Value(2.0), Value(2.0)
    >>> maximum(x, y).backward()
    >>> x.grad, y.grad
    (0.5, 0.5)
    """
    a, b = (v if isinstance(v, Value) else plain("maximum", v) for v in (x, y))
    if isinstance(a, float) and isinstance(b, float):
        return ieee.maximum(a, b)
    a, b = (v if isinstance(v, Value) else Value(v) for v in (a, b))
    return Value(ieee.maximum(a.data, b.data), "", "max", (a, b))


def minimum(x: Any, y: Any) -> Any:
    """The smaller of the two, nan if one is nan. Derivative: 1 for the smaller, 1/2 each at a tie."""
    return -maximum(-x, -y)
