"""`torch._functorch.vmap`: `vmap`, and helpers of containers that take part in it."""

from __future__ import annotations

import functools
from typing import Any

from flambeau._C import Tensor
from flambeau.compat._torch.overlay._C._functorch import (
    _add_batch_dim,
    _remove_batch_dim,
    is_batchedtensor,
)
from flambeau.compat._torch.overlay.utils._pytree import (
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_unflatten,
)
from flambeau.func import vmap

__all__ = ["vmap"]
_private = (_add_batch_dim, _remove_batch_dim, is_batchedtensor, _broadcast_to_and_flatten, tree_flatten, tree_unflatten)


def _get_name(func: Any) -> str:
    """A function's name, for messages."""
    if isinstance(func, functools.partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return str(getattr(func, "__name__", None) or repr(func))


def _maybe_remove_batch_dim(name: str, batched_output: Any, vmap_level: Any, batch_size: int, out_dim: int | None) -> Any:
    """A result of the function inside, with all samples along an axis; as it is where the axis is None."""
    if out_dim is None:
        if is_batchedtensor(batched_output):
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a value that differs between samples where out_dim is None")
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}")
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)
