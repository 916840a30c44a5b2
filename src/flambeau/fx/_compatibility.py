"""`torch.fx._compatibility`."""

from typing import Any


def compatibility(is_backward_compatible: bool) -> Any:
    """A note about versions: the function itself."""
    return lambda fn: fn
