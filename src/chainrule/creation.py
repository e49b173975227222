"""Functions that make tensors: from data, of one value, of ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import dtype_in, is_foreign, is_numpy, namespace_of
from chainrule.core.calls import is_tensor, lift, raw, wrap
from chainrule.errors import ArgumentError, DTypeError, explain
from chainrule.ops import joining, views
from chainrule.ops.arguments import as_shape, real_dtype
from chainrule.tensor import Tensor


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of a copy of `data`: numbers, nested lists, arrays, or nested lists that hold tensors.

    Arrays keep their dtype; Python floats become float64, as in NumPy.  Tensors within lists are stacked, and
    gradients flow back to them.  **Raises** DTypeError, ArgumentError for what is no array of numbers.

    >>> import chainrule as cr
    >>> a = cr.tensor(2.0, requires_grad=True)
    >>> cr.tensor([[a, a * a], [1.0, 0.0]]).tolist()
    [[2.0, 4.0], [1.0, 0.0]]
    """
    within: list[Any] = [] if is_tensor(data) else list(_tensors_in(data))
    if within:
        made: Any = _stacked(data, _beside(within))
        made = made if dtype is None else made.astype(dtype)
        if requires_grad and made.node is None:
            made.requires_grad = True
        return made
    if is_tensor(data) and getattr(data, "node", None) is not None:
        fault = "a copy of a tensor that wants a gradient would lose its graph"
        raise DTypeError(explain("tensor", fault, data=data, remedy="x.detach(), or x itself"))
    return Tensor(data, dtype, requires_grad)


def _tensors_in(data: Any) -> Iterator[Any]:
    if is_tensor(data):
        yield data
    elif isinstance(data, (list, tuple)):
        for entry in data:  # pyright: ignore[reportUnknownVariableType]
            yield from _tensors_in(entry)


def _beside(tensors: list[Any]) -> Any:
    """An array of the dtype that these tensors have together: Python numbers among them are weak."""
    if all(is_numpy(x.data) for x in tensors):
        return np.empty((), np.result_type(*{x.data.dtype for x in tensors}))
    return tensors[0].data


def _stacked(data: Any, beside: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return joining.stack([_stacked(entry, beside) for entry in data])  # pyright: ignore[reportUnknownVariableType]
    try:
        return lift(data, beside, copy=True) if not is_tensor(data) else data
    except TypeError as error:
        raise DTypeError(explain("tensor", str(error), data=data)) from None


def asarray(data: Any, dtype: Any = None) -> Tensor:
    """A tensor that shares the memory of `data` where it can; a tensor of the right dtype as it is.

    Once a recorded operation has kept the memory, an in-place write moves the tensor to memory of its own.

    >>> import chainrule as cr
    >>> a = np.zeros(2)
    >>> cr.asarray(a)[0] = 5.0
    >>> a
    array([5., 0.])
    """
    if is_tensor(data):
        return data if dtype is None else views.astype(data, dtype, copy=False)
    if isinstance(data, Abstract) and data.fixed:
        return tensor(data, dtype)
    if is_foreign(data) or isinstance(data, Abstract):
        return wrap(data, None) if dtype is None else views.astype(wrap(data, None), dtype, copy=False)
    if issubclass(type(data), np.ndarray) and data.dtype.kind in "biufc" and dtype in (None, data.dtype):  # pyright: ignore[reportUnknownMemberType]
        return wrap(data, None)
    return tensor(data, dtype)


def _made(name: str, **arguments: Any) -> Any:
    """An array by NumPy's function of that name.

    **Raises** ArgumentError for what it does not take.
    """
    try:
        return getattr(np, name)(**arguments)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        given = {key: value for key, value in arguments.items() if key != "dtype" and value is not None}
        raise ArgumentError(explain(name, str(error), **given)) from None


def _default(dtype: Any, operation: str) -> Any:
    return modes.default_dtype() if dtype is None else real_dtype(operation, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of one value, of its own kind of dtype unless told; a tensor as the value keeps its graph."""
    if is_tensor(fill_value) and fill_value.node is not None:
        made = views.broadcast_to(fill_value, shape)
        return made if dtype is None else views.astype(made, dtype)
    wanted = dtype if dtype is not None or type(fill_value) is not float else modes.default_dtype()
    return Tensor(
        _made("full", shape=as_shape("full", shape), fill_value=raw(fill_value), dtype=wanted), None, requires_grad
    )


def zeros(shape: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros.

    >>> import chainrule as cr
    >>> cr.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return Tensor(np.zeros(as_shape("zeros", shape), _default(dtype, "zeros")), None, requires_grad)


def ones(shape: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return Tensor(np.ones(as_shape("ones", shape), _default(dtype, "ones")), None, requires_grad)


def empty(shape: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor whose entries are whatever was there."""
    return Tensor(np.empty(as_shape("empty", shape), _default(dtype, "empty")), None, requires_grad)


def _like(name: str, x: Any, dtype: Any, requires_grad: bool, *fill: Any) -> Tensor:
    """New entries by the library that x is of; beside an abstract array they are known, so NumPy makes them."""
    data = raw(x)
    library = namespace_of(data) if is_foreign(data) else np
    if isinstance(data, Abstract):
        data = np.broadcast_to(np.zeros((), data.dtype), data.shape)
    wanted = dtype_in(library, dtype) if library is not np else None if dtype is None else real_dtype(name, dtype)
    return Tensor(getattr(library, name)(data, *fill, dtype=wanted), None, requires_grad)


def zeros_like(x: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the shape and dtype of x."""
    return _like("zeros_like", x, dtype, requires_grad)


def ones_like(x: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of the shape and dtype of x."""
    return _like("ones_like", x, dtype, requires_grad)


def empty_like(x: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Entries of any value, of the shape and dtype of x."""
    return _like("empty_like", x, dtype, requires_grad)


def full_like(x: Any, fill_value: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """One value, of the shape and dtype of x; a tensor as the value keeps its graph."""
    if is_tensor(fill_value) and fill_value.node is not None:
        return views.astype(views.broadcast_to(fill_value, x.shape), x.dtype if dtype is None else dtype)
    return _like("full_like", x, dtype, requires_grad, raw(fill_value))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Numbers from `start` (0 when only one is given) up to but without `stop`.

    Integers give integers; a float among them gives the default dtype.

    >>> import chainrule as cr
    >>> cr.arange(0.0, 1.0, 0.25).tolist()
    [0.0, 0.25, 0.5, 0.75]
    """
    if stop is None:
        start, stop = 0, start
    floats = any(issubclass(type(value), float) for value in (start, stop, step))
    wanted = modes.default_dtype() if dtype is None and floats else dtype
    return Tensor(_made("arange", start=start, stop=stop, step=step, dtype=wanted), None, requires_grad)


def linspace(
    start: float, stop: float, num: int, dtype: Any = None, endpoint: bool = True, requires_grad: bool = False
) -> Tensor:
    """`num` numbers at equal distances from `start` to `stop`."""
    wanted = _default(dtype, "linspace")
    made = _made("linspace", start=start, stop=stop, num=num, endpoint=endpoint, dtype=wanted)
    return Tensor(made, None, requires_grad)


def eye(n_rows: int, n_cols: int | None = None, k: int = 0, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones on diagonal `k`, zeros elsewhere."""
    return Tensor(_made("eye", N=n_rows, M=n_cols, k=k, dtype=_default(dtype, "eye")), None, requires_grad)


def set_default_dtype(dtype: Any) -> Any:
    """Set the dtype of creation functions for the process; as a `with` block, for this context and the block only.

    **Raises** DTypeError for a dtype that is not floating.

    >>> import chainrule as cr
    >>> with cr.set_default_dtype(np.float32):
    ...     cr.zeros(1).dtype
    dtype('float32')
    >>> cr.zeros(1).dtype
    dtype('float64')
    """
    wanted = real_dtype("set_default_dtype", dtype)
    if wanted.kind != "f":
        raise DTypeError(explain("set_default_dtype", f"{wanted} is not floating", remedy="np.float32"))
    return modes.DefaultDType(wanted)
