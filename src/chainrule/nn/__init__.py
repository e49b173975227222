"""Networks: modules, layers, losses, and the functions beside them.

>>> import chainrule as cr
>>> model = cr.nn.Sequential(cr.nn.Linear(2, 16), cr.tanh, cr.nn.Linear(16, 1))
>>> loss = (model(cr.ones((8, 2))) ** 2).mean()
>>> loss.backward()
>>> model[0].weight.grad.shape
(16, 2)
"""

from chainrule.nn import initialisers as init
from chainrule.nn.batch_norm import BatchNorm, BatchNorm1d, BatchNorm2d, batch_norm
from chainrule.nn.classes import cross_entropy, multi_margin_loss, nll_loss
from chainrule.nn.containers import Sequential
from chainrule.nn.convolution import (
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    conv1d,
    conv2d,
    conv_transpose1d,
    conv_transpose2d,
)
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
from chainrule.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AvgPool1d,
    AvgPool2d,
    MaxPool1d,
    MaxPool2d,
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    avg_pool1d,
    avg_pool2d,
    max_pool1d,
    max_pool2d,
)
from chainrule.ops.linear import linear

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "Linear",
    "Loaded",
    "MaxPool1d",
    "MaxPool2d",
    "Module",
    "Sequential",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "cross_entropy",
    "hinge_loss",
    "huber_loss",
    "init",
    "kl_div",
    "l1_loss",
    "linear",
    "max_pool1d",
    "max_pool2d",
    "mse_loss",
    "multi_margin_loss",
    "nll_loss",
    "parameter",
    "smooth_l1_loss",
]
