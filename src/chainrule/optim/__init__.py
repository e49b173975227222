"""Optimisers, schedules and what belongs to a step."""

# fmt: off
from chainrule.optim import lr_scheduler
from chainrule.optim.adam import Adam, AdamW
from chainrule.optim.adaptive import Adagrad, RMSprop
from chainrule.optim.averaging import AveragedWeights, ExponentialMovingAverage
from chainrule.optim.clipping import clip_grad_norm_, clip_grad_value_
from chainrule.optim.cycles import CosineAnnealingLR, CosineAnnealingWarmRestarts, OneCycleLR
from chainrule.optim.lbfgs import LBFGS
from chainrule.optim.lion import Lion
from chainrule.optim.muon import Muon
from chainrule.optim.optimizer import Optimizer
from chainrule.optim.schedules import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from chainrule.optim.sequences import ChainedScheduler, SequentialLR
from chainrule.optim.sgd import SGD

__all__ = [
    "LBFGS", "SGD", "Adagrad", "Adam", "AdamW", "AveragedWeights", "ChainedScheduler", "ConstantLR",
    "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "ExponentialMovingAverage", "LRScheduler",
    "LambdaLR", "LinearLR", "Lion", "MultiStepLR", "MultiplicativeLR", "Muon", "OneCycleLR", "Optimizer",
    "PolynomialLR", "RMSprop", "SequentialLR", "StepLR", "clip_grad_norm_", "clip_grad_value_", "lr_scheduler",
]
# fmt: on
