"""`torch._higher_order_ops.scan`: a loop over slices that carries values along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.compat._torch.overlay.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["scan", "slices", "stacked"]


def slices(op: str, xs: Any, dim: int) -> list[Any]:
    """The nest `xs` once for each slice of its tensors along `dim`."""
    leaves, spec = tree_flatten(xs)
    counts = sorted({x.shape[dim] for x in leaves})
    if len(counts) != 1 or not counts[0]:
        raise RuntimeError(f"{op}: the tensors of xs have {counts} slices along dim = {dim}; expected as many of each, and at least one")
    return [tree_unflatten([x.select(dim, i) for x in leaves], spec) for i in range(counts[0])]


def stacked(results: list[Any], dim: int) -> Any:
    """One nest of which each tensor holds those of all results, along `dim`."""
    spec = tree_flatten(results[0])[1]
    columns = zip(*(tree_flatten(r)[0] for r in results), strict=True)
    return tree_unflatten([flambeau.stack(list(column)).movedim(0, dim) for column in columns], spec)


def scan(combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> tuple[Any, Any]:
    """What is carried at the end, and all results: `carry, y = combine_fn(carry, x)` for each slice x of `xs` along `dim`; the last first
    with `reverse`. `init`, `xs`, carries and results are nests of tensors; the results are stacked along `dim`.

    Raises:
        RuntimeError: `xs` has no slices, or tensors with different numbers of them; a result that is no pair, or another nest of carries.

    >>> import flambeau as fl
    >>> scan(lambda carry, x: (carry + x, carry * x), fl.tensor(0), fl.tensor([1, 2, 3]))
    (tensor(6), tensor([0, 2, 9]))
    """
    parts, carry, spec = slices("scan", xs, dim), init, tree_flatten(init)[1]
    found = []
    for x in reversed(parts) if reverse else parts:
        result = combine_fn(carry, x)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise RuntimeError(f"scan: combine_fn returned a {type(result).__name__}; expected (carry, y)")
        carry, y = result
        if tree_flatten(carry)[1] != spec:
            raise RuntimeError("scan: combine_fn returned a carry of another structure than init's")
        found.append(y)
    return carry, stacked(found[::-1] if reverse else found, dim)
