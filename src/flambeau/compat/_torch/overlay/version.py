"""`torch.version`: a build for the CPU."""

from flambeau.compat._torch.overlay.torch_version import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

debug = False
cuda = hip = rocm = xpu = None
git_version = "flambeau"
