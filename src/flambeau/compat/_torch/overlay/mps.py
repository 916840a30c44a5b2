"""`torch.mps`: there is no such device in this build."""

from flambeau.compat._torch.overlay._none_of_these import absent

__all__ = ["device_count", "is_available"]

globals().update(absent("mps"))
