"""`torch._higher_order_ops.cond`: `torch.cond`."""

from flambeau._control_flow import cond

__all__ = ["cond"]
