"""`torch.onnx.symbolic_opset16`: how PyTorch writes its operators as ONNX, which is not done here."""

from __future__ import annotations

from typing import Any

from flambeau.onnx import export


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return export
