"""In-place operators: `t[i] = v`, `t += v`.

While recording, a tensor that was computed is rebound to a new value, and whoever used the old one keeps it.  Under
`no_grad`, or where no gradient is wanted, they write into the tensor's own memory; `core.graph.before_write` sees to it
that nothing recorded changes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract
from chainrule.boxes import boxed
from chainrule.core.calls import is_tensor, raw
from chainrule.core.graph import before_write, take_back
from chainrule.errors import ArgumentError, DTypeError, GraphError, ShapeError, explain
from chainrule.ops import indexing
from chainrule.ops.index import parts_of

_operator: Any = operator  # whose stubs leave the operands without a type
_NEW = "x = ..., which makes a new tensor"


class InPlace:
    """The in-place operators of a tensor."""

    __slots__ = ()
    data: Any
    node: Any
    shared: bool
    shape: Any
    dtype: Any

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._is_rebound("[...] =", value):
            self._rebind(indexing.setitem(self, value, index), "[...] =")
        else:
            before = before_write(self)
            self._opened(value, *parts_of(index))
            try:
                indexing.assign(self.data, raw(value), index)
            except Exception:
                take_back(self, before)
                raise

    def __iadd__(self, other: Any) -> Self:
        return self._update("+=", other, "__add__", _operator.iadd)

    def __isub__(self, other: Any) -> Self:
        return self._update("-=", other, "__sub__", _operator.isub)

    def __imul__(self, other: Any) -> Self:
        return self._update("*=", other, "__mul__", _operator.imul)

    def __itruediv__(self, other: Any) -> Self:
        return self._update("/=", other, "__truediv__", _operator.itruediv)

    def __ipow__(self, other: Any) -> Self:
        return self._update("**=", other, "__pow__", _operator.ipow)

    def __imatmul__(self, other: Any) -> Self:
        return self._update("@=", other, "__matmul__", _operator.imatmul)

    def __ifloordiv__(self, other: Any) -> Self:
        return self._update("//=", other, "__floordiv__", _operator.ifloordiv)

    def __imod__(self, other: Any) -> Self:
        return self._update("%=", other, "__mod__", _operator.imod)

    def _update(self, sign: str, other: Any, operation: str, write: Callable[[Any, Any], Any]) -> Self:
        """`self += other`: a new value under the old name while recording, otherwise a write into own memory."""
        if self._is_rebound(sign, other):
            self._rebind(getattr(self, operation)(other), sign)
            return self
        before = before_write(self)
        self._opened(other)
        try:
            self.data = write(self.data, other.data if isinstance(other, InPlace) else other)
        except (TypeError, ValueError) as error:
            take_back(self, before)
            if "read-only" in str(error):
                fault = "the memory of the tensor is read-only"
                remedy = "cr.tensor(a), which copies, for cr.asarray(a)"
                raise ArgumentError(explain(sign, fault, x=self, y=other, remedy=remedy)) from None
            fits = isinstance(error, TypeError)  # then NumPy says which dtype does not
            fault = str(error) if fits else "the result does not have the shape of the tensor"
            fault = "the result does not fit into the dtype of the tensor" if "Cannot cast" in fault else fault
            remedy = f"x = x {sign[:-1]} y, which makes a new tensor"
            raise (DTypeError if fits else ShapeError)(explain(sign, fault, x=self, y=other, remedy=remedy)) from None
        return self

    def _opened(self, *others: Any) -> None:
        """While a program is traced, numbers that are known become an array that traced ones can be written to."""
        if modes.unusual and any(isinstance(raw(other), Abstract) for other in others):
            self.data = boxed(self.data)

    def _is_rebound(self, sign: str, other: Any) -> bool:
        """Whether an in-place operator records a new value instead of writing."""
        if modes.paused and modes.is_paused():
            return False
        node = self.node
        if node is None and not (is_tensor(other) and other.node is not None):
            return False
        if node is not None and node[1] is None:
            fault = "a leaf that wants a gradient would be overwritten while operations are recorded"
            remedy = "`with cr.no_grad():` for an update, or `x = x + y` for a new tensor"
            raise GraphError(explain(sign, fault, x=self, remedy=remedy))
        return True

    def _rebind(self, result: Any, sign: str) -> None:
        if result.shape != self.shape:
            fault = "the result does not have the shape of the tensor"
            raise ShapeError(explain(sign, fault, x=self, result=result, remedy=_NEW))
        if result.dtype != self.dtype:
            if not np.can_cast(result.dtype, self.dtype, "same_kind"):
                fault = "the result does not fit into the dtype of the tensor"
                raise DTypeError(explain(sign, fault, x=self, result=result, remedy=_NEW))
            result = result.astype(self.dtype)
        self.data, self.node, self.shared = result.data, result.node, False
