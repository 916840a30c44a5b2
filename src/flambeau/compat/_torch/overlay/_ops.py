"""`torch._ops`: the classes of operators."""

from flambeau.compat._torch.overlay.ops import Namespace, OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket"]

HigherOrderOperator = OpOverloadPacket
_OpNamespace = Namespace
