"""The schedules under PyTorch's module name."""

# fmt: off
from chainrule.optim.cycles import CosineAnnealingLR, CosineAnnealingWarmRestarts, OneCycleLR
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

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "SequentialLR", "StepLR",
]
# fmt: on
