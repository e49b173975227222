"""Abstract arrays as code treats NumPy's: written in place, looked at through views, read row by row.

A write puts a new equation into the box.  A view is a box of its own that knows where it looks; a write to either puts
new equations into both, so that a program shows what shared memory would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract
from chainrule.core.calls import is_tensor
from chainrule.errors import ArgumentError, DTypeError, ShapeError, TraceError, explain
from chainrule.ops import arranging, elementwise, indexing, linalg, views
from chainrule.ops.selection import write_at
from chainrule.types import Array


def boxed(array: Array) -> Any:
    """An array that is known while a program is traced, as one that the program can write to."""
    trace = modes.tracing.get()
    if isinstance(array, Abstract) or trace is None:
        return array
    return Abstract(array.shape, array.dtype, trace.constant(array))


def write(box: Abstract, value: Array) -> Abstract:
    """`value`, of the shape and dtype of the box, in the memory of the box, where all its views look too."""
    _put(box, boxed(value))
    _show(box, None)
    seen = box
    while seen.source is not None:
        source, primitive, parameters = seen.source
        _put(source, _written_back(source, seen, primitive.name, parameters))
        _show(source, seen)
        seen = source
    return box


def _put(box: Abstract, value: Abstract) -> None:
    trace = modes.tracing.get()
    if trace is not None:
        trace.writes(box)
    box.equation = value.equation


def _written_back(source: Abstract, view: Abstract, name: str, parameters: tuple[Any, ...]) -> Any:
    """The value of `source` after its view was written."""
    _look_alike(source, view, name)
    if name == "getitem":
        return write_at(source, view, *parameters)
    if name == "permute_dims":
        return views.permute(view, tuple(int(k) for k in np.argsort(parameters[0])))
    if name == "flip":
        return arranging.flip(view, axis=parameters[0])
    return views.swap(view) if name == "matrix_transpose" else views.reshape_to(view, source.shape)


def _show(source: Abstract, but: Abstract | None) -> None:
    """Let all views see what was written to their source."""
    source.views = [view for view in source.views if view() is not None]
    for reference in source.views:
        view = reference()
        if view is not None and view is not but and view.source is not None:
            _, primitive, parameters = view.source
            _look_alike(source, view, primitive.name)
            _put(view, primitive.call(source, *parameters))
            _show(view, None)


def _look_alike(source: Abstract, view: Abstract, name: str) -> None:
    """Refuse a write where it depends on the layout in memory, which a trace does not know, who sees it."""
    while name == "reshape" and source.source is not None:
        source, primitive, _ = source.source
        if primitive.name != "reshape":
            fault = "whether two arrays share memory depends on their layout, and one of them is written"
            raise TraceError(explain("[...] =", fault, x=source, view=view, remedy="a copy() of the one that is read"))


def into(operation: str, box: Abstract, value: Any) -> Abstract:
    """The result of an operation written where NumPy's `out=` or an in-place operator says.

    **Raises** ShapeError, DTypeError for one that does not fit.
    """
    if is_tensor(value):
        fault = "a plain array cannot take the value of a tensor and keep its graph"
        raise DTypeError(explain(operation, fault, out=box, remedy="a tensor on the left: cr.asarray(a)"))
    if value.shape != box.shape:
        raise ShapeError(explain(operation, "the result does not have the shape of the array", x=box, result=value))
    if not np.can_cast(value.dtype, box.dtype, "same_kind"):
        raise DTypeError(explain(operation, "the result does not fit into the dtype of the array", x=box, result=value))
    return write(box, value if value.dtype == box.dtype else views.cast(value, box.dtype))


def _in_place(sign: str, operation: Callable[[Any, Any], Any]) -> Any:
    def method(self: Abstract, other: Any) -> Any:
        """A number is replaced, an array is written."""
        return operation(self, other) if self.fixed else into(sign, self, operation(self, other))

    return method


class Writing:
    """What abstract arrays can do besides the operators that tensors have too."""

    __iadd__ = _in_place("+=", elementwise.add)
    __isub__ = _in_place("-=", elementwise.subtract)
    __imul__ = _in_place("*=", elementwise.multiply)
    __itruediv__ = _in_place("/=", elementwise.divide)
    __ipow__ = _in_place("**=", elementwise.pow)
    __imatmul__ = _in_place("@=", linalg.matmul)
    __ifloordiv__ = _in_place("//=", elementwise.floor_divide)
    __imod__ = _in_place("%=", elementwise.remainder)
    __iand__ = _in_place("&=", elementwise.bitwise_and)
    __ior__ = _in_place("|=", elementwise.bitwise_or)
    __ixor__ = _in_place("^=", elementwise.bitwise_xor)

    def __setitem__(self: Any, index: Any, value: Any) -> None:
        if self.fixed:
            raise DTypeError(explain("[...] =", "a number cannot be written to", x=self, remedy="x = ..."))
        if is_tensor(value):
            value = value.data if value.node is None else value.numpy()  # which says that the graph would be lost
        write(self, indexing.setitem(self, value, index))

    def fill(self: Any, value: Any) -> None:
        self[...] = value

    def flatten(self: Any) -> Any:
        return views.reshape(self, (-1,)).copy()

    def __len__(self: Any) -> int:
        if not self.shape:
            raise ArgumentError(explain("len", "an array without axes has no length", x=self))
        return self.shape[0]

    def __iter__(self: Any) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __mul__(self: Any, other: Any) -> Any:
        """A product; a number is asked for its value to repeat a list, as `[0] * n` does."""
        return other * self.item() if self.weak and is_a_sequence(other) else elementwise.multiply(self, other)

    def __rmul__(self: Any, other: Any) -> Any:
        return other * self.item() if self.weak and is_a_sequence(other) else elementwise.multiply(other, self)


def is_a_sequence(value: Any) -> bool:
    """Whether a number repeats this, rather than multiplies it."""
    return issubclass(type(value), (list, tuple, str, bytes))


def _equip() -> None:
    for name, value in vars(Writing).items():
        if callable(value):
            setattr(Abstract, name, value)


_equip()
