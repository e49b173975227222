"""Programs for tests of what comes after the trace: single records, and functions run on abstract arrays."""

from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.compiler.expressions import evaluate
from chainrule.compiler.lowering import lower
from chainrule.compiler.program import Program
from chainrule.core.equations import record, tracing


def program_of(primitive: Any, arrays: Any, parameters: tuple[Any, ...]) -> Program:
    """The program of one record."""
    boxes = [Abstract(a.shape, a.dtype) for a in arrays]
    out = record(primitive, boxes, parameters)
    outputs = out if isinstance(out, tuple) else (out,)
    return Program(tuple(b.equation for b in boxes), tuple(o.equation for o in outputs), (None,) * len(outputs))


def traced(function: Any, arrays: Any) -> Program:
    """The program of a function of raw arrays that gives a list of arrays."""
    boxes = [Abstract(a.shape, a.dtype) for a in arrays]
    inputs = tuple(box.equation for box in boxes)  # before an in-place operator puts other ones into the boxes
    with tracing():
        outputs = function(*boxes)
    return Program(inputs, tuple(o.equation for o in outputs), (None,) * len(outputs))


def values(program: Program, arrays: Any) -> Any:
    """What a program gives, lowered, and which records were opaque."""
    lowered = lower(program)
    return evaluate(lowered.outputs, [np.array(a, order="C") for a in arrays]), lowered.opaque


def eager(primitive: Any, arrays: Any, parameters: tuple[Any, ...]) -> list[Any]:
    """What the record's own forward gives."""
    with np.errstate(all="ignore"):
        out = primitive.forward(*([list(arrays)] if primitive.variadic else arrays), *parameters)
    return [np.asarray(piece) for piece in (out if isinstance(out, tuple) else (out,))]
