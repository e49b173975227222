"""The tensor: an array that remembers how it was made.

`data` holds the numbers, `grad` what `backward` has accumulated, `node` the memory of the operation (`core.graph`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import common_namespace, dtype_in, is_foreign, is_number, is_numpy, namespace_of
from chainrule.core.calls import is_tensor, raw, uneven, weak, wrap
from chainrule.core.graph import before_write, leaf_node, own_copy, share, take_back
from chainrule.core.template import bind
from chainrule.errors import ArgumentError, DTypeError, GraphError, LostGraphError, ShapeError, dtype_kind, explain
from chainrule.interop import array_function, array_ufunc
from chainrule.operators import Operators
from chainrule.ops import indexing, joining, views
from chainrule.ops.arguments import lifted, real_dtype
from chainrule.ops.creation import full_like
from chainrule.types import Array, Shape
from chainrule.walks.reverse import reverse

_WRITES: dict[str, Any] = {name: getattr(operator, name) for name in dir(operator) if name.startswith("i")}


class Tensor(Operators):
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
    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        return self.data.shape

    @property
    def dtype(self) -> Any:
        """The type of the entries."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.data.ndim

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.data.size

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
        **Raises** LostGraphError, FreedGraphError, StaleGraphError, ShapeError; then no `.grad` was touched.

        >>> import chainrule as cr
        >>> x = cr.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        array([2., 4.])
        """
        if self.node is None:
            fault = "the tensor has no graph: nothing that it was computed from wants a gradient"
            raise LostGraphError(explain("backward", fault, x=self, remedy="cr.tensor(..., requires_grad=True)"))
        ct = _cotangent(self, cotangent, create_graph)
        owned = {id(ct.data if create_graph else ct)}
        free = not (create_graph if retain_graph is None else retain_graph)
        for node, g in reverse([(self.node, ct)], create_graph, None, free):
            leaf = node[3].tensor()
            if leaf is not None and leaf.node is node:
                total = g if leaf.grad is None else leaf.grad + g
                if type(total) is not np.ndarray or total.base is not None or id(total) in owned:
                    total = _own_gradient(total, node[6], owned)
                leaf.grad = total
                owned.add(id(total))

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
            remedy = "x.detach() first, or chainrule's own functions"
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
        return format(self.item(), spec) if spec else str(self)

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

    # ------------------------------------------------------------ in place
    def __setitem__(self, index: Any, value: Any) -> None:
        if self._is_rebound("[...] =", value):
            self._rebind(indexing.setitem(self, value, index), "[...] =")
        else:
            before = before_write(self)
            try:
                indexing.assign(self.data, raw(value), index)
            except Exception:
                take_back(self, before)
                raise

    def __iadd__(self, other: Any) -> Self:
        return self._update("+=", other, "__add__", "iadd")

    def __isub__(self, other: Any) -> Self:
        return self._update("-=", other, "__sub__", "isub")

    def __imul__(self, other: Any) -> Self:
        return self._update("*=", other, "__mul__", "imul")

    def __itruediv__(self, other: Any) -> Self:
        return self._update("/=", other, "__truediv__", "itruediv")

    def __ipow__(self, other: Any) -> Self:
        return self._update("**=", other, "__pow__", "ipow")

    def __imatmul__(self, other: Any) -> Self:
        return self._update("@=", other, "__matmul__", "imatmul")

    def __ifloordiv__(self, other: Any) -> Self:
        return self._update("//=", other, "__floordiv__", "ifloordiv")

    def __imod__(self, other: Any) -> Self:
        return self._update("%=", other, "__mod__", "imod")

    def _update(self, sign: str, other: Any, operation: str, write: str) -> Self:
        """`self += other`: a new value under the old name while recording, otherwise a write into own memory."""
        if self._is_rebound(sign, other):
            self._rebind(getattr(self, operation)(other), sign)
            return self
        before = before_write(self)
        try:
            self.data = _WRITES[write](self.data, other.data if isinstance(other, Tensor) else other)
        except (TypeError, ValueError) as error:
            take_back(self, before)
            fits = isinstance(error, TypeError)  # then NumPy says which dtype does not
            fault = str(error) if fits else "the result does not have the shape of the tensor"
            fault = "the result does not fit into the dtype of the tensor" if "Cannot cast" in fault else fault
            remedy = f"x = x {sign[:-1]} y, which makes a new tensor"
            raise (DTypeError if fits else ShapeError)(explain(sign, fault, x=self, y=other, remedy=remedy)) from None
        return self

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

    def _rebind(self, result: Self, sign: str = "") -> None:
        if result.shape != self.shape:
            fault = "the result does not have the shape of the tensor"
            raise ShapeError(explain(sign, fault, x=self, result=result, remedy="x = ..., which makes a new tensor"))
        if result.dtype != self.dtype:
            if not np.can_cast(result.dtype, self.dtype, "same_kind"):
                fault = "the result does not fit into the dtype of the tensor"
                raise DTypeError(
                    explain(sign, fault, x=self, result=result, remedy="x = ..., which makes a new tensor")
                )
            result = result.astype(self.dtype)
        self.data, self.node, self.shared = result.data, result.node, getattr(result, "shared", False)


def _fresh(data: Any, dtype: Any) -> Array:
    """A new array of what a user gave."""
    if is_tensor(data):
        data = data.data if data.node is None else data.numpy()
    if isinstance(data, Abstract):
        return data
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


def _own_gradient(g: Any, dtype: Any, owned: set[int]) -> Any:
    """A gradient that shares memory with nothing: what a rule passed on, or looks at other memory, is copied."""
    if is_numpy(g):
        return np.array(g, dtype)
    data = raw(g)
    shared = id(data) in owned or getattr(data, "base", None) is not None
    owned.add(id(data))
    if not shared:
        return g
    return wrap(own_copy(data), g.node) if is_tensor(g) else own_copy(data)


def _copied(grad: Any) -> Any:
    return None if grad is None else own_copy(raw(grad))


def _rebuilt(kind: type[Tensor], data: Any, requires_grad: bool, grad: Any) -> Any:
    made = wrap(data, None, kind)
    made.requires_grad = requires_grad
    made.grad = grad
    return made


_ones: dict[Any, Any] = {}


def _one_of(data: Array) -> Array:
    """The cotangent of a number; never handed out as a gradient itself, so one for all walks."""
    if not is_number(data):
        return full_like(data, 1.0)
    dtype: Any = data.dtype
    one: Any = _ones.get(dtype)
    if one is None:
        one = _ones[dtype] = np.ones((), dtype)
    return one


def _cotangent(y: Tensor, cotangent: Any, graph: bool) -> Any:
    """The cotangent that a walk from `y` starts with: raw, or for a walk that is recorded, a tensor.

    A recorded walk keeps the graph of a cotangent, which may want a gradient itself, and a copy of an array.
    """
    if cotangent is None:
        if y.size != 1:
            fault = "only a tensor of one element has a gradient by itself"
            raise ShapeError(explain("backward", fault, y=y, remedy="y.sum(), or an upstream gradient: cotangent=..."))
        return wrap(_one_of(y.data), None) if graph else _one_of(y.data)
    ct: Any = cotangent if graph and is_tensor(cotangent) else raw(cotangent)
    if not is_tensor(ct):
        ct = weak(ct, y.data) if isinstance(ct, (bool, int, float)) else lifted("backward", "cotangent", ct, copy=graph)
    if ct.shape != y.shape:
        raise ShapeError(explain("backward", "the cotangent does not have the shape of the value", y=y, cotangent=ct))
    if not (isinstance(raw(ct), Abstract) or isinstance(y.data, Abstract)):
        common_namespace("backward", {"y": y.data, "cotangent": raw(ct)})
    if dtype_kind(ct.dtype) == "c" and dtype_kind(y.dtype) != "c":
        raise DTypeError(explain("backward", "the cotangent of a real value is real", y=y, cotangent=ct))
    ct = ct if ct.dtype == y.dtype else views.cast(ct, y.dtype)
    return wrap(ct, None) if graph and not is_tensor(ct) else ct


def gradients(y: Tensor, xs: Any, cotangent: Any = None, create_graph: bool = False) -> Any:
    """The gradients of `y` with respect to tensors, leaves or not; frees nothing and touches no `.grad`.

    **Shapes** `xs`: a list of tensors (or one); the result has an array for each, of its shape and dtype, zeros where
    `y` does not depend on it.  `cotangent f[y.shape]`: the upstream gradient.  `create_graph`: the results are tensors
    and can be differentiated again.  **Raises** LostGraphError for an x without a graph, FreedGraphError,
    StaleGraphError, ShapeError.

    >>> import chainrule as cr
    >>> x = cr.tensor(3.0, requires_grad=True)
    >>> slope, = cr.gradients(x ** 3, [x], create_graph=True)
    >>> cr.gradients(slope, [x])
    [array(18.)]
    """
    many: Sequence[Tensor] = [xs] if is_tensor(xs) else list(xs)
    for k, x in enumerate(many):
        if not is_tensor(x) or x.node is None:
            remedy = "cr.tensor(..., requires_grad=True) before y is computed"
            fault = "only a tensor that wants a gradient has one"
            raise LostGraphError(explain("gradients", fault, **{f"xs[{k}]": x}, remedy=remedy))
    if not is_tensor(y):
        raise LostGraphError(explain("gradients", "y is no tensor, so it carries no graph", y=y))
    found: dict[int, Any] = {}
    if y.node is not None:
        root = (y.node, _cotangent(y, cotangent, create_graph))
        found = {n[0]: g for n, g in reverse([root], create_graph, {x.node[0] for x in many if x.node is not None})}
    results: list[Any] = []
    for x in many:
        g = found.get(x.node[0]) if x.node is not None else None
        g = full_like(x.data, 0.0) if g is None else g
        results.append(g if is_tensor(g) else wrap(g, None) if create_graph else own_copy(g))
    return results[0] if is_tensor(xs) else results


bind(Tensor=Tensor, share=share)
