"""`torch._higher_order_ops.while_loop`: `torch.while_loop`."""

from flambeau._control_flow import while_loop

__all__ = ["while_loop"]
