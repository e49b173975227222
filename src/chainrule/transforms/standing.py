"""Objects as arguments: a function is handed the thing itself, and its tensors stand for variables while it runs.

The idea: a tensor keeps its identity and exchanges its node.  So whatever leads to it, attributes, lists, ties,
closures, leads to the variable, and putting back one node per tensor undoes it all, whatever the function did.  Inside
another derivative of the same object the variable lies over the outer one's, which keeps perturbations apart.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from threading import get_ident
from typing import Any

from chainrule import modes
from chainrule.backends.registry import type_of
from chainrule.core.calls import wrap
from chainrule.errors import GraphError, explain

State = tuple[Any, Any, Any]  # a tensor, its data, its node


class Standing:
    """The tensors of an object, each with the variable that it stands for."""

    __slots__ = ("before", "last", "pairs")

    def __init__(self, pairs: list[tuple[Any, Any]]) -> None:
        self.pairs = pairs
        self.before: list[State] = []
        self.last: dict[int, Any] = {}
        """By identity, what each tensor was when the function ended: it may have been returned."""

    def exchange(self) -> None:
        """Let the tensors stand for their variables, and note what they were before."""
        self.before = [(tensor, tensor.data, tensor.node) for tensor, _ in self.pairs]
        _put([(tensor, variable.data, variable.node) for tensor, variable in self.pairs])

    def end(self) -> None:
        """Put back what was before, and keep what has become of it."""
        self.last = {id(tensor): wrap(tensor.data, tensor.node, type_of(tensor)) for tensor, _ in self.pairs}
        _put(self.before)


_open: ContextVar[tuple[Standing, ...]] = ContextVar("standing", default=())
"""What is open in this context, outermost first."""
_holders: dict[int, tuple[int, int]] = {}
"""By the identity of a tensor that stands for a variable: in which thread, and how many derivatives deep."""


def is_standing(tensor: Any) -> bool:
    """Whether a tensor stands for a variable now: it has a computed node then, and is a parameter all the same."""
    return id(tensor) in _holders


def _put(states: Sequence[State]) -> None:
    for tensor, data, node in states:
        tensor.data, tensor.node = data, node


def _claim(parts: Sequence[Standing]) -> None:
    """**Raises** GraphError where another thread holds one of these, before anything was changed."""
    thread, tensors = get_ident(), [tensor for part in parts for tensor, _ in part.pairs]
    with modes.lock:
        for tensor in tensors:
            if _holders.get(id(tensor), (thread, 0))[0] != thread:
                fault, remedy = "another thread is differentiating this module", "copy.deepcopy(model) for each thread"
                raise GraphError(explain("transform", fault, parameter=tensor, remedy=remedy))
        for tensor in tensors:
            _holders[id(tensor)] = thread, _holders.get(id(tensor), (thread, 0))[1] + 1


def _release(parts: Sequence[Standing]) -> None:
    with modes.lock:
        for part in parts:
            for tensor, _ in part.pairs:
                thread, depth = _holders.pop(id(tensor))
                if depth > 1:
                    _holders[id(tensor)] = thread, depth - 1


@contextmanager
def _standing(parts: Sequence[Standing]) -> Generator[None]:
    _claim(parts)
    token = _open.set((*_open.get(), *parts))
    try:
        for part in parts:
            part.exchange()
        yield
    finally:
        for part in reversed(parts):
            part.end()
        _open.reset(token)
        _release(parts)


_nothing = nullcontext()


def standing(parts: Sequence[Standing]) -> AbstractContextManager[None]:
    """A block in which their tensors stand for the variables; afterwards, on error too, all is as before."""
    return _standing(parts) if parts else _nothing


def opened() -> tuple[Standing, ...]:
    """What is open here, for `again` in another context."""
    return _open.get()


@contextmanager
def again(here: tuple[Standing, ...]) -> Generator[None]:
    """Within the context of an earlier call, every tensor as it stood at that call; `here` is what is open now."""
    then = _open.get()
    if all(a is b for a, b in zip(here, then, strict=False)) and len(here) == len(then):
        yield
        return
    _claim(then)
    now = [(tensor, tensor.data, tensor.node) for part in here for tensor, _ in part.pairs]
    kept = [part.before for part in then]
    try:
        for part in reversed(here):
            _put(part.before)
        for part in then:
            part.exchange()
        yield
    finally:
        for part in reversed(then):
            _put(part.before)
        for part, before in zip(then, kept, strict=True):
            part.before = before
        _put(now)
        _release(then)
