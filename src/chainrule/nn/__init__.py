"""Networks: modules, layers, losses, and the functions beside them.

>>> import chainrule as cr
>>> model = cr.nn.Sequential(cr.nn.Linear(2, 16), cr.tanh, cr.nn.Linear(16, 1))
>>> loss = (model(cr.ones((8, 2))) ** 2).mean()
>>> loss.backward()
>>> model[0].weight.grad.shape
(16, 2)
"""

# fmt: off
from chainrule.nn import initialisers as init
from chainrule.nn.containers import Sequential
from chainrule.nn.linear import Linear, linear
from chainrule.nn.module import Loaded, Module, parameter

__all__ = [
    "Linear", "Loaded", "Module", "Sequential", "init", "linear", "parameter",
]
# fmt: on
