"""`torch.optim.adamw`: beside the optimizer its step as a function."""

from flambeau.optim._functional import adamw

__all__ = ["adamw"]
