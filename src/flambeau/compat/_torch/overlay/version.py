"""`torch.version`: a build for the CPU. The version is the one whose surface is followed."""

from flambeau.compat._torch.overlay.torch_version import __version__

__all__ = ["__version__"]
