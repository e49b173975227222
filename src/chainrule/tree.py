"""Trees: values nested in tuples, named tuples, lists, dictionaries, None (a tree without leaves), registered classes.

The idea: a structure is the list of its containers and leaves in the order of a walk, so nothing recurses.  Whatever
is no container is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from chainrule.errors import ArgumentError

Tree = Any
Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
Unflatten = Callable[[Any, list[Any]], Any]
Match = Callable[[Any, Any], Iterable[Any]]


class _Container(NamedTuple):
    flatten: Flatten
    unflatten: Unflatten
    match: Match | None = None
    is_object: bool = False


class Step(NamedTuple):
    """One container of a structure; `None` in its place is a leaf."""

    kind: type
    context: Any
    arity: int
    unflatten: Unflatten


Structure = list[Step | None]


def _entries(value: Any) -> tuple[Iterable[Any], Any]:
    return value, None


def _items(value: Any) -> tuple[Iterable[Any], Any]:
    return value.values(), tuple(value)


def _by_key(keys: Any, value: Any) -> Iterable[Any]:
    """The entries of a dictionary in the order of `keys`: its own may differ."""
    if set(value) != set(keys):
        raise ArgumentError(f"a dictionary with keys {list(value)}, expected {list(keys)}")
    return (value[key] for key in keys)


def _rebuild(kind: Callable[..., Any]) -> Unflatten:
    """`kind` of its entries, or of its keys and entries."""

    def unflatten(keys: Any, children: list[Any]) -> Any:
        return kind(children) if keys is None else kind(zip(keys, children, strict=True))

    return unflatten


def _unpack(kind: Callable[..., Any]) -> Unflatten:
    """`kind` called with its entries."""

    def unflatten(_: Any, children: list[Any]) -> Any:
        return kind(*children)

    return unflatten


def _none(*_: Any) -> Any:
    return None


def _nothing(_: Any) -> tuple[Iterable[Any], Any]:
    return (), None


_BUILTIN: dict[type, _Container] = {
    tuple: _Container(_entries, _rebuild(tuple)),
    list: _Container(_entries, _rebuild(list)),
    dict: _Container(_items, _rebuild(dict), _by_key),
    OrderedDict: _Container(_items, _rebuild(OrderedDict), _by_key),
    type(None): _Container(_nothing, _none),
}
"""A class derived from one of these is a leaf, unless it is registered."""
_registered: dict[type, _Container] = {}
_containers: dict[type, _Container | None] = dict(_BUILTIN)
"""What is known about a class met before: how it opens, or None for a leaf."""


def register(
    kind: type, flatten: Flatten, unflatten: Unflatten, match: Match | None = None, is_object: bool = False
) -> None:
    """Make `kind`, and what is derived from it, a container.

    `flatten(value) -> (children, context)`, where `context` is whatever two equal structures have equal;
    `unflatten(context, children) -> value`, with `children` a list.  `match(context, value) -> children` finds them in
    another value, and raises ArgumentError where it is of another form; without it the contexts are compared.
    `is_object`: a function is handed the thing itself, never one rebuilt from its leaves.
    """
    _registered[kind] = _Container(flatten, unflatten, match, is_object)
    _containers.clear()
    _containers.update(_BUILTIN | _registered)


def _container(kind: type) -> _Container | None:
    if kind in _containers:
        return _containers[kind]
    if issubclass(kind, tuple) and "_fields" in dir(kind):  # pyright: ignore[reportUnknownArgumentType]
        found = _Container(_entries, _unpack(kind))  # pyright: ignore[reportUnknownArgumentType]
    else:
        found = next((_registered[base] for base in kind.__mro__ if base in _registered), None)
    _containers[kind] = found
    return found


def _kind(value: Any) -> type:
    return type(value)  # pyright: ignore[reportUnknownVariableType]


def is_object(value: Any) -> bool:
    """Whether `value` is a container with an identity of its own, such as a module."""
    container = _container(_kind(value))
    return container is not None and container.is_object


def flatten(tree: Tree, objects: bool = True) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure, which `unflatten` fills again; `objects` says whether these are opened.

    >>> leaves, structure = flatten({"w": [1.0, 2.0], "b": None})
    >>> leaves, unflatten(structure, [3, 4])
    ([1.0, 2.0], {'w': [3, 4], 'b': None})
    """
    leaves: list[Any] = []
    structure: Structure = []
    todo = [tree]
    while todo:
        value = todo.pop()
        container = _container(_kind(value))
        if container is None or (container.is_object and not objects):
            structure.append(None)
            leaves.append(value)
            continue
        opened, context = container.flatten(value)
        children = list(opened)
        structure.append(Step(_kind(value), context, len(children), container.unflatten))
        todo += reversed(children)
    return leaves, structure


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Tree:
    """The tree of this structure with these leaves; a leaf may be any value, a tree too.

    **Raises** ArgumentError where their number differs.
    """
    values = list(leaves)
    if structure.count(None) != len(values):
        raise ArgumentError(f"tree: {len(values)} leaves do not fill a structure of {structure.count(None)}")
    built: list[Any] = []
    for step in reversed(structure):
        if step is None:
            built.append(values.pop())
        else:
            children = [built.pop() for _ in range(step.arity)]
            built.append(step.unflatten(step.context, children))
    return built.pop()


def flatten_as(structure: Structure, tree: Tree, asker: str = "tree") -> list[Any]:
    """What stands in `tree` where `structure` has its leaves: leaves, None or whole trees.

    `asker` is named by the error.  **Raises** ArgumentError where the containers differ.
    """
    leaves: list[Any] = []
    todo = [tree]
    for step in structure:
        value = todo.pop()
        if step is None:
            leaves.append(value)
        else:
            todo += reversed(_children(step, value, asker))
    return leaves


def _children(step: Step, value: Any, asker: str) -> list[Any]:
    container = _container(_kind(value))
    if container is None or _kind(value) is not step.kind:
        raise ArgumentError(f"{asker}: {_kind(value).__name__} where a {step.kind.__name__} was expected")
    if container.match is not None:
        try:
            return list(container.match(step.context, value))
        except ArgumentError as error:
            raise ArgumentError(f"{asker}: {error}") from None
    opened, context = container.flatten(value)
    children = list(opened)
    if context != step.context or len(children) != step.arity:
        raise ArgumentError(
            f"{asker}: a {step.kind.__name__} of {len(children)} entries, expected {step.arity} of the same form"
        )
    return children


def map(f: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """The tree of the results of `f` on the leaves; `others` have the same containers, and there may be more inside.

    **Raises** ArgumentError where the containers differ.

    >>> map(lambda p, g: p - 0.1 * g, {"w": 1.0, "b": 2.0}, {"w": 10.0, "b": 0.0})
    {'w': 0.0, 'b': 2.0}
    """
    leaves, structure = flatten(tree)
    columns = [flatten_as(structure, other) for other in others]
    return unflatten(structure, [f(*of) for of in zip(leaves, *columns, strict=True)])
