"""Learning-rate schedules.

A scheduler writes `lr` into the optimizer's groups when `step()` is called, once per epoch or per
batch. Those with a closed form that multiplies are written as a factor on the present rate, so that
several schedulers on one optimizer compose.
"""

from flambeau._no_tensor import explains as _explains
from flambeau.optim.lr_scheduler._base import LRScheduler
from flambeau.optim.lr_scheduler._base import _LRScheduler as _LRScheduler
from flambeau.optim.lr_scheduler._base import (
    _warn_get_lr_called_within_step as _warn_get_lr_called_within_step,
)
from flambeau.optim.lr_scheduler._combined import ChainedScheduler, SequentialLR
from flambeau.optim.lr_scheduler._cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from flambeau.optim.lr_scheduler._cyclic import CyclicLR, OneCycleLR
from flambeau.optim.lr_scheduler._factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from flambeau.optim.lr_scheduler._plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

_explains(globals(), first=True)
