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

__version__ = "0.1.0"
