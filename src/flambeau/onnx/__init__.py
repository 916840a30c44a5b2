"""`torch.onnx`: nothing is exported; what asks is answered, what exports is refused."""

from __future__ import annotations

import enum
from typing import Any, NoReturn

__all__ = ["OperatorExportTypes", "TrainingMode", "export", "is_in_onnx_export"]


class TrainingMode(enum.Enum):
    """The mode that a module would be exported in."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """What an export would write for an operator that ONNX lacks."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class OnnxExporterError(RuntimeError):
    """Raised where a model would have to be exported."""


def is_in_onnx_export() -> bool:
    """False."""
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: no ONNX files are written; `flambeau.graph` saves recorded programs.

    Raises:
        OnnxExporterError: always.
    """
    raise OnnxExporterError("onnx.export: flambeau writes no ONNX files; flambeau.graph saves recorded programs")


dynamo_export = export


def is_onnxrt_backend_supported() -> bool:
    """False."""
    return False


_symbolics: dict[str, Any] = {}


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Notes how an operator would be written, which nobody asks for."""
    _symbolics[symbolic_name] = symbolic_fn
