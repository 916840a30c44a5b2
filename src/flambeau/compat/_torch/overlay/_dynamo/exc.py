"""`torch._dynamo.exc`: what PyTorch's compiler of bytecode raises. It is not here, and none of it is ever raised: `torch.compile` records
calls, and what a call raises goes on as it is. Packages name these classes in what they catch, to compute without the compiler then."""

from __future__ import annotations

__all__ = [
    "BackendCompilerFailed", "InternalTorchDynamoError", "InvalidBackend", "RecompileError", "ResetRequired", "TorchDynamoException",
    "TorchRuntimeError", "Unsupported", "UserError",
]  # fmt: skip


class TorchDynamoException(RuntimeError):
    """The base of them."""


class InternalTorchDynamoError(TorchDynamoException):
    """The compiler itself failed."""


class BackendCompilerFailed(TorchDynamoException):
    """What makes code of a graph failed."""


class InvalidBackend(TorchDynamoException):
    """There is nothing of that name to make code."""


class ResetRequired(TorchDynamoException):
    """Something may only be changed before anything is compiled."""


class RecompileError(TorchDynamoException):
    """A function was compiled once more, though that was forbidden."""


class Unsupported(TorchDynamoException):
    """The compiler does not know a statement."""


class TorchRuntimeError(TorchDynamoException):
    """A call failed on tensors without numbers."""


class UserError(Unsupported):
    """The program is at fault."""
