"""Automatic differentiation on single numbers, in pure Python without NumPy: the explanation of the whole library.

Read `engine.py` for how `.backward()` works, `higher_order.py` for derivatives of derivatives, `nn.py` for a network made
of such numbers.
"""

from . import nn
from .engine import Value, cos, exp, log, maximum, minimum, power, relu, sigmoid, sin, tanh
from .higher_order import derivative, grad, gradient, hessian
from .nn import MLP, Layer, Neuron, hinge_loss, l2_penalty

__all__ = [
    "MLP",
    "Layer",
    "Neuron",
    "Value",
    "cos",
    "derivative",
    "exp",
    "grad",
    "gradient",
    "hessian",
    "hinge_loss",
    "l2_penalty",
    "log",
    "maximum",
    "minimum",
    "nn",
    "power",
    "relu",
    "sigmoid",
    "sin",
    "tanh",
]
