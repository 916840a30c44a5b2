"""`torch.distributions.transforms`: what it has besides the transforms."""

from __future__ import annotations

from flambeau import finfo
from flambeau._C import Tensor, ops
from flambeau.distributions.utils import _sum_rightmost
from flambeau.nn.functional import softplus

__all__ = ["_sum_rightmost", "softplus"]


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """The sigmoid, kept away from 0 and 1."""
    limits = finfo(x.dtype)
    return ops.clamp(ops.sigmoid(x), min=limits.tiny, max=1.0 - limits.eps)  # type: ignore[no-any-return]
