"""What `torch.nn` has beyond `flambeau.nn`."""

from flambeau.compat._torch.overlay.nn.modules import SyncBatchNorm
from flambeau.compat._torch.overlay.nn.parallel import DataParallel

__all__ = ["DataParallel", "SyncBatchNorm"]
