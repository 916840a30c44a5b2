"""`torch.nn.parallel.distributed`."""

from flambeau.compat._torch.overlay.nn.parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
