"""The losses as modules, under PyTorch's names: a function and the options that it is called with."""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from chainrule.core.calls import raw
from chainrule.errors import ArgumentError, explain
from chainrule.nn import classes, losses
from chainrule.nn.module import Module


@cache
def _defaults(function: Any) -> dict[str, Any]:
    """The options of a loss: its arguments after input and target."""
    return {name: p.default for name, p in list(signature(function).parameters.items())[2:]}


class _Loss(Module):
    """A loss and its options, which are the arguments of `function` after the first two; weights are buffers."""

    function: ClassVar[Any]

    def __init__(self, *args: Any, **options: Any) -> None:
        known = _defaults(type(self).function)
        given = dict(zip(known, args, strict=False)) | options
        odd = [name for name in given if name not in known]
        if odd or len(args) > len(known):
            fault = f"no option {odd[0]!r}" if odd else "too many options"
            raise ArgumentError(explain(type(self).__name__, fault, expected=", ".join(known)))
        for name, value in (known | given).items():
            is_weight = name.endswith("weight") and value is not None
            setattr(self, name, np.array(raw(value)) if is_weight else value)

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of these."""
        options = {name: getattr(self, name) for name in _defaults(type(self).function)}
        return type(self).function(input, target, **options)


class CrossEntropyLoss(_Loss):
    """`cross_entropy`, whose arguments are the options.

    >>> import chainrule as cr
    >>> loss = cr.nn.CrossEntropyLoss(label_smoothing=0.1)
    >>> loss.label_smoothing, round(loss(cr.zeros((2, 4)), [0, 3]).item(), 6)
    (0.1, 1.386294)
    """

    function = staticmethod(classes.cross_entropy)


class NLLLoss(_Loss):
    """`nll_loss`, whose arguments are the options."""

    function = staticmethod(classes.nll_loss)


class MultiMarginLoss(_Loss):
    """`multi_margin_loss`, whose arguments are the options."""

    function = staticmethod(classes.multi_margin_loss)


class BCEWithLogitsLoss(_Loss):
    """`binary_cross_entropy_with_logits`, whose arguments are the options."""

    function = staticmethod(losses.binary_cross_entropy_with_logits)


class MSELoss(_Loss):
    """`mse_loss`, whose arguments are the options."""

    function = staticmethod(losses.mse_loss)


class L1Loss(_Loss):
    """`l1_loss`, whose arguments are the options."""

    function = staticmethod(losses.l1_loss)


class HuberLoss(_Loss):
    """`huber_loss`, whose arguments are the options."""

    function = staticmethod(losses.huber_loss)


class SmoothL1Loss(_Loss):
    """`smooth_l1_loss`, whose arguments are the options."""

    function = staticmethod(losses.smooth_l1_loss)


class KLDivLoss(_Loss):
    """`kl_div`, whose arguments are the options."""

    function = staticmethod(losses.kl_div)
