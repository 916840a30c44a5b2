"""`torch._ops`: the classes of operators."""

from flambeau.compat._torch.overlay.ops import OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket"]

OpOverload = OpOverloadPacket
HigherOrderOperator = OpOverloadPacket
