"""`torch.optim.rprop`: beside the optimizer its step as a function."""

from flambeau.optim._functional import rprop

__all__ = ["rprop"]
