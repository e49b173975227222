"""Networks: modules, layers, losses, and the functions beside them.

>>> import chainrule as cr
>>> model = cr.nn.Sequential(cr.nn.Linear(2, 16), cr.tanh, cr.nn.Linear(16, 1))
>>> loss = (model(cr.ones((8, 2))) ** 2).mean()
>>> loss.backward()
>>> model[0].weight.grad.shape
(16, 2)
"""

from chainrule.nn import initialisers as init
from chainrule.nn.classes import cross_entropy, multi_margin_loss, nll_loss
from chainrule.nn.containers import Sequential
from chainrule.nn.linear import Linear
from chainrule.nn.losses import (
    binary_cross_entropy_with_logits,
    hinge_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)
from chainrule.nn.module import Loaded, Module, parameter
from chainrule.ops.linear import linear

__all__ = [
    "Linear",
    "Loaded",
    "Module",
    "Sequential",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "hinge_loss",
    "huber_loss",
    "init",
    "kl_div",
    "l1_loss",
    "linear",
    "mse_loss",
    "multi_margin_loss",
    "nll_loss",
    "parameter",
    "smooth_l1_loss",
]
