"""`torch.optim.adam`: beside the optimizer its step as a function."""

from flambeau.optim._functional import adam

__all__ = ["adam"]
