"""`functorch.experimental.control_flow`: `torch.cond`, and a function over slices."""

from flambeau._control_flow import cond
from flambeau.compat._torch.overlay._higher_order_ops.map import map  # noqa: A004 - PyTorch's name

__all__ = ["cond", "map"]
