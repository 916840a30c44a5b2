"""Optimizers and learning-rate schedules."""

import importlib as _importlib
import typing as _typing

from flambeau._no_tensor import explains as _explains
from flambeau.optim import _functional as _functional
from flambeau.optim import lr_scheduler
from flambeau.optim.adagrad import Adagrad
from flambeau.optim.adam import Adam, AdamW
from flambeau.optim.adaptive import Adadelta, Adamax, NAdam, RAdam
from flambeau.optim.averaged import ASGD, Rprop
from flambeau.optim.lbfgs import LBFGS
from flambeau.optim.matrices import Adafactor, Muon
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.rmsprop import RMSprop
from flambeau.optim.sgd import SGD
from flambeau.optim.sparse_adam import SparseAdam
from flambeau.optim.stateless import swap_in_optimizer_params_and_state

if _typing.TYPE_CHECKING:
    from flambeau.optim import swa_utils

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]


def __getattr__(name: str) -> _typing.Any:
    if name == "swa_utils":  # it wants the layers, which an optimizer does not
        return _importlib.import_module("flambeau.optim.swa_utils")
    raise AttributeError(f"module 'flambeau.optim' has no attribute '{name}'")


_explains(globals(), first=True)
