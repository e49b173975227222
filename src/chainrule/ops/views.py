"""Views: the same entries under another shape, order or dtype.

A result may share its source's memory; `core.graph.share` sees to it that a write to one never shows in the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.core.primitive import primitive
from chainrule.core.template import bind
from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.ops.arguments import as_shape, full_shape, one_axis, real_dtype, several, shape_of, some_axes
from chainrule.ops.families import VIEW, draw
from chainrule.types import Shape


def _unbroadcast(ct: Any, x_type: Any) -> Any:
    from chainrule.ops.reductions import reduce_sum

    extra = len(ct.shape) - len(x_type.shape)
    axes = tuple(range(extra)) + tuple(extra + k for k, n in enumerate(x_type.shape) if n == 1)
    return reshape_to(reduce_sum(ct, axes, True), x_type.shape)


def _filled(x: Any, shape: Shape) -> Any:
    """A full copy: half the price of `np.broadcast_to`'s checks on small arrays, and nobody shares memory."""
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


reshape_to = primitive(
    "reshape",
    VIEW,
    [lambda ct, x_type: reshape_to(ct, x_type.shape)],
    parameters="shape",
    forward=lambda x, shape: x.reshape(shape),
    standard=lambda xp, x, shape: xp.reshape(x, shape),
    shape_rule=lambda x, shape: shape,
    samples=draw((2, 6), ((3, 4),), ((12,),), ((2, 1, 6),)),
    is_view=True,
)
permute = primitive(
    "permute_dims",
    VIEW,
    [lambda ct, axes: permute(ct, tuple(int(k) for k in np.argsort(axes)))],
    parameters="axes",
    forward=lambda x, axes: x.transpose(axes),
    standard=lambda xp, x, axes: xp.permute_dims(x, axes),
    shape_rule=lambda x, axes: tuple(x.shape[k] for k in axes),
    samples=draw((2, 3, 4), ((2, 0, 1),), ((0, 2, 1),)),
    is_view=True,
)
swap = primitive(
    "matrix_transpose",
    VIEW,
    [lambda ct: swap(ct)],
    forward=lambda x: x.swapaxes(-1, -2),
    shape_rule=lambda x: (*x.shape[:-2], x.shape[-1], x.shape[-2]),
    samples=draw((2, 3, 4), ()),
    is_view=True,
)
spread_to = primitive(
    "broadcast_to",
    VIEW,
    [_unbroadcast],
    parameters="shape",
    forward=_filled,
    standard=lambda xp, x, shape: xp.broadcast_to(x, shape),
    shape_rule=lambda x, shape: shape,
    samples=draw((3, 1), ((3, 4),), ((2, 3, 4),), ((3, 1),)),
)
cast = primitive(
    "astype",
    VIEW,
    [lambda ct, x_type: cast(ct, x_type.dtype)],
    parameters="dtype",
    forward=lambda x, dtype: x.astype(dtype),
    standard=lambda xp, x, dtype: xp.astype(x, getattr(xp, getattr(dtype, "name", ""), dtype)),
    shape_rule=lambda x, dtype: x.shape,
    dtype_rule=lambda x, dtype: np.dtype(dtype),
    samples=draw((2, 3), (np.dtype(np.float64),), (np.dtype(np.float32),)),
)


bind(cast=cast)


def reshape(x: Any, shape: Any) -> Any:
    """The same entries in row-major order under another shape; one length may be -1.

    **Shapes** `x f[...] -> f[shape]`.  **Raises** ShapeError where the number of entries differs.

    >>> import chainrule as cr
    >>> cr.reshape(cr.arange(6.0), (2, -1)).shape
    (2, 3)
    """
    return reshape_to(x, full_shape("reshape", x, shape))


def permute_dims(x: Any, axes: Any) -> Any:
    """The axes in another order.

    **Shapes** `x f[n0, ..., nk] -> f[n_axes0, ..., n_axesk]`.

    >>> import chainrule as cr
    >>> cr.permute_dims(cr.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    ndim = len(shape_of(x))
    order = tuple(one_axis("permute_dims", a, ndim) for a in axes)
    if sorted(order) != list(range(ndim)):
        raise ArgumentError(explain("permute_dims", f"{axes!r} does not name each axis once", x=x))
    return permute(x, order)


def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged.

    **Shapes** `x f[..., m, n] -> f[..., n, m]`.
    """
    if len(shape_of(x)) < 2:
        raise ShapeError(explain("matrix_transpose", "a matrix has at least two axes", x=x))
    return swap(x)


def broadcast_to(x: Any, shape: Any) -> Any:
    """x repeated along axes of length 1 and new axes in front.

    **Shapes** `x f[...] -> f[shape]`.  **Raises** ShapeError.
    """
    wanted, have = as_shape("broadcast_to", shape), shape_of(x)
    front = len(wanted) - len(have)
    if front < 0 or any(n not in (1, m) for n, m in zip(have, wanted[front:], strict=True)):
        raise ShapeError(explain("broadcast_to", f"cannot become the shape {wanted}", x=x))
    return spread_to(x, wanted)


def squeeze(x: Any, axis: Any = None) -> Any:
    """Axes of length 1 removed: those named, or all.

    **Raises** ShapeError for an axis of another length.
    """
    shape = shape_of(x)
    axes = tuple(k for k, n in enumerate(shape) if n == 1) if axis is None else some_axes("squeeze", axis, len(shape))
    if any(shape[k] != 1 for k in axes):
        raise ShapeError(explain("squeeze", f"axis {axis!r} is not of length 1", x=x))
    return reshape_to(x, tuple(n for k, n in enumerate(shape) if k not in axes))


def expand_dims(x: Any, axis: Any = 0) -> Any:
    """New axes of length 1, at the places `axis` of the result.

    >>> import chainrule as cr
    >>> cr.expand_dims(cr.zeros(3), (0, 2)).shape
    (1, 3, 1)
    """
    shape = list(shape_of(x))
    for k in some_axes("expand_dims", axis, len(shape) + len(several(axis))):
        shape.insert(k, 1)
    return reshape_to(x, tuple(shape))


def astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    """The same values in another dtype; the cotangent comes back in the old one.  Integers and bool get none."""
    wanted = real_dtype("astype", dtype) if isinstance(dtype, (str, type, np.dtype)) else dtype
    return x if not copy and getattr(x, "dtype", None) == wanted else cast(x, wanted)
