"""`torch.nn.modules.batchnorm`."""

from flambeau.compat._torch.overlay.nn.modules import SyncBatchNorm

__all__ = ["SyncBatchNorm"]
