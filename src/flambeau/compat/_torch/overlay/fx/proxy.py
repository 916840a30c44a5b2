"""`torch.fx.proxy`."""

from flambeau.compat._torch.overlay.fx import Proxy

__all__ = ["Proxy"]
