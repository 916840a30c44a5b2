"""`torch._higher_order_ops.foreach_map`: a function of tensors over lists of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["foreach_map"]


def foreach_map(op: Callable[..., Any], *operands: Any, **kwargs: Any) -> tuple[Any, ...]:
    """What `op` returns for the first of each list, for the second, and so on; what is no list is the same for all.

    >>> import flambeau as fl
    >>> foreach_map(fl.add, [fl.ones(1), fl.ones(2)], 2)
    (tensor([3.]), tensor([3., 3.]))
    """
    lengths = sorted({len(x) for x in operands if isinstance(x, (list, tuple))})
    if len(lengths) != 1:
        raise ValueError(f"foreach_map: lists of {lengths} tensors; expected lists of one length")
    return tuple(op(*(x[i] if isinstance(x, (list, tuple)) else x for x in operands), **kwargs) for i in range(lengths[0]))
