"""`torch._higher_order_ops.associative_scan`: prefixes of an associative function, in as many steps as the length has bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.compat._torch.overlay.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan"]


def associative_scan(combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise") -> Any:
    """The results of `combine_fn` over the first 1, 2, ... slices along `dim` of a nest of tensors; from the end with `reverse`.

    Source: Hillis and Steele 1986.

    >>> import flambeau as fl
    >>> associative_scan(lambda x, y: x * y, fl.tensor([1, 2, 3, 4]), 0)
    tensor([ 1,  2,  6, 24])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"associative_scan: combine_mode = {combine_mode!r}; expected 'pointwise' or 'generic', which give the same")
    leaves, spec = tree_flatten(xs)
    if not leaves:
        raise ValueError("associative_scan: xs holds no tensors")
    n = leaves[0].shape[dim]
    if any(x.shape[dim] != n for x in leaves):
        raise ValueError(f"associative_scan: the tensors have {[x.shape[dim] for x in leaves]} slices along dim = {dim}; expected as many of each")
    if reverse:
        leaves = [x.flip(dim) for x in leaves]
    step = 1
    while step < n:
        early = tree_unflatten([x.narrow(dim, 0, n - step) for x in leaves], spec)
        late = tree_unflatten([x.narrow(dim, step, n - step) for x in leaves], spec)
        merged = tree_flatten(combine_fn(early, late))[0]
        leaves = [flambeau.cat([x.narrow(dim, 0, step), m], dim) for x, m in zip(leaves, merged)]
        step *= 2
    if reverse:
        leaves = [x.flip(dim) for x in leaves]
    return tree_unflatten(leaves, spec)
