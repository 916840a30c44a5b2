"""`torch.onnx.operators`: functions that an exported program would have nodes for; here they are what they are without an export."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._from_data import tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """The shape as an int64 tensor."""
    return tensor(list(x.shape), dtype=_C.int64)


def reshape_from_tensor_shape(x: Tensor, shape: Any) -> Tensor:
    """The tensor in a shape that is given as a tensor."""
    return ops.reshape(x, shape.tolist())  # type: ignore[no-any-return]
