"""`torch.ao.nn.quantized`."""

from flambeau.nn.quantized import FloatFunctional

__all__ = ["FloatFunctional"]
