"""Random numbers, bit for bit reproducible: one generator for the process, one for a block, or explicit ones.

`draw` makes arrays; the functions of the same names make tensors of them.  Whatever the library draws, it draws here,
through `drawn`.  Parameters are numbers; float32 is drawn as float32, not drawn in float64 and rounded.
"""

from __future__ import annotations

from math import isfinite
from operator import index
from typing import Any

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract
from chainrule.core.calls import wrap
from chainrule.core.generators import copied, current, drawn, generator, seed, use
from chainrule.errors import ArgumentError, DTypeError, explain
from chainrule.ops.arguments import as_shape, real_dtype
from chainrule.types import Array

__all__ = [
    "bernoulli", "current", "draw", "generator", "integers", "normal", "permutation", "seed", "set_state", "state",
    "uniform", "use",
]  # fmt: skip


def _floating(operation: str, dtype: Any) -> Any:
    wanted = modes.default_dtype() if dtype is None else real_dtype(operation, dtype)
    if wanted.kind == "f":
        return wanted
    raise DTypeError(explain(operation, f"{wanted} holds no real numbers", expected="a floating dtype"))


def _floats(operation: str, method: str, shape: Any, wanted: Any, generator: np.random.Generator | None) -> Array:
    """Standard floats: NumPy draws float32 and float64, and others are cast from these, once they are scaled."""
    dtype = np.float32 if wanted.itemsize <= 4 else np.float64
    return drawn(generator, method, as_shape(operation, shape), dtype=dtype)


def _number(operation: str, name: str, value: Any, dtype: Any = np.float64) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isfinite(number) and abs(number) <= float(np.finfo(dtype).max):
        return number
    raise ArgumentError(explain(operation, f"{name} is no finite number of {np.dtype(dtype)}", **{name: value}))


def _integer(operation: str, name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise ArgumentError(explain(operation, f"{name} is no integer", **{name: value})) from None


class draw:  # noqa: N801 - a small namespace, read as `random.draw.normal`
    """The same draws as NumPy arrays: what layers and initialisers use."""

    @staticmethod
    def normal(
        shape: Any,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> Array:
        """Normal numbers of that mean and standard deviation."""
        wanted = _floating("normal", dtype)
        mean, std = _number("normal", "mean", mean, wanted), _number("normal", "std", std, wanted)
        if std < 0:
            raise ArgumentError(explain("normal", "a negative standard deviation", std=std))
        values = _floats("normal", "standard_normal", shape, wanted, generator)
        if std != 1.0:
            values *= std
        if mean != 0.0:
            values += mean
        return values.astype(wanted, copy=False)

    @staticmethod
    def uniform(
        shape: Any,
        low: float = 0.0,
        high: float = 1.0,
        *,
        dtype: Any = None,
        generator: np.random.Generator | None = None,
    ) -> Array:
        """Numbers evenly from `low` up to but without `high`."""
        wanted = _floating("uniform", dtype)
        low, high = _number("uniform", "low", low, wanted), _number("uniform", "high", high, wanted)
        if low > high:
            raise ArgumentError(explain("uniform", "low is above high", low=low, high=high))
        width = _number("uniform", "high - low", high - low, wanted)
        values = _floats("uniform", "random", shape, wanted, generator)
        if (low, high) == (0.0, 1.0) and values.dtype == wanted:
            return values
        values *= width
        values += low
        values = values.astype(wanted, copy=False)
        # Rounding reaches `high` at times.
        return np.minimum(values, np.nextafter(wanted.type(high), wanted.type(low)), out=values)

    @staticmethod
    def integers(
        shape: Any, low: int, high: int, *, dtype: Any = None, generator: np.random.Generator | None = None
    ) -> Array:
        """Integers from `low` up to but without `high`, each as likely; int64 unless told."""
        low, high = _integer("integers", "low", low), _integer("integers", "high", high)
        wanted = np.dtype(np.int64) if dtype is None else real_dtype("integers", dtype)
        if wanted.kind not in "iu":
            raise DTypeError(explain("integers", f"{wanted} holds no integers", expected="an integer dtype"))
        if low >= high:
            raise ArgumentError(explain("integers", "there is no integer from low up to high", low=low, high=high))
        limits = np.iinfo(wanted)
        if low < limits.min or high - 1 > limits.max:
            raise ArgumentError(explain("integers", f"the range does not fit {wanted}", low=low, high=high))
        return drawn(generator, "integers", low, high, as_shape("integers", shape), dtype=wanted)

    @staticmethod
    def permutation(n: int, *, generator: np.random.Generator | None = None) -> Array:
        """0 to n - 1 in random order."""
        if _integer("permutation", "n", n) < 0:
            raise ArgumentError(explain("permutation", "there is no order of fewer than 0", n=n))
        return drawn(generator, "permutation", index(n))

    @staticmethod
    def bernoulli(shape: Any, p: float, *, generator: np.random.Generator | None = None) -> Array:
        """Truth values, each true with probability `p`."""
        p = _number("bernoulli", "p", p)
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(explain("bernoulli", "a probability outside its range", p=p, expected="0 to 1"))
        # float64, which costs a quarter more time than float32 and makes p right to 2**-53 instead of 2**-24
        mask = drawn(generator, "random", as_shape("bernoulli", shape)) < p
        return mask if isinstance(mask, Abstract) else np.asarray(mask)


def _tensor(array: Array, requires_grad: bool = False) -> Any:
    made = wrap(array, None)
    if requires_grad:
        made.requires_grad = True
    return made


def normal(
    shape: Any,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: Any = None,
    generator: np.random.Generator | None = None,
    requires_grad: bool = False,
) -> Any:
    """A tensor of normal numbers, of the default dtype unless told.

    **Raises** ArgumentError for a negative `std`, DTypeError for a dtype that is not floating.

    >>> import chainrule as cr
    >>> cr.random.normal((2, 3), std=0.1, generator=cr.random.generator(0)).shape
    (2, 3)
    """
    return _tensor(draw.normal(shape, mean, std, dtype=dtype, generator=generator), requires_grad)


def uniform(
    shape: Any,
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: Any = None,
    generator: np.random.Generator | None = None,
    requires_grad: bool = False,
) -> Any:
    """A tensor of numbers evenly from `low` up to but without `high`, of the default dtype unless told.

    **Raises** ArgumentError where `low` is above `high`, DTypeError for a dtype that is not floating.

    >>> import chainrule as cr
    >>> x = cr.random.uniform(1000, -1.0, 1.0, dtype=np.float32)
    >>> bool((x >= -1).all()), bool((x < 1).all())
    (True, True)
    """
    return _tensor(draw.uniform(shape, low, high, dtype=dtype, generator=generator), requires_grad)


def integers(
    shape: Any, low: int, high: int, *, dtype: Any = None, generator: np.random.Generator | None = None
) -> Any:
    """A tensor of integers from `low` up to but without `high`, each as likely; int64 unless told.

    **Raises** ArgumentError for an empty range, or one that does not fit the dtype.

    >>> import chainrule as cr
    >>> sorted(set(cr.random.integers(100, 1, 4).tolist()))
    [1, 2, 3]
    """
    return _tensor(draw.integers(shape, low, high, dtype=dtype, generator=generator))


def permutation(n: int, *, generator: np.random.Generator | None = None) -> Any:
    """A tensor of 0 to n - 1 in random order, int64.

    **Raises** ArgumentError for a negative `n`.

    >>> import chainrule as cr
    >>> sorted(cr.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    return _tensor(draw.permutation(n, generator=generator))


def bernoulli(shape: Any, p: float, *, generator: np.random.Generator | None = None) -> Any:
    """A tensor of truth values, each true with probability `p`.

    **Raises** ArgumentError for a `p` that is not from 0 to 1.

    >>> import chainrule as cr
    >>> cr.random.bernoulli(3, 1.0).tolist()
    [True, True, True]
    """
    return _tensor(draw.bernoulli(shape, p, generator=generator))


def state(generator: np.random.Generator | None = None) -> dict[str, Any]:
    """Where a generator stands, as JSON can hold it: that of the process or of the `use` block unless one is given.

    Children of `Generator.spawn` are not counted.

    >>> import chainrule as cr
    >>> before = cr.random.state()
    >>> x = cr.random.normal(3)
    >>> cr.random.set_state(before)
    >>> bool((cr.random.normal(3) == x).all())
    True
    """
    stands: Any = copied(current(generator)).bit_generator.state
    return _plain(stands)


def set_state(state: dict[str, Any], generator: np.random.Generator | None = None) -> None:
    """Put a generator where `state` says; it draws what the other one drew next.

    **Raises** ArgumentError for a state of another kind of generator, or of none; the generator stays as it was.
    """
    bits = current(generator).bit_generator
    trial: Any = type(bits)()
    try:
        trial.state = _arrays(state, trial.state)
        fits = _plain(trial.state) == _plain(state)
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError):
        fits = False
    if not fits:
        fault = f"this is no state of a generator of kind {type(bits).__name__}"
        raise ArgumentError(explain("set_state", fault, state=state, expected="what cr.random.state gives for one"))
    with bits.lock:
        bits.state = trial.state


def _plain(value: Any) -> Any:
    """NumPy's state of a generator as dicts, lists, text and integers."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value.tolist() if hasattr(value, "tolist") else value


def _arrays(value: Any, like: Any) -> Any:
    """The way back: lists become arrays where a state of this kind has them."""
    if isinstance(like, dict):
        return {key: _arrays(value[key], entry) for key, entry in like.items()}  # pyright: ignore[reportUnknownVariableType]
    return np.asarray(value, like.dtype).reshape(like.shape) if hasattr(like, "reshape") else value
