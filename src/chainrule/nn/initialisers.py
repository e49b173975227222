"""Values to start from: functions that fill a parameter in place, and return it.

In place, as PyTorch's `nn.init` does, because the tensor is what a module and an optimiser already hold.  Names,
arguments and distributions are PyTorch's; the numbers come from `chainrule.random`.
"""

from __future__ import annotations

from math import erf, isfinite, prod, sqrt
from typing import Any

import numpy as np

from chainrule.backends.registry import is_number
from chainrule.core.calls import raw
from chainrule.errors import ArgumentError, DTypeError, ShapeError, dtype_kind, explain
from chainrule.nn.places import write
from chainrule.random import draw

Generator = np.random.Generator | None


def _fill(tensor: Any, values: Any) -> Any:
    """The tensor, or array, with these values in its own memory."""
    write(tensor, values)
    return tensor


def _dtype(operation: str, tensor: Any) -> Any:
    """The dtype to draw.  **Raises** DTypeError for what cannot be filled with real numbers."""
    dtype = getattr(raw(tensor), "dtype", None)
    if dtype is None or dtype_kind(dtype) != "f" or is_number(raw(tensor)):
        fault = "only a tensor or an array of floating numbers can be filled"
        raise DTypeError(explain(operation, fault, tensor=tensor))
    return np.dtype(str(dtype).rsplit(".", maxsplit=1)[-1])  # another library's by its name


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Generator = None) -> Any:
    """Numbers evenly from `a` to `b`."""
    dtype = _dtype("uniform_", tensor)
    return _fill(tensor, draw.uniform(tensor.shape, a, b, dtype=dtype, generator=generator))


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Generator = None) -> Any:
    """Normal numbers."""
    dtype = _dtype("normal_", tensor)
    return _fill(tensor, draw.normal(tensor.shape, mean, std, dtype=dtype, generator=generator))


def constant_(tensor: Any, val: float) -> Any:
    """One value."""
    _dtype("constant_", tensor)
    return _fill(tensor, val)


def zeros_(tensor: Any) -> Any:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Any) -> Any:
    """Ones."""
    return constant_(tensor, 1.0)


def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Generator = None
) -> Any:
    """Normal numbers, those between `a` and `b`; a bound may be infinite.

    **Raises** ArgumentError where there is nothing between the bounds.
    **Source** Robert, Simulation of truncated normal variables, 1995: proposals are drawn until one is accepted.
    """
    dtype = _dtype("trunc_normal_", tensor)
    if not (a < b and std > 0 and isfinite(mean) and isfinite(std)):
        fault = "there are no numbers between these bounds"
        raise ArgumentError(explain("trunc_normal_", fault, mean=mean, std=std, a=a, b=b, expected="a < b, std > 0"))
    values = np.empty(tensor.size, np.float32 if dtype.itemsize <= 4 else np.float64)
    done = 0
    while done < values.size:
        taken = _proposals(values.size - done, (a - mean) / std, (b - mean) / std, values.dtype, generator)
        values[done : done + taken.size] = taken
        done += taken.size
    values = np.clip(values * std + mean, a, b)  # rounding may have left the interval
    return _fill(tensor, values.reshape(tensor.shape))


def _proposals(n: int, low: float, high: float, dtype: Any, generator: Generator) -> Any:
    """Standard normal numbers from `low` to `high`: those of n proposals that are accepted."""
    if erf(high / sqrt(2)) - erf(low / sqrt(2)) > 0.5:  # twice the share that falls inside
        proposed = draw.normal(n, dtype=dtype, generator=generator)
        return proposed[(low <= proposed) & (proposed <= high)]
    mode = min(max(0.0, low), high)
    reach = sqrt(mode * mode + 80.0)  # the density falls below e**-40 of its maximum
    low, high = max(low, -reach), min(high, reach)
    proposed = draw.uniform(n, low, high, dtype=dtype, generator=generator)
    heights = np.exp((mode * mode - proposed * proposed) / 2)
    return proposed[draw.uniform(n, dtype=dtype, generator=generator) < heights]


def _fans(operation: str, tensor: Any) -> tuple[int, int]:
    """How many numbers an output is made of, and how many an input goes into; weights (out, in, *kernel)."""
    if len(tensor.shape) < 2:
        raise ShapeError(explain(operation, "a fan needs two axes, (out, in, ...)", tensor=tensor))
    field = prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity, PyTorch's table; `param`: slope of `leaky_relu`.

    **Raises** ArgumentError for an unknown name.

    >>> calculate_gain("leaky_relu", 0.0) == 2 ** 0.5
    True
    """
    if nonlinearity == "leaky_relu":
        return sqrt(2.0 / (1.0 + (0.01 if param is None else param) ** 2))
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": sqrt(2.0), "selu": 3.0 / 4.0}
    gains |= dict.fromkeys(("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"), 1.0)
    if nonlinearity not in gains:
        known = ", ".join(sorted([*gains, "leaky_relu"]))
        raise ArgumentError(explain("calculate_gain", f"no gain for {nonlinearity!r}", expected=known))
    return gains[nonlinearity]


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Generator = None) -> Any:
    """Uniform with variance gain² · 2 / (fan_in + fan_out).

    **Source** Glorot, Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010, eq. 16.
    """
    bound = gain * sqrt(6.0 / max(sum(_fans("xavier_uniform_", tensor)), 1))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Generator = None) -> Any:
    """Normal with variance gain² · 2 / (fan_in + fan_out).  **Source** as `xavier_uniform_`, eq. 12."""
    return normal_(tensor, 0.0, gain * sqrt(2.0 / max(sum(_fans("xavier_normal_", tensor)), 1)), generator)


def _kaiming(operation: str, tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    """The standard deviation gain / sqrt(fan)."""
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(explain(operation, f"no mode {mode!r}", expected="'fan_in' or 'fan_out'"))
    fan_in, fan_out = _fans(operation, tensor)
    return calculate_gain(nonlinearity, a) / sqrt(max(fan_in if mode == "fan_in" else fan_out, 1))


def kaiming_uniform_(
    tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Generator = None
) -> Any:
    """Uniform with variance gain² / fan; `a` is the slope of `leaky_relu` for negative numbers.

    **Source** He et al., Delving Deep into Rectifiers, 2015, section 2.2.
    """
    bound = sqrt(3.0) * _kaiming("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Generator = None
) -> Any:
    """Normal with variance gain² / fan.  **Source** as `kaiming_uniform_`."""
    return normal_(tensor, 0.0, _kaiming("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Any, gain: float = 1.0, generator: Generator = None) -> Any:
    """Orthonormal rows, or columns if there are more rows, times `gain`; axes after the first count as one.

    **Source** Saxe et al., Exact solutions to the nonlinear dynamics of learning in deep linear networks, 2014; the
    signs by Mezzadri, How to generate random matrices from the classical compact groups, 2007, section 5.
    """
    dtype = _dtype("orthogonal_", tensor)
    if len(tensor.shape) < 2:
        raise ShapeError(explain("orthogonal_", "a matrix has two axes", tensor=tensor))
    rows, columns = tensor.shape[0], prod(tensor.shape[1:])
    wanted = np.float32 if dtype.itemsize <= 4 else np.float64
    drawn = draw.normal((max(rows, columns), min(rows, columns)), dtype=wanted, generator=generator)
    q, r = np.linalg.qr(drawn)
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0).astype(wanted)  # without this q is not evenly distributed
    return _fill(tensor, gain * (q if rows >= columns else q.T).reshape(tensor.shape))
