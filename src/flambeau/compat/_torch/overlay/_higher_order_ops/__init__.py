"""`torch._higher_order_ops`: functions of functions."""

from flambeau.compat._torch.overlay._higher_order_ops.associative_scan import associative_scan
from flambeau.compat._torch.overlay._higher_order_ops.cond import cond
from flambeau.compat._torch.overlay._higher_order_ops.map import map  # noqa: A004 - PyTorch's name
from flambeau.compat._torch.overlay._higher_order_ops.scan import scan
from flambeau.compat._torch.overlay._higher_order_ops.while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
