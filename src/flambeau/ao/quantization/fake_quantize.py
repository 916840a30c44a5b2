"""Modules that round floats as integers of a scale would, by `fake_quantize_per_tensor_affine` and its kin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flambeau._C import Tensor, float32, int8, int32, int64, ops, uint8
from flambeau._errors import AssertedTypeError
from flambeau._fake_quantize import (
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
)
from flambeau.ao.quantization.observer import (
    HistogramObserver,
    Makes,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    said,
)
from flambeau.nn.module import Module

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "FusedMovingAvgObsFakeQuantize", "default_fake_quant", "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant", "default_fused_wt_fake_quant", "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant", "default_weight_fake_quant", "disable_fake_quant", "disable_observer", "enable_fake_quant",
    "enable_observer",
]  # fmt: skip


_STEP_OF_NOTHING, _LEAST_STEP = 0.1, 6.1e-5  # FBGEMM's


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
            found = self._fl_found()
            for held, now in zip((self.scale, self.zero_point), found):
                held.resize_(now.shape)
                held.copy_(now)
        if not self.fake_quant_enabled[0]:
            return X
        if self.is_per_channel:
            return fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, self.quant_min, self.quant_max)
        return fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, self.quant_min, self.quant_max)

    def _fl_found(self) -> Any:
        """The scale and the zero point to round by from now on."""
        return self.calculate_qparams()

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


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """The same with an observer of moving averages, which PyTorch watches with and rounds by in one kernel.

    Its scale is the kernel's (FBGEMM's choice), which differs from what `calculate_qparams` tells where 0 is to be in the middle: it has a
    step more below 0 than above, and nothing in the middle where no value is on the other side.

    Raises:
        TypeError: the observer is another one.
    """

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int = 0, quant_max: int = 255, **observer_kwargs: Any
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        if not isinstance(self.activation_post_process, (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)):
            raise AssertedTypeError(
                f"ao.quantization.FusedMovingAvgObsFakeQuantize: the observer is a {type(self.activation_post_process).__name__}; "
                "expected one of moving averages"
            )
        self.register_buffer("fake_quant_enabled", ops.ones((1,), dtype=int64))
        self.register_buffer("observer_enabled", ops.ones((1,), dtype=int64))
        self.is_symmetric_quant = said(self.qscheme).endswith("symmetric")

    def _fl_found(self) -> tuple[Tensor, Tensor]:
        watch = self.activation_post_process
        low, high = watch.min_val.clamp(max=0).reshape(-1), watch.max_val.clamp(min=0).reshape(-1)
        first, last = self.quant_min, self.quant_max
        scale = (high - low) / (last - first)
        steps = ops.where(scale > 0, scale, ops.full((), _STEP_OF_NOTHING))
        below, above = low / steps, high / steps
        # The end that is nearer to its step counts.
        zero = ops.where(abs(first) + below.abs() < abs(last) + above, first - below, last - above)
        if self.is_symmetric_quant:
            half = (last - first) // 2
            both = (low < 0) & (high > 0)
            steps = ops.where(both, ops.maximum(-low / (half + 1), high / half), steps)
            zero = ops.where(both, float((first + last + 1) // 2), zero)
        return ops.maximum(steps, ops.full((), _LEAST_STEP)), ops.round(zero).clamp(first, last).to(int32)


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


default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=uint8, qscheme="per_tensor_affine", reduce_range=True
)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=int8, qscheme="per_tensor_symmetric", reduce_range=False
)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=int8, qscheme="per_channel_symmetric",
    reduce_range=False, ch_axis=0,
)  # fmt: skip
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, quant_min=0, quant_max=255, dtype=uint8, qscheme="per_tensor_affine", reduce_range=True
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=uint8
)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=int8, qscheme="per_tensor_symmetric"
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=int8, qscheme="per_channel_symmetric"
)
