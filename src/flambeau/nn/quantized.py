"""`torch.nn.quantized`: what a model holds before it is quantised."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.nn.module import Module

__all__ = ["FloatFunctional"]


class FloatFunctional(Module):
    """Sums, products and joins as a module, so that quantising could replace them; of floats they are the plain functions."""

    def forward(self, x: Any) -> Any:
        raise RuntimeError("FloatFunctional: call add, mul, cat, ... of it; it has no forward")

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y."""
        return x + y

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """x + y of a number."""
        return x + y

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x y."""
        return x * y

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """x y of a number."""
        return x * y

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        """`torch.cat`."""
        return flambeau.cat(x, dim)  # type: ignore[no-any-return]

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """relu(x + y)."""
        return (x + y).relu()

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """x @ y."""
        return x @ y
