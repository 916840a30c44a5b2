"""A plugin of pytest's: tests run while the library answers for PyTorch, so that types and classes say `torch.`."""

# ruff: noqa: I001, F401
import flambeau.compat.torch

import torch.distributions
import torch.func
import torch.nn
import torch.optim
import torch.utils.data
