"""`torch.profiler`."""

from flambeau.compat._torch.overlay.autograd.profiler import kineto_available

__all__ = ["kineto_available"]
