"""Transforms: functions that make functions out of functions."""

from chainrule.transforms.checkpoint import checkpoint
from chainrule.transforms.derivatives import grad, jvp, linearize, stop_gradient, value_and_grad, vjp
from chainrule.transforms.matrices import hessian, hvp, jacobian
from chainrule.transforms.operation import operation

__all__ = [
    "checkpoint",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "linearize",
    "operation",
    "stop_gradient",
    "value_and_grad",
    "vjp",
]
