"""`torch.optim.adagrad`: beside the optimizer its step as a function."""

from flambeau.optim._functional import adagrad

__all__ = ["adagrad"]
