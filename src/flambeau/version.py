"""What this build is: `flambeau.version`. There is no GPU in it, of whatever maker."""

from __future__ import annotations

import flambeau

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

__version__ = flambeau.__version__
debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "unknown"
