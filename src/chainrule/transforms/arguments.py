"""Arguments of a transform, and the kinds of what it gives back.

Each floating leaf of an argument becomes a tensor with an identity node of its own, which keeps nested perturbations
apart.  What goes in comes out: a derivative is of the kind of what it belongs to (float, NumPy scalar, array, tensor,
tree of these), but it is a tensor wherever it wants a gradient itself, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from chainrule import modes, tree
from chainrule.backends.registry import is_foreign, is_number, is_numpy, namespace_of
from chainrule.core.calls import is_tensor, raw, wrap
from chainrule.core.graph import Node, next_number, own_copy, reach
from chainrule.core.primitive import primitive
from chainrule.errors import ArgumentError, DTypeError, LostGraphError, ShapeError, dtype_kind, explain
from chainrule.ops.creation import full_like
from chainrule.ops.families import VIEW
from chainrule.ops.views import cast

identity = primitive(
    "identity",
    VIEW,
    [lambda ct: ct],
    forward=lambda x: x,
    standard=lambda _, x: x,
    shape_rule=lambda x: x.shape,
    samples=lambda rng: [((rng.normal(size=(2, 3)),), ())],
    is_view=True,
)
_IDENTITY: Any = identity.primitive  # pyright: ignore[reportFunctionMemberAccess]


class Argument:
    """One argument: `value` is what the function gets instead, `tensors` are its variables."""

    __slots__ = ("leaves", "places", "structure", "tensors", "value")

    def __init__(self, operation: str, name: str, given: Any) -> None:
        self.leaves, self.structure = tree.flatten(given)
        self.places = [k for k, leaf in enumerate(self.leaves) if is_floating(operation, name, leaf)]
        if self.leaves and not self.places:
            fault = "only floating numbers have derivatives"
            remedy = "2.0 for 2, or `argnums` for another argument"
            raise DTypeError(explain(operation, fault, **{name: given}, remedy=remedy))
        self.tensors = [_variable(self.leaves[k]) for k in self.places]
        # The function may rebind what it gets, as `x += 1` does, so it gets tensors of its own.
        self.value = self.with_leaves([alike(x, x.data, x.node) for x in self.tensors], self.leaves)

    def with_leaves(self, floating: Iterable[Any], others: Sequence[Any] | None = None) -> Any:
        """The tree with these values at the floating leaves, and `others`, or None, at the rest."""
        leaves = [None] * len(self.leaves) if others is None else list(others)
        for k, value in zip(self.places, floating, strict=True):
            leaves[k] = value
        return tree.unflatten(self.structure, leaves)

    def derivatives(self, gs: Iterable[Any], owned: set[int]) -> Any:
        """The tree of derivatives, each of the kind of its leaf; zeros for a missing one."""
        pairs = zip(gs, self.tensors, self.places, strict=True)
        return self.with_leaves(
            of_kind(full_like(x.data, 0.0) if g is None else g, self.leaves[k], owned) for g, x, k in pairs
        )

    def tangents(self, operation: str, given: Any, owned: set[int]) -> list[tuple[Any, Any]]:
        """(variable, tangent) for a tree of tangents of this argument; None stands for zero."""
        if given is None:
            return []
        found = tree.flatten_as(self.structure, given, operation)
        pairs = zip(self.tensors, (found[k] for k in self.places), strict=True)
        return [(x, beside(operation, "tangent", t, x, owned)) for x, t in pairs if t is not None]


def is_floating(operation: str, name: str, leaf: Any) -> bool:
    """Whether a leaf has a derivative.

    **Raises** DTypeError for a complex number.
    """
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        return isinstance(leaf, float)
    kind = dtype_kind(dtype) if isinstance(dtype, np.dtype) or is_foreign(raw(leaf)) else "O"
    if kind == "c":
        remedy = "real and imaginary part as two arguments"
        raise DTypeError(explain(operation, "complex arguments are not supported", **{name: leaf}, remedy=remedy))
    return kind == "f"


def _variable(leaf: Any) -> Any:
    """A tensor with an identity node: over the leaf's own node, or over nothing."""
    if not is_tensor(leaf):
        data = _own(leaf)
    elif leaf.node is not None and not is_paused():
        return identity(leaf)
    elif (
        leaf.node is not None
    ):  # a leaf, or a view of one, is written where it stands, and no graph leads to it from here
        data = own_copy(leaf.data)
    else:
        leaf.shared = True
        data = leaf.data
    node: Node = [next_number(), _IDENTITY, (None,), (), (), data.shape, data.dtype]
    return alike(leaf, data, node) if is_tensor(leaf) else wrap(data, node)


def _own(leaf: Any) -> Any:
    """Memory that the owner of the argument cannot change behind the back of a recorded graph."""
    if isinstance(leaf, float):
        return np.float64(leaf)
    if is_numpy(leaf):
        return np.array(leaf) if leaf.shape else leaf[()]
    return namespace_of(leaf).asarray(leaf, copy=True) if is_foreign(leaf) else leaf


def alike(x: Any, data: Any, node: Node | None) -> Any:
    """A tensor of the class of the tensor x."""
    return wrap(data, node, type(x))  # pyright: ignore[reportUnknownArgumentType]


def is_paused() -> bool:
    """Whether nothing is recorded here."""
    return bool(modes.paused) and modes.is_paused()


def is_sequence(value: Any) -> bool:
    """Whether `value` is a tuple or a list."""
    return isinstance(value, (tuple, list))


def select(operation: str, argnums: Any, args: tuple[Any, ...]) -> tuple[list[Argument], list[Any]]:
    """The arguments that `argnums` names, and all arguments with variables in their places.

    **Raises** ArgumentError for an argument that is not there, DTypeError for one that does not float.
    """
    wanted: Sequence[Any] = argnums if is_sequence(argnums) else (argnums,)
    values, chosen = list(args), list[Argument]()
    for number in wanted:
        if not isinstance(number, int) or not -len(args) <= number < len(args):
            fault = f"argnums names the argument {number!r} of a call with {len(args)} positional arguments"
            raise ArgumentError(explain(operation, fault))
        if sum(other % len(args) == number % len(args) for other in wanted if isinstance(other, int)) > 1:
            raise ArgumentError(explain(operation, f"argnums names the argument {number} twice", argnums=argnums))
        argument = Argument(operation, f"argument {number} =", args[number])
        chosen.append(argument)
        values[number] = argument.value
    return chosen, values


def run(f: Callable[..., Any], args: Iterable[Any], keywords: dict[str, Any]) -> Any:
    """`f` with recording on, also inside `no_grad`: a transform is asked for a derivative."""
    with modes.recording():
        return f(*args, **keywords)


def tensors_of(operation: str, result: Any) -> tuple[list[Any], tree.Structure]:
    """The leaves of a function's result and its structure.

    **Raises** LostGraphError for a leaf that is no tensor.
    """
    leaves, structure = tree.flatten(result)
    for leaf in leaves:
        if not is_tensor(leaf):
            raise lost(operation, leaf)
    return leaves, structure


def lost(operation: str, result: Any) -> LostGraphError:
    """The error for a result that is no tensor."""
    fault = "the result is no tensor, so it carries no graph"
    remedy = "functions of chainrule or NumPy on the tensors: math.sin(x), float(x) and x.data leave the graph"
    return LostGraphError(explain(operation, fault, result=result, remedy=remedy))


def numbers_of(arguments: Iterable[Argument]) -> set[int]:
    """The numbers of the nodes of all variables."""
    return {x.node[0] for argument in arguments for x in argument.tensors}


def is_open(roots: Iterable[Node | None], numbers: set[int]) -> bool:
    """Whether anything but the variables `numbers` wants a gradient: then what is computed is recorded.

    That is a leaf, a variable of a transform further out, or the node under one of our own.
    """
    if is_paused():
        return False
    return any(
        node[1] is None or (node[1] is _IDENTITY and (node[0] in numbers) == (node[2][0] is not None))
        for node in reach(roots)
    )


def beside(operation: str, name: str, value: Any, x: Any, owned: set[int]) -> Any:
    """A tangent or cotangent of the tensor `x` as given by a user, of its dtype: a tensor, or a raw array.

    **Raises** ShapeError for another shape than x's, DTypeError for what is no real number.
    """
    t: Any = value if hasattr(value, "dtype") else np.asarray(value)
    if t.shape != x.shape:
        raise ShapeError(explain(operation, f"the {name} does not have the shape of its value", value=x, **{name: t}))
    if is_tensor(t):
        t = t if t.dtype == x.dtype else cast(t, x.dtype)
    elif is_foreign(x.data):
        t = namespace_of(x.data).asarray(t, dtype=x.dtype)
    elif is_numpy(t):
        if t.dtype.kind not in "biuf":
            raise DTypeError(explain(operation, f"the {name} is no array of real numbers", **{name: t}))
        t = t if t.dtype == x.dtype else t.astype(x.dtype)
    owned.add(id(raw(t)))
    return t


def wants_gradient(values: Iterable[Any]) -> bool:
    """Whether a tensor among `values` does, where anything is recorded at all."""
    return not is_paused() and any(is_tensor(v) and v.node is not None for v in values)


def lifted(value: Any, graph: bool) -> Any:
    """A tensor for a walk that is recorded, with memory that its giver cannot change; a raw array for one that is not."""
    if not graph:
        return raw(value)
    return value if is_tensor(value) else wrap(own_copy(value), None)


def is_array(value: Any) -> bool:
    """Whether `value` is a NumPy array, not a NumPy scalar."""
    return isinstance(value, np.ndarray)


def of_kind(value: Any, like: Any, owned: set[int]) -> Any:
    """`value` as the kind of `like`, in memory of its own; as a tensor wherever it wants a gradient."""
    data = raw(value)
    looks = is_array(data) and (data.base is not None or not data.flags.writeable)
    if looks or (id(data) in owned and not is_number(data)):
        data = own_copy(data)
    owned.add(id(data))
    if is_tensor(value) and value.node is not None:
        return wrap(data, value.node)
    if is_tensor(like):
        return wrap(data, None)
    if not is_numpy(data):
        return data
    if is_array(like):
        return np.asarray(data)
    if data.shape != ():
        return data
    return float(data) if type(like) is float else np.asarray(data)[()]


def value_like(arguments: Iterable[Argument]) -> Any:
    """What a value is given back like: a float if all that floats is one, a tensor if any is, else a NumPy scalar."""
    leaves = [argument.leaves[k] for argument in arguments for k in argument.places]
    found = next((leaf for leaf in leaves if is_tensor(leaf)), None)
    if found is not None:
        return found
    return 0.0 if leaves and all(type(leaf) is float for leaf in leaves) else np.float64(0.0)


def value_of(y: Any, numbers: set[int], like: Any, owned: set[int]) -> Any:
    """A result of the function, tied to the graph only where something outside wants a gradient."""
    if y.node is not None and not is_open([y.node], numbers):
        y = wrap(y.data, None)
    return of_kind(y, like, owned)
