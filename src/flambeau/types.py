"""`torch.types`: names for annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from flambeau import _C

Tensor = _C.Tensor
Device = _C.device | str | int | None
FileLike = str | os.PathLike[str] | Any
Number = int | float | bool
_bool, _int, _float, _complex, _dtype, _device, _size = bool, int, float, complex, _C.dtype, _C.device, _C.Size | Sequence[int]
_TensorOrTensors = _C.Tensor | Sequence[_C.Tensor]
_dispatchkey = str
PyLikeType = type | None
SymInt, IntLikeType, FloatLikeType, BoolLikeType = int, int, float, bool
_symtype = (int, float, bool)
py_sym_types = ()
Storage = Any
