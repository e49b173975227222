"""Every error that chainrule raises, and the one way its messages are worded.

A message names the operation and the fault, the operands by name as types, what was expected, and what to do.
"""

from __future__ import annotations

from typing import Any

from chainrule.modes import tracing


class ChainruleError(Exception):
    """The root of all errors raised on purpose by chainrule."""


class ShapeError(ChainruleError, ValueError):
    """Operands whose shapes do not fit together."""


class DTypeError(ChainruleError, TypeError):
    """An operand of a type or dtype that the operation cannot take."""


class ArgumentError(ChainruleError, ValueError):
    """An argument outside its range: an axis, a shape, a name."""


class IndexingError(ChainruleError, IndexError):
    """An index outside its axis, or of a kind that cannot index."""


class GraphError(ChainruleError, RuntimeError):
    """The recorded graph cannot give the derivative that was asked for."""


class FreedGraphError(GraphError):
    """A backward pass over a graph that an earlier one has freed."""


class StaleGraphError(GraphError):
    """A value that the graph needs was overwritten after it was recorded."""


class LostGraphError(GraphError):
    """A result that carries no graph where one was needed."""


class RuleError(ChainruleError, TypeError):
    """A derivative rule of wrong arity, or whose result has the wrong type or shape."""


class TraceError(ChainruleError, RuntimeError):
    """A program that cannot be traced on abstract arrays.

    The open trace is told: where the user's code catches it, what follows would be no program of the function's.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        trace = tracing.get()
        if trace is not None:
            trace.refuse(self)


class BranchError(TraceError):
    """The value of an abstract array was asked for."""


class SideEffectError(TraceError):
    """An effect that a traced program would lose."""


class BackendError(ChainruleError, TypeError):
    """Arrays of libraries that do not mix, or of an unknown one."""


class MissingExtraError(ChainruleError, ImportError):
    """A library of an optional extra is not installed."""

    @classmethod
    def of(cls, purpose: str, library: str, extra: str) -> MissingExtraError:
        """The error for `library`, which `purpose` needs and `chainrule[extra]` installs.

        >>> print(MissingExtraError.of("draw", "matplotlib", "walkthrough"))
        draw needs matplotlib, which is not installed · try: pip install 'chainrule[walkthrough]'
        """
        return cls(f"{purpose} needs {library}, which is not installed · try: pip install 'chainrule[{extra}]'")


class CheckpointError(ChainruleError, ValueError):
    """A saved file that is damaged or foreign."""


class FileError(ChainruleError, OSError):
    """A file that cannot be read or written: no such folder, no permission, a full disk.  `errno` says which."""


class DataError(ChainruleError, ValueError):
    """A file of data that is empty, damaged or foreign."""


class VerificationError(ChainruleError, AssertionError):
    """A derivative that differs from what differences or the complex step say."""


_KIND = {"float": "f", "int": "i", "uint": "u", "complex": "c"}


def dtype_kind(dtype: Any) -> str:
    """One letter, as NumPy's `kind`, for a dtype of any library: f, i, u, c, b."""
    kind = getattr(dtype, "kind", None)
    return kind if isinstance(kind, str) else dtype_name(dtype)[0]


def dtype_name(dtype: Any) -> str:
    """The short name of a dtype: `f32`, `i64`, `bool`."""
    name = str(getattr(dtype, "name", dtype)).rsplit(".", 1)[-1]
    kind = name.rstrip("0123456789")
    return _KIND[kind] + name[len(kind) :] if kind in _KIND and name != kind else name


def describe(value: Any) -> str:
    """An operand as its type: `f32[64, 128]` for arrays and tensors, otherwise a short repr.

    >>> import numpy as np
    >>> describe(np.zeros((64, 128), np.float32)), describe(2.5)
    ('f32[64, 128]', '2.5')
    """
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"{dtype_name(dtype)}[{', '.join(map(str, shape))}]"  # pyright: ignore[reportUnknownArgumentType]
    token = tracing.set(None)  # in which an abstract array would be asked for its numbers
    try:
        text = repr(value)
    finally:
        tracing.reset(token)
    return f"{type(value).__name__} {text[:60]}…" if len(text) > 60 else text


def explain(operation: str, fault: str, *, expected: str = "", remedy: str = "", **operands: Any) -> str:
    """The wording of every message.

    >>> import numpy as np
    >>> explain("matmul", "inner dimensions differ", x=np.zeros((2, 3)), y=np.zeros((4, 5)), expected="y f64[3, ...]")
    'matmul: inner dimensions differ · x f64[2, 3] · y f64[4, 5], expected y f64[3, ...]'
    """
    parts = [f"{operation}: {fault}", *(f"{name} {describe(value)}" for name, value in operands.items())]
    text = " · ".join(parts) + (f", expected {expected}" if expected else "")
    return text + (f" · try {remedy}" if remedy else "")
