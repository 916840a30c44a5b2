"""Results of functions that have no derivative, of tensors whose gradients are asked for: a backward through them says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from flambeau import _C
from flambeau._C import Tensor, has_override

R = TypeVar("R", bound="Tensor | tuple[Tensor, ...]")


def without_derivative(op: str, result: R, given: Iterable[Tensor | None]) -> R:
    """`result`, in which the floating-point tensors come from `given` by no formula; integers have no gradients in any case."""
    sources = [x for x in given if x is not None and x.requires_grad]
    if sources and _C.is_grad_enabled():
        for y in (result,) if isinstance(result, Tensor) else result:
            if (y.is_floating_point() or y.is_complex()) and not has_override(y):
                _C.lose_history(y, f"{op} has no derivative; call it on detach()ed tensors, or under no_grad()", sources)
    return result
