"""`torch.nn.parallel.data_parallel`."""

from flambeau.compat._torch.overlay.nn.parallel import DataParallel

__all__ = ["DataParallel"]
