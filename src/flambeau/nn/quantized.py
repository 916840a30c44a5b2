"""`torch.nn.quantized`: what a model holds before it is quantised."""

from __future__ import annotations

from typing import Any, NoReturn

import flambeau
from flambeau._C import Tensor
from flambeau.nn.module import Module

__all__ = [
    "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "FloatFunctional", "LayerNorm", "Linear",
]  # fmt: skip


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


class _Quantised(Module):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._refuse()

    @classmethod
    def _refuse(cls) -> NoReturn:
        raise NotImplementedError(f"nn.quantized.{cls.__name__}: there are no quantised tensors in flambeau")

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> NoReturn:
        """Refused.

        Raises:
            NotImplementedError: always.
        """
        cls._refuse()


class BatchNorm2d(_Quantised):
    """Refused when one is made: there are no quantised tensors."""


class BatchNorm3d(_Quantised):
    """Refused when one is made: there are no quantised tensors."""


class Conv1d(_Quantised):
    """Refused when one is made: there are no quantised tensors."""


class Conv2d(_Quantised):
    """Refused when one is made: there are no quantised tensors."""


class Conv3d(_Quantised):
    """Refused when one is made: there are no quantised tensors."""


class Embedding(_Quantised):
    """Refused when one is made: there are no quantised tensors."""


class EmbeddingBag(Embedding):
    """Refused when one is made: there are no quantised tensors."""


class LayerNorm(_Quantised):
    """Refused when one is made: there are no quantised tensors."""


class Linear(_Quantised):
    """Refused when one is made: there are no quantised tensors."""
