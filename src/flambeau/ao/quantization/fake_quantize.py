"""Modules that round floats as integers of a scale would, by `fake_quantize_per_tensor_affine` and its kin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flambeau._C import Tensor, float32, int32, ops, uint8
from flambeau._fake_quantize import (
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
)
from flambeau.ao.quantization.observer import Makes, MovingAverageMinMaxObserver, said
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
    """Rounds by the scale that an observer tells of what it has seen, and lets gradients through where nothing is cut off.

    Args:
        observer: the class of one, or what makes one. Further arguments are the observer's.
        quant_min, quant_max: a range other than the type's.

    Raises:
        ValueError: quant_min is above quant_max.

    Example:
        >>> import flambeau as fl
        >>> rounds = fl.ao.quantization.FakeQuantize(fl.ao.quantization.MinMaxObserver, 0, 15)
        >>> rounds(fl.tensor([0.0, 0.26, 1.5]))
        tensor([0.0000, 0.3000, 1.5000])
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None, quant_max: int | None = None,
        is_dynamic: bool = False, **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                given = f"quant_min = {quant_min}, quant_max = {quant_max}"
                raise ValueError(f"ao.quantization.FakeQuantize: {given}; expected quant_min <= quant_max")
            observer_kwargs |= {"quant_min": quant_min, "quant_max": quant_max}
        watch = observer(**observer_kwargs, is_dynamic=is_dynamic)
        self.activation_post_process = watch
        self.quant_min, self.quant_max, self.is_dynamic = watch.quant_min, watch.quant_max, is_dynamic
        self.dtype, self.qscheme, self.ch_axis = watch.dtype, watch.qscheme, getattr(watch, "ch_axis", -1)
        self.is_per_channel = said(self.qscheme).startswith("per_channel")
        fractions = said(self.qscheme) == "per_channel_affine_float_qparams"
        self.register_buffer("scale", ops.ones((1,)))
        self.register_buffer("zero_point", ops.zeros((1,), dtype=float32 if fractions else int32))

    def forward(self, X: Tensor) -> Tensor:  # noqa: N803
        if self.observer_enabled[0]:
            self.activation_post_process(X.detach())
            found = self.calculate_qparams()
            for held, now in zip((self.scale, self.zero_point), found):
                held.resize_(now.shape)
                held.copy_(now)
        if not self.fake_quant_enabled[0]:
            return X
        if self.is_per_channel:
            return fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, self.quant_min, self.quant_max)
        return fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, self.quant_min, self.quant_max)

    def calculate_qparams(self, **kwargs: Any) -> Any:
        return self.activation_post_process.calculate_qparams()

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, ch_axis={self.ch_axis}, scale={self.scale}, "
            f"zero_point={self.zero_point}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in ("scale", "zero_point"):  # as many channels as were saved
            if (saved := state_dict.get(prefix + name)) is not None:
                setattr(self, name, getattr(self, name).new_empty(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


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
