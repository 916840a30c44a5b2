"""Helpers of `torch.nn.init` that packages call."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau.autograd.modes import no_grad
from flambeau.nn.init import trunc_normal_

__all__: list[str] = []


@no_grad()
def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    """Uniform draws between a and b."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    """Normal draws."""
    return tensor.normal_(mean, std, generator=generator)


def _no_grad_trunc_normal_(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any = None) -> Tensor:
    """Normal draws between a and b."""
    return trunc_normal_(tensor, mean, std, a, b, generator=generator)


@no_grad()
def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    """All elements `val`."""
    return tensor.fill_(val)


@no_grad()
def _no_grad_zero_(tensor: Tensor) -> Tensor:
    """All elements zero."""
    return tensor.zero_()
