"""`torch._higher_order_ops.map`: a function over the slices of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.compat._torch.overlay._higher_order_ops.scan import slices, stacked

__all__ = ["map"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:  # noqa: A001 - PyTorch's name
    """What `f(x, *args)` returns for each slice x of `xs` along the first axis, stacked along the first; `xs` and results may be nests.

    Raises:
        RuntimeError: `xs` has no slices, or tensors with different numbers of them.

    >>> import flambeau as fl
    >>> map(lambda x, k: x.sum() * k, fl.tensor([[1, 2], [3, 4]]), 10)
    tensor([30, 70])
    """
    return stacked([f(x, *args) for x in slices("map", xs, 0)], 0)
