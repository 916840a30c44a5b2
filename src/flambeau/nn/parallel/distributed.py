"""`torch.nn.parallel.distributed`."""

from flambeau.nn.parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
