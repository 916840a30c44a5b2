"""`torch._higher_order_ops`: functions of functions."""

from flambeau.compat._torch.overlay._higher_order_ops.associative_scan import associative_scan

__all__ = ["associative_scan"]
