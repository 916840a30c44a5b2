"""`torch.ao.quantization`: models that could be quantised run as the floating point models that they are; quantising is refused."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau._C import Tensor
from flambeau.ao.quantization.fake_quantize import (
    FakeQuantize,
    FakeQuantizeBase,
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
)
from flambeau.ao.quantization.qconfig import QConfig, QConfigAny
from flambeau.nn.module import Module

__all__ = [
    "DeQuantStub", "FakeQuantize", "FakeQuantizeBase", "FixedQParamsObserver", "HistogramObserver", "MinMaxObserver",
    "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver",
    "PlaceholderObserver", "QConfig", "QConfigAny", "QuantStub", "RecordingObserver", "convert", "disable_fake_quant", "disable_observer",
    "enable_fake_quant", "enable_observer", "fuse_modules", "fuse_modules_qat", "prepare", "prepare_qat",
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


for _name in ("convert", "fuse_modules", "fuse_modules_qat", "prepare", "prepare_qat", "quantize", "quantize_dynamic", "quantize_qat",
              "get_default_qconfig",
              "get_default_qat_qconfig", "propagate_qconfig_"):  # fmt: skip
    globals()[_name] = _refused(_name)
