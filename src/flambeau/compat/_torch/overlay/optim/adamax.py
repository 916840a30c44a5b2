"""`torch.optim.adamax`: beside the optimizer its step as a function."""

from flambeau.optim._functional import adamax

__all__ = ["adamax"]
