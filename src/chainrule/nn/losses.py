"""Losses between two arrays of one shape, under PyTorch's names and arguments; those of classes are in `classes`.

Shapes must be equal: (n, 1) against (n,) would broadcast to (n, n), and the loss would look like one.
"""

from __future__ import annotations

from typing import Any

from chainrule.core.calls import raw
from chainrule.errors import ArgumentError, ShapeError, dtype_kind, dtype_name, explain
from chainrule.ops.arguments import as_floating, as_operand
from chainrule.ops.elementwise import abs as absolute
from chainrule.ops.elementwise import clip, equal, exp, log, relu, softplus, square, where
from chainrule.ops.reductions import mean
from chainrule.ops.reductions import sum as total
from chainrule.ops.views import cast


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """The squared difference, and its mean.

    **Shapes** `input f[...], target f[...] -> f[]`, or f[...] for reduction "none".  **Raises** ShapeError,
    ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.mse_loss(cr.tensor([1.0, 2.0]), [0.0, 4.0]).item()
    2.5
    """
    input, target = _pair("mse_loss", input, target)
    return _reduced("mse_loss", square(input - target), reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """The absolute difference, and its mean; slope 0 where there is none.

    **Shapes** `input f[...], target f[...] -> f[]`, or f[...] for reduction "none".  **Raises** ShapeError,
    ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.l1_loss(cr.tensor([1.0, 2.0]), [0.0, 4.0]).item()
    1.5
    """
    input, target = _pair("l1_loss", input, target)
    return _reduced("l1_loss", absolute(input - target), reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """Half the squared difference d up to `delta`, and beyond it delta (|d| - delta / 2).

    **Shapes** `input f[...], target f[...] -> f[]`, or f[...] for reduction "none".  **Raises** ShapeError,
    ArgumentError.  **Source** Huber, 1964.

    >>> import chainrule as cr
    >>> cr.nn.huber_loss(cr.tensor([0.5, 3.0]), [0.0, 0.0], reduction="none").tolist()
    [0.125, 2.5]
    """
    input, target = _pair("huber_loss", input, target)
    if not delta > 0:
        raise ArgumentError(explain("huber_loss", f"delta {delta!r}", expected="a number above 0"))
    return _reduced("huber_loss", _huber(input - target, float(delta)), reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """Huber's loss over `beta`: it becomes the absolute difference as beta goes to 0.

    **Shapes** `input f[...], target f[...] -> f[]`, or f[...] for reduction "none".  **Raises** ShapeError,
    ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.smooth_l1_loss(cr.tensor([1.0, 3.0]), [0.0, 0.0], reduction="none", beta=2.0).tolist()
    [0.25, 2.0]
    """
    if beta == 0:
        return l1_loss(input, target, reduction)
    input, target = _pair("smooth_l1_loss", input, target)
    if not beta > 0:
        raise ArgumentError(explain("smooth_l1_loss", f"beta {beta!r}", expected="a number from 0"))
    return _reduced("smooth_l1_loss", _huber(input - target, float(beta)) / float(beta), reduction)


def _huber(d: Any, delta: float) -> Any:
    """c (d - c / 2), c being d clipped: no branch and no |d|, so that the second derivative at 0 is 1."""
    clipped = clip(d, -delta, delta)
    return clipped * (d - clipped * 0.5)


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Any:
    """-target log sigmoid(input) - (1 - target) log(1 - sigmoid(input)), without overflow.

    **Shapes** `input f[...], target f[...] -> f[]`, or f[...] for reduction "none"; `weight`, of each entry, and
    `pos_weight`, of the first term, broadcast against them.  **Derivative** sigmoid(input) - target.
    **Raises** ShapeError, ArgumentError.

    >>> import chainrule as cr
    >>> x = cr.tensor([0.0, 1000.0], requires_grad=True)
    >>> cr.nn.binary_cross_entropy_with_logits(x, [1, 1], reduction="sum").backward()
    >>> x.grad.tolist()
    [-0.5, 0.0]
    """
    name = "binary_cross_entropy_with_logits"
    input, target = _pair(name, input, target)
    # Either term alone is exact where it is small; one formula for both would cancel at large logits.
    positive = target * softplus(-input)
    if pos_weight is not None:
        positive = positive * _of_dtype(pos_weight, input)
    losses = positive + (1.0 - target) * softplus(input)
    if weight is not None:
        losses = losses * _of_dtype(weight, input)
    return _reduced(name, losses, reduction)


def hinge_loss(input: Any, target: Any, reduction: str = "mean", margin: float = 1.0) -> Any:
    """max(0, margin - target input), for targets of -1 and 1.

    **Shapes** `input f[...], target f[...] -> f[]`, or f[...] for reduction "none".  **Raises** ShapeError,
    ArgumentError.

    >>> import chainrule as cr
    >>> cr.nn.hinge_loss(cr.tensor([0.5, 2.0, -1.0]), [1, 1, -1], reduction="none").tolist()
    [0.5, 0.0, 0.0]
    """
    input, target = _pair("hinge_loss", input, target)
    return _reduced("hinge_loss", relu(float(margin) - target * input), reduction)


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """target (log target - input): the divergence of a distribution from one given by its logarithm, `input`.

    An entry of target that is 0 contributes 0.  `log_target`: the target too is a logarithm.  Reduction "mean" is over
    all entries, as in PyTorch; "batchmean", the sum over the first axis' length, is the divergence per row.
    **Shapes** `input f[...], target f[...] -> f[]`, or f[...] for reduction "none".  **Raises** ShapeError,
    ArgumentError.

    >>> import chainrule as cr
    >>> round(cr.nn.kl_div(cr.log(cr.tensor([[0.5, 0.5]])), [[1.0, 0.0]], reduction="batchmean").item(), 6)
    0.693147
    """
    input, target = _pair("kl_div", input, target)
    if log_target:
        losses = exp(target) * (target - input)
    else:
        nothing = equal(raw(target), 0.0)
        losses = target * (log(where(nothing, 1.0, target)) - where(nothing, 0.0, input))
    if reduction == "batchmean":
        return total(losses) / max(input.shape[0] if input.shape else 1, 1)
    return _reduced("kl_div", losses, reduction)


def _pair(name: str, input: Any, target: Any) -> tuple[Any, Any]:
    """Both operands, the target in input's dtype where it holds integers.

    **Raises** ShapeError where the shapes differ.
    """
    input, target = as_floating(input), as_operand(target)
    if input.shape != target.shape:
        expected = f"target {dtype_name(input.dtype)}[{', '.join(map(str, input.shape))}]"
        remedy = "reshape or broadcast_to, if that is meant"
        fault = "the shapes of input and target differ"
        raise ShapeError(explain(name, fault, input=input, target=target, expected=expected, remedy=remedy))
    if dtype_kind(target.dtype) in "biu":
        target = cast(target, input.dtype)
    return input, target


def _of_dtype(weight: Any, input: Any) -> Any:
    weight = as_operand(weight)
    return weight if weight.dtype == input.dtype else cast(weight, input.dtype)


def _reduced(name: str, losses: Any, reduction: str) -> Any:
    if reduction == "none":
        return losses
    if reduction == "sum":
        return total(losses)
    if reduction == "mean":
        return mean(losses) if losses.shape else losses
    raise ArgumentError(explain(name, f"no reduction {reduction!r}", expected="'mean', 'sum' or 'none'"))
