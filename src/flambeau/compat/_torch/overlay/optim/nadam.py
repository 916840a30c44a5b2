"""`torch.optim.nadam`: beside the optimizer its step as a function."""

from flambeau.optim._functional import nadam

__all__ = ["nadam"]
