"""`torch.masked.maskedtensor.reductions`: functions over axes of a masked tensor."""

from __future__ import annotations

import flambeau
from flambeau._C import Tensor
from flambeau.compat._torch.overlay.ops import aten

__all__: list[str] = []

REDUCE_NAMES = "sum mean amin amax argmin argmax prod all norm var std".split()

NATIVE_REDUCE_FNS = [getattr(aten, name) for name in REDUCE_NAMES]
TORCH_REDUCE_FNS = [getattr(flambeau, name) for name in REDUCE_NAMES]
TENSOR_REDUCE_FNS = [getattr(Tensor, name) for name in REDUCE_NAMES]
