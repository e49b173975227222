"""Automatic differentiation for NumPy people, from first principles."""

from chainrule import errors as errors
from chainrule.creation import arange as arange
from chainrule.creation import asarray as asarray
from chainrule.creation import empty as empty
from chainrule.creation import empty_like as empty_like
from chainrule.creation import eye as eye
from chainrule.creation import full as full
from chainrule.creation import full_like as full_like
from chainrule.creation import linspace as linspace
from chainrule.creation import ones as ones
from chainrule.creation import ones_like as ones_like
from chainrule.creation import set_default_dtype as set_default_dtype
from chainrule.creation import tensor as tensor
from chainrule.creation import zeros as zeros
from chainrule.creation import zeros_like as zeros_like
from chainrule.modes import debug as debug
from chainrule.modes import no_grad as no_grad
from chainrule.ops.elementwise import *  # noqa: F403
from chainrule.tensor import Tensor as Tensor
from chainrule.tensor import gradients as gradients
from chainrule.transforms import checkpoint as checkpoint
from chainrule.transforms import grad as grad
from chainrule.transforms import hessian as hessian
from chainrule.transforms import hvp as hvp
from chainrule.transforms import jacobian as jacobian
from chainrule.transforms import jvp as jvp
from chainrule.transforms import linearize as linearize
from chainrule.transforms import operation as operation
from chainrule.transforms import stop_gradient as stop_gradient
from chainrule.transforms import value_and_grad as value_and_grad
from chainrule.transforms import vjp as vjp

__version__ = "0.1.0"
