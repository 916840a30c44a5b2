"""`torch.fx.proxy`."""

from flambeau.fx import Proxy

__all__ = ["Proxy"]
