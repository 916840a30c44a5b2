"""`torch.optim.radam`: beside the optimizer its step as a function."""

from flambeau.optim._functional import radam

__all__ = ["radam"]
