"""Losses of classes: the target names one class for every row of the input, or gives a probability to each.

The input is (n, classes), (n, classes, d1, ...) or (classes,), as in PyTorch.  Inside, every loss is one of rows; the
indices are looked at before anything is computed, because outside their range they would read some other row.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from chainrule.backends.registry import is_numpy
from chainrule.core.calls import is_tensor, raw, wrap
from chainrule.errors import ArgumentError, IndexingError, ShapeError, dtype_kind, dtype_name, explain
from chainrule.ops.arguments import as_operand
from chainrule.ops.arranging import moveaxis
from chainrule.ops.creation import beside_of
from chainrule.ops.elementwise import equal, negative, not_equal, relu, square, where
from chainrule.ops.linear import rows_of
from chainrule.ops.normalised import log_softmax
from chainrule.ops.norms import narrow, wide
from chainrule.ops.reductions import sum as total
from chainrule.ops.surprisal import surprisal
from chainrule.ops.take import positions_beside, take, take_along_axis
from chainrule.ops.views import astype, cast, expand_dims, reshape_to
from chainrule.types import Shape


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """-log softmax(input)[target], from logits.

    **Shapes** `input f[n, c, ...], target i[n, ...] -> f[]`, or `f[n, ...]` for reduction "none"; or a floating target
    of input's shape, which holds probabilities.  `weight` f[c] scales the loss of each class, and the mean is over the
    weights.  Rows whose target is `ignore_index` do not count; where none counts the mean is 0, gradient included.
    **Derivative** (softmax - target) over the number of rows.  **Raises** IndexingError, which names the first bad
    index; ShapeError, ArgumentError.  **Source** label smoothing: Szegedy et al., 2016, section 7.

    >>> import chainrule as cr
    >>> logits = cr.tensor([[0.0, 0.0], [1.0, 1.0]], requires_grad=True)
    >>> loss = cr.nn.cross_entropy(logits, [0, 1])
    >>> loss.backward()
    >>> round(loss.item(), 6), logits.grad.tolist()
    (0.693147, [[-0.25, 0.25], [0.25, -0.25]])
    """
    if weight is None and not label_smoothing and reduction in ("mean", "sum"):
        plain = _plain_classes(input, target, ignore_index)
        if plain is not None:
            return surprisal(input, plain, reduction)
    name = "cross_entropy"
    input, dtype = wide(input)
    axis = _class_axis(name, input)
    count, smoothing = input.shape[axis], float(label_smoothing)
    if not 0.0 <= smoothing <= 1.0:
        raise ArgumentError(explain(name, f"label_smoothing {label_smoothing!r}", expected="0 to 1"))
    target, weight = as_operand(target), _class_weight(name, input, weight, count)
    rows = _rows(input)
    if dtype_kind(target.dtype) == "f":
        losses, shape = _of_probabilities(input, rows, target, weight, smoothing), _without(input.shape, axis)
        return narrow(_combined(name, losses, shape, None, None, reduction), dtype)
    classes, kept = _classes(name, input, target, ignore_index)
    if kept is None and weight is None and not smoothing and reduction in ("mean", "sum"):
        return narrow(surprisal(rows, classes, reduction), dtype)
    losses, weights = surprisal(rows, classes, "none"), None
    if weight is not None:
        weights = take(weight, classes, 0)
        losses = losses * weights
    if smoothing:
        spread = log_softmax(rows) if weight is None else log_softmax(rows) * weight
        losses = losses * (1.0 - smoothing) - total(spread, axis=1) * (smoothing / count)
    return narrow(_combined(name, losses, target.shape, kept, weights, reduction), dtype)


def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """-input[target]: cross-entropy where the input holds logarithms of probabilities already.

    **Shapes** and arguments as in `cross_entropy`, with class indices.  **Raises** IndexingError, ShapeError.

    >>> import chainrule as cr
    >>> cr.nn.nll_loss(cr.tensor([[-0.5, -1.0], [-2.0, -0.25]]), [0, 1]).item()
    0.375
    """
    name = "nll_loss"
    input = as_operand(input)
    axis = _class_axis(name, input)
    target, weight = as_operand(target), _class_weight(name, input, weight, input.shape[axis])
    classes, kept = _classes(name, input, target, ignore_index)
    losses, weights = negative(_picked(_rows(input), classes)), None
    if weight is not None:
        weights = take(weight, classes, 0)
        losses = losses * weights
    return _combined(name, losses, target.shape, kept, weights, reduction)


def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Any:
    """The hinge loss of several classes: the mean over classes of max(0, margin - input[target] + input[class])^p.

    The target's own class does not count among them.  **Shapes** `input f[n, c], target i[n] -> f[]`, or f[n] for
    reduction "none".  `p` is 1 or 2.  **Raises** IndexingError, ShapeError, ArgumentError.
    **Source** Crammer and Singer, 2001.

    >>> import chainrule as cr
    >>> cr.nn.multi_margin_loss(cr.tensor([[0.0, 2.0, 0.5]]), [2]).item()  # (0.5 + 2.5) / 3
    1.0
    """
    name = "multi_margin_loss"
    input = as_operand(input)
    axis = _class_axis(name, input)
    if p not in (1, 2) or len(input.shape) > 2:
        raise ArgumentError(explain(name, f"p {p!r}", input=input, expected="1 or 2, and rows of classes"))
    count = input.shape[axis]
    target, weight = as_operand(target), _class_weight(name, input, weight, count)
    rows, (classes, _) = _rows(input), _classes(name, input, target, None)
    own = equal(expand_dims(raw(classes), 1), beside_of(np.arange(count), raw(classes)))
    over = relu(rows - expand_dims(_picked(rows, classes), 1) + float(margin))
    losses = total(where(own, 0.0, square(over) if p == 2 else over), axis=1) / count
    if weight is not None:
        losses = losses * take(weight, classes, 0)
    return _combined(name, losses, target.shape, None, None, reduction)


# ---------------------------------------------------------------- rows
def _class_axis(name: str, x: Any) -> int:
    if not x.shape:
        raise ShapeError(explain(name, "a number has no classes", input=x, expected="input f[n, classes]"))
    return 0 if len(x.shape) == 1 else 1


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _rows(x: Any) -> Any:
    """A row of classes for every target."""
    if len(x.shape) == 1:
        return reshape_to(x, (1, *x.shape))
    return x if len(x.shape) == 2 else rows_of(moveaxis(x, 1, -1))


def _picked(rows: Any, classes: Any) -> Any:
    return reshape_to(take_along_axis(rows, expand_dims(classes, 1), 1), classes.shape)


def _of_probabilities(input: Any, rows: Any, target: Any, weight: Any, smoothing: float) -> Any:
    if target.shape != input.shape:
        fault = "floating targets are probabilities of all classes, indices are integers"
        expected = f"target {dtype_name(input.dtype)}[{', '.join(map(str, input.shape))}]"
        raise ShapeError(explain("cross_entropy", fault, input=input, target=target, expected=expected))
    share = _rows(target if target.dtype == input.dtype else cast(target, input.dtype))
    if smoothing:
        share = share * (1.0 - smoothing) + smoothing / rows.shape[1]
    logs = log_softmax(rows)
    if weight is not None:
        logs = logs * weight
    return negative(total(where(equal(share, 0.0), 0.0, share * logs), axis=1))


def _class_weight(name: str, input: Any, weight: Any, count: int) -> Any:
    """The weight of each class, of input's dtype."""
    if weight is None:
        return None
    weight = as_operand(weight)
    if weight.shape != (count,):
        expected = f"weight {dtype_name(input.dtype)}[{count}]"
        raise ShapeError(explain(name, "one weight per class", input=input, weight=weight, expected=expected))
    return astype(weight, input.dtype, copy=False)


def _classes(name: str, input: Any, target: Any, ignore_index: int | None) -> tuple[Any, Any]:
    """The class of each row, as operands beside `input`, and which rows count; None where all do.

    **Raises** ShapeError; IndexingError for a class that is not there.
    """
    axis = _class_axis(name, input)
    count, shape = input.shape[axis], _without(input.shape, axis)
    if target.shape != shape:
        expected = f"target i64[{', '.join(map(str, shape))}]"
        raise ShapeError(explain(name, "one class index per row", input=input, target=target, expected=expected))
    at = raw(positions_beside(name, target, input))
    at = reshape_to(at, (prod(shape),))
    if not is_numpy(at):
        kept = None if ignore_index is None else not_equal(at, ignore_index)
        return (at, None) if kept is None else (where(kept, at, 0), kept)
    kept = None
    inside = not at.size or _largest(at.view(_UNSIGNED)) < count
    if not inside or (ignore_index is not None and 0 <= ignore_index < count):
        kept = _kept(name, input, target, at, ignore_index, count)
        at = np.where(kept, at, 0)
    return wrap(at, None) if is_tensor(input) else at, kept


_largest: Any = np.maximum.reduce  # whose stub knows no arguments by position
_UNSIGNED = np.dtype(np.uintp)  # in which a negative index is a very large one


def _plain_classes(input: Any, target: Any, ignore_index: int) -> Any:
    """What `_classes` gives, in a fourth of the time, for rows of logits and an array of classes that are all there;
    None for anything else.
    """
    data, at = raw(input), raw(target)
    if not (type(data) is type(at) is np.ndarray and data.ndim == 2 and data.dtype.char in "fd"):
        return None
    count = data.shape[1]
    if at.shape != data.shape[:1] or at.dtype != np.intp or not at.size or 0 <= ignore_index < count:
        return None
    at = np.array(at)  # the caller's may change
    if _largest(at.view(_UNSIGNED)) >= count:
        return None
    return wrap(at, None) if is_tensor(input) else at


def _kept(name: str, input: Any, target: Any, at: Any, ignore_index: int | None, count: int) -> Any:
    kept = np.full(at.shape, True) if ignore_index is None else at != ignore_index
    bad = np.flatnonzero(kept & ((at < 0) | (at >= count)))
    if bad.size:
        where_: Any = tuple(int(k) for k in np.unravel_index(int(bad[0]), target.shape))
        place = f" at position {where_[0] if len(where_) == 1 else where_}" if where_ else ""
        expected = f"0 to {count - 1}" + ("" if ignore_index is None else f", or {ignore_index} for rows to ignore")
        fault = f"class {at[bad[0]]}{place} is not among the {count} classes"
        raise IndexingError(explain(name, fault, input=input, target=target, expected=expected))
    return kept


def _combined(name: str, losses: Any, shape: Shape, kept: Any, weights: Any, reduction: str) -> Any:
    """The losses of all rows as `reduction` says; a mean is over the weights of the rows that count."""
    if kept is not None:
        losses = where(kept, losses, 0.0)
    if reduction == "none":
        return reshape_to(losses, shape)
    if reduction not in ("mean", "sum"):
        raise ArgumentError(explain(name, f"no reduction {reduction!r}", expected="'mean', 'sum' or 'none'"))
    whole = total(losses)
    if reduction == "sum":
        return whole
    if kept is None and weights is None:
        return whole / max(prod(shape), 1)
    share = cast(kept, losses.dtype) if weights is None else weights if kept is None else where(kept, weights, 0.0)
    share = total(share)
    return whole / where(equal(share, 0.0), 1.0, share)
