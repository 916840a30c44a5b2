"""`torch.ao.nn.quantized`."""

from flambeau.compat._torch.overlay.nn.quantized import FloatFunctional

__all__ = ["FloatFunctional"]
