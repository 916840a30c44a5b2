"""`torch.optim.adadelta`: beside the optimizer its step as a function."""

from flambeau.optim._functional import adadelta

__all__ = ["adadelta"]
