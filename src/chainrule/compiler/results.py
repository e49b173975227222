"""What a traced function leaves, as code that makes it anew at every call: results, and what was bound to places.

The idea: every object that the trace made becomes one line, `r3 = ...`, so two places that hold one object hold one
object afterwards.  What was there before is referred to by its name in the generated function.
"""

from __future__ import annotations

import enum
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule import tree
from chainrule.backends.abstract import Abstract, Equation
from chainrule.compiler.kinds import ARRAY, ATOMS, OBJECT, attributes_of, kind_of
from chainrule.compiler.places import Thing
from chainrule.core.calls import is_tensor
from chainrule.core.graph import is_freed, leaf_node
from chainrule.errors import SideEffectError, explain

_CONSTANTS = (*ATOMS, enum.Enum, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, np.ufunc)
_SETS: tuple[Any, ...] = (set, frozenset)
_NUMBER = {"f": "float", "i": "int", "u": "int", "b": "bool", "c": "complex"}


class KeptError(Exception):
    """A traced value would be kept where no later call can renew it."""


class Code:
    """Lines of code and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.space: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []

    def constant(self, value: Any, letter: str = "c") -> str:
        """A name for an object."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"{letter}{len(self.space)}_"
            self.space[name] = value
            self._kept.append(value)
        return name

    def literal(self, value: Any) -> str:
        """A plain value as text, or a name for it."""
        if value is None or type(value) in (bool, str) or (type(value) is int and abs(value) < 2**31):
            return repr(value)
        return self.constant(value)


class Results:
    """The code that makes what the trace left.

    `thing_of` and `input_of` tell what was there before: the thing that an object is, the number of the input whose box
    it is.  `node_of` says what becomes of the node of a tensor that was computed: text for its new node;
    `number_of`: the name of a number that Python computes.
    """

    def __init__(
        self, code: Code, thing_of: Callable[[Any], Thing | None], input_of: Callable[[Any], int | None],
        node_of: Callable[[Any], str], number_of: Callable[[Equation], str | None],
    ) -> None:  # fmt: skip
        self.code = code
        self.thing_of = thing_of
        self.input_of = input_of
        self.node_of = node_of
        self.number_of = number_of
        self.outputs: list[Equation] = []
        self.things: set[int] = set()
        """Numbers of the things that the code refers to."""
        self.inputs: set[int] = set()
        self.used: list[Any] = []
        """Every box and tensor met, new and old."""
        self._made: dict[int, str] = {}
        self._kept: list[Any] = []

    def fresh(self, equation: Equation) -> str:
        """One more output of the program."""
        self.outputs.append(equation)
        return f"v{len(self.outputs) - 1}"

    def _named(self, value: Any, text: str) -> str:
        name = self._made[id(value)] = f"r{len(self.code.lines)}"
        self._kept.append(value)
        self.code.lines.append(f"{name} = {text}")
        return name

    def expression(self, value: Any, as_array: bool = False) -> str:
        """Text for `value`.  `as_array`: a 0-d array stays one, as the gradient of a parameter does.

        **Raises** KeptError for what cannot be made anew.
        """
        if id(value) in self._made:
            return self._made[id(value)]
        if isinstance(value, Abstract):
            return self._array(value, as_array)
        thing = self.thing_of(value)
        if thing is not None:
            self.things.add(thing.number)
            return name_of(thing)
        if is_tensor(value):
            return self._tensor(value)
        if isinstance(value, _CONSTANTS):
            return self.code.literal(value)
        if kind_of(value) is ARRAY:
            return self._named(value, f"{self.code.constant(value.copy())}.copy()")
        return self._group(value)

    def _array(self, box: Any, as_array: bool) -> str:
        self.used.append(box)
        number = self.input_of(box)
        if number is not None:
            self.inputs.add(number)
            return f"x{number}"
        if self._looks_at_what_stays(box):
            source, primitive, parameters = box.source
            values = "".join(f", {self.code.literal(value)}" for value in parameters)
            return self._named(box, f"{self.code.constant(primitive.forward)}({self.expression(source)}{values})")
        number = self.number_of(box.equation) if box.weak else None
        if number is not None:
            return number
        output = self.fresh(box.equation)
        if box.weak:
            return self._named(box, f"{_NUMBER[box.dtype.kind]}({output})")
        if box.shape == ():
            is_array = as_array or not box.fixed
            return self._named(box, f"asarray({output})" if is_array else f"{output}[()]")
        self._made[id(box)] = output
        self._kept.append(box)
        return output

    def _looks_at_what_stays(self, box: Any) -> bool:
        """Whether this is a view of an array that was there before, or is left too: a view afterwards, as in eager mode."""
        if box.source is None:
            return False
        while box.source is not None:
            box = box.source[0]
        return self.input_of(box) is not None or id(box) in self._made

    def _tensor(self, tensor: Any) -> str:
        self.used.append(tensor)
        kind = kind_of(tensor)
        self.code.space.update(new=object.__new__, leaf_node=leaf_node)
        data = self.expression(tensor.data, tensor.is_leaf and tensor.node is not None)
        name = self._named(tensor, f"new({self.code.constant(kind)})")
        self.code.lines.append(f"{name}.data = {data}; {name}.grad = {name}.node = None")
        if tensor.node is not None:
            text = (
                f"leaf_node({name})" if tensor.node[1] is None and not is_freed(tensor.node) else self.node_of(tensor)
            )
            self.code.lines.append(f"{name}.node = {text}")
        if tensor.grad is not None:
            self.code.lines.append(f"{name}.grad = {self.expression(tensor.grad, True)}")
        return name

    def _group(self, value: Any) -> str:
        kind = kind_of(value)
        if kind in (list, tuple):
            entries = "".join(self.expression(entry) + ", " for entry in value)
            return self._named(value, f"[{entries}]" if kind is list else f"({entries})")
        if kind in (dict, OrderedDict):
            entries = "".join(f"{self.code.literal(k)}: {self.expression(v)}, " for k, v in value.items())
            return self._named(value, f"{{{entries}}}" if kind is dict else f"OrderedDict({{{entries}}})")
        if kind is deque:
            entries = "".join(self.expression(entry) + ", " for entry in value)
            self.code.space["deque"] = deque
            return self._named(value, f"deque([{entries}], {value.maxlen})")
        if kind in _SETS and all(isinstance(entry, ATOMS) for entry in value):
            return self._named(value, f"{kind.__name__}({self.code.constant(kind(value))})")
        if _is_named_tuple(kind):
            entries = "".join(self.expression(entry) + ", " for entry in value)
            return self._named(value, f"{self.code.constant(kind)}._make(({entries}))")
        if tree.is_object(value):
            return self._tree(value)
        if isinstance(getattr(value, "__dict__", None), dict) and kind.__reduce_ex__ is object.__reduce_ex__:
            return self._object(value, kind)
        if hasattr(kind, "__next__") or self._holds_traced(value):  # nobody knows what an iterator will give
            raise KeptError(kind.__name__)
        return self.code.constant(value)

    def _tree(self, value: Any) -> str:
        leaves, structure = tree.flatten(value)
        self.code.space["unflatten"] = tree.unflatten
        entries = "".join(self.expression(leaf) + ", " for leaf in leaves)
        return self._named(value, f"unflatten({self.code.constant(structure)}, [{entries}])")

    def _object(self, value: Any, kind: type) -> str:
        """An object of a class of the user's: made without its constructor, as copies are."""
        if kind.__basicsize__ > object.__basicsize__ + 16 or not self._holds_traced(value):
            if self._holds_traced(value):
                raise KeptError(kind.__name__)
            return self.code.constant(value)
        name = self._named(value, f"object.__new__({self.code.constant(kind)})")
        attributes: dict[str, Any] = dict(attributes_of(value))
        entries = "".join(f"{key!r}: {self.expression(held)}, " for key, held in attributes.items())
        self.code.lines.append(f"{name}.__dict__.update({{{entries}}})")
        return name

    def _holds_traced(self, value: Any) -> bool:
        seen: set[int] = set()
        todo: list[Any] = [value]
        while todo:
            found = todo.pop()
            if isinstance(found, Abstract) or (is_tensor(found) and isinstance(found.data, Abstract)):
                return True
            if id(found) in seen or isinstance(found, _CONSTANTS):
                continue
            seen.add(id(found))
            self._kept.append(found)
            if isinstance(found, dict):
                todo += found.values()  # pyright: ignore[reportUnknownArgumentType]
            elif isinstance(found, (list, tuple, set, frozenset, deque)):
                todo += found  # pyright: ignore[reportUnknownArgumentType]
            else:
                todo += OBJECT.read(found).values()
        return False


def _is_named_tuple(kind: Any) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_make")  # pyright: ignore[reportUnknownArgumentType]


def name_of(thing: Thing) -> str:
    """The name of a thing in generated code."""
    return f"{'a' if thing.given else 'o'}{thing.number}"


def kept_error(where: str, line: str, what: str) -> SideEffectError:
    """The error for a traced value that a later call could not renew."""
    at = f" at {line}" if line else ""
    remedy = "tensors and arrays in attributes, lists and dictionaries, or the value returned"
    if where == "the result":
        remedy = "tensors, arrays, numbers, and lists, tuples and dictionaries of these"
    return SideEffectError(explain("jit", f"{where}{at}: {what}", remedy=remedy))
