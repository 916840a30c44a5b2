"""`torch.optim.asgd`: beside the optimizer its step as a function."""

from flambeau.optim._functional import asgd

__all__ = ["asgd"]
