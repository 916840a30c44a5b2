"""Which observers a quantised model would have."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau._C import float16
from flambeau._errors import AssertedValueError
from flambeau.ao.quantization.fake_quantize import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    default_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
)
from flambeau.ao.quantization.observer import (
    HistogramObserver,
    MovingAverageMinMaxObserver,
    PlaceholderObserver,
    default_dynamic_quant_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_weight_observer,
)
from flambeau.nn.module import Module

__all__ = [
    "QConfig", "QConfigAny", "default_dynamic_qconfig", "default_per_channel_qconfig", "default_qat_qconfig", "default_qconfig",
    "float16_dynamic_qconfig", "get_default_qat_qconfig", "get_default_qconfig",
]  # fmt: skip


class _Pair(NamedTuple):
    activation: Any
    weight: Any


class QConfig(_Pair):
    """What makes the observers of activations and of weights: classes, or what their `with_args` returned.

    Raises:
        ValueError: an observer is given itself.
    """

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        for name, value in (("activation", activation), ("weight", weight)):
            if isinstance(value, Module):
                raise ValueError(f"QConfig: {name} is a {type(value).__name__}; expected its class, or class.with_args(...)")
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None


default_qconfig = QConfig(default_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=float16, is_dynamic=True), PlaceholderObserver.with_args(dtype=float16)
)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)

_BACKENDS = ("fbgemm", "x86", "qnnpack", "onednn")


def _checked(op: str, backend: str, version: int, versions: tuple[int, ...]) -> tuple[bool, bool]:
    """Whether activations of a backend have one bit less, and whether weights have a scale for each channel."""
    if backend not in _BACKENDS:
        raise AssertedValueError(f"{op}: backend = {backend!r}; expected one of {', '.join(_BACKENDS)}")
    if version not in versions:
        raise AssertedValueError(f"{op}: version = {version}; expected {' or '.join(map(str, versions))}")
    return backend in ("fbgemm", "x86"), backend != "qnnpack"


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """What a backend of PyTorch's would have models watched with that are quantised after training.

    Raises:
        ValueError: there is no such backend, or no such version of it.

    Example:
        >>> import flambeau as fl
        >>> watch = fl.ao.quantization.get_default_qconfig("qnnpack").activation()
        >>> type(watch).__name__, watch.quant_max
        ('HistogramObserver', 255)
    """
    halved, channels = _checked("get_default_qconfig", backend, version, (0,))
    weight = default_per_channel_weight_observer if channels else default_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=halved), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """What a backend of PyTorch's would have models rounded by that are trained to be quantised. Version 0 has `FakeQuantize`.

    Raises:
        ValueError: there is no such backend, or no such version of it.
    """
    halved, channels = _checked("get_default_qat_qconfig", backend, version, (0, 1))
    kind = FusedMovingAvgObsFakeQuantize if version else FakeQuantize
    activation = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, reduce_range=halved)
    if version:
        return QConfig(activation, default_fused_per_channel_wt_fake_quant if channels else default_fused_wt_fake_quant)
    return QConfig(activation, default_per_channel_weight_fake_quant if channels else default_weight_fake_quant)
