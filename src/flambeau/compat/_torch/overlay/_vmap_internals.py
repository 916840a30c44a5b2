"""`torch._vmap_internals`: `vmap` by the name that it had before `torch.func`; packages call it for batches of backward passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.func import vmap

__all__ = ["vmap"]


def _vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False) -> Callable[..., Any]:
    """`vmap`."""
    if allow_none_pass_through:
        raise NotImplementedError("_vmap: allow_none_pass_through = True; expected False: return tensors")
    return vmap(func, in_dims, out_dims)
