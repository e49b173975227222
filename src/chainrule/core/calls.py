"""The slow path of a call, in full: lift the operands, find who computes, record.

Here comes whatever the generated fast path does not know: operands that are no tensors, other array libraries, open
traces, debug mode, subclasses, operations with any number of inputs or outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from chainrule import modes
from chainrule.backends.abstract import Abstract
from chainrule.backends.registry import common_namespace, is_foreign, is_numpy, namespace_of, type_of
from chainrule.core import equations
from chainrule.core.graph import Node, next_number
from chainrule.core.template import bind, late
from chainrule.errors import ChainruleError, DTypeError, IndexingError, ShapeError, TraceError, dtype_name, explain
from chainrule.types import ArrayType

PYTHON_NUMBERS = (bool, int, float)
_constants: dict[Any, Any] = {}


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor, or of a class derived from it."""
    return isinstance(value, late("Tensor"))


def wrap(data: Any, node: Node | None, kind: type | None = None) -> Any:
    """A tensor around `data`, made by `node`."""
    made: type[Any] = kind or late("Tensor")
    tensor = object.__new__(made)
    tensor.data = data
    tensor.grad = None
    tensor.node = node
    return tensor


def raw(value: Any) -> Any:
    """The array inside a tensor; anything else as it is."""
    return value.data if is_tensor(value) else value


def type_of_node(node: Node) -> ArrayType:
    """Shape and dtype of the value that a node stands for."""
    return ArrayType(node[5], node[6])


def constant(value: Any, beside: Any) -> Any:
    """`value` as a tensor that wants no gradient, beside the tensor `beside`.

    A Python number takes the kind of dtype of its partner and is made once; an array is copied, because its owner may
    write to it.
    """
    if type(value) in PYTHON_NUMBERS:
        dtype = beside.data.dtype
        # 1, 1.0 and True are one key, and so are 0.0 and -0.0: the type and the sign belong to it
        key: Any = (value, type(value), dtype) if value else (repr(value), dtype)
        made = _constants.get(key)
        if made is None:
            if len(_constants) > 4096:
                _constants.clear()
            made = _constants[key] = wrap(weak(value, beside.data), None)
        return made
    return wrap(lift(value, beside.data, copy=True), None)


def weak(value: Any, beside: Any) -> Any:
    """A Python number as a 0-d array of the dtype that it takes beside the array `beside`.

    **Raises** TypeError, for the caller to word, where it does not fit.
    """
    if not (is_numpy(beside) or isinstance(beside, Abstract)):
        xp = namespace_of(beside)
        floats = issubclass(type(value), float) and not xp.isdtype(beside.dtype, "real floating")
        return xp.asarray(value, dtype=None if floats or type(value) is bool else beside.dtype)
    dtype = np.result_type(beside.dtype, value)
    try:
        return np.array(value, dtype)
    except OverflowError as error:
        raise TypeError(f"{value} does not fit into {dtype}") from error


_OF_KIND: dict[str, Any] = {"b": False, "i": 0, "f": 0.0}
_ARITHMETIC = {
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power_of_numbers", "negative", "positive", "abs",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
}  # fmt: skip
"""What Python itself does with numbers, and gives numbers."""


def beside_strong(number: Abstract, beside: Any) -> Any:
    """A number of a trace in the dtype that it takes beside the array `beside`."""
    dtype: Any = number.dtype if beside is None else np.result_type(beside.dtype, _OF_KIND[number.dtype.kind])
    return (
        number if dtype == number.dtype else late("cast")(Abstract(number.shape, number.dtype, number.equation), dtype)
    )


def is_weak(value: Any) -> bool:
    """Whether this is a Python number, or stands for one in a trace."""
    return type(value) in PYTHON_NUMBERS or (isinstance(value, Abstract) and value.weak)


def is_mask(array: Any) -> bool:
    """Whether an array of any library holds truth values."""
    kind = getattr(array.dtype, "kind", None)  # NumPy's dtypes say it at once
    return kind == "b" if kind else dtype_name(array.dtype) == "bool"


def lift(value: Any, beside: Any, copy: bool) -> Any:
    """Any operand as a raw array, beside the array `beside` (None: it stands alone).

    **Raises** TypeError, which the caller words: it knows the operation and the other operands.
    """
    if type(value) in PYTHON_NUMBERS and beside is not None:
        return weak(value, beside)
    if isinstance(value, Abstract):
        return beside_strong(value, beside) if value.weak else value
    if is_foreign(value):
        return value
    if is_numpy(value):
        if value.dtype.kind not in "biufc":
            raise TypeError(f"an array of {value.dtype} is no array of numbers")
        return np.array(value) if copy else value
    try:
        array = np.array(value)
    except ChainruleError as error:
        raise TypeError(f"a {type(value).__name__} that holds tensors is no array, cr.tensor(...) stacks it") from error
    except ValueError as error:
        raise TypeError(f"{type(value).__name__} is no array: {uneven(error)}") from error
    if array.dtype.kind not in "biufc":
        raise TypeError(f"{type(value).__name__} is no array of numbers")
    return array


def uneven(error: Exception) -> str:
    """NumPy's complaint about nested lists, in short."""
    return "rows of different lengths" if "inhomogeneous" in str(error) else str(error)


def general(primitive: Any, operands: Sequence[Any], parameters: tuple[Any, ...]) -> Any:
    """Perform `primitive` on anything."""
    same = primitive.same is not None and operands[0] is operands[1] and is_tensor(operands[0])
    if same and operands[0].node is not None:
        return primitive.same(operands[0])  # pyright: ignore[reportOptionalCall]
    tensors = [operand for operand in operands if is_tensor(operand)]
    strong = [raw(operand) for operand in operands if hasattr(operand, "dtype") and not is_weak(operand)]
    # a number takes its kind from the first operand that is no mask: where(mask, x32, 0.0) stays float32
    beside = next((a for a in strong if not is_mask(a)), strong[0] if strong else None)
    try:
        datas = [raw(a) if is_tensor(a) else lift(a, beside, copy=bool(tensors)) for a in operands]
        out = compute(primitive, datas, parameters)
    except (ValueError, TypeError, IndexError) as error:
        raise failed(primitive, operands, parameters, error) from None
    if not tensors:
        if isinstance(out, Abstract):
            out.weak = not strong and primitive.name in _ARITHMETIC and all(map(is_weak, operands))
            if out.weak:
                modes.tracing.get().numbers.add(out.equation.number)
            if primitive.is_view and isinstance(datas[0], Abstract) and not (datas[0].fixed or out.fixed):
                out.look_at(datas[0], primitive, parameters)
        return out
    parents = tuple(operand.node if is_tensor(operand) else None for operand in operands)
    kind = type_of(tensors[0])
    rules = primitive.rules * len(parents) if primitive.variadic else primitive.rules
    wanted = any(n is not None and rule is not None for n, rule in zip(parents, rules, strict=True))
    if not wanted or (modes.paused and modes.is_paused()):
        node = None
    else:
        node = make_node(primitive, datas, parents, parameters, out)
        for operand in tensors:
            operand.shared = operand.node is None or getattr(operand, "shared", False)
    if primitive.multiple:
        return tuple(wrap(piece, node and pick_node(node, k, piece), kind) for k, piece in enumerate(out))
    result = wrap(out, node, kind)
    if primitive.is_view and is_tensor(operands[0]):
        late("share")(operands[0], result)
    return result


def compute(primitive: Any, datas: list[Any], parameters: tuple[Any, ...]) -> Any:
    """Run the operation on raw arrays, by whoever owns them."""
    arrays: Any = (datas,) if primitive.variadic else datas
    abstract = next((data for data in datas if isinstance(data, Abstract)), None)
    if abstract is not None:
        if modes.tracing.get() is None:
            fault = "an abstract array is left over from a trace that is closed"
            raise TraceError(explain(primitive.name, fault, x=abstract, remedy="what the traced function returns"))
        return equations.record(primitive, datas, parameters)
    if all(is_numpy(data) for data in datas):
        return primitive.forward(*arrays, *parameters)
    return primitive.standard(
        common_namespace(primitive.name, dict(zip(primitive.names(len(datas)), datas, strict=True))),
        *arrays,
        *parameters,
    )


def make_node(
    primitive: Any, datas: list[Any], parents: tuple[Any, ...], parameters: tuple[Any, ...], out: Any
) -> Node:
    """The node of a call, with the residuals that rules which will run read."""
    values = {"out": out, **dict(zip(primitive.inputs, datas, strict=False))}
    values.update({f"{a}_type": ArrayType(d.shape, d.dtype) for a, d in zip(primitive.inputs, datas, strict=False)})
    read = {
        name for names, n in zip(primitive.reads, parents, strict=False) if names and n is not None for name in names
    }
    if primitive.variadic:
        read |= set(primitive.reads[0] or ())
    searched = [d for d, n in zip(datas, parents, strict=True) if n is not None and n[1] is not None]
    kept = tuple(
        hides_nan(*searched) if name == "hidden" else values[name] if name in read else None for name in primitive.keeps
    )
    shape, dtype = (None, None) if primitive.multiple else (out.shape, out.dtype)
    node: Node = [next_number(), primitive, parents, kept, parameters, shape, dtype]
    if modes.unusual and modes.is_debug():
        node.append(fingerprints(kept))
    return node


def fingerprints(kept: tuple[Any, ...]) -> list[int]:
    """What debug mode compares: a checksum for every recorded array."""
    return [crc32(np.ascontiguousarray(a).tobytes()) if is_numpy(a) else 0 for a in kept]


def hides_nan(*datas: Any) -> bool:
    """Whether an input holds NaN, which the operation may leave out.

    The minimum propagates NaN and is the cheapest test of a whole array.  Of other libraries the worst is assumed, and a
    trace takes note.
    """
    for data in datas:
        if isinstance(data, Abstract) and (trace := modes.tracing.get()) is not None:
            trace.watched.append(data.equation)  # a careful trace looks at every entry anyway
            continue
        if not is_numpy(data):
            return True
        if data.dtype.kind == "f" and data.size and np.isnan(np.minimum.reduce(data, None)):
            return True
    return False


class _Pick:
    """The primitive of one output of an operation that has several."""

    name = "pick"
    is_view = False
    hides = False
    guardable = False
    flat = False
    inputs = ("x",)

    def names(self, count: int) -> tuple[str, ...]:
        return self.inputs

    def kept(self, node: Node, name: str) -> None:
        return None

    def pull(self, node: Node, parents: Sequence[Any], ct: Any, graph: bool, cts: dict[int, Any]) -> None:
        source = parents[0]
        if source is not None:
            index, outputs = node[4]
            entry = cts.get(source[0])
            if entry is None:
                entry = cts[source[0]] = [None] * len(outputs)
            entry[index] = ct

    def push(self, node: Node, tangents: Sequence[Any], graph: bool) -> Any:
        return tangents[0][node[4][0]]


PICK = _Pick()


def pick_node(source: Node, index: int, piece: Any) -> Node:
    """The node of output number `index`."""
    outputs: list[Any] = source[5] or []
    source[5] = outputs
    outputs.append((piece.shape, piece.dtype))
    return [next_number(), PICK, (source,), (), (index, outputs), piece.shape, piece.dtype]


def pull(node: Node, parents: Sequence[Any], ct: Any, graph: bool, cts: dict[int, Any]) -> None:
    """The pullback of a primitive with any number of inputs or outputs: the generated one, spelled out."""
    try:
        gs = late("pulled")(node, parents, ct, graph)
    except FloatingPointError:
        gs = late("guarded")(node, parents, ct, graph)
    for parent, g in zip(parents, gs, strict=True):
        if g is not None:
            late("send_fitted")(cts, parent, g)


def failed(primitive: Any, operands: Sequence[Any], parameters: tuple[Any, ...], error: Exception) -> Exception:
    """The error that a user gets when the array library refuses the operands."""
    if isinstance(error, ChainruleError):
        return error
    named = dict(zip(primitive.names(len(operands)), operands, strict=True))
    named.update(zip(primitive.parameters, parameters, strict=False))
    fault = str(error).split("\n", 1)[0]
    if "broadcast" in fault:
        fault = "shapes do not broadcast"
    expected = ""
    if primitive.expected is not None:
        try:
            fault, expected = primitive.expected(*operands, *parameters) or (fault, "")
        except (AttributeError, IndexError, TypeError, ValueError):  # operands so odd that no words fit
            expected = ""
    kind = (
        IndexingError if isinstance(error, IndexError) else ShapeError if isinstance(error, ValueError) else DTypeError
    )
    return kind(explain(primitive.name, fault, expected=expected, **named))


bind(wrap=wrap, hides_nan=hides_nan)
