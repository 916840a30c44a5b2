"""`torch._ops`: the classes of operators."""

from flambeau.compat._torch.overlay.ops import Namespace, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket"]

OpOverload = OpOverloadPacket
HigherOrderOperator = OpOverloadPacket
_OpNamespace = Namespace
