"""Windows: expressions that only look at the memory of another one.

A transpose, a slice or a merge of neighbouring axes needs no copy where its reader can walk memory by strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chainrule.compiler.expressions import Expression


class Window(NamedTuple):
    """`expression[i] == memory of source[offset + sum(strides[k] * i[k])]`, counted in entries."""

    source: Expression
    """Neither a view nor a reshape that could be folded; C-contiguous where it lies."""
    offset: int
    strides: tuple[int, ...]
    """Zero along axes of length 1 and along repeated ones; may be negative."""


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a C-contiguous array, zero along axes of length 1."""
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step if n != 1 else 0)
        step *= n
    return tuple(reversed(strides))


def reshaped(shape: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> tuple[int, ...] | None:
    """Strides under which the same memory has the shape `to`; None where none do."""
    if 0 in shape:
        return contiguous(to)
    # axes that lie one behind the other are one run: (length, stride of its last axis)
    runs: list[list[int]] = []
    for n, stride in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * stride:
            runs[-1] = [runs[-1][0] * n, stride]
        else:
            runs.append([n, stride])
    out = [0] * len(to)
    at = len(to) - 1
    for length, stride in reversed(runs):
        done = 1
        while done < length:
            while to[at] == 1:
                at -= 1
            if length % (done * to[at]):
                return None
            out[at] = stride * done
            done *= to[at]
            at -= 1
    return tuple(out)


def strided(expression: Expression) -> Window:
    """The window that `expression` is.  One that is computed, or reordered past folding, is a window of itself."""
    if expression.op == "view":
        source, offset, strides = strided(expression.arguments[0])
        out = [0] * expression.ndim
        for (first, terms), stride in zip(expression.attribute, strides, strict=True):
            offset += first * stride
            for axis, step in terms:
                out[axis] += step * stride
        return Window(source, offset, tuple(out))
    if expression.op == "reshape":
        inner = expression.arguments[0]
        source, offset, strides = strided(inner)
        split = reshaped(inner.shape, strides, expression.shape)
        if split is not None:
            return Window(source, offset, split)
    return Window(expression, 0, contiguous(expression.shape))
