"""`torch.random`: what it has besides `flambeau.random`."""

from flambeau import default_generator

__all__ = ["default_generator"]
