"""`torch.ao.quantization`: models that could be quantised run as the floating point models that they are; quantising is refused."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau._C import Tensor
from flambeau.ao.quantization._fusion import (
    fuse_known_modules,
    fuse_modules,
    fuse_modules_qat,
)
from flambeau.ao.quantization.fake_quantize import (
    FakeQuantize,
    FakeQuantizeBase,
    FusedMovingAvgObsFakeQuantize,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_histogram_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
    disable_fake_quant,
    disable_observer,
    enable_fake_quant,
    enable_observer,
)
from flambeau.ao.quantization.observer import (
    FixedQParamsObserver,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    NoopObserver,
    ObserverBase,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    RecordingObserver,
    ReuseInputObserver,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_histogram_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_weight_observer,
)
from flambeau.ao.quantization.qconfig import (
    QConfig,
    QConfigAny,
    default_dynamic_qconfig,
    default_per_channel_qconfig,
    default_qat_qconfig,
    default_qconfig,
    float16_dynamic_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)
from flambeau.nn.module import Module

__all__ = [
    "DeQuantStub", "FakeQuantize", "FakeQuantizeBase", "FixedQParamsObserver", "FusedMovingAvgObsFakeQuantize", "HistogramObserver",
    "MinMaxObserver", "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase",
    "PerChannelMinMaxObserver", "PlaceholderObserver", "QConfig", "QConfigAny", "QuantStub", "RecordingObserver", "ReuseInputObserver",
    "convert", "default_debug_observer", "default_dynamic_qconfig", "default_dynamic_quant_observer", "default_fake_quant",
    "default_float_qparams_observer", "default_fused_act_fake_quant", "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant", "default_histogram_fake_quant", "default_histogram_observer", "default_observer",
    "default_per_channel_qconfig", "default_per_channel_weight_fake_quant", "default_per_channel_weight_observer",
    "default_placeholder_observer", "default_qat_qconfig", "default_qconfig", "default_reuse_input_observer",
    "default_weight_fake_quant", "default_weight_observer", "disable_fake_quant", "disable_observer", "enable_fake_quant",
    "enable_observer", "float16_dynamic_qconfig", "fuse_known_modules", "fuse_modules", "fuse_modules_qat", "get_default_qat_qconfig",
    "get_default_qconfig", "prepare", "prepare_qat",
]  # fmt: skip


class _Through(Module):
    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class QuantStub(_Through):
    """Where a quantised model would begin to compute with integers; in a model of floats its input, as in PyTorch."""


class DeQuantStub(_Through):
    """Where a quantised model would go back to floats; in a model of floats its input, as in PyTorch."""


def _refused(name: str) -> Any:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"ao.quantization.{name}: there are no quantised tensors in flambeau")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Refused: there are no quantised tensors."
    return refused


for _name in ("convert", "prepare", "prepare_qat", "propagate_qconfig_", "quantize", "quantize_dynamic", "quantize_qat"):
    globals()[_name] = _refused(_name)
