"""Modules that round floats as integers of a scale would: the base class. `fake_quantize_per_tensor_affine` computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

from flambeau._C import Tensor, ops, uint8
from flambeau.ao.quantization.observer import Makes
from flambeau.nn.module import Module

__all__ = ["FakeQuantize", "FakeQuantizeBase", "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer"]


class FakeQuantizeBase(Makes, ABC, Module):
    """A module that rounds, and watches to choose the scale; two buffers say whether it does either."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", ops.ones((1,), dtype=uint8))
        self.register_buffer("observer_enabled", ops.ones((1,), dtype=uint8))

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """x, rounded."""

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Scale and zero point."""

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Whether it rounds."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """It rounds no more."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Whether it watches."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """It watches no more."""
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Refused: it would take its scale from an observer."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "ao.quantization.FakeQuantize: there are no observers in flambeau; call fake_quantize_per_tensor_affine with your scale"
        )

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **kwargs: Any) -> Any:
        return None


def enable_fake_quant(mod: Any) -> None:
    """For `Module.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_fake_quant(mod: Any) -> None:
    """For `Module.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_observer(mod: Any) -> None:
    """For `Module.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()


def disable_observer(mod: Any) -> None:
    """For `Module.apply`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()
