"""What `torch.nn.modules` has beyond `flambeau.nn.modules`: classes that are one level up here."""

from flambeau.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from flambeau.nn.module import Module
from flambeau.nn.modules.sync import SyncBatchNorm

__all__ = ["Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential", "SyncBatchNorm"]
