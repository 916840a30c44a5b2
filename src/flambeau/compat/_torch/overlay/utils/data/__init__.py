"""`torch.utils.data`."""

from flambeau.compat._torch.overlay.utils.data.dataloader import _DatasetKind as _DatasetKind
