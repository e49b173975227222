"""Arguments of a transform, and the kinds of what it gives back.

Each floating leaf of an argument becomes a tensor with an identity node of its own, which keeps nested perturbations
apart; the parameters of a module stand for theirs where they are (`standing`).  What goes in comes out: a derivative is
of the kind of what it belongs to (float, NumPy scalar, array, tensor, tree of these), but it is a tensor wherever it
wants a gradient itself, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from chainrule import modes, tree
from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_foreign, is_number, is_numpy, namespace_of, type_of
from chainrule.core.calls import is_tensor, raw, wrap
from chainrule.core.graph import Node, next_number, own_copy, reach
from chainrule.core.primitive import primitive
from chainrule.errors import ArgumentError, DTypeError, LostGraphError, ShapeError, dtype_kind, explain
from chainrule.ops.creation import full_like
from chainrule.ops.families import VIEW
from chainrule.ops.views import cast
from chainrule.transforms.standing import Standing, standing

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
    """One argument: `value` is what the function gets instead, `tensors` are its variables.

    `places` are the leaves that have a variable, `numbers` says which: a parameter of a module, which the function
    gets as it is, has one wherever it stands.
    """

    __slots__ = ("leaves", "numbers", "places", "standing", "structure", "tensors", "value")

    def __init__(self, operation: str, name: str, given: Any) -> None:
        outer, form = tree.flatten(given, objects=False)
        self.leaves, self.structure, at = _opened(outer, form)
        plain = set(at)
        self.places = [
            k
            for k, leaf in enumerate(self.leaves)
            if (is_floating(operation, name, leaf) if k in plain else wants_gradient_itself(leaf))
        ]
        if self.leaves and not self.places:
            raise _constant(operation, name, given, is_plain=len(plain) == len(self.leaves))
        self.tensors, self.numbers, known = list[Any](), list[int](), dict[int, int]()
        for k in self.places:
            new = len(self.tensors)
            self.numbers.append(new if k in plain else known.setdefault(id(self.leaves[k]), new))
            if self.numbers[-1] == new:
                self.tensors.append(_variable(self.leaves[k]))
        chosen = list(zip(self.places, self.numbers, strict=True))
        self.standing = Standing([(self.leaves[k], self.tensors[n]) for k, n in chosen if k not in plain])
        # The function may rebind what it gets, as `x += 1` does, so it gets tensors of its own.
        own = {k: alike(x, x.data, x.node) for k, x in ((k, self.tensors[n]) for k, n in chosen if k in plain)}
        self.value = tree.unflatten(form, [own.get(k, leaf) for k, leaf in zip(at, outer, strict=True)])

    def with_leaves(self, values: Sequence[Any]) -> Any:
        """The tree with the values of the variables, and None where there is no variable."""
        leaves = [None] * len(self.leaves)
        for k, number in zip(self.places, self.numbers, strict=True):
            leaves[k] = values[number]
        return tree.unflatten(self.structure, leaves)

    def derivatives(self, gs: Iterable[Any], owned: set[int]) -> Any:
        """The tree of derivatives, each of the kind of its leaf; zeros for a missing one."""
        kinds = {number: self.leaves[k] for k, number in zip(self.places, self.numbers, strict=True)}
        pairs = enumerate(zip(gs, self.tensors, strict=True))
        return self.with_leaves(
            [of_kind(full_like(x.data, 0.0) if g is None else g, kinds[k], owned) for k, (g, x) in pairs]
        )

    def tangents(self, operation: str, given: Any, owned: set[int]) -> list[tuple[Any, Any]]:
        """(variable, tangent) for a tree of tangents of this argument; None stands for zero."""
        if given is None:
            return []
        found = tree.flatten_as(self.structure, given, operation)
        ts: list[Any] = [None] * len(self.tensors)
        for k, number in zip(self.places, self.numbers, strict=True):
            if ts[number] is not None and found[k] is not None and found[k] is not ts[number]:
                fault = "one parameter has two tangents"
                raise ArgumentError(explain(operation, fault, parameter=self.leaves[k]))
            ts[number] = found[k] if ts[number] is None else ts[number]
        pairs = zip(self.tensors, ts, strict=True)
        return [(x, beside(operation, "tangent", t, x, owned)) for x, t in pairs if t is not None]


def _opened(outer: list[Any], form: tree.Structure) -> tuple[list[Any], tree.Structure, Sequence[int]]:
    """The leaves and the structure with modules opened, and the number of each outer leaf among them, -1 for modules."""
    if not any(map(tree.is_object, outer)):
        return outer, form, range(len(outer))
    leaves, structure, at, rest = list[Any](), tree.Structure(), list[int](), iter(outer)
    for step in form:
        steps: tree.Structure = [step]
        if step is None:
            leaf = next(rest)
            found, steps = tree.flatten(leaf)
            at.append(-1 if tree.is_object(leaf) else len(leaves))
            leaves += found
        structure += steps
    return leaves, structure, at


def _constant(operation: str, name: str, given: Any, is_plain: bool) -> DTypeError:
    """The error for an argument without a variable."""
    fault, remedy = "only floating numbers have derivatives", "2.0 for 2, or `argnums` for another argument"
    if is_plain:
        return DTypeError(explain(operation, fault, **{name: given}, remedy=remedy))
    fault = f"no parameter of {name.rstrip(' =')} wants a gradient, a {type_of(given).__name__}"
    return DTypeError(explain(operation, fault, remedy="model.requires_grad_()"))


def is_floating(operation: str, name: str, leaf: Any) -> bool:
    """Whether a leaf has a derivative.

    **Raises** DTypeError for a complex number.
    """
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        return issubclass(type(leaf), float)
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
    elif leaf.node is not None:  # it, or what it is a view of, may be written, and no graph leads to it from here
        data = own_copy(leaf.data)
    else:
        leaf.shared = True
        data = leaf.data
    node: Node = [next_number(), _IDENTITY, (None,), (), (), data.shape, data.dtype]
    return alike(leaf, data, node) if is_tensor(leaf) else wrap(data, node)


def _own(leaf: Any) -> Any:
    """Memory that the owner of the argument cannot change behind the back of a recorded graph."""
    if issubclass(type(leaf), float):
        return np.float64(leaf)
    if is_numpy(leaf):
        return np.array(leaf) if leaf.shape else leaf[()]
    return namespace_of(leaf).asarray(leaf, copy=True) if is_foreign(leaf) else leaf


def alike(x: Any, data: Any, node: Node | None) -> Any:
    """A tensor of the class of the tensor x."""
    return wrap(data, node, type(x))  # pyright: ignore[reportUnknownArgumentType]


def is_variable(x: Any) -> bool:
    """Whether the tensor x is the variable of a transform as it came, with the memory of what it stands for."""
    return x.node is not None and x.node[1] is _IDENTITY


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
    _refuse_shared(operation, chosen)
    return chosen, values


def _refuse_shared(operation: str, chosen: list[Argument]) -> None:
    """**Raises** ArgumentError where a parameter would have to stand for two variables."""
    seen: dict[int, int] = {}
    for number, argument in enumerate(chosen):
        for parameter, _ in argument.standing.pairs:
            if seen.setdefault(id(parameter), number) != number:
                fault, remedy = "two arguments share a parameter", "one argument that holds both, as (a, b)"
                raise ArgumentError(explain(operation, fault, parameter=parameter, remedy=remedy))


def run(f: Callable[..., Any], args: Iterable[Any], keywords: dict[str, Any], chosen: Sequence[Argument] = ()) -> Any:
    """`f` with recording on, also inside `no_grad`: a transform is asked for a derivative."""
    with modes.recording(), standing([argument.standing for argument in chosen if argument.standing.pairs]):
        return f(*args, **keywords)


def as_it_was(result: Any, chosen: Iterable[Argument]) -> Any:
    """A leaf of a function's result; for a parameter of a module, the tensor that it was when the function ended."""
    for argument in chosen:
        result = argument.standing.last.get(id(result), result)
    return result


def tensors_of(operation: str, result: Any, chosen: Sequence[Argument] = ()) -> tuple[list[Any], tree.Structure]:
    """The leaves of a function's result and its structure.

    **Raises** LostGraphError for a leaf that is no tensor.
    """
    leaves, structure = tree.flatten(result)
    for leaf in leaves:
        if not is_tensor(leaf):
            raise lost(operation, leaf)
    return [as_it_was(leaf, chosen) for leaf in leaves], structure


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


def wants_gradient_itself(value: Any) -> bool:
    """Whether this is a tensor that does."""
    return is_tensor(value) and value.node is not None


def wants_gradient(values: Iterable[Any]) -> bool:
    """Whether a tensor among `values` does, where anything is recorded at all."""
    return not is_paused() and any(map(wants_gradient_itself, values))


def lifted(value: Any, graph: bool) -> Any:
    """A tensor for a walk that is recorded, with memory that its giver cannot change; a raw array for one that is not."""
    if not graph:
        return raw(value)
    return value if is_tensor(value) else wrap(own_copy(value), None)


def is_array(value: Any) -> bool:
    """Whether `value` is a NumPy array, not a NumPy scalar."""
    return issubclass(type(value), np.ndarray)


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
    if isinstance(data, Abstract) and data.shape == ():
        return number_box(data, like)
    if not is_numpy(data):
        return data
    if is_array(like):
        return np.asarray(data)
    if data.shape != ():
        return data
    return float(data) if type(like) is float else np.asarray(data)[()]


def number_box(data: Abstract, like: Any) -> Abstract:
    """A single entry in a trace: a number of Python's, a number of NumPy's or an array, as `like` is one."""
    is_weak = type(like) is float or (isinstance(like, Abstract) and like.weak)
    is_fixed = not is_array(like) and not (isinstance(like, Abstract) and not like.fixed)
    return Abstract((), data.dtype, data.equation, weak=is_weak, fixed=is_fixed)


def value_like(arguments: Iterable[Argument]) -> Any:
    """What a value is given back like: a float if all that floats is one, a tensor if any is, else a NumPy scalar."""
    leaves = [argument.leaves[k] for argument in arguments for k in argument.places]
    found = next((leaf for leaf in leaves if is_tensor(leaf)), None)
    if found is not None:
        return found
    numbers = all(type(leaf) is float or (isinstance(leaf, Abstract) and leaf.weak) for leaf in leaves)
    return 0.0 if leaves and numbers else np.float64(0.0)


def value_of(y: Any, numbers: set[int], like: Any, owned: set[int]) -> Any:
    """A result of the function, tied to the graph only where something outside wants a gradient."""
    if y.node is not None and not is_open([y.node], numbers):
        y = wrap(y.data, None)
    return of_kind(y, like, owned)
