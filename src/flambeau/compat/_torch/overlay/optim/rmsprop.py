"""`torch.optim.rmsprop`: beside the optimizer its step as a function."""

from flambeau.optim._functional import rmsprop

__all__ = ["rmsprop"]
