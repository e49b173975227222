"""What the compiler will do with a step: run it on abstract arrays, then the equations on numbers."""

import numpy as np

from chainrule.backends.abstract import Abstract, reach_equations
from chainrule.core.equations import tracing


def places(optimizer):
    """Every array that a step may read or write, as pairs of a getter and a setter."""
    found = []
    for units in optimizer._units:
        for unit in units:
            found += [place(unit.state, name) for name in unit.state]
            for p in unit.params:
                found += [place(p, "data"), place(p, "grad")]
    return found


def place(owner, name):
    if isinstance(owner, dict):
        return lambda: owner[name], lambda value: owner.__setitem__(name, value)
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def run_traced(function, found):
    """`function()` once on abstract arrays in all places; then the values that the equations give, written back.

    Every box must still be in its place: what changes, changes in its own memory.  Gives the values of the dictionary
    that the function returned, if it did.
    """
    arrays = [get() for get, _ in found]
    boxes = [Abstract(a.shape, a.dtype) for a in arrays]
    known = {box.equation: array for box, array in zip(boxes, arrays, strict=True)}
    for (_, put), box in zip(found, boxes, strict=True):
        put(box)
    with tracing():
        result = function() or {}
    assert all(get() is box for (get, _), box in zip(found, boxes, strict=True))
    values = evaluate([box.equation for box in boxes], known)
    results = {name: evaluate([v.equation], known)[0] if type(v) is Abstract else v for name, v in result.items()}
    for (_, put), array, value in zip(found, arrays, values, strict=True):
        assert (array.shape, array.dtype) == (np.shape(value), value.dtype)
        array[...] = value
        put(array)
    return results


def evaluate(outputs, known):
    """The values of equations, by NumPy."""
    known = dict(known)
    for equation in reach_equations(outputs):
        if equation in known:
            continue
        if equation.primitive is None:
            known[equation] = equation.source
            continue
        arguments = [known[argument] for argument in equation.arguments]
        arguments = [arguments] if equation.primitive.variadic else arguments
        with np.errstate(all="ignore"):  # of `where`, both sides are computed
            known[equation] = equation.primitive.forward(*arguments, *equation.parameters)
    return [known[equation] for equation in outputs]
