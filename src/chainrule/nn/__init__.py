"""Networks: modules, layers, losses, and the functions beside them.

>>> import chainrule as cr
>>> model = cr.nn.Sequential(cr.nn.Linear(2, 16), cr.tanh, cr.nn.Linear(16, 1))
>>> loss = (model(cr.ones((8, 2))) ** 2).mean()
>>> loss.backward()
>>> model[0].weight.grad.shape
(16, 2)
"""

from chainrule.nn import initialisers as init
from chainrule.nn.attention import KeyValueCache, MultiheadAttention, scaled_dot_product_attention
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
from chainrule.nn.criteria import (
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    MultiMarginLoss,
    NLLLoss,
    SmoothL1Loss,
)
from chainrule.nn.embedding import Embedding, embedding
from chainrule.nn.layer_norm import LayerNorm, RMSNorm
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
from chainrule.nn.plain import GELU, Dropout, Flatten, Identity, ReLU, Sigmoid, SiLU, Softmax, Tanh, dropout
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
from chainrule.nn.recurrent import GRU, LSTM, GRUCell, LSTMCell
from chainrule.nn.transformer import TransformerBlock
from chainrule.ops.elementwise import relu
from chainrule.ops.erf import erf, gelu, silu
from chainrule.ops.layer_norm import layer_norm, rms_norm
from chainrule.ops.linear import linear

__all__ = [
    "GELU",
    "GRU",
    "LSTM",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "KeyValueCache",
    "L1Loss",
    "LSTMCell",
    "LayerNorm",
    "Linear",
    "Loaded",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Module",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Tanh",
    "TransformerBlock",
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
    "dropout",
    "embedding",
    "erf",
    "gelu",
    "hinge_loss",
    "huber_loss",
    "init",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "linear",
    "max_pool1d",
    "max_pool2d",
    "mse_loss",
    "multi_margin_loss",
    "nll_loss",
    "parameter",
    "relu",
    "rms_norm",
    "scaled_dot_product_attention",
    "silu",
    "smooth_l1_loss",
]
