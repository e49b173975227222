"""The tensor: an array that remembers how it was made.

`data` holds the numbers, `grad` what `backward` has accumulated, `node` the memory of the operation (`core.graph`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from opcode import opmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract, refuse_text
from chainrule.backends.registry import dtype_in, is_foreign, is_number, is_numpy, namespace_of
from chainrule.backward import backward
from chainrule.core.calls import is_tensor, raw, uneven, wrap
from chainrule.core.graph import leaf_node, own_copy, share
from chainrule.core.template import bind
from chainrule.errors import ArgumentError, DTypeError, GraphError, ShapeError, dtype_kind, explain
from chainrule.in_place import InPlace
from chainrule.interop import array_function, array_ufunc
from chainrule.operators import Operators
from chainrule.ops import joining, views
from chainrule.ops.arguments import real_dtype
from chainrule.types import Array, Shape

_STORE = opmap["STORE_SUBSCR"]


class Tensor(Operators, InPlace):
    """An array that remembers how it was made.  Make one with `chainrule.tensor`; operations make the others.

    **Attributes** `data`: the array (NumPy's 0-d results are scalars); `grad`: None, or the accumulated gradient, an
    array of the same shape and dtype; `requires_grad`: whether gradients are wanted, settable on leaves.

    `==` compares entry by entry, `hash` is by identity.  Subclasses are welcome, but one subclass sends every call of
    the process to the slow path, a few microseconds each.
    """

    __slots__ = ("__weakref__", "data", "grad", "node", "shared")
    data: Array
    grad: Any
    node: list[Any] | None
    shared: bool

    def __init__(self, data: Any, dtype: Any = None, requires_grad: bool = False) -> None:
        plain = dtype is None and type(data) is np.ndarray and data.dtype.kind in "fiub"
        self.data = data.copy() if plain else _fresh(data, dtype)
        self.grad = None
        self.node = None
        if requires_grad:
            self.requires_grad = True

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        modes.add_unusual(1)  # the fast path knows this class alone

    # ------------------------------------------------------------ what it is
    if TYPE_CHECKING:

        @property
        def shape(self) -> Shape: ...
        @property
        def dtype(self) -> Any: ...
        @property
        def ndim(self) -> int: ...
        @property
        def size(self) -> int: ...
    else:  # in C, which is twice as fast
        shape = property(attrgetter("data.shape"), doc="The lengths of the axes.")
        dtype = property(attrgetter("data.dtype"), doc="The type of the entries.")
        ndim = property(attrgetter("data.ndim"), doc="The number of axes.")
        size = property(attrgetter("data.size"), doc="The number of entries.")

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient is wanted: the property of having a node."""
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if self.node is not None and self.node[1] is not None:
            raise GraphError(
                explain(
                    "requires_grad", "only a leaf can be told whether a gradient is wanted", x=self, remedy="x.detach()"
                )
            )
        if not wanted:
            if self.node is not None:  # old graphs and views look at this memory, and nothing leads from it to them
                self.shared = True
            self.node = None
        elif self.node is None:
            if dtype_kind(self.data.dtype) != "f":
                raise DTypeError(
                    explain("requires_grad", "only floating numbers have gradients", x=self, remedy="2.0 for 2")
                )
            # A leaf is written where it stands, so its memory is its own, and an array.
            if getattr(self, "shared", False) or is_number(self.data):
                self.data = own_copy(self.data)
                self.shared = False
            self.node = leaf_node(self)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self.node is None or self.node[1] is None

    # ------------------------------------------------------------ derivatives
    def backward(self, cotangent: Any = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Add the gradient of this tensor to `.grad` of every leaf that it depends on, and free the graph.

        **Shapes** `cotangent f[shape]`, the upstream gradient; may be left out for one element.  `retain_graph` keeps
        the graph for another pass and defaults to `create_graph`, which records the gradients themselves.
        **Raises** LostGraphError, FreedGraphError, StaleGraphError, ShapeError, or what a rule raises; then no `.grad` was
        touched, but what a rule raises leaves the graph partly freed.

        >>> import chainrule as cr
        >>> x = cr.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        array([2., 4.])
        """
        backward(self, cotangent, create_graph if retain_graph is None else retain_graph, create_graph)

    def copy(self) -> Self:
        """The same values in memory of their own; the gradient flows through.  `detach` is the one that stops it."""
        return views.cast(self, self.dtype)

    def detach(self) -> Self:
        """The value as a tensor that wants no gradient; of a leaf, a copy, since a leaf may be written in place."""
        result = wrap(self.data, None, type(self))
        share(self, result)
        return result

    def numpy(self) -> Any:
        """The value as a NumPy array that shares memory.

        **Raises** GraphError if a gradient is wanted: `x.detach().numpy()` says that it is given up on purpose.
        """
        if self.node is not None:
            fault = "a tensor that wants a gradient would silently lose it as an array"
            remedy = "x.detach() first, chainrule's own functions, or cr.tensor([...]) for np.array([...])"
            raise GraphError(explain("numpy", fault, x=self, remedy=remedy))
        return np.asarray(self.data)

    # ------------------------------------------------------------ as a Python object
    def item(self) -> Any:
        """The one element as a Python number."""
        return self._one("item").item()

    def tolist(self) -> Any:
        """The entries as nested lists of Python numbers."""
        return np.asarray(self.data).tolist()

    def _one(self, asker: str) -> Any:
        if isinstance(self.data, Abstract):
            return self.data.__bool__()
        if self.data.size != 1:
            raise ShapeError(explain(asker, f"a tensor of {self.data.size} elements is no single number", x=self))
        return np.asarray(self.data)

    def __bool__(self) -> bool:
        return bool(self._one("bool"))

    def __float__(self) -> float:
        if self.node is not None and _is_entry_of_an_array(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
            fault = "a plain array cannot hold an entry that wants a gradient"
            remedy = "cr.zeros instead of np.zeros, cr.stack, or x.detach()"
            raise GraphError(explain("[...] =", fault, x=self, remedy=remedy))
        return float(self._one("float").item())

    def __int__(self) -> int:
        return int(self._one("int").item())

    def __index__(self) -> int:
        if self.data.dtype.kind not in "iub" or self.data.ndim:
            raise DTypeError(explain("index", "only an integer tensor without axes can index", x=self))
        return int(self.data)

    def __round__(self, ndigits: int | None = None) -> Any:
        return round(self.item(), ndigits)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec or isinstance(self.data, Abstract) else str(self)

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError(explain("len", "a tensor without axes has no length", x=self))
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            raise ShapeError(explain("iteration", "a tensor without axes has no rows", x=self))
        return iter(joining.unstack(self))

    def __contains__(self, value: Any) -> bool:
        return bool(np.any(np.asarray(self.data) == raw(value)))

    def __repr__(self) -> str:
        if not is_numpy(self.data):
            if isinstance(self.data, Abstract):
                refuse_text(self.data, sys._getframe(1))
            return f"tensor({self.data!r}{', requires_grad=True' if self.requires_grad else ''})"
        values = np.array2string(np.asarray(self.data), separator=", ", prefix="tensor(")
        dtype = "" if self.dtype in (np.float64, np.int64, np.bool_) and self.size else f", dtype={self.dtype}"
        return f"tensor({values}{dtype}{', requires_grad=True' if self.requires_grad else ''})"

    def __copy__(self) -> Self:
        return _rebuilt(type(self), own_copy(self.data), self.requires_grad and self.is_leaf, _copied(self.grad))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = memo[id(self)] = self.__copy__()
        return made

    def __reduce__(self) -> Any:
        data = self.data if is_foreign(self.data) else np.asarray(self.data)
        return _rebuilt, (type(self), data, self.requires_grad and self.is_leaf, _copied(self.grad))

    # ------------------------------------------------------------ NumPy's protocols
    __array_ufunc__ = array_ufunc
    __array_function__ = array_function

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.numpy(), dtype=dtype, copy=copy)


def _is_entry_of_an_array(caller: Any) -> bool:
    """Whether `float(t)` is asked for by `a[i] = t`, where NumPy would drop the graph without a word."""
    return caller.f_code.co_code[caller.f_lasti] == _STORE


def _fresh(data: Any, dtype: Any) -> Array:
    """A new array of what a user gave."""
    if is_tensor(data):
        data = data.data if data.node is None else data.numpy()
    if isinstance(data, Abstract):
        return data.copy() if dtype is None else views.astype(data.copy(), real_dtype("tensor", dtype))
    if is_foreign(data):
        library = namespace_of(data)
        return library.asarray(data, dtype=dtype_in(library, dtype), copy=True)
    wanted = None if dtype is None else real_dtype("tensor", dtype)
    try:
        array = np.array(data, wanted)
    except (ValueError, TypeError) as error:
        raise ArgumentError(explain("tensor", uneven(error), data=data)) from None
    if array.dtype.kind not in "biufc":
        raise DTypeError(explain("tensor", f"{type(data).__name__} is no array of numbers", data=data))
    return array


def _copied(grad: Any) -> Any:
    return None if grad is None else own_copy(raw(grad))


def _rebuilt(kind: type[Tensor], data: Any, requires_grad: bool, grad: Any) -> Any:
    made = wrap(data, None, kind)
    made.requires_grad = requires_grad
    made.grad = grad
    return made


bind(Tensor=Tensor, share=share)
