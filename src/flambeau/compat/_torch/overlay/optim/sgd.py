"""`torch.optim.sgd`: beside the optimizer its step as a function."""

from flambeau.optim._functional import sgd

__all__ = ["sgd"]
