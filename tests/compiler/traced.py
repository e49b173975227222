"""A function run on abstract arrays, made into a program, and executed: what the compiler does, without its guards."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.backends.abstract import Abstract
from chainrule.compiler.numpy_executor import compile_program
from chainrule.compiler.program import Executable, Program
from chainrule.compiler.simplify import assemble
from chainrule.core.calls import raw
from chainrule.core.equations import Trace, tracing


def program_of(
    f: Callable[..., Any], arrays: Sequence[Any], careful: bool = False, write: bool = True
) -> tuple[Program, list[Any], list[Any]]:
    """The program of f, which gives a list of arrays, tensors or None; those that it gave; the generators' calls.

    Arrays that f writes to are written by the program, unless `write` is False.  A Python number is a weak input.
    """
    boxes = [box_of(a) for a in arrays]
    inputs = [box.equation for box in boxes]
    with tracing(Trace(careful)) as trace:
        results = [raw(result) for result in f(*boxes)]
    outputs = [r.equation for r in results if isinstance(r, Abstract)]
    written = [k for k, box in enumerate(boxes) if box.equation is not inputs[k]] if write else []
    targets = [*(None for _ in outputs), *written]
    inputs += [equation for equation, _ in trace.draws]
    outputs += [boxes[k].equation for k in written]
    return assemble(trace, inputs, outputs, targets), results, [draw for _, draw in trace.draws]


def box_of(value: Any) -> Abstract:
    if isinstance(value, np.ndarray):
        return Abstract(value.shape, value.dtype)
    return Abstract((), np.asarray(value).dtype, weak=not isinstance(value, np.generic), fixed=True)


def run(
    f: Callable[..., Any],
    *arrays: Any,
    compile: Callable[[Program], Executable] = compile_program,
    careful: bool | None = None,
    twice: bool = True,
) -> list[Any]:
    """What f gives, compiled: the careful program where the first one asks for it, or as told."""
    for how in (False, True) if careful is None else (careful,):
        program, results, draws = program_of(f, arrays, how)
        values = [np.asarray(a) for a in arrays] + [draw() for draw in draws]
        executable = compile(program)
        if twice:  # with other memory, so that the second call has an arena
            executable([np.array(value) for value in values])
        found = executable(values)
        if found is not None:
            fresh = iter(found)
            return [next(fresh) if isinstance(r, Abstract) else r for r in results]
    raise AssertionError("the careful program asks for a careful program")
