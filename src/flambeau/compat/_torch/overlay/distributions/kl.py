"""`torch.distributions.kl`: which divergences are known, by pairs of types."""

from __future__ import annotations

from flambeau.distributions.kl import _registry as _KL_REGISTRY  # noqa: F401, N812
