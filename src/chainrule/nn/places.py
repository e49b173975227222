"""Where arrays stand in a module: in its attributes, and in the lists, tuples and dictionaries among them.

The idea: nothing is registered; whoever asks, looks.  A walk meets a module's own tensors, then its own arrays, then
its children in the order in which they were assigned, which is the order of PyTorch's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any, ClassVar, NamedTuple

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import is_foreign, is_numpy, namespace_of, type_of
from chainrule.core.calls import raw
from chainrule.core.graph import before_write
from chainrule.errors import ArgumentError, dtype_kind
from chainrule.tensor import Tensor
from chainrule.transforms.standing import is_standing
from chainrule.tree import Tree

OTHER, TENSOR, ARRAY, MODULE, GROUP = range(5)
Chain = tuple[Any, ...]  # of identities, innermost first: (id, (id, ...))


class Owner:
    """What a walk asks of a module."""

    transient: ClassVar[tuple[str, ...]] | tuple[str, ...] = ()
    unnamed: ClassVar[str] = ""
    """The attribute whose entries are named without its name, as PyTorch does in Sequential."""
    is_filled = False
    """Whether it was rebuilt around tensors that were computed, which otherwise are no part of a module."""


Place = tuple[str, Any, int, Owner]
"""What a walk meets: its name as in PyTorch, itself, its kind, and the module that it belongs to."""


class Cyclic(Exception):  # noqa: N818 - no error: the walk is begun again
    """A module that contains itself, which has no end of names."""


_kinds: dict[type, int] = {}


def kind_of(value: Any) -> int:
    """What an attribute is to a module, by its class."""
    return _kind_of_class(type_of(value))


def _kind_of_class(kind: Any) -> int:
    found = _kinds.get(kind)
    return _classified(kind) if found is None else found


def _classified(kind: Any) -> int:
    arrays = issubclass(kind, (np.ndarray, Abstract)) or hasattr(kind, "__array_namespace__")
    tests = (
        (TENSOR, issubclass(kind, Tensor)),
        (MODULE, issubclass(kind, Owner)),
        (ARRAY, arrays and not issubclass(kind, np.generic)),
        (GROUP, issubclass(kind, (list, tuple, dict))),
    )
    _kinds[kind] = next((number for number, holds in tests if holds), OTHER)
    return _kinds[kind]


def is_computed(tensor: Any) -> bool:
    """Whether an operation made this tensor."""
    return tensor.node is not None and tensor.node[1] is not None


def belongs(value: Any, kind: int, owner: Owner) -> bool:
    """Whether a tensor or an array is part of its module: what forward computed and left there is not."""
    if kind == TENSOR:
        node = value.node
        return node is None or node[1] is None or owner.is_filled or is_standing(value)
    return dtype_kind(value.dtype) in "biufc" and (is_numpy(value) or isinstance(value, Abstract) or is_foreign(value))


def entries(node: Any) -> Iterable[tuple[Any, Any]]:
    """The attributes of a module that count, the items of a dictionary, the numbered entries of a list."""
    if isinstance(node, Owner):
        found, hidden = node.__dict__.items(), node.transient
        return [(key, value) for key, value in found if key not in hidden] if hidden else found
    return node.items() if isinstance(node, dict) else enumerate(node)  # pyright: ignore[reportUnknownVariableType]


def is_holding(group: Any, owner: Owner, above: Chain = ()) -> bool:
    """Whether anything in a list, tuple or dictionary belongs to the module, at any depth."""
    if not is_worth_a_look(group):
        return False
    for value in entries_of(group):
        kind = kind_of(value)
        if kind == MODULE or (kind in (TENSOR, ARRAY) and belongs(value, kind, owner)):
            return True
        if kind == GROUP and not _is_above(value, above) and is_holding(value, owner, (id(value), above)):
            return True
    return False


def entries_of(group: Any) -> Iterable[Any]:
    """The entries of a list, tuple or dictionary without their keys."""
    return group.values() if isinstance(group, dict) else group  # pyright: ignore[reportUnknownVariableType]


def is_worth_a_look(group: Any) -> bool:
    """Whether any entry is of a class that matters: the quick way past a long list of numbers."""
    return any(map(_kind_of_class, set(map(type_of, entries_of(group)))))


def _is_above(value: Any, above: Chain) -> bool:
    while above:
        number, above = above
        if number == id(value):
            return True
    return False


def walk(root: Owner, again: bool = False) -> Iterator[Place]:
    """Tensors, arrays and modules, each module once; with `again`, under each of its names.

    **Raises** Cyclic where there is no end of names.
    """
    todo: list[tuple[str, Any, Owner, Chain]] = [("", root, root, ())]
    seen: set[int] = set()
    while todo:
        name, node, owner, above = todo.pop()
        if again and _is_above(node, above):
            raise Cyclic
        if not again and id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Owner):
            yield name, node, MODULE, owner
            owner = node
        below = (id(node), above)
        arrays, children = list[Place](), list[tuple[str, Any, Owner, Chain]]()
        for key, value in tuple(entries(node)):  # whoever asks may change it meanwhile
            kind = _kinds.get(value.__class__)
            if kind is None:
                kind = kind_of(value)
            if kind == OTHER or (kind == GROUP and not is_holding(value, owner)):
                continue
            path = f"{name}.{key}" if name else str(key)
            if kind == TENSOR:
                if belongs(value, kind, owner):
                    yield path, value, kind, owner
            elif kind == ARRAY:
                if belongs(value, kind, owner):
                    arrays.append((path, value, kind, owner))
            else:
                plain = kind == GROUP and node is owner and key == owner.unnamed
                children.append((name if plain else path, value, owner, below))
        yield from arrays
        todo += reversed(children)


def unique(root: Owner, *kinds: int) -> list[tuple[str, Any]]:
    """(name, itself) for all of these kinds, each once, under its first name."""
    seen: set[int] = set()
    found: list[tuple[str, Any]] = []
    for name, value, kind, _ in walk(root):
        if kind in kinds and id(value) not in seen:
            seen.add(id(value))
            found.append((name, value))
    return found


def named(root: Owner) -> dict[str, Any]:
    """Tensors and arrays under each of their names: what a file holds.

    **Raises** ArgumentError where two different things have one name.
    """
    try:
        places = list(walk(root, again=True))
    except Cyclic:
        places = list(walk(root))
    found: dict[str, Any] = {}
    for name, value, kind, _ in places:
        if kind != MODULE and found.setdefault(name, value) is not value:
            raise ArgumentError(f"{type(root).__name__}: two entries are named {name!r} · try other keys")
    return found


def write(place: Any, values: Any) -> None:
    """Into the own memory of a tensor or an array."""
    if kind_of(place) == TENSOR:
        before_write(place)
    own = raw(place)
    own[...] = namespace_of(own).asarray(values, dtype=own.dtype) if is_foreign(own) else values


# ------------------------------------------------------------------------------------------------- modules as trees
class Form(NamedTuple):
    """A module as the context of a tree: a copy of its structure, which keeps its form whatever becomes of it."""

    template: Owner
    leaves: list[Any]


def flatten(module: Owner) -> tuple[list[Any], Form]:
    """Its tensors and arrays, each once, and its form."""
    leaves = [value for _, value in unique(module, TENSOR, ARRAY)]
    return leaves, Form(rebuilt(module, {id(leaf): leaf for leaf in leaves}), leaves)


def unflatten(form: Form, children: list[Any]) -> Owner:
    """A module of this form with `children` in the places of its tensors and arrays, tied ones tied."""
    made = rebuilt(form.template, {id(leaf): child for leaf, child in zip(form.leaves, children, strict=True)})
    if any(kind_of(child) == TENSOR and is_computed(child) for child in children):
        for _, module in unique(made, MODULE):
            module.is_filled = True
    return made


def rebuilt(root: Owner, instead: dict[int, Any]) -> Any:
    """The structure again, with other things in the places of those whose identities are given.

    Configuration is shared; what forward computed and left in an attribute is left out.
    """
    modules = [module for _, module in unique(root, MODULE)]
    known: dict[int, Any] = instead | {id(module): object.__new__(type_of(module)) for module in modules}
    for module in modules:
        attributes: Any = module.__dict__
        known[id(module)].__dict__.update({key: _instead(value, known) for key, value in attributes.items()})
    return known[id(root)]


def _instead(value: Any, known: dict[int, Any]) -> Any:
    if id(value) in known:
        return known[id(value)]
    kind = kind_of(value)
    if kind == TENSOR and is_computed(value) and not is_standing(value):
        return None
    if kind != GROUP or not is_worth_a_look(value):
        return value
    if isinstance(value, tuple):
        of, made = [_instead(entry, known) for entry in entries_of(value)], type_of(value)
        return made(*of) if hasattr(made, "_fields") else made(of)
    made = known[id(value)] = copy(value)  # before it is filled: it may contain itself
    for key, entry in entries(value):
        made[key] = _instead(entry, known)
    return made


def match(form: Form, other: Tree) -> list[Any]:
    """What stands in `other`, a module of this form, in the places of the tensors and arrays.

    **Raises** ArgumentError where it is of another form.
    """
    wanted, found, seen = set(map(id, form.leaves)), dict[int, Any](), set[int]()
    todo: list[tuple[str, Any, Any, Owner]] = [(type(other).__name__, form.template, other, form.template)]
    while todo:
        name, ours, theirs, owner = todo.pop()
        if id(ours) in wanted:
            found.setdefault(id(ours), theirs)
            continue
        if id(ours) in seen or not (isinstance(ours, Owner) or is_holding(ours, owner)):
            continue
        seen.add(id(ours))
        owner = ours if isinstance(ours, Owner) else owner
        if type_of(theirs) is not type_of(ours):
            fault = f"{type_of(theirs).__name__} at {name} where a {type_of(ours).__name__} was expected"
            raise ArgumentError(fault)
        mine, yours = dict(entries(ours)), dict(entries(theirs))
        for key in reversed(mine):
            if kind_of(mine[key]) in (MODULE, GROUP) or id(mine[key]) in wanted:
                if key not in yours:
                    raise ArgumentError(f"no {name}.{key}, which was expected")
                todo.append((f"{name}.{key}", mine[key], yours[key], owner))
    return [found[id(leaf)] for leaf in form.leaves]
