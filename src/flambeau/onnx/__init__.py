"""`torch.onnx`: nothing is exported; what asks is answered, what exports is refused."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["export", "is_in_onnx_export"]


class OnnxExporterError(RuntimeError):
    """Raised where a model would have to be exported."""


def is_in_onnx_export() -> bool:
    """False."""
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused.

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
