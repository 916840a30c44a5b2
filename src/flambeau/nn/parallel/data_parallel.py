"""`torch.nn.parallel.data_parallel`."""

from flambeau.nn.parallel import DataParallel

__all__ = ["DataParallel"]
