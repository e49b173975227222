"""Networks: modules, layers, losses, and the functions beside them."""

from chainrule.nn.classes import cross_entropy, multi_margin_loss, nll_loss
from chainrule.nn.losses import (
    binary_cross_entropy_with_logits,
    hinge_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)
from chainrule.ops.linear import linear

__all__ = [
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "hinge_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "linear",
    "mse_loss",
    "multi_margin_loss",
    "nll_loss",
    "smooth_l1_loss",
]
