"""What PyTorch's modules have from each other.

`torch.sparse.torch.eye`, `from torch.nn.modules.conv import _pair`, `from torch.functional import F`.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

# Modules of PyTorch's, without `torch.`, and where those below take their helpers from.
_HELPERS = {
    "distributions": ("distributions.utils", "distributions"),
    "nn.modules": ("nn.modules.utils", "nn.init"),
    "optim": ("optim.optimizer",),
    "utils.data": ("utils.data",),
}

# Those that call `torch.nn.functional` F, beside the layers.
_HAVE_F = ("distributions.transforms", "distributions.utils", "functional", "nn.utils.parametrizations", "nn.utils.spectral_norm")


def borrowed(path: str, name: str) -> Any:
    """What PyTorch's module of this full name has of this name from another one, or None."""
    if name == "torch":
        return sys.modules.get("torch")
    path = path.partition(".")[2]
    if name == "F" and path in _HAVE_F:
        return importlib.import_module("torch.nn.functional")
    for lender in _HELPERS.get(path.rpartition(".")[0], ()):
        if lender != path:
            found = getattr(importlib.import_module(f"torch.{lender}"), name, None)
            if found is not None:
                return found
    return None
