"""Operators and methods, for tensors and for abstract arrays: each is an operation under Python's name for it.

Where nothing needs to be normalised the operator *is* the generated call, which saves a Python call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from chainrule.ops import (
    arranging,
    elementwise,
    indexing,
    joining,
    linalg,
    normalised,
    norms,
    reductions,
    scans,
    take,
    views,
)
from chainrule.ops.arguments import ALL_AXES


class Operators:
    """What an array can be asked with Python's operators and methods."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def shape(self) -> Any: ...
        # The generated calls have no signature that a type checker could read.
        def __add__(self, other: Any) -> Self: ...
        def __sub__(self, other: Any) -> Self: ...
        def __mul__(self, other: Any) -> Self: ...
        def __truediv__(self, other: Any) -> Self: ...
        def __floordiv__(self, other: Any) -> Self: ...
        def __mod__(self, other: Any) -> Self: ...
        def __neg__(self) -> Self: ...
        def __pos__(self) -> Self: ...
        def __abs__(self) -> Self: ...
        def __lt__(self, other: Any) -> Self: ...
        def __le__(self, other: Any) -> Self: ...
        def __gt__(self, other: Any) -> Self: ...
        def __ge__(self, other: Any) -> Self: ...
        def __eq__(self, other: object) -> Self: ...  # pyright: ignore[reportIncompatibleMethodOverride]
        def __ne__(self, other: object) -> Self: ...  # pyright: ignore[reportIncompatibleMethodOverride]
        def __and__(self, other: Any) -> Self: ...
        def __or__(self, other: Any) -> Self: ...
        def __xor__(self, other: Any) -> Self: ...
        def __invert__(self) -> Self: ...
        def exp(self) -> Self: ...
        def log(self) -> Self: ...
        def sqrt(self) -> Self: ...
        def square(self) -> Self: ...
        def abs(self) -> Self: ...
        def sign(self) -> Self: ...
        def sin(self) -> Self: ...
        def cos(self) -> Self: ...
        def tan(self) -> Self: ...
        def tanh(self) -> Self: ...
        def sigmoid(self) -> Self: ...
        def relu(self) -> Self: ...
        def softplus(self) -> Self: ...
        def round(self) -> Self: ...
        def floor(self) -> Self: ...
        def ceil(self) -> Self: ...
    else:
        __add__ = elementwise.add
        __sub__ = elementwise.subtract
        __mul__ = elementwise.multiply
        __truediv__ = elementwise.divide
        __floordiv__ = elementwise.floor_divide
        __mod__ = elementwise.remainder
        __neg__ = elementwise.negative
        __pos__ = elementwise.positive
        __abs__ = elementwise.abs
        __lt__ = elementwise.less
        __le__ = elementwise.less_equal
        __gt__ = elementwise.greater
        __ge__ = elementwise.greater_equal
        __eq__ = elementwise.equal
        __ne__ = elementwise.not_equal
        __and__ = elementwise.bitwise_and
        __or__ = elementwise.bitwise_or
        __xor__ = elementwise.bitwise_xor
        __invert__ = elementwise.bitwise_invert
        exp = elementwise.exp
        log = elementwise.log
        sqrt = elementwise.sqrt
        square = elementwise.square
        abs = elementwise.abs
        sign = elementwise.sign
        sin = elementwise.sin
        cos = elementwise.cos
        tan = elementwise.tan
        tanh = elementwise.tanh
        sigmoid = elementwise.sigmoid
        relu = elementwise.relu
        softplus = elementwise.softplus
        round = elementwise.round
        floor = elementwise.floor
        ceil = elementwise.ceil

    __hash__ = object.__hash__

    def __radd__(self, other: Any) -> Self:
        return elementwise.add(other, self)

    def __rsub__(self, other: Any) -> Self:
        return elementwise.subtract(other, self)

    def __rmul__(self, other: Any) -> Self:
        return elementwise.multiply(other, self)

    def __rtruediv__(self, other: Any) -> Self:
        return elementwise.divide(other, self)

    def __rfloordiv__(self, other: Any) -> Self:
        return elementwise.floor_divide(other, self)

    def __rmod__(self, other: Any) -> Self:
        return elementwise.remainder(other, self)

    def __pow__(self, other: Any) -> Self:
        return elementwise.pow(self, other)

    def __rpow__(self, other: Any) -> Self:
        return elementwise.pow(other, self)

    def __matmul__(self, other: Any) -> Self:
        return linalg.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return linalg.matmul(other, self)

    def __rand__(self, other: Any) -> Self:
        return elementwise.bitwise_and(other, self)

    def __ror__(self, other: Any) -> Self:
        return elementwise.bitwise_or(other, self)

    def __rxor__(self, other: Any) -> Self:
        return elementwise.bitwise_xor(other, self)

    def __getitem__(self, index: Any) -> Self:
        return indexing.getitem(self, index)

    @property
    def T(self) -> Self:  # noqa: N802 - NumPy's name
        """The axes in reverse order."""
        ndim = len(self.shape)
        return views.swap(self) if ndim == 2 else views.permute_dims(self, tuple(range(ndim))[::-1])

    @property
    def mT(self) -> Self:  # noqa: N802 - the array API's name
        """The last two axes exchanged."""
        return views.matrix_transpose(self)

    def sum(self, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Self:
        if axis is None and dtype is None:  # the most frequent reduction, without the door
            return reductions.reduce_sum(self, ALL_AXES[len(self.shape)], bool(keepdims))
        return reductions.sum(self, axis=axis, keepdims=keepdims, dtype=dtype)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reductions.mean(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reductions.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reductions.min(self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Self:
        return reductions.prod(self, axis=axis, keepdims=keepdims, dtype=dtype)

    def var(self, axis: Any = None, keepdims: bool = False, correction: float = 0.0) -> Self:
        return norms.var(self, axis=axis, keepdims=keepdims, correction=correction)

    def std(self, axis: Any = None, keepdims: bool = False, correction: float = 0.0) -> Self:
        return norms.std(self, axis=axis, keepdims=keepdims, correction=correction)

    def all(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reductions.all(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reductions.any(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reductions.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: Any = None, keepdims: bool = False) -> Self:
        return reductions.argmin(self, axis=axis, keepdims=keepdims)

    def logsumexp(self, axis: Any = None, keepdims: bool = False) -> Self:
        return normalised.logsumexp(self, axis=axis, keepdims=keepdims)

    def softmax(self, axis: int = -1) -> Self:
        return normalised.softmax(self, axis=axis)

    def log_softmax(self, axis: int = -1) -> Self:
        return normalised.log_softmax(self, axis=axis)

    def norm(self, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Self:
        return norms.vector_norm(self, axis=axis, keepdims=keepdims, ord=ord)

    def cumulative_sum(self, axis: int | None = None) -> Self:
        return scans.cumulative_sum(self, axis=axis)

    def cumulative_prod(self, axis: int | None = None) -> Self:
        return scans.cumulative_prod(self, axis=axis)

    def cumsum(self, axis: int | None = None) -> Self:
        return scans.cumulative_sum(self.flatten() if axis is None else self, axis=axis)

    def cumprod(self, axis: int | None = None) -> Self:
        return scans.cumulative_prod(self.flatten() if axis is None else self, axis=axis)

    def argsort(self, axis: int = -1) -> Self:
        return scans.argsort(self, axis=axis)

    def clip(self, min: Any = None, max: Any = None) -> Self:
        return elementwise.clip(self, min, max)

    def reshape(self, *shape: Any) -> Self:
        return views.reshape(self, shape[0] if len(shape) == 1 else shape)

    def flatten(self) -> Self:
        return views.reshape(self, (-1,))

    def ravel(self) -> Self:
        return self.flatten()

    def permute_dims(self, *axes: Any) -> Self:
        return views.permute_dims(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    def transpose(self, *axes: Any) -> Self:
        return self.permute_dims(*axes) if axes else self.T

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        return arranging.swapaxes(self, axis1, axis2)

    def repeat(self, repeats: Any, axis: int | None = None) -> Self:
        return arranging.repeat(self, repeats, axis=axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        return arranging.diagonal(self, offset=offset, axis1=axis1, axis2=axis2)

    def broadcast_to(self, shape: Any) -> Self:
        return views.broadcast_to(self, shape)

    def squeeze(self, axis: Any = None) -> Self:
        return views.squeeze(self, axis)

    def expand_dims(self, axis: Any) -> Self:
        return views.expand_dims(self, axis)

    def astype(self, dtype: Any, copy: bool = True) -> Self:
        return views.astype(self, dtype, copy)

    def take(self, indices: Any, axis: int | None = None) -> Self:
        return take.take(self, indices, axis=axis)

    def dot(self, other: Any) -> Self:
        return linalg.dot(self, other)

    def unstack(self, axis: int = 0) -> tuple[Self, ...]:
        return joining.unstack(self, axis=axis)
