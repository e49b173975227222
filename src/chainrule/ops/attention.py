"""The weights of attention: softmax of scaled scores along the last axis, where a causal mask hides what comes later.

A primitive for measured speed: scale, mask and softmax in the passes of the softmax alone, and one array kept.  What is
hidden is not made -inf first but set to 0 afterwards, which needs no pass of its own over the scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.backends.registry import is_numpy
from chainrule.core.primitive import primitive
from chainrule.ops.families import ROWS
from chainrule.ops.normalised import row_sums, shares
from chainrule.ops.reductions import reduce_sum

# Scores within these bounds are exponentiated as they are: no overflow for rows of up to 1e12 entries, and a row's sum
# above the second has lost nothing to underflow that its weights could show.
_BOUNDS = {"f": (60.0, 1e-20), "d": (600.0, 1e-200)}
_visible: dict[Any, Any] = {}


def _seen(rows: int, columns: int, offset: int, dtype: Any) -> Any:
    """1 where row i sees column j <= i + offset, otherwise 0; made once."""
    key = (rows, columns, offset, dtype)
    seen = _visible.get(key)
    if seen is None:
        if len(_visible) > 16:
            _visible.clear()
        seen = _visible[key] = np.tri(rows, columns, offset, dtype=dtype)
    return seen


def _weights(x: Any, scale: float, offset: int | None) -> Any:
    """NumPy's; `offset` None: nothing is hidden."""
    if x.dtype.char not in _BOUNDS or not x.size or x.ndim < 2:
        return _standard(np, x, scale, offset)
    most, least = _BOUNDS[x.dtype.char]
    rows, columns = x.shape[-2:]
    if not (x.max() if scale >= 0 else x.min()) * scale < most:  # NaN too
        return _standard(np, x, scale, offset)
    out: Any = np.multiply(x, scale, order="C")
    np.exp(out, out)
    if offset is not None and offset < columns - 1:
        flat = out.reshape(-1, rows * columns)
        flat *= _seen(rows, columns, offset, x.dtype).reshape(-1)
    lines = out.reshape(-1, columns)
    total = row_sums(lines)
    if not total.min() > least:
        return _standard(np, x, scale, offset)
    lines /= total
    return out


def _standard(xp: Any, x: Any, scale: float, offset: int | None) -> Any:
    softmax: Any = shares
    x = x * scale
    if offset is not None:
        seen = xp.arange(x.shape[-2])[:, None] + offset >= xp.arange(x.shape[-1])[None, :]
        x = xp.where(seen, x, xp.asarray(-float("inf"), dtype=x.dtype))
    if xp is np:
        return softmax.primitive.forward(x, len(x.shape) - 1)
    return softmax.primitive.standard(xp, x, len(x.shape) - 1)


def _rule(ct: Any, out: Any, scale: float) -> Any:
    if not (is_numpy(ct) and is_numpy(out)):
        return out * (ct - reduce_sum(ct * out, (len(out.shape) - 1,), True)) * scale
    g = ct - np.vecdot(ct, out)[..., None]
    g *= out
    g *= scale
    return g


attention_weights = primitive(
    "attention_weights",
    ROWS,
    [_rule],
    parameters="scale offset",
    forward=_weights,
    standard=_standard,
    samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), p) for p in ((0.5, None), (2.0, 0), (-40.0, 1), (0.5, 3))],
    hides=True,
)
