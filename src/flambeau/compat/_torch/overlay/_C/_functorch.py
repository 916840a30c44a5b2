"""`torch._C._functorch`: what stands for values inside of `vmap` and `jvp`. A level is the object that one call of `vmap` makes."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau.func._batched import BatchLevel
from flambeau.func._levels import Wrapped, active
from flambeau.func._vmap import _front, _result


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor stands for a batch, of which the function inside of `vmap` sees one sample."""
    return isinstance(tensor, Wrapped) and isinstance(tensor._level, BatchLevel)


def is_functorch_wrapped_tensor(tensor: Any) -> bool:
    """Whether a tensor stands for another one inside of a transformation."""
    return isinstance(tensor, Wrapped)


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Whether a tensor stands for a value with a tangent."""
    return isinstance(tensor, Wrapped) and not is_batchedtensor(tensor)


def get_unwrapped(tensor: Any) -> Tensor:
    """What a tensor inside of a transformation stands for; the batch has its samples first."""
    if not isinstance(tensor, Wrapped):
        raise RuntimeError("get_unwrapped: the tensor stands for no other one")
    return tensor._parts()[0]


def maybe_get_bdim(tensor: Any) -> int:
    """The axis of the samples of what a tensor stands for, which is the first one; -1 where it stands for no batch."""
    return 0 if is_batchedtensor(tensor) else -1


def maybe_current_level() -> Any:
    """The innermost transformation that runs in this thread, or None."""
    return active.levels[-1] if active.levels else None


def _add_batch_dim(tensor: Tensor, in_dim: int, level: BatchLevel) -> Any:
    """One sample of a batch along an axis, as the function inside of `vmap` sees it."""
    return level.wrap(_front(tensor, in_dim % tensor.dim()))


def _remove_batch_dim(tensor: Tensor, level: BatchLevel, batch_size: int, out_dim: int) -> Tensor:
    """The way back: all samples along an axis; a tensor that they share is repeated."""
    return _result(level, tensor, out_dim)
