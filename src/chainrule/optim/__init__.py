"""Optimisers, schedules and what belongs to a step."""

from chainrule.optim.adam import Adam, AdamW
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
