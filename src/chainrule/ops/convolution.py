"""Convolution: the three bilinear maps that the form <y, conv(x, w)> has, each the derivative of the other two.

So there is one rule for each and derivatives of any order.  NumPy computes them as products of matrices whose rows are
windows: a piece at a time, small enough to stay in cache, with channels last in memory, where a window is a few long
runs.  Results are laid out like that too, which the next layer profits from.
"""

from __future__ import annotations

from collections.abc import Generator
from math import prod
from typing import Any

import numpy as np

from chainrule.core.primitive import Rule, primitive
from chainrule.ops.families import BILINEAR, GENERAL
from chainrule.ops.reductions import reduce_sum
from chainrule.ops.windows import SAMPLES, WHOLE, Windows, filled_beside, inside, padded, positions, unpadded
from chainrule.types import Shape

# Bytes of windows gathered at a time: half of an L2 cache.  On (32, 32, 16, 16) with 64 kernels of 3x3, pieces of 0.3 to
# 2.4 MB take 2.9 ms, all windows at once 3.2 ms, the products alone 2.75 ms.
_PIECE = 1 << 19


# ----------------------------------------------------------------------------------------------- layouts in memory
def _last(x: Any) -> Any:
    """Channels last."""
    return x.transpose((0, *range(2, x.ndim), 1))


def _second(x: Any) -> Any:
    """Channels where they belong."""
    return x.transpose((0, x.ndim - 1, *range(1, x.ndim - 1)))


def _rows(x: Any, dtype: Any = None) -> Any:
    """x with channels last, also in memory."""
    return np.ascontiguousarray(_last(x), dtype)


def _reached(x: Any, windows: Windows, dtype: Any) -> Any:
    """What the windows reach over, with channels last in memory."""
    if windows.is_whole:
        return _rows(x, dtype)
    target, source = inside(windows)
    out = np.zeros((x.shape[0], *windows.extent, x.shape[1]), dtype)
    _second(out)[target] = x[source]
    return out


def _pieces(count: int, windows: Windows, bytes_each: int) -> Generator[tuple[slice, slice]]:
    """Examples, and windows along the first axis, whose entries (`bytes_each` a window) make up one piece."""
    length = windows.out[0]
    lines = max(1, _PIECE // max(1, bytes_each * prod(windows.out[1:])))
    several, lines = max(1, lines // max(1, length)), min(lines, length)
    for n in range(0, count, several):
        for line in range(0, length, lines):
            yield slice(n, n + several), slice(line, line + lines)


def _gathered(x: Any, windows: Windows, groups: int) -> Generator[tuple[Any, Any]]:
    """Pieces of the matrix of all windows [groups, windows, kernel * channels], each with the windows it is made of."""
    *_, channels = x.shape
    width, step = channels // groups, x.strides
    if prod(windows.kernel) == 1 == prod(windows.stride):
        yield (WHOLE, WHOLE), _by_group(x, groups)
        return
    shape = (x.shape[0], *windows.out, groups, *windows.kernel, width)
    moves = tuple(s * t for s, t in zip(windows.stride, step[1:], strict=False))
    inner = tuple(d * t for d, t in zip(windows.dilation, step[1:], strict=False))
    view: Any = np.ndarray(shape, x.dtype, x, 0, (step[0], *moves, width * step[-1], *inner, step[-1]))
    entries = prod(windows.kernel) * channels
    for at in _pieces(x.shape[0], windows, entries * x.itemsize):
        yield at, np.array(view[at], order="C").reshape(-1, groups, entries // groups).transpose(1, 0, 2)


def _by_group(y: Any, groups: int) -> Any:
    """Rows with channels last as [groups, rows, channels]."""
    return y.reshape(-1, groups, y.shape[-1] // groups).transpose(1, 0, 2)


# ----------------------------------------------------------------------------------------------------------- by NumPy
def _convolve(x: Any, w: Any, windows: Windows, groups: int, bias: Any = None) -> Any:
    dtype = np.result_type(x, w) if bias is None else np.result_type(x, w, bias)
    if _is_depthwise(groups, w.shape[0] // groups, w.shape[1]):
        out = _convolve_by_entry(np, x, w, windows, groups)
        return out if bias is None else np.add(out, bias.reshape(-1, *(1,) * len(windows.out)), dtype=dtype)
    out = np.empty((x.shape[0], *windows.out, w.shape[0]), dtype)
    # [groups, kernel * channels in, channels out]
    kernels = w.reshape(groups, -1, *w.shape[1:]).transpose((0, *range(3, w.ndim + 1), 2, 1))
    kernels = kernels.reshape(groups, -1, w.shape[0] // groups)
    for at, gathered in _gathered(_reached(x, windows, dtype), windows, groups):
        piece = out[at]
        np.matmul(gathered, kernels, out=_by_group(piece, groups))
        if bias is not None:
            piece += bias
    return _second(out)


def _to_input(y: Any, w: Any, windows: Windows, groups: int) -> Any:
    if prod(windows.stride) == 1:
        turned = w.reshape(groups, -1, *w.shape[1:]).swapaxes(1, 2)[(..., *(slice(None, None, -1),) * (w.ndim - 2))]
        return _convolve(y, turned.reshape(-1, w.shape[0] // groups, *w.shape[2:]), windows.turned(), groups)
    if _is_depthwise(groups, w.shape[0] // groups, w.shape[1]):
        return _to_input_by_entry(np, y, w, windows, groups)
    dtype, channels = np.result_type(y, w), groups * w.shape[1]
    rows = _rows(y)
    # [kernel, groups, channels out, channels in]
    kernels = w.reshape(groups, -1, *w.shape[1:]).transpose((*range(3, w.ndim + 1), 0, 1, 2))
    kernels = kernels.reshape(-1, *kernels.shape[-3:])
    out = np.zeros((y.shape[0], *windows.extent, channels), dtype)
    for n, line in _pieces(y.shape[0], windows, prod(windows.kernel) * channels * dtype.itemsize):
        piece = rows[n, line]
        part = windows._replace(out=piece.shape[1:-1])
        reached = _second(out[n, line.start * windows.stride[0] :])
        for index, given in zip(positions(part), np.matmul(_by_group(piece, groups), kernels), strict=True):
            reached[index] += _second(given.transpose(1, 0, 2).reshape(*piece.shape[:-1], channels))
    return unpadded(np, _second(out), windows)


def _to_weight(x: Any, y: Any, windows: Windows, groups: int) -> Any:
    width, count = x.shape[1] // groups, y.shape[1] // groups
    if _is_depthwise(groups, count, width):
        return _to_weight_by_entry(np, x, y, windows, groups)
    rows = _rows(y)
    total = np.zeros((groups, prod(windows.kernel) * width, count), np.result_type(x, y))
    for at, gathered in _gathered(_reached(x, windows, x.dtype), windows, groups):
        total += np.matmul(gathered.transpose(0, 2, 1), _by_group(rows[at], groups))
    total = total.reshape(groups, *windows.kernel, width, count)
    total = total.transpose((0, total.ndim - 1, total.ndim - 2, *range(1, total.ndim - 2)))
    return np.ascontiguousarray(total).reshape(-1, width, *windows.kernel)


# ---------------------------------------------- entry by entry of the kernel: other libraries, and a kernel per channel
def _is_depthwise(groups: int, out: int, width: int) -> bool:
    """One channel in (`width`) and one out in each of several groups, which are no products of matrices."""
    return groups > 1 and out == 1 == width


def _meeting(xp: Any, kernel: Any, x: Any) -> Any:
    """kernel [groups, out, in] times x [n, groups * in, ...]."""
    groups, out, width = kernel.shape
    if _is_depthwise(groups, out, width):
        return xp.reshape(kernel, (groups, *(1,) * (x.ndim - 2))) * x
    count, _, *rest = x.shape
    both = xp.matmul(kernel, xp.reshape(x, (count, groups, width, prod(rest))))
    return xp.reshape(both, (count, groups * out, *rest))


def _entries(xp: Any, w: Any, groups: int) -> list[Any]:
    """[groups, channels out, channels in] for each entry of the kernel."""
    w = xp.reshape(w, (groups, w.shape[0] // groups, w.shape[1], prod(w.shape[2:])))
    return [w[..., k] for k in range(w.shape[3])]


def _convolve_by_entry(xp: Any, x: Any, w: Any, windows: Windows, groups: int) -> Any:
    x, total = padded(xp, x, windows), None
    for index, kernel in zip(positions(windows), _entries(xp, w, groups), strict=True):
        term = _meeting(xp, kernel, x[index])
        if total is None:
            total = term
        else:
            total += term
    return total


def _to_input_by_entry(xp: Any, y: Any, w: Any, windows: Windows, groups: int) -> Any:
    w = xp.astype(w, xp.result_type(y, w))
    out: Any = None
    for index, kernel in zip(positions(windows), _entries(xp, w, groups), strict=True):
        term = _meeting(xp, xp.matrix_transpose(kernel), y)
        if out is None:
            out = filled_beside(xp, term, (*term.shape[:2], *windows.extent), 0)
        out[index] += term
    return unpadded(xp, out, windows)


def _to_weight_by_entry(xp: Any, x: Any, y: Any, windows: Windows, groups: int) -> Any:
    x = padded(xp, x, windows)
    width, count = x.shape[1] // groups, y.shape[1] // groups
    found: list[Any] = []
    for index in positions(windows):
        part = x[index]
        if _is_depthwise(groups, count, width):
            kernel = xp.sum(part * y, axis=(0, *range(2, y.ndim)), dtype=xp.result_type(x, y))
        else:
            flat = (y.shape[0], groups, -1, prod(windows.out))
            pairs = xp.matmul(xp.reshape(y, flat), xp.matrix_transpose(xp.reshape(part, flat)))
            kernel = xp.sum(pairs, axis=0, dtype=pairs.dtype)
        found.append(xp.reshape(kernel, (y.shape[1], width)))
    return xp.reshape(xp.stack(found, axis=-1), (y.shape[1], width, *windows.kernel))


# ------------------------------------------------------------------------------------------------------------- records
def _samples(rng: np.random.Generator) -> list[Any]:
    """x, w, y and parameters."""
    out: list[Any] = []
    for windows, groups in zip((*SAMPLES, SAMPLES[0]), (1, 2, 1, 2), strict=True):
        width = 2 if windows is SAMPLES[1] else 1
        x, w = rng.normal(size=(2, width * groups, *windows.size)), rng.normal(size=(2, width, *windows.kernel))
        out.append((x, w, rng.normal(size=(2, 2, *windows.out)), (windows, groups)))
    return out


def _result(x: Any, w: Any, windows: Windows, groups: int) -> Shape:
    return (x.shape[0], w.shape[0], *windows.out)


def _promoted(x: Any, w: Any, *_: Any) -> Any:
    return np.result_type(x.dtype, w.dtype)


_RULES: list[Rule] = [
    lambda ct, w, windows, groups: to_input(ct, w, windows, groups),
    lambda ct, x, windows, groups: to_weight(x, ct, windows, groups),
]
convolve = primitive(
    "convolve",
    BILINEAR,
    _RULES,
    inputs="x w",
    parameters="windows groups",
    forward=_convolve,
    standard=_convolve_by_entry,
    shape_rule=_result,
    dtype_rule=_promoted,
    samples=lambda rng: [((x, w), how) for x, w, _, how in _samples(rng)],
)
to_input = primitive(
    "convolve_to_input",
    BILINEAR,
    [
        lambda ct, w, windows, groups: convolve(ct, w, windows, groups),
        lambda ct, y, windows, groups: to_weight(ct, y, windows, groups),
    ],
    inputs="y w",
    parameters="windows groups",
    forward=_to_input,
    standard=_to_input_by_entry,
    shape_rule=lambda y, w, windows, groups: (y.shape[0], groups * w.shape[1], *windows.size),
    dtype_rule=_promoted,
    samples=lambda rng: [((y, w), how) for _, w, y, how in _samples(rng)],
)
to_weight = primitive(
    "convolve_to_weight",
    BILINEAR,
    [
        lambda ct, y, windows, groups: to_input(y, ct, windows, groups),
        lambda ct, x, windows, groups: convolve(x, ct, windows, groups),
    ],
    inputs="x y",
    parameters="windows groups",
    forward=_to_weight,
    standard=_to_weight_by_entry,
    shape_rule=lambda x, y, windows, groups: (y.shape[1], x.shape[1] // groups, *windows.kernel),
    dtype_rule=_promoted,
    samples=lambda rng: [((x, y), how) for x, _, y, how in _samples(rng)],
)
# a primitive because a bias added to a piece that is still in cache costs a third of one added afterwards
convolve_and_shift = primitive(
    "convolve_and_shift",
    GENERAL,
    [*_RULES, lambda ct: reduce_sum(ct, (0, *range(2, len(ct.shape))), False)],
    inputs="x w b",
    parameters="windows groups",
    forward=lambda x, w, b, windows, groups: _convolve(x, w, windows, groups, b),
    standard=lambda xp, x, w, b, windows, groups: (
        _convolve_by_entry(xp, x, w, windows, groups) + xp.reshape(b, (-1, *(1,) * (x.ndim - 2)))
    ),
    shape_rule=lambda x, w, b, windows, groups: _result(x, w, windows, groups),
    dtype_rule=lambda x, w, b, windows, groups: np.result_type(x.dtype, w.dtype, b.dtype),
    samples=lambda rng: [((x, w, rng.normal(size=2)), how) for x, w, _, how in _samples(rng)],
)
